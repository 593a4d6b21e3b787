"""OpenVINO on the CPU, from the ONNX model, with full precision asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.onnx_model import Prepared, prepare, versions
from halfulp.integrations.openvino.operators import array_of, tensor_of


class Target:
    """Reads, compiles and infers the model."""

    def __init__(self, threads: int, argument: str) -> None:
        """Load the CPU plugin; it may otherwise compute f32 in bfloat16 where the processor has that."""
        self._core = ov.Core()
        self._config = {
            "INFERENCE_NUM_THREADS": threads,
            "EXECUTION_MODE_HINT": "ACCURACY",
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def versions(self) -> dict[str, str]:
        """Return OpenVINO's version."""
        return versions("openvino", "onnx")

    def prepare(self, case: Case) -> Prepared:
        """Return the model and its inputs."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        model = self._core.read_model(prepared.model.SerializeToString())
        return self.infer(model, prepared.inputs)

    def infer(self, model: Any, inputs: dict[str, Array] | list[Array]) -> list[Array]:
        """Return the outputs of a model of OpenVINO's own."""
        request = self._core.compile_model(model, "CPU", self._config).create_infer_request()
        named = inputs.items() if isinstance(inputs, dict) else enumerate(inputs)
        for name, array in named:
            tensor = tensor_of(array)
            request.set_input_tensor(name, tensor) if isinstance(name, int) else request.set_tensor(
                name, tensor
            )
        request.infer()
        return [np.array(array_of(tensor)) for tensor in request.output_tensors]
