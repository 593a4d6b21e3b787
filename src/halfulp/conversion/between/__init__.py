"""Between the formats: graphs of operators that belong to no format.

Such a graph has ONNX's operators by name. Broadcasting is NumPy's, each operand has a type of its own, and types,
axes and shapes are attributes. Each format's writer handles the operators that the format lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from halfulp.conversion.editor import Change, NoExactForm, unused
from halfulp.errors import HalfulpError, UnsupportedError, within
from halfulp.models.graph import Array, Model, Node, Value, listed, reshape, type_name, unsqueezed
from halfulp.models.onnx.tensors import type_of
from halfulp.models.run.api import evaluate_openvino
from halfulp.models.run.helpers import HELPERS
from halfulp.specs import find
from halfulp.specs.broadcast import NUMPY, UNIDIRECTIONAL, Mismatch
from halfulp.specs.tensor import TensorType

OPENVINO = {
    "Power": "Pow",
    "PReLU": "PRelu",
    "Convert": "Cast",
    "Multiply": "Mul",
    "Add": "Add",
    "Less": "Less",
    "Select": "Where",
    "Reshape": "Reshape",
    "Unsqueeze": "Unsqueeze",
}
"""The operators of a neutral graph by OpenVINO's names for them."""

_ONNX = {*OPENVINO.values(), "Identity", "Squeeze", "Constant", "CastLike"}


class Draft:
    """A neutral graph that grows: the type of each value is inferred when its operator is added.

    Attributes:
        file, name: the model's name in messages, and the graph's own.
        changes: gets a line for each thing that was done, or could not be carried over.
        inputs, outputs, nodes: as a graph has them.
        constants: by name, without the inputs' defaults.
        defaults: of inputs, by name.
        types: of every value.
    """

    def __init__(self, file: str, name: str, changes: list[Change]) -> None:
        self.file, self.name, self.changes = file, name or "graph", changes
        self.inputs, self.outputs, self.nodes = list[Value](), list[Value](), list[Node]()
        self.constants, self.defaults = dict[str, Array](), dict[str, Array]()
        self.types = dict[str, TensorType]()

    def drop_unread(self) -> None:
        """Drop the constants that nothing reads."""
        read = {name for node in self.nodes for name in node.inputs} | {value.name for value in self.outputs}
        self.constants = {name: array for name, array in self.constants.items() if name in read}

    def note(self, label: str, what: str, differs: str | None = None) -> None:
        """Record a change."""
        self.changes.append(Change(label, what, differs))

    def add_input(self, value: Value) -> None:
        """Add an input, of a known type."""
        if value.kind != "tensor" or value.type is None:
            raise UnsupportedError(
                f"{self.file}: input {value.name!r} is not a tensor of a known type", got=str(value)
            )
        self.inputs.append(value)
        self.types[value.name] = TensorType(value.type, value.shape)

    def add_constant(self, array: Array, name: str) -> str:
        """Add a constant and return its name: the one wished for, or a similar one if that is taken."""
        name = self.free(name)
        self.constants[name] = array
        self.types[name] = TensorType(type_name(array.dtype), array.shape)
        return name

    def add(
        self, kind: str, inputs: Sequence[str], label: str, output: str | None = None, **attributes: Any
    ) -> str:
        """Add an operator and return its output; raises HalfulpError where the shapes don't fit."""
        name = output or self.free(f"{inputs[0]}_{kind.lower()}")
        self.types[name] = _infer(kind, [self.types[i] for i in inputs], attributes)
        self.nodes.append(Node(label, "neutral", "", kind, "1", 1, tuple(inputs), (name,), attributes))
        return name

    def free(self, wished: str) -> str:
        """Return an unused name that resembles the one wished for."""
        return unused(wished, self.types)


def _infer(kind: str, operands: Sequence[TensorType], attributes: Mapping[str, Any]) -> TensorType:
    x = operands[0]
    try:
        match kind:
            case "Cast":
                return TensorType(attributes["to"], x.shape)
            case "PRelu":
                return TensorType(x.type, UNIDIRECTIONAL.infer(x.shape, operands[1].shape, {}))
            case "Unsqueeze":
                axes = attributes["axes"]
                if x.shape is None and len(set(axes)) == len(axes):
                    return x
                return TensorType(x.type, unsqueezed(x.shape or (), axes, from_end=False))
            case "Reshape":
                return TensorType(x.type, reshape(x.shape, attributes["shape"], copies=True))
            case "Identity" | "Floor":
                return x
        shape = operands[-1].shape
        for operand in operands[:-1]:
            shape = NUMPY.infer(operand.shape, shape, {})
    except Mismatch as error:
        raise HalfulpError(error.message.format(x="the first input", y="the second")) from None
    if kind in ("Less", "Equal", "And"):
        return TensorType("bool", shape)
    return TensorType(operands[1].type if kind == "Where" else x.type, shape)


# --- graphs of ONNX and of OpenVINO -----------------------------------------------------------------


