"""The onnx package's ReferenceEvaluator."""

from __future__ import annotations

from onnx.reference import ReferenceEvaluator

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.onnx_model import Prepared, prepare, versions


class Target:
    """Evaluates the model as it is."""

    def __init__(self, threads: int, argument: str) -> None:
        """Nothing is to be loaded or set."""

    def versions(self) -> dict[str, str]:
        """Return the versions of what computes."""
        return versions("onnx", "numpy", "ml_dtypes")

    def prepare(self, case: Case) -> Prepared:
        """Return the model and its inputs."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        return list(ReferenceEvaluator(prepared.model).run(None, prepared.inputs))
