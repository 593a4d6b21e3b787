"""tract, from the ONNX file."""

import tempfile
from pathlib import Path
from typing import Any

import tract


def run_model(model: Any, inputs: list[Any], device: str = "CPU") -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model.SerializeToString())
        runnable = tract.onnx().load(str(file)).into_model().into_runnable()
    return [output.to_numpy() for output in runnable.run(inputs)]
