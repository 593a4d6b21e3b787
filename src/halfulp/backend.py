"""halfulp as an ``onnx.backend.base.Backend``, for tools that use that interface."""

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

from halfulp.models.onnx import load
from halfulp.models.run.api import run


class HalfulpBackend(Backend):
    """Runs ONNX models with halfulp's operators, on the CPU."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Return a loaded model. Its ``run`` takes arrays by name, or in the order of the model's inputs."""
        graph = (loaded := load(model)).graph
        required = [value.name for value in graph.inputs if value.name not in graph.constants]
        outputs = namedtupledict("Outputs", [value.name for value in graph.outputs])

        class Prepared(BackendRep):
            def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
                arrays: Any = [inputs] if isinstance(inputs, np.ndarray) else inputs
                by_name = arrays if isinstance(inputs, dict) else dict(zip(required, arrays, strict=True))
                return outputs(*run(loaded, by_name).values())

        return Prepared()

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


prepare, run_model = HalfulpBackend.prepare, HalfulpBackend.run_model
supports_device, is_compatible = HalfulpBackend.supports_device, HalfulpBackend.is_compatible
__all__ = ["HalfulpBackend", "is_compatible", "prepare", "run_model", "supports_device"]
