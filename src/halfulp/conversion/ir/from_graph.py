"""Graphs of ONNX and of OpenVINO to the IR between the formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from halfulp.conversion.editor import NoExactForm
from halfulp.conversion.ir import IR
from halfulp.errors import HalfulpError, UnsupportedError, within
from halfulp.models.graph import Array, Graph, Model, Node, listed, type_name
from halfulp.models.onnx.tensors import dtype_of
from halfulp.models.run.helpers import HELPERS
from halfulp.specs.registry import find

Reader = Callable[[Node, IR], None]


def is_foreign(node: Node) -> bool:
    """Return whether a node is neither ours nor plumbing."""
    return _reader(node) is None


def read(model: Model, labels: Mapping[str, str] | None = None) -> IR:
    """Return the IR of a model.

    Args:
        model: of OpenVINO, or of ONNX in an opset from 13 on, without functions.
        labels: how messages name the nodes that make these values, where not as the model does.

    Raises:
        UnsupportedError: nodes that are neither ours nor plumbing, all of them named; a node that means
            something only when it runs.
        ModelError: shapes that don't fit together.
    """
    graph = model.graph
    unsupported = [node.label for node in graph.nodes if is_foreign(node)]
    if unsupported:
        raise UnsupportedError(
            f"{model.file}: has nodes that have no counterpart elsewhere",
            expected="Pow, PRelu and the plumbing around them",
            got=listed(unsupported),
        )
    ir = IR(model.file, graph.name)
    for value in graph.inputs:
        if value.name in graph.constants:
            ir.note(model.file, f"input {value.name!r} has a default, which it is now for good")
        else:
            ir.add_input(value)
        if value.aliases and model.graph.nodes and model.graph.nodes[0].standard == "openvino":
            ir.note(model.file, f"input {value.name!r} loses its other names: {listed(value.aliases)}")
    for name, array in graph.constants.items():
        ir.add_constant(array, name)
    for node in graph.nodes:
        node = replace(node, label=(labels or {}).get(node.outputs[0], node.label))
        reader = _reader(node)
        assert reader is not None
        with within(model.file, node.label):
            reader(node, ir)
    ir.outputs = list(graph.outputs)
    _drop_unread(ir, graph)
    return ir


def _drop_unread(ir: IR, graph: Graph) -> None:
    """Drop constants that only said how (axes, shapes)."""
    read = {name for op in ir.ops for name in op.inputs} | {value.name for value in graph.outputs}
    ir.constants = {name: array for name, array in ir.constants.items() if name in read}


def _reader(node: Node) -> Reader | None:
    if node.standard == "onnx":
        return None if node.domain or node.function is not None else _ONNX.get(node.type)
    return None if node.domain else _OPENVINO.get(node.type)


def _simple(kind: str) -> Reader:
    def reader(node: Node, ir: IR) -> None:
        ir.add(kind, node.inputs, node.label, node.outputs[0])

    return reader


def _constant_of(node: Node, index: int, ir: IR, what: str) -> list[int]:
    array = ir.constants.get(node.inputs[index])
    if array is None:
        raise NoExactForm(f"{what} is not known until it runs")
    return [int(value) for value in array.reshape(-1)]


def _unsqueeze(node: Node, ir: IR) -> None:
    asked = _constant_of(node, 1, ir, "where its dims go")
    rank = ir.rank(node.inputs[0]) + len(asked) if any(axis < 0 for axis in asked) else 0
    axes = tuple(sorted(axis + rank if axis < 0 else axis for axis in asked))
    ir.add("unsqueeze", node.inputs[:1], node.label, node.outputs[0], axes=axes)


def _squeeze(node: Node, ir: IR) -> None:
    """By Reshape, which every format has; the dims that stay are copied or numbers."""
    shape = ir.types[node.inputs[0]].shape
    if shape is None:
        raise NoExactForm("the rank of what is squeezed is not known")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = {axis % len(shape) for axis in _constant_of(node, 1, ir, "which dims go")}
    else:
        if any(not isinstance(dim, int) for dim in shape):
            raise NoExactForm("which dims are 1 is not known until it runs")
        axes = {axis for axis, dim in enumerate(shape) if dim == 1}
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    asked = []
    for place, axis in enumerate(kept):
        dim = shape[axis]
        asked.append(dim if isinstance(dim, int) else 0 if axis == place else -1)
    if asked.count(-1) > 1:
        raise NoExactForm("the dims that stay are not known until it runs")
    ir.add("reshape", node.inputs[:1], node.label, node.outputs[0], shape=tuple(asked))


def _reshape(node: Node, ir: IR) -> None:
    asked = _constant_of(node, 1, ir, "the shape")
    copies = (
        node.attributes["special_zero"]
        if node.standard == "openvino"
        else not node.attributes.get("allowzero", 0)
    )
    if not copies and 0 in asked:
        raise NoExactForm("a dim of 0 that copies nothing")
    ir.add("reshape", node.inputs[:1], node.label, node.outputs[0], shape=tuple(asked))


# --- ONNX -----------------------------------------------------------------------------------------


def _onnx_constant(node: Node, ir: IR) -> None:
    array = HELPERS["Constant"](node, [])
    if not isinstance(array, np.ndarray) or array.dtype == object:
        raise NoExactForm("it is no tensor of numbers")
    ir.add_constant(array, node.outputs[0])


def _onnx_cast(node: Node, ir: IR) -> None:
    try:
        to = type_name(dtype_of(node.attributes["to"]))
    except KeyError:
        raise HalfulpError("Cast does not know the type", got=node.attributes["to"]) from None
    saturate = bool(node.attributes.get("saturate", 1))
    ir.add("cast", node.inputs, node.label, node.outputs[0], to=to, saturate=saturate)


def _onnx_cast_like(node: Node, ir: IR) -> None:
    to, saturate = ir.types[node.inputs[1]].type, bool(node.attributes.get("saturate", 1))
    ir.add("cast", node.inputs[:1], node.label, node.outputs[0], to=to, saturate=saturate)


def _ours(node: Node, ir: IR) -> None:
    find(node.operator).infer(*(ir.types[name] for name in node.inputs), **node.attributes)
    ir.add("pow" if node.type == "Pow" else "prelu", node.inputs, node.label, node.outputs[0])


_ONNX: Mapping[str, Reader] = {
    "Pow": _ours,
    "PRelu": _ours,
    "Constant": _onnx_constant,
    "Cast": _onnx_cast,
    "CastLike": _onnx_cast_like,
    "Identity": _simple("identity"),
    "Mul": _simple("mul"),
    "Add": _simple("add"),
    "Less": _simple("less"),
    "Where": _simple("where"),
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
}

# --- OpenVINO -------------------------------------------------------------------------------------


def _convert(node: Node, ir: IR) -> None:
    to = node.attributes["destination_type"]
    ir.add("cast", node.inputs, node.label, node.outputs[0], to=to, saturate=False)


def _openvino_prelu(node: Node, ir: IR) -> None:
    """A slope of rank 1 as long as dim 1 is per channel; any other is NumPy's."""
    name, slope = node.inputs
    x_shape, shape = ir.types[name].shape, ir.types[slope].shape
    if shape is None or (len(shape) == 1 and x_shape is None):
        raise NoExactForm("whether the slope is per channel is not known until it runs")
    if len(shape) == 1 and x_shape is not None and len(x_shape) > 2:
        channels, size = x_shape[1], shape[0]
        if channels == size and size is not None:
            axes = tuple(range(1, len(x_shape) - 1))
            slope = ir.add("unsqueeze", [slope], node.label, axes=axes)
            ir.note(node.label, f"the slope, per channel, gets {len(axes)} more dims of 1")
        elif size != 1 and not (isinstance(channels, int) and isinstance(size, int)):
            raise NoExactForm("whether the slope is per channel is not known until it runs")
    ir.add("prelu", [name, slope], node.label, node.outputs[0])


_OPENVINO: Mapping[str, Reader] = {
    "Power": _simple("pow"),
    "PReLU": _openvino_prelu,
    "Convert": _convert,
    "Multiply": _simple("mul"),
    "Add": _simple("add"),
    "Less": _simple("less"),
    "Select": _simple("where"),
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
}


def integral(array: Array) -> Array:
    """Tell of each element of an exponent whether it is an integer."""
    if array.dtype.kind in "iu":
        return np.ones(array.shape, bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(array) & (np.floor(array) == array))
