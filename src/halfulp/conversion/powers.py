"""Pow with a constant exponent and the operators that every runtime has: Mul, Sqrt, Reciprocal, Identity."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import ModelProto, NodeProto

from halfulp.conversion.editor import Change, Editor, NoExactForm
from halfulp.conversion.operands import products
from halfulp.conversion.opset import finish
from halfulp.conversion.walk import Walk, check_node
from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Value
from halfulp.models.run.inputs import dtype_named

How = Literal["expand", "fold"]

_MOST = 16  # greater exponents become no products
_FOLDED = ("Mul", "Sqrt", "Reciprocal")
_NOT_NEGATIVE = ("Abs", "Exp", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softplus")
"""Operators whose results are never below 0, nor -0."""


def powers(model: ModelProto, how: How, file: str, folder: Path | None) -> list[Change]:
    """Write powers with constant exponents otherwise, in place, or others as powers; return what was done.

    Args:
        model: one that the front end accepts.
        how: ``expand``: into products, roots and reciprocals, which every runtime has. ``fold``: back into Pow, where
            every bit stays.
        file: its name in messages.
        folder: where its external data lies.
    """
    if how not in ("expand", "fold"):
        raise HalfulpError("pow can be expanded or folded", expected="expand or fold", got=how)
    walk = Walk(model, file, folder)
    for owner, opset in walk.owners:
        if how == "expand":

            def rewrite(node: NodeProto, edit: Editor, opset: int = opset) -> None:
                check_node(node, opset, edit.value_info)
                expand(node, edit)

            walk.rewrite(owner, opset, lambda node: node.op_type == "Pow", rewrite, f"opset {opset}")
        elif opset >= 7:  # before, the shapes of base and exponent are to be equal
            walk.rewrite(owner, opset, lambda node: node.op_type in _FOLDED, _fold, f"opset {opset}")
    return finish(walk)


def expand(node: NodeProto, edit: Editor) -> None:
    """Add what computes a power with a constant exponent without Pow; any other Pow as it is."""
    value, exponent = edit.value_info.value(node.input[0]), exponent_of(node, edit)
    if exponent is None or value.type is None:
        return edit.keep(node)
    x, output = node.input[0], node.output[0]
    is_int = "int" in value.type
    if is_int and not (exponent.is_integer() and exponent >= 0):
        return edit.keep(node)
    if exponent in (0, 1):
        edit.note(f"x^{exponent:g} becomes {'ones' if exponent == 0 else 'Identity'}")
        _ones(node, value, edit) if exponent == 0 else edit.add("Identity", [x], output=output, like=node)
    elif exponent.is_integer() and 2 <= exponent <= _MOST:
        differs = f"each of its {_products(int(exponent))} products is rounded"
        edit.note(f"x^{exponent:g} becomes products", None if is_int or exponent == 2 else differs)
        products(node, int(exponent), edit)
    elif exponent == 0.5:
        edit.note("x^0.5 becomes Sqrt", "Sqrt(-0) is -0, the power is 0; Sqrt(-inf) is NaN, the power is inf")
        edit.add("Sqrt", [x], output=output, like=node)
    elif exponent == -1:
        edit.note("x^-1 becomes Reciprocal")
        edit.add("Reciprocal", [x], output=output, like=node)
    elif exponent == -0.5:
        edit.note(
            "x^-0.5 becomes the Reciprocal of Sqrt",
            "both are rounded; at -0 it gives -inf, the power inf; at -inf NaN, the power 0",
        )
        edit.add("Reciprocal", [edit.add("Sqrt", [x], value)], output=output, like=node)
    else:
        edit.keep(node)
    return None


def exponent_of(node: NodeProto, edit: Editor) -> float | None:
    """Return the constant exponent of a Pow if it has one element and leaves X's shape; None otherwise."""
    array, x = edit.value_info.array(node.input[1]), edit.value_info.value(node.input[0])
    if array is None or array.size != 1 or (array.ndim and array.ndim > len(x.shape or ())):
        return None
    return float(array.reshape(-1)[0])


def _products(exponent: int) -> int:
    return exponent.bit_length() + exponent.bit_count() - 2


def _ones(node: NodeProto, value: Value, edit: Editor) -> None:
    """Add ones of X's shape."""
    if edit.opset < 9:
        raise NoExactForm("x^0 becomes ConstantOfShape, which came with opset 9")
    shape = edit.add("Shape", [node.input[0]])
    one = onnx.numpy_helper.from_array(np.ones(1, dtype_named(str(value.type))))
    edit.add("ConstantOfShape", [shape], output=node.output[0], like=node, value=one)


# --- the way back ---------------------------------------------------------------------------------


def _fold(node: NodeProto, edit: Editor) -> None:
    """Add a Pow where its bits are those of the node; any other node as it is."""
    x = edit.value_info.value(node.input[0])
    row_takes = x.type in ("float16", "float32", "float64") or (
        edit.opset >= 12 and x.type in ("int32", "int64")
    )
    exponent: float | None = None
    if node.op_type == "Mul" and node.input[0] == node.input[1]:
        exponent = 2
    elif node.op_type == "Reciprocal":
        exponent = -1
    elif node.op_type == "Sqrt" and _is_never_negative(node.input[0], edit):
        exponent = 0.5
    if exponent is None or not row_takes:
        return edit.keep(node)
    made: Array = np.array(exponent).astype(dtype_named(str(x.type)))
    edit.note(f"becomes x^{exponent:g}")
    edit.add("Pow", [node.input[0], edit.constant(made, "exponent")], output=node.output[0], like=node)
    return None


def _is_never_negative(name: str, edit: Editor) -> bool:
    """Tell whether a value is the result of an operator that gives no number below 0 and no -0, or a mean of such."""
    maker = edit.maker(name)
    while maker is not None and maker.op_type in ("ReduceMean", "ReduceSum", "Identity"):
        maker = edit.maker(maker.input[0])
    if maker is None:
        return False
    if maker.op_type == "Pow":
        exponent = exponent_of(maker, edit)
        return exponent is not None and exponent % 2 == 0
    if maker.op_type == "Add":
        others = [(edit.value_info.array(a), b) for a, b in (maker.input, maker.input[::-1])]
        return any(
            array is not None and bool((array > 0).all()) and _is_never_negative(b, edit)
            for array, b in others
        )
    return maker.op_type in _NOT_NEGATIVE or (maker.op_type == "Mul" and maker.input[0] == maker.input[1])
