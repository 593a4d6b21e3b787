"""PRelu and its function body: expanded into Less, Mul and Where, or folded back from them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.conversion.editor import Change, Editor, NoExactForm
from halfulp.conversion.opset import finish, opset_of
from halfulp.conversion.walk import Walk, check_node
from halfulp.errors import HalfulpError
from halfulp.models.graph import Value
from halfulp.models.onnx.walk import plain_domain
from halfulp.specs import in_force
from halfulp.specs.broadcast import UNIDIRECTIONAL, Mismatch

How = Literal["expand", "fold"]

_OLDEST = 9  # the first opset with Where
_SIGN = "a product that is a NaN may have another sign bit"


def body(
    model: ModelProto, how: How, file: str, folder: Path | None, walk: Walk | None = None
) -> list[Change]:
    """Expand every PRelu of a model in place, or fold every body of one; return what was done.

    Args:
        model: one that the front end accepts, in opset 9 or later.
        how: ``expand`` or ``fold``.
        file: its name in messages.
        folder: where its external data lies.
        walk: the walk to do it in, if there is one that has changed nothing yet.

    Raises:
        UnsupportedError: a PRelu in an older opset, or of a type that is not known.
    """
    if how not in ("expand", "fold"):
        raise HalfulpError("prelu can be expanded or folded", expected="expand or fold", got=how)
    opset_of(model, file)
    walk = walk or Walk(model, file, folder)
    for owner, opset in walk.owners:
        if how == "expand":

            def rewrite(node: NodeProto, edit: Editor, opset: int = opset) -> None:
                check_node(node, opset, edit.value_info)
                expand(node, edit)

            walk.rewrite(owner, opset, lambda node: node.op_type == "PRelu", rewrite, f"opset {opset}")
        else:
            walk.rewrite(owner, opset, lambda node: node.op_type == "Where", _fold, f"opset {opset}")
    return finish(walk)


def expand(node: NodeProto, edit: Editor) -> None:
    """Add the function body of a PRelu: ``Where(Less(X, 0), Mul(slope, X), X)``."""
    x, slope = node.input
    value = edit.value_info.value(x)
    if edit.opset < _OLDEST:
        raise NoExactForm(f"the function body of PRelu needs opset {_OLDEST} or later")
    if value.type is None:
        raise NoExactForm("the type of X is not known")
    edit.note("becomes its function body", None if "int" in value.type else _SIGN)
    from halfulp.models.run.inputs import dtype_named

    zero = edit.constant(np.zeros((), dtype_named(value.type)), "zero")
    below = edit.add("Less", [x, zero], Value("", "bool", value.shape))
    product = edit.add("Mul", [slope, x], value)
    edit.add("Where", [below, product, x], output=node.output[0], like=node)


def _fold(node: NodeProto, edit: Editor) -> None:
    """Add a PRelu instead of a Where that ends its body; any other Where as it is."""
    condition, product, x = node.input
    less, mul = _maker("Less", condition, edit), _maker("Mul", product, edit)
    slope = None if less is None or mul is None else _slope(less, mul, x, edit)
    if less is None or mul is None or slope is None or not _fits(x, slope, edit):
        return edit.keep(node)
    if edit.reads[condition] > 1 or edit.reads[product] > 1:
        return edit.keep(node)
    edit.drop(less, mul)
    like = _maker("CastLike", less.input[1], edit)
    if like is not None and edit.reads[less.input[1]] == 1:
        edit.drop(like)
    is_int = "int" in (edit.value_info.value(x).type or "")
    edit.note(
        "and the Less and Mul before it are PRelu's function body, and become PRelu",
        None if is_int else _SIGN,
    )
    edit.add("PRelu", [x, slope], output=node.output[0], like=node)
    return None


def _maker(op_type: str, name: str, edit: Editor) -> NodeProto | None:
    """Return the node that makes a value, if it is one of this operator of ONNX."""
    node = edit.maker(name)
    return node if node is not None and node.op_type == op_type and not plain_domain(node.domain) else None


def _slope(less: NodeProto, mul: NodeProto, x: str, edit: Editor) -> str | None:
    """Return the slope, where the two nodes are those of a PRelu of x."""
    others = [name for name in mul.input if name != x]
    if less.input[0] != x or x not in mul.input or not _is_zero(less.input[1], x, edit):
        return None
    slope: str = others[0] if others else x
    return slope


def _is_zero(name: str, x: str, edit: Editor) -> bool:
    like = _maker("CastLike", name, edit)
    if like is not None:
        name = like.input[0]
    array, shape = edit.value_info.array(name), edit.value_info.value(x).shape
    return array is not None and array.size == 1 and array.ndim <= len(shape or ()) and not array.any()


def _fits(x: str, slope: str, edit: Editor) -> bool:
    """Tell whether a PRelu of this opset takes these two, whatever dims that are not known turn out to be."""
    a, b = edit.value_info.value(x), edit.value_info.value(slope)
    if a.type is None or a.shape is None or b.shape is None:
        return False
    row = in_force("onnx", "PRelu", edit.opset)
    lead = len(a.shape) - len(b.shape)
    try:
        UNIDIRECTIONAL.infer(a.shape, b.shape, {})
    except Mismatch:
        return False
    pairs = zip(a.shape[lead:], b.shape, strict=True)
    certain = all(dim == 1 or (dim is not None and dim == own) for own, dim in pairs)
    return certain and a.type in row.type_variables["T"]
