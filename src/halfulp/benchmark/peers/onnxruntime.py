"""ONNX Runtime: a model of one node, operands and result bound to memory that is there already."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from halfulp.benchmark.case import Case
from halfulp.benchmark.peers import Prepared
from halfulp.types import element_type


def prepare(case: Case, threads: int) -> Prepared:
    """Make a session, and bind its input and output; a constant exponent is an initializer."""
    ort: Any = import_module("onnxruntime")
    feeds = {"x": case.x} if case.constant is not None else {"x": case.x, "y": case.y}
    for array in feeds.values():
        if not array.flags.c_contiguous:
            raise NotImplementedError("operands that are not contiguous")
    out = case.output
    graph = helper.make_graph(
        [helper.make_node("Pow" if case.operator == "pow" else "PRelu", ["x", "y"], ["z"])],
        "one_node",
        [helper.make_tensor_value_info(n, _enum(a.dtype), a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("z", _enum(out.dtype), out.shape)],
        [] if case.constant is None else [numpy_helper.from_array(case.y, "y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    # Threads that wait for work actively would slow the next library.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_input(name, "cpu", 0, _enum(array.dtype), array.shape, array.ctypes.data)
    binding.bind_output("z", "cpu", 0, _enum(out.dtype), out.shape, out.ctypes.data)

    def call() -> object:
        session.run_with_iobinding(binding)
        return feeds, out  # which keeps the bound memory alive

    return Prepared(call, lambda result: np.asarray(result[1]))


def _enum(dtype: np.dtype[Any]) -> int:
    number = element_type(dtype).onnx_enum
    if number is None:
        raise NotImplementedError(f"{dtype} has no name in ONNX")
    return number
