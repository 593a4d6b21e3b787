"""Small models for the tests, mostly in ONNX's text format."""

import re

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

from halfulp.models.graph import Model
from halfulp.models.onnx import load
from halfulp.models.run import api


def parsed(text: str) -> onnx.ModelProto:
    """Return the model of a text, which may begin with an opset instead of its header: ``17: g (float x) => ...``."""
    return parser.parse_model(re.sub(r"^(\d+):", r'<ir_version: 8, opset_import: ["": \1]>', text))


def run_with_report(model, inputs, **named):
    """Return the outputs and the report of a model that halfulp runs, and reads if it is not yet read."""
    read = model if isinstance(model, Model) else load(model)
    return api.run_with_report(read, inputs, **named)


def run(model, inputs):
    """Return the outputs."""
    return run_with_report(model, inputs)[0]


def single(
    op_type: str,
    opset: int,
    inputs: dict[str, tuple[str, list[int | str | None] | None]],
    output: tuple[str, list[int | str | None] | None] = ("float32", None),
    ir_version: int = 8,
    **attributes: object,
) -> onnx.ModelProto:
    """Return a model of one node; types by NumPy's names, a shape of None is not declared."""

    def info(name: str, type_name: str, shape: list[int | str | None] | None) -> onnx.ValueInfoProto:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(type_name))
        return helper.make_tensor_value_info(name, number, shape)

    node = helper.make_node(op_type, list(inputs), ["out"], name="node", **attributes)
    graph = helper.make_graph(
        [node], "graph", [info(name, *declared) for name, declared in inputs.items()], [info("out", *output)]
    )
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])


def with_initializer(array: np.ndarray, name: str = "w") -> onnx.ModelProto:
    """Return x ** w with w an initializer."""
    model = single(
        "Pow", 15, {"x": (array.dtype.name, None), "w": (array.dtype.name, None)}, (array.dtype.name, None)
    )
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def external(model: onnx.ModelProto, location: str, **entries: object) -> onnx.ModelProto:
    """Make the first initializer refer to a file instead of holding its data."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model
