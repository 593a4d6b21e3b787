"""Any module with the interface of ``onnx.backend.base``: ``prepare`` or ``run_model``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.onnx_model import Prepared, prepare, versions


class Target:
    """Runs the model with the module of that name, or with the backend class in it of that name."""

    def __init__(self, threads: int, argument: str) -> None:
        """Import it; a name that ends in a class takes that class."""
        self._name = argument
        self._backend: Any = _imported(argument)
        if not hasattr(self._backend, "prepare") and not hasattr(self._backend, "run_model"):
            raise TypeError(f"{argument} has neither prepare nor run_model, as an onnx.backend has")

    def versions(self) -> dict[str, str]:
        """Return the version of the package that the module is in."""
        package = self._name.partition(".")[0]
        return versions(package, "onnx") if package != "onnx" else versions("onnx")

    def prepare(self, case: Case) -> Prepared:
        """Return the model and its inputs."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Any]:
        """Return the outputs; the interface takes the inputs in the model's order."""
        inputs = list(prepared.inputs.values())
        if hasattr(self._backend, "prepare"):
            outputs = self._backend.prepare(prepared.model, "CPU").run(inputs)
        else:
            outputs = self._backend.run_model(prepared.model, inputs, "CPU")
        return [outputs] if isinstance(outputs, np.ndarray) else list(outputs)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        module, _, attribute = name.rpartition(".")
        if not module or error.name != name:
            raise
        return getattr(import_module(module), attribute)
