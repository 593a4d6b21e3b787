"""The operators of OpenVINO that are ours: attributes, and the type and shape of what they give.

Power and PReLU answer by their rows; the others are the plumbing that stands around them in real
models, all of opset1 and unchanged since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Node
from halfulp.models.openvino.layers import ELEMENT_TYPES
from halfulp.specs import find
from halfulp.specs.broadcast import AUTO, Mismatch
from halfulp.specs.tensor import Dim, Shape, TensorType
from halfulp.types import INTEGERS, TYPES

Attributes = Mapping[str, Any]
Constants = Sequence[Array | None]
Infer = Callable[[Attributes, Sequence[TensorType], Constants], TensorType]


@dataclass(frozen=True)
class Operator:
    """An operator: how many inputs it has, its attributes with their defaults, what it gives.

    ``infer`` takes the attributes, the inputs' types and the inputs that are constants.
    """

    inputs: int
    infer: Infer
    attributes: Mapping[str, Any] | None = None


_BROADCAST = {"auto_broadcast": "numpy"}
_REQUIRED = object()


def infer(node: Node, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    """Return the type and shape of a node's output.

    Args:
        node: of an operator in :data:`OPERATORS`.
        operands: what is known of its inputs.
        constants: for each input its array, where that is a constant.

    Raises:
        HalfulpError: the operator does not take these inputs; a SpecError for Power and PReLU.
    """
    operator = OPERATORS[node.type]
    if len(operands) != operator.inputs:
        raise HalfulpError(
            f"{node.type} takes another number of inputs", expected=operator.inputs, got=len(operands)
        )
    return operator.infer(node.attributes, operands, constants)


def agree(a: Shape, b: Shape) -> bool:
    """Return whether two shapes may be those of one tensor."""
    if a is None or b is None:
        return True
    known = (pair for pair in zip(a, b, strict=False) if all(isinstance(dim, int) for dim in pair))
    return len(a) == len(b) and all(x == y for x, y in known)


def read_attributes(kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of a layer as values, with defaults filled in.

    Args:
        kind: an operator in :data:`OPERATORS`.
        data: as the file spells them.

    Raises:
        UnsupportedError: auto_broadcast is pdpd.
        HalfulpError: an attribute is missing, unknown or of a value that can't be.
    """
    known = OPERATORS[kind].attributes or {}
    for name in data:
        if name not in known:
            raise HalfulpError(
                f"{kind} has no such attribute", expected=", ".join(known) or "none", got=repr(name[:40])
            )
    values = {}
    for name, default in known.items():
        if name in data:
            values[name] = _READERS[name](data[name])
        elif default is _REQUIRED:
            raise HalfulpError(f"{kind} needs the attribute {name}")
        else:
            values[name] = default
    return values


def _auto_broadcast(text: str) -> str:
    if text == "pdpd":
        raise UnsupportedError(
            "auto_broadcast is pdpd, PaddlePaddle's rule, which is not done here", expected="numpy or none"
        )
    if text not in ("numpy", "none", "explicit"):
        raise HalfulpError(
            "auto_broadcast has an unknown value", expected="numpy or none", got=repr(text[:40])
        )
    return text


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise HalfulpError("special_zero must be true or false", got=repr(text[:40]))
    return text.lower() in ("true", "1")


def _element_type(text: str) -> str:
    if text not in ELEMENT_TYPES:
        raise HalfulpError("destination_type is not one of ours", got=repr(text[:40]))
    return ELEMENT_TYPES[text]


_READERS: Mapping[str, Callable[[str], Any]] = {
    "auto_broadcast": _auto_broadcast,
    "special_zero": _bool,
    "destination_type": _element_type,
}


