"""Operands in other shapes and types: between the broadcasting of opset 6 (``axis``, ``broadcast``) and that of opset 7
(NumPy's), and which element types hold every value of which others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import AttributeProto, NodeProto

from halfulp.conversion.editor import Editor, NoExactForm
from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Value
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.broadcast import LEGACY_AXIS, Mismatch
from halfulp.specs.tensor import Dim
from halfulp.types import TYPES

BROADCASTING = ("Pow", "Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Less", "Greater")
"""The operators that had ``axis`` and ``broadcast`` before opset 7."""

_MOST_COPIES = 256  # of a value that is repeated along a dim, as inputs of one Concat

# How many bits a value of a type has at most: what has at least as many holds each of its values.
# fmt: off
SIGNIFICANT = {
    "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32,
    "float16": 11, "bfloat16": 8, "float32": 24, "float64": 53,
}
# fmt: on


# --- shapes ---------------------------------------------------------------------------------------


def to_numpy(node: NodeProto, edit: Editor) -> None:
    """Add the node in the form of opset 7: Y unsqueezed to where ``axis`` puts it."""
    attributes = {a.name: a.i for a in node.attribute if a.name in ("axis", "broadcast")}
    y = legacy_operand(node, attributes, edit)
    kept = [a for a in node.attribute if a.name not in attributes]
    new = NodeProto()
    new.CopyFrom(node)
    new.input[1] = y
    del new.attribute[:]
    new.attribute.extend(kept)
    edit.keep(new)
    if y != node.input[1]:
        edit.note(f"Y is unsqueezed to {edit.value_info.value(y)}, where axis={attributes['axis']} puts it")


def legacy_operand(node: NodeProto, attributes: dict[str, int], edit: Editor) -> str:
    """Return the second operand in the shape that NumPy's rules fit to the first."""
    y_name: str = node.input[1]
    x, y = edit.value_info.value(node.input[0]), edit.value_info.value(y_name)
    _check(node.op_type, x, y, attributes)
    axis = attributes.get("axis")
    if not attributes.get("broadcast") or axis is None or y.shape == () or is_one(y):
        return y_name
    if x.shape is None or y.shape is None:
        raise NoExactForm(f"axis={axis} counts from X's first dim, and the ranks of X and Y are not known")
    trailing = len(x.shape) - axis % len(x.shape) - len(y.shape)
    # Less than none: by the rule of axis, Y can then only have one element.
    return edit.unsqueeze(y_name, range(len(y.shape), len(y.shape) + max(trailing, 0)))


def _check(op_type: str, x: Value, y: Value, attributes: dict[str, int]) -> None:
    value_info = y.shape
    if op_type != "Pow" and value_info is not None and attributes.get("broadcast"):
        value_info = tuple(None if dim == 1 else dim for dim in value_info)  # as runtime.helpers does it
    try:
        LEGACY_AXIS.infer(x.shape, value_info, attributes)
    except Mismatch as error:
        raise HalfulpError(error.message.format(x="X", y="Y"), got=f"{x} and {y}") from None


def to_legacy(node: NodeProto, edit: Editor) -> None:
    """Add the node in the form of opset 6: shapes equal, or Y a contiguous run of X's dims."""
    x, y, attributes = legacy_form(node.input[0], node.input[1], edit)
    new = NodeProto()
    new.CopyFrom(node)
    new.input[0], new.input[1] = x, y
    for name, value in attributes.items():
        new.attribute.add(name=name, i=value, type=AttributeProto.INT)
    edit.keep(new)
    if attributes:
        edit.note("broadcasts by " + " ".join(f"{name}={value}" for name, value in attributes.items()))


def legacy_form(x_name: str, y_name: str, edit: Editor) -> tuple[str, str, dict[str, int]]:
    """Return two operands that opset 6 broadcasts to what NumPy's rules make of these, and how.

    Raises:
        NoExactForm: the shapes are not known well enough, or one would be repeated too often.
    """
    x, y = edit.value_info.value(x_name), edit.value_info.value(y_name)
    if x.shape is not None and x.shape == y.shape and all(dim is not None for dim in x.shape):
        return x_name, y_name, {}
    if x.shape is None or y.shape is None:
        if y.shape in ((), (1,)):
            return x_name, y_name, {"broadcast": 1}
        raise NoExactForm("opset 6 broadcasts by the ranks of X and Y, and they are not known")
    if len(y.shape) > len(x.shape):
        x_name = edit.unsqueeze(x_name, range(len(y.shape) - len(x.shape)))
    x_dims, y_dims = _dims(edit.value_info.value(x_name)), _dims(y)
    if is_one(y):
        return x_name, y_name, {"broadcast": 1} if x_dims != y_dims else {}
    lead = len(x_dims) - len(y_dims)
    padded = [1] * lead + y_dims
    _refuse_unknown(x_dims, padded)
    for axis, (a, b) in enumerate(zip(x_dims, padded, strict=True)):
        if a == 1 and b != 1:
            x_name = _repeated(x_name, axis, b, "X", edit)
    x_dims = _dims(edit.value_info.value(x_name))
    run = [axis for axis, dim in enumerate(padded) if dim != 1]
    start, end = run[0], run[-1] + 1
    for axis in range(start, end):
        if padded[axis] == 1 and x_dims[axis] != 1:
            y_name = _repeated(y_name, axis - lead, x_dims[axis], "Y", edit)
    y_name = edit.squeeze(
        y_name, [axis - lead for axis in range(lead, len(padded)) if not start <= axis < end]
    )
    if (start, end) == (0, len(x_dims)):
        return x_name, y_name, {}
    return x_name, y_name, {"axis": start, "broadcast": 1}


