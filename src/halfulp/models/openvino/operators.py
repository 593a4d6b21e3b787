"""The operators of OpenVINO that halfulp runs and writes: their attributes, and types and shapes of their outputs.

Power and PReLU are inferred by their rows. The others often surround them in models; all are of opset1 and unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import MOST_DIMS, Array, Node, reshape, unsqueezed
from halfulp.specs import find
from halfulp.specs.broadcast import AUTO, Mismatch
from halfulp.specs.tensor import Shape, TensorType
from halfulp.types import INTEGERS, TYPES

BOOLEAN = "boolean"
ELEMENT_TYPES = {row.openvino: row.name for row in TYPES.values() if row.openvino} | {BOOLEAN: "bool"}
"""halfulp's name of an element type, by OpenVINO's."""

OPENVINO_TYPES = {name: openvino for openvino, name in ELEMENT_TYPES.items()}
"""OpenVINO's name of an element type, by halfulp's."""


def precision(openvino: str) -> str:
    """Return a port's name of an element type."""
    return {"f64": "FP64", "f32": "FP32", "f16": "FP16", BOOLEAN: "BOOL"}.get(openvino, openvino.upper())


PRECISIONS = {precision(openvino): name for openvino, name in ELEMENT_TYPES.items()}


def packed(values: Array) -> Array:
    """Return elements of four bits as bytes: two to a byte, the first in the low half."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8) & 15
    nibbles = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return np.asarray(nibbles[::2] | nibbles[1::2] << 4)


def unpacked(raw: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Return ``count`` elements of four bits that :func:`packed` has packed."""
    nibbles = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count]
    if dtype.name == "int4":  # ml_dtypes does not define the other half of its byte
        return ((nibbles ^ 8).astype(np.int8) - np.int8(8)).astype(dtype)
    return nibbles.view(dtype)


_BROADCAST = {"auto_broadcast": "numpy"}
_REQUIRED = object()


@dataclass(frozen=True)
class Operator:
    """An operator: the number of its inputs, and its attributes with their defaults."""

    inputs: int
    attributes: Mapping[str, Any] = field(default_factory=dict)


OPERATORS: Mapping[str, Operator] = {
    "Power": Operator(2, _BROADCAST),
    "PReLU": Operator(2),
    "Convert": Operator(1, {"destination_type": _REQUIRED}),
    "Multiply": Operator(2, _BROADCAST),
    "Add": Operator(2, _BROADCAST),
    "Reshape": Operator(2, {"special_zero": _REQUIRED}),
    "Unsqueeze": Operator(2),
    "Less": Operator(2, _BROADCAST),
    "Select": Operator(3, _BROADCAST),
}
"""The operators by the type that layers have."""


def foreign(nodes: Iterable[Node]) -> list[str]:
    """Return the labels of the nodes of other operators than these."""

    def is_known(node: Node) -> bool:
        is_openvino = node.standard == "openvino" and not node.domain
        return is_openvino and node.type in OPERATORS and len(node.outputs) == 1

    return [node.label for node in nodes if not is_known(node)]


def infer(node: Node, operands: Sequence[TensorType], constants: Sequence[Array | None]) -> TensorType:
    """Return the output's type and shape of a node in :data:`OPERATORS`; ``constants`` are its constant inputs."""
    expected = OPERATORS[node.type].inputs
    if len(operands) != expected:
        raise HalfulpError(f"wrong number of inputs for {node.type}", expected=expected, got=len(operands))
    x, attributes = operands[0], node.attributes
    match node.type:
        case "Power" | "PReLU":
            return find(f"openvino.{node.type}-1").infer(*operands, **attributes)
        case "Convert":
            return TensorType(attributes["destination_type"], x.shape)
        case "Reshape":
            return TensorType(x.type, _reshaped(x, operands[1], constants[1], attributes["special_zero"]))
        case "Unsqueeze":
            _check_dims(operands[1], "the axes of Unsqueeze")
            if constants[1] is None or x.shape is None:
                return TensorType(x.type, None)
            return TensorType(x.type, unsqueezed(x.shape, _numbers(constants[1])))
        case "Select":
            if x.type != "bool":
                raise HalfulpError("the condition of Select must be boolean", got=x)
            if operands[1].type != operands[2].type:
                got = f"{operands[1]} and {operands[2]}"
                raise HalfulpError("Select takes one type for both choices", got=got)
            return TensorType(operands[1].type, _broadcast(operands, attributes))
    if x.type not in TYPES or any(other.type != x.type for other in operands):
        raise HalfulpError("the inputs must have one numeric type", got=" and ".join(map(str, operands)))
    return TensorType("bool" if node.type == "Less" else x.type, _broadcast(operands, attributes))


def element_type(openvino: str) -> str:
    """Return halfulp's name of an element type of OpenVINO."""
    if openvino not in ELEMENT_TYPES:
        raise UnsupportedError("unsupported element_type", got=repr(openvino[:40]))
    return ELEMENT_TYPES[openvino]


def read_attributes(kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of a layer of one of these operators as values, with defaults."""
    known = OPERATORS[kind].attributes
    for name in data:
        if name not in known:
            expected = ", ".join(known) or "no attributes"
            raise HalfulpError(f"unknown attribute of {kind}", expected=expected, got=repr(name[:40]))
    if missing := [name for name, default in known.items() if default is _REQUIRED and name not in data]:
        raise HalfulpError(f"{kind} needs the attribute {missing[0]}")
    return {name: _value(name, data[name]) if name in data else default for name, default in known.items()}


def _value(name: str, text: str) -> Any:
    if (name, text) == ("auto_broadcast", "pdpd"):
        raise UnsupportedError(
            "auto_broadcast=pdpd (PaddlePaddle's rule) is not supported", expected="numpy or none"
        )
    values, expected = _VALUES[name]
    spelled = text.lower() if name == "special_zero" else text
    if spelled not in values:
        raise HalfulpError(f"{name} has an unknown value", expected=expected, got=repr(text[:40]))
    return values[spelled]


_VALUES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "auto_broadcast": ({rule: rule for rule in ("numpy", "none", "explicit")}, "numpy or none"),
    "special_zero": ({"true": True, "1": True, "false": False, "0": False}, "true or false"),
    "destination_type": (ELEMENT_TYPES, ", ".join(ELEMENT_TYPES)),
}
"""The values of each attribute by their texts, and the texts that an error names."""


def _reshaped(x: TensorType, pattern: TensorType, values: Array | None, copies: bool) -> Shape:
    _check_dims(pattern, "the pattern of Reshape")
    if values is not None:
        return reshape(x.shape, _numbers(values), copies=copies)
    rank = pattern.shape[0] if pattern.shape else None
    return (None,) * rank if isinstance(rank, int) and rank <= MOST_DIMS else None


def _numbers(values: Array) -> list[int]:
    return [int(value) for value in values.reshape(-1)]


def _check_dims(operand: TensorType, what: str) -> None:
    if operand.type not in INTEGERS:
        raise HalfulpError(f"{what} must be integers", got=operand)
    if operand.shape is not None and len(operand.shape) > 1:
        raise HalfulpError(f"{what} must be a list", got=operand)


def _broadcast(operands: Sequence[TensorType], attributes: Mapping[str, Any]) -> Shape:
    shape = operands[-1].shape
    try:
        for operand in reversed(operands[:-1]):
            shape = AUTO.infer(operand.shape, shape, attributes)
    except Mismatch:
        rule = attributes["auto_broadcast"]
        shapes = " and ".join(str(operand) for operand in operands)
        raise HalfulpError(f"the inputs can't be broadcast with auto_broadcast={rule}", got=shapes) from None
    return shape