def neutral(model: Model, changes: list[Change], labels: Mapping[str, str]) -> Draft:
    """Return a model's graph with the operators of no format.

    Args:
        model: of OpenVINO, or of ONNX in an opset from 13 on, without functions.
        changes: gets a line for each thing that could not be carried over.
        labels: how messages name the nodes that make these values, where not as the model does.

    Raises:
        UnsupportedError: nodes that are neither Pow, PRelu nor plumbing, all of them named; a node whose
            meaning is known only when it runs.
        ModelError: shapes that don't fit together.
    """
    graph = model.graph
    is_ir = any(node.standard == "openvino" for node in graph.nodes)
    unsupported = [node.label for node in graph.nodes if is_foreign(node)]
    if unsupported:
        onnx = "convert from the ONNX file that the IR was made of"
        directml = "ONNX Runtime's DirectML provider takes the ONNX file: convert with --target directml"
        raise UnsupportedError(
            f"{model.file}: has nodes that have no counterpart elsewhere; {onnx if is_ir else directml}",
            expected=", ".join(OPENVINO if is_ir else sorted(_ONNX)),
            got=listed(unsupported),
        )
    draft = Draft(model.file, graph.name, changes)
    draft.outputs += graph.outputs
    for value in graph.inputs:
        if value.name in graph.constants:
            draft.note(model.file, f"input {value.name!r} has a default, which it is now for good")
        else:
            draft.add_input(value)
        if value.aliases and is_ir:
            draft.note(model.file, f"input {value.name!r} loses its other names: {listed(value.aliases)}")
    for name, array in graph.constants.items():
        draft.add_constant(array, name)
    for node in graph.nodes:
        label = labels.get(node.outputs[0], node.label)
        with within(model.file, label):
            _add(node, label, draft)
    draft.drop_unread()
    return draft


def is_foreign(node: Node) -> bool:
    """Return whether a node is neither Pow, PRelu nor plumbing."""
    known = _ONNX if node.standard == "onnx" else OPENVINO
    return bool(node.domain) or node.function is not None or node.type not in known


def _add(node: Node, label: str, draft: Draft) -> None:
    kind = node.type if node.standard == "onnx" else OPENVINO[node.type]
    inputs, attributes = list(node.inputs), dict[str, Any]()
    match kind:
        case "Constant":
            array = HELPERS["Constant"](node, [])
            if not isinstance(array, np.ndarray) or array.dtype == object:
                raise NoExactForm("it is not a tensor of numbers")
            draft.add_constant(array, node.outputs[0])
            return
        case "Cast" if node.standard == "openvino" and inputs[0] in draft.constants:
            # A compressed file stores its constants in float16. The other formats get their own values.
            array = evaluate_openvino(node, [draft.constants[inputs[0]]])
            draft.add_constant(array, node.outputs[0])
            return
        case "Cast" | "CastLike":
            kind, attributes = "Cast", _cast(node, draft)
        case "Unsqueeze":
            attributes = {"axes": _axes(node, draft)}
        case "Reshape":
            attributes = {"shape": _shape(node, draft)}
        case "Squeeze":  # which not every format has
            kind, attributes = "Reshape", {"shape": _shape_squeezed(node, draft)}
        case "PRelu" if node.standard == "openvino":
            inputs[1] = _openvino_slope(inputs[0], inputs[1], label, draft)
        case "Pow" | "PRelu" if node.standard == "onnx":
            find(node.operator).infer(*(draft.types[name] for name in inputs), **node.attributes)
    draft.add(kind, inputs[:1] if attributes else inputs, label, node.outputs[0], **attributes)


def _cast(node: Node, draft: Draft) -> dict[str, Any]:
    if node.standard == "openvino":
        return {"to": node.attributes["destination_type"], "saturate": False}
    saturate = bool(node.attributes.get("saturate", 1))
    if node.type == "CastLike":
        return {"to": draft.types[node.inputs[1]].type, "saturate": saturate}
    try:
        return {"to": type_of(node.attributes["to"]), "saturate": saturate}
    except KeyError:
        raise HalfulpError("Cast does not know the type", got=node.attributes["to"]) from None


def _numbers(node: Node, draft: Draft, what: str) -> list[int]:
    array = draft.constants.get(node.inputs[1])
    if array is None:
        raise NoExactForm(f"{what} is not known until it runs")
    return [int(value) for value in array.reshape(-1)]


def _axes(node: Node, draft: Draft) -> tuple[int, ...]:
    asked = _numbers(node, draft, "where its dims go")
    rank = 0
    if any(axis < 0 for axis in asked):
        shape = draft.types[node.inputs[0]].shape
        if shape is None:
            raise NoExactForm(f"the rank of {node.inputs[0]!r} is not known")
        rank = len(shape) + len(asked)
    return tuple(sorted(axis + rank if axis < 0 else axis for axis in asked))


def _shape(node: Node, draft: Draft) -> tuple[int, ...]:
    asked = _numbers(node, draft, "the shape")
    openvino = node.standard == "openvino"
    copies = node.attributes["special_zero"] if openvino else not node.attributes.get("allowzero", 0)
    if not copies and 0 in asked:
        raise NoExactForm("a dim of 0 that copies nothing")
    return tuple(asked)


def _shape_squeezed(node: Node, draft: Draft) -> tuple[int, ...]:
    """Return the new shape argument of Reshape. Unchanged dims are copied or given as numbers."""
    shape = draft.types[node.inputs[0]].shape
    if shape is None:
        raise NoExactForm("the rank of its input is not known")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = {axis % len(shape) for axis in _numbers(node, draft, "which dims go")}
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
    return tuple(asked)


def _openvino_slope(x: str, slope: str, label: str, draft: Draft) -> str:
    """Return the slope as NumPy broadcasts it: one of rank 1 as long as dim 1 is per channel."""
    x_shape, shape = draft.types[x].shape, draft.types[slope].shape
    not_known = NoExactForm("whether the slope is per channel is not known until it runs")
    if shape is None or (len(shape) == 1 and x_shape is None):
        raise not_known
    if len(shape) == 1 and x_shape is not None and len(x_shape) > 2:
        channels, size = x_shape[1], shape[0]
        if channels == size and size is not None:
            axes = tuple(range(1, len(x_shape) - 1))
            draft.note(label, f"the slope, per channel, gets {len(axes)} more dims of 1")
            return draft.add("Unsqueeze", [slope], label, axes=axes)
        if size != 1 and not (isinstance(channels, int) and isinstance(size, int)):
            raise not_known
    return slope
