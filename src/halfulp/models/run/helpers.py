"""The operators that surround ours in real models, each in every version that ONNX has had.

Constant, Identity, Cast, CastLike, Less, Mul, Add, Where, Reshape and Unsqueeze. The types that a
version allows are those of the onnx package's schema; they are not typed again here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Node, reshaped, type_name
from halfulp.models.onnx.checks import schema_in_force
from halfulp.models.onnx.tensors import dtype_of
from halfulp.models.run.cast import can_cast, cast
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch

Helper = Callable[[Node, list[Any]], Any]


class NotOurs(Exception):
    """Raised by a helper for the rare case that it leaves to the onnx package."""


def check_types(node: Node, inputs: Sequence[Any]) -> None:
    """Compare the inputs' types with the schema in force.

    Raises:
        HalfulpError: an input is missing, not a tensor, of a type that the operator version does
            not allow, or of another type than an input that shares its type variable.
    """
    schema = schema_in_force(node.domain, node.type, node.opset)
    assert schema is not None  # the front end has looked
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for port, value in zip(schema.inputs, inputs, strict=False):
        if value is None and port.option == onnx.defs.OpSchema.FormalParameterOption.Optional:
            continue
        if not isinstance(value, np.ndarray):
            if node.type == "Identity" and value is not None:
                continue  # of a sequence, say
            raise HalfulpError(f"its input {port.name} is missing, or not a tensor")
        got = _onnx_name(value.dtype)
        if got not in allowed.get(port.type_str, [port.type_str]):
            raise HalfulpError(f"{node.operator} does not take {got} as {port.name}")
        if bound.setdefault(port.type_str, got) != got:
            raise HalfulpError(
                f"{node.operator} takes one type for all inputs of type {port.type_str}",
                expected=bound[port.type_str],
                got=f"{got} as {port.name}",
            )


def _onnx_name(dtype: np.dtype[Any]) -> str:
    number = onnx.TensorProto.STRING
    if type_name(dtype) != "string":
        number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    return f"tensor({onnx.TensorProto.DataType.Name(number).lower()})"


def broadcast_legacy(x: Array, y: Array, attributes: Mapping[str, Any]) -> Array:
    """Return y in the shape that fits it to x by the rules of ``axis`` and ``broadcast``.

    Before opset 7 Add, Sub, Mul, Div, Pow, And, Or, Xor, Equal, Less and Greater had them.

    Raises:
        HalfulpError: the shapes don't fit.
    """
    # "1-dim expansion doesn't work yet", says the document; exporters of that time relied on it all
    # the same. A dim that the rule doesn't know matches anything.
    known = tuple(None if dim == 1 and attributes.get("broadcast", 0) else dim for dim in y.shape)
    try:
        LEGACY_AXIS.infer(x.shape, known, attributes)
        return y.reshape(LEGACY_AXIS.arrange(x.shape, y.shape, attributes))
    except Mismatch as error:
        raise HalfulpError(
            error.message.format(x="the first input", y="the second"),
            got=f"{list(x.shape)} and {list(y.shape)}",
        ) from None


def _constant(node: Node, inputs: list[Any]) -> Any:
    given = [name for name in node.attributes if name.startswith(("value", "sparse_value"))]
    if len(given) != 1:
        raise HalfulpError("Constant takes one of its attributes", got=", ".join(given) or "none")
    value = node.attributes[given[0]]
    match given[0]:
        case "value_float" | "value_floats":
            return np.asarray(value, np.float32)
        case "value_int" | "value_ints":
            return np.asarray(value, np.int64)
        case "value_string" | "value_strings":
            return np.asarray(value, object)
    return value


def _identity(node: Node, inputs: list[Any]) -> Any:
    return inputs[0]


def _cast(node: Node, inputs: list[Any]) -> Any:
    (x,) = inputs
    to = node.attributes["to"]
    try:
        # Version 1 spells the type.
        target = dtype_of(onnx.TensorProto.DataType.Value(to) if isinstance(to, str) else to)
    except (KeyError, ValueError):
        raise HalfulpError("Cast does not know the type", got=to) from None
    return _convert(x, target, node)


def _cast_like(node: Node, inputs: list[Any]) -> Any:
    x, like = inputs
    return _convert(x, like.dtype, node)


def _convert(x: Array, target: np.dtype[Any], node: Node) -> Array:
    if not can_cast(x.dtype, target):
        raise NotOurs
    return cast(x, target, saturate=bool(node.attributes.get("saturate", 1)))


def _binary(function: Callable[[Array, Array], Any]) -> Helper:
    def evaluate(node: Node, inputs: list[Any]) -> Any:
        x, y = inputs
        if node.opset < 7:
            y = broadcast_legacy(x, y, node.attributes)
        return function(x, y)

    return evaluate


def _where(node: Node, inputs: list[Any]) -> Any:
    return np.where(*inputs)


def _reshape(node: Node, inputs: list[Any]) -> Any:
    x = inputs[0]
    asked = node.attributes.get("shape", []) if node.opset < 5 else _dims(inputs[1])
    shape = list(asked)
    if not node.attributes.get("allowzero", 0):
        if any(dim == 0 and axis >= x.ndim for axis, dim in enumerate(shape)):
            raise HalfulpError("a dim of 0 in shape copies a dim that data does not have", got=asked)
        shape = [x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(shape)]
    elif 0 in shape and -1 in shape:
        raise HalfulpError("shape may not hold both 0 and -1 where allowzero is 1", got=asked)
    if any(dim < -1 for dim in shape) or shape.count(-1) > 1:
        raise HalfulpError("shape may hold one -1 and no other negative dim", got=asked)
    rest = math.prod(dim for dim in shape if dim != -1)
    if -1 in shape and rest and x.size % rest == 0:
        shape[shape.index(-1)] = x.size // rest
    if math.prod(shape) != x.size or -1 in shape:
        raise HalfulpError(
            "the data has not as many elements as shape asks for", expected=asked, got=list(x.shape)
        )
    return reshaped(x, shape)


def _unsqueeze(node: Node, inputs: list[Any]) -> Any:
    x = inputs[0]
    asked = node.attributes["axes"] if node.opset < 13 else _dims(inputs[1])
    rank = x.ndim + len(asked)
    lowest = 0 if node.opset < 11 else -rank
    axes = [axis % rank if lowest <= axis < rank else None for axis in asked]
    if None in axes or len(set(axes)) < len(axes):
        raise HalfulpError(
            "axes must be distinct dims of the output", expected=f"{lowest} to {rank - 1}", got=asked
        )
    remaining = iter(x.shape)
    return reshaped(x, [1 if axis in axes else next(remaining) for axis in range(rank)])


def _dims(value: Array) -> list[int]:
    # The document says rank 1; exporters also write a scalar.
    if value.ndim > 1:
        raise HalfulpError("a list of dims must have rank 1", got=list(value.shape))
    return [int(dim) for dim in value.reshape(-1)]


HELPERS: Mapping[str, Helper] = {
    "Constant": _constant,
    "Identity": _identity,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Less": _binary(np.less),
    "Mul": _binary(np.multiply),
    "Add": _binary(np.add),
    "Where": _where,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
}
"""By operator; each takes the node and its inputs and returns the one output."""
