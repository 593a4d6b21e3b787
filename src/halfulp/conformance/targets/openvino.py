"""OpenVINO on the CPU, asked for full precision: from an ONNX model, or from a graph of its own operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset1

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.targets.models import ModelTarget, Prepared
from halfulp.integrations.openvino.operators import array_of, tensor_of

_NODES = {"openvino.Power-1": opset1.power, "openvino.PReLU-1": opset1.prelu}


class FromOnnx(ModelTarget):
    """Reads, compiles and infers the model."""

    packages = ("openvino", "onnx")

    def __init__(self, threads: int, argument: str) -> None:
        """Load the CPU plugin. By default it computes f32 in bfloat16 where the processor has that."""
        self._core = ov.Core()
        self._config = {
            "INFERENCE_NUM_THREADS": threads,
            "EXECUTION_MODE_HINT": "ACCURACY",
            "INFERENCE_PRECISION_HINT": "f32",
        }

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs."""
        model = self._core.read_model(prepared.model.SerializeToString())
        return self._infer(model, prepared.inputs)

    def _infer(self, model: Any, inputs: dict[str, Array] | dict[int, Array]) -> list[Array]:
        """Return the outputs of a model of OpenVINO's own, with its inputs by name or by number."""
        request = self._core.compile_model(model, "CPU", self._config).create_infer_request()
        for key, array in inputs.items():
            feed = request.set_tensor if isinstance(key, str) else request.set_input_tensor
            feed(key, tensor_of(array))
        request.infer()
        return [np.array(array_of(tensor)) for tensor in request.output_tensors]


class Native(FromOnnx):
    """Builds, compiles and infers a graph of one node: Power-1 or PReLU-1."""

    def prepare(self, case: Case) -> Case:
        """Return the case: OpenVINO refuses an invalid graph while it is built."""
        return case

    def run(self, prepared: Any) -> list[Array]:
        """Return the outputs."""
        case: Case = prepared
        fed, operands, parameters = [], [], []
        for index, array in enumerate(case.inputs):
            tensor = tensor_of(array)
            if index in case.constants:
                operands.append(ov.op.Constant(tensor))
            else:
                parameter = ov.op.Parameter(tensor.element_type, ov.PartialShape(list(array.shape)))
                fed.append(array)
                operands.append(parameter)
                parameters.append(parameter)
        node = _NODES[case.operator](*operands, **case.attributes)
        return self._infer(ov.Model([node], parameters), dict(enumerate(fed)))