def _power(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    return find("openvino.Power-1").infer(*operands, **attributes)


def _prelu(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    return find("openvino.PReLU-1").infer(*operands)


def _arithmetic(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    return TensorType(_common_type(operands), _broadcast(operands, attributes))


def _less(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    _common_type(operands)
    return TensorType("bool", _broadcast(operands, attributes))


def _select(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    condition, then, otherwise = operands
    if condition.type != "bool":
        raise HalfulpError("the condition of Select must be boolean", got=condition)
    if then.type != otherwise.type:
        raise HalfulpError("Select takes one type for both choices", got=f"{then} and {otherwise}")
    return TensorType(then.type, _broadcast(operands, attributes))


def _convert(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    return TensorType(attributes["destination_type"], operands[0].shape)


def _reshape(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    x, pattern = operands
    _check_dims(pattern, "the pattern of Reshape")
    values = constants[1]
    if values is None:
        rank = pattern.shape[0] if pattern.shape else None
        return TensorType(x.type, (None,) * rank if isinstance(rank, int) and rank <= 64 else None)
    asked = [int(dim) for dim in values.reshape(-1)]
    if any(dim < -1 for dim in asked) or asked.count(-1) > 1:
        raise HalfulpError("the pattern may hold one -1 and no other negative dim", got=asked[:64])
    if attributes["special_zero"]:
        if x.shape is None:
            return TensorType(x.type, tuple(None if dim < 1 else dim for dim in asked))
        if any(dim == 0 and axis >= len(x.shape) for axis, dim in enumerate(asked)):
            raise HalfulpError("a 0 in the pattern copies a dim that the data does not have", got=asked[:64])
        shape: list[Dim] = [x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(asked)]
    else:
        shape = list(asked)
    total = _elements(x.shape)
    if -1 in shape:
        place = shape.index(-1)
        others = _elements(shape[:place] + shape[place + 1 :])
        shape[place] = None
        if total is not None and others is not None:
            if not others or total % others:
                raise HalfulpError("the data does not fill the pattern's -1", got=x)
            shape[place] = total // others
    elif total is not None and _elements(shape) not in (None, total):
        raise HalfulpError(
            "the data has not as many elements as the pattern asks for", expected=asked[:64], got=x
        )
    return TensorType(x.type, tuple(shape))


def _unsqueeze(attributes: Attributes, operands: Sequence[TensorType], constants: Constants) -> TensorType:
    x, axes = operands
    _check_dims(axes, "the axes of Unsqueeze")
    values = constants[1]
    if values is None or x.shape is None:
        return TensorType(x.type, None)
    rank = len(x.shape) + values.size
    asked = [int(axis) for axis in values.reshape(-1)]
    places = {axis % rank for axis in asked if -rank <= axis < rank}
    if len(places) < len(asked) or rank > 64:
        raise HalfulpError(
            "the axes must be distinct dims of the output", expected=f"{-rank} to {rank - 1}", got=asked[:64]
        )
    remaining = iter(x.shape)
    return TensorType(x.type, tuple(1 if axis in places else next(remaining) for axis in range(rank)))


def _elements(shape: Sequence[Dim] | None) -> int | None:
    """Return how many elements a shape has; None where a dim is not known."""
    dims = [dim for dim in shape or () if isinstance(dim, int)]
    return None if shape is None or len(dims) < len(shape) else math.prod(dims)


def _common_type(operands: Sequence[TensorType]) -> str:
    first, *others = operands
    if first.type not in TYPES or any(other.type != first.type for other in others):
        raise HalfulpError("the inputs must have one numeric type", got=" and ".join(map(str, operands)))
    return first.type


def _check_dims(operand: TensorType, what: str) -> None:
    if operand.type not in INTEGERS:
        raise HalfulpError(f"{what} must be integers", got=operand)
    if operand.shape is not None and len(operand.shape) > 1:
        raise HalfulpError(f"{what} must be a list", got=operand)


def _broadcast(operands: Sequence[TensorType], attributes: Attributes) -> Shape:
    shape = operands[-1].shape
    try:
        for operand in reversed(operands[:-1]):
            shape = AUTO.infer(operand.shape, shape, attributes)
    except Mismatch:
        rule = attributes["auto_broadcast"]
        shapes = " and ".join(str(operand) for operand in operands)
        raise HalfulpError(
            f"the shapes of the inputs don't fit together with auto_broadcast {rule}", got=shapes
        ) from None
    return shape


OPERATORS: Mapping[str, Operator] = {
    "Power": Operator(2, _power, _BROADCAST),
    "PReLU": Operator(2, _prelu),
    "Convert": Operator(1, _convert, {"destination_type": _REQUIRED}),
    "Multiply": Operator(2, _arithmetic, _BROADCAST),
    "Add": Operator(2, _arithmetic, _BROADCAST),
    "Reshape": Operator(2, _reshape, {"special_zero": _REQUIRED}),
    "Unsqueeze": Operator(2, _unsqueeze),
    "Less": Operator(2, _less, _BROADCAST),
    "Select": Operator(3, _select, _BROADCAST),
}
"""By type, as layers spell it."""