def _dims(value: Value) -> list[Dim]:
    assert value.shape is not None
    return list(value.shape)


def _refuse_unknown(x: list[Dim], y: list[Dim]) -> None:
    for a, b in zip(x, y, strict=True):
        if b == 1 or (a == b and a is not None) or (isinstance(a, int) and isinstance(b, int)):
            continue
        if a == 1:
            raise NoExactForm(
                f"X would have to be repeated {b or '?'} times, which is not known until it runs"
            )
        raise NoExactForm(
            "whether a dim of X and one of Y are equal, or one of them is 1, is not known until it runs:"
            f" {a or '?'} and {b or '?'}"
        )


def _repeated(name: str, axis: int, times: Dim, which: str, edit: Editor) -> str:
    """Return a value repeated along a dim that is 1."""
    value = edit.value_info.value(name)
    assert value.shape is not None
    if not isinstance(times, int):
        raise NoExactForm(f"{which} would have to be repeated {times or '?'} times, not known until it runs")
    if times > _MOST_COPIES or not times:
        raise NoExactForm(f"opset 6 can't broadcast {which} here, and it would be repeated {times} times")
    shape = (*value.shape[:axis], times, *value.shape[axis + 1 :])
    array = edit.value_info.array(name)
    if array is not None:
        return edit.constant(array.repeat(times, axis), "repeated")
    edit.note(f"{which} is repeated {times} times along dim {axis}")
    return edit.add("Concat", [name] * times, replace(value, shape=shape), axis=axis)


def is_one(value: Value) -> bool:
    """Tell whether a value is known to have one element."""
    return value.shape is not None and all(dim == 1 for dim in value.shape)


# --- types ----------------------------------------------------------------------------------------


def is_float(kind: str) -> bool:
    """Tell whether a type is a floating one."""
    return TYPES[kind].kind == "float"


def holds(kind: str, other: str) -> bool:
    """Tell whether a type holds every value of another one."""
    if kind == other:
        return True
    if kind not in SIGNIFICANT and is_float(kind):
        return False
    if is_float(kind):
        if SIGNIFICANT.get(other, 64) > SIGNIFICANT[kind]:
            return False
        # bfloat16 has the range of float32, and so more than float16.
        return other != "bfloat16" or kind in ("float32", "float64")
    if is_float(other):
        return False
    own, others = TYPES[kind], TYPES[other]
    if own.kind == "uint":
        return others.kind == "uint" and own.bits >= others.bits
    return own.bits > others.bits or (own.bits == others.bits and others.kind == "int")


def exactly_as(array: Array, kind: str) -> Array | None:
    """Return an array in another type, or None where that would change a value."""
    with np.errstate(all="ignore"):
        there = cast(array, dtype_named(kind))
        back = cast(there, array.dtype)
    same = (back == array) | ((array != array) & (there != there))
    if array.dtype.kind in "iu":
        # What lies beyond an integer type comes back as its largest value.
        same &= (np.abs(there.astype(np.float64)) < 2.0**63) & ((there < 0) == (array < 0))
    return there if bool(np.all(same)) else None


def products(node: NodeProto, exponent: int, edit: Editor) -> None:
    """Add a power of an integer >= 1 as products: square and multiply, from the exponent's second bit on."""
    x = result = node.input[0]
    value = edit.value_info.value(x)
    factors = "".join("s" if bit == "0" else "sx" for bit in f"{exponent:b}"[1:])
    if not factors:
        edit.add("Identity", [x], output=node.output[0], like=node)
    for number, factor in enumerate(factors, 1):
        both = [result, result if factor == "s" else x]
        if number == len(factors):
            edit.add("Mul", both, output=node.output[0], like=node)
        else:
            result = edit.add("Mul", both, value)
