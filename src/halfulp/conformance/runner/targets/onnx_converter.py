"""The onnx package's version converter to its newest opset, then its ReferenceEvaluator."""

from __future__ import annotations

from onnx.defs import onnx_opset_version
from onnx.version_converter import convert_version

from halfulp._interop import Array
from halfulp.conformance.runner.targets.onnx_model import Prepared
from halfulp.conformance.runner.targets.onnx_reference import Target as Reference


class Target(Reference):
    """Converts the model, and evaluates what came of it."""

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        newest = convert_version(prepared.model, onnx_opset_version())
        return super().run(Prepared(newest, prepared.inputs))
