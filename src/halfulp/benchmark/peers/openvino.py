"""OpenVINO on the CPU: a compiled graph of one node with static shapes, computing in float32 at least."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.benchmark.case import Array, Case
from halfulp.benchmark.peers import Prepared
from halfulp.types import element_type


def prepare(case: Case, threads: int) -> Prepared:
    """Compile the graph, and set its tensors on the arrays' own memory; a constant exponent is a Constant."""
    ov: Any = import_module("openvino")
    opset: Any = import_module("openvino.opset13")
    if not (case.x.flags.c_contiguous and case.y.flags.c_contiguous):
        raise NotImplementedError("operands that are not contiguous")

    def ov_type(array: Array) -> Any:
        return getattr(ov.Type, element_type(array.dtype).openvino or "")

    def tensor(array: Array) -> Any:
        if array.dtype.name == "bfloat16":  # which it knows, but not as a dtype
            return ov.Tensor(array.view(np.int16), list(array.shape), ov_type(array))
        return ov.Tensor(array, shared_memory=True)

    # Of rank 1 a slope would belong to the second dim, whatever its place.
    y = (
        case.y.reshape((1,) * (case.x.ndim - case.y.ndim) + case.y.shape)
        if case.operator == "prelu"
        else case.y
    )
    inputs = [case.x, y] if case.constant is None else [case.x]
    parameters = [opset.parameter(list(array.shape), ov_type(array)) for array in inputs]
    second = opset.constant(tensor(y)) if case.constant is not None else parameters[1]
    if y.dtype != case.x.dtype:
        second = opset.convert(second, ov_type(case.x).get_type_name())
    node = opset.power if case.operator == "pow" else opset.prelu
    model = ov.Model([node(parameters[0], second)], parameters)
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    out = case.output
    for index, array in enumerate(inputs):
        request.set_input_tensor(index, tensor(array))
    request.set_output_tensor(0, tensor(out))

    def call() -> object:
        request.infer()
        return inputs, out  # which keeps the memory alive

    return Prepared(call, lambda result: np.asarray(result[1]))
