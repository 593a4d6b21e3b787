"""tract, from the ONNX file."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from halfulp.conformance.targets.models import ModelTarget, Prepared


class Tract(ModelTarget):
    """Loads the model from a file, and runs it once."""

    packages = ("tract",)

    def __init__(self, threads: int, argument: str) -> None:
        self._tract: Any = import_module("tract")

    def run(self, prepared: Prepared) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            file.write_bytes(prepared.model.SerializeToString())
            runnable = self._tract.onnx().load(str(file)).into_model().into_runnable()
        return [output.to_numpy() for output in runnable.run(list(prepared.inputs.values()))]
