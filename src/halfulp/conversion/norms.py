"""Norms that are written out as one operator of ONNX: LayerNormalization-17, RMSNormalization-23."""

from dataclasses import replace

import numpy as np
from onnx import NodeProto

from halfulp.conversion.rules import Answer, Check, Match, Rule, found, parse, rewrite
from halfulp.conversion.walk import Walk
from halfulp.models.onnx.walk import attributes_of
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.tensor import Shape

FUSED = {"LayerNormalization": 17, "RMSNormalization": 23}
"""The operators that norms become, with the first opset that has them."""


def normalizes(match: Match) -> Answer:
    """The means are over the same last dims, which they keep; epsilon is a number, and the type not float64."""
    axes = [_axes(name, match) for name in ("m", "v") if name in match]
    epsilon = match.array("epsilon")
    # The operators compute in float32, which holds their epsilon, too.
    if match.type("x") == "float64" or epsilon is None or epsilon.size != 1:
        return None
    if not axes[0] or axes[0] != [*range(-len(axes[0]), 0)] or any(each != axes[0] for each in axes):
        return None
    return {"axis": axes[0][0], "number": float(epsilon.item())}


def scaled(match: Match) -> Answer:
    """Scale and bias are constants of the dims that are normalized."""
    names = [name for name in ("scale", "bias") if name in match]
    is_right = all(match.array(n) is not None and match.shape(n) == _normalized(match) for n in names)
    return {} if is_right else None


def unscaled(match: Match) -> Answer:
    """The sizes of the dims that are normalized are known: the scale is ones."""
    dims = _normalized(match)
    sizes = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is None or len(sizes) < len(dims):
        return None
    return {"scale": np.ones(sizes, dtype_named(match.type("x")))}


def _normalized(match: Match) -> Shape:
    """Return the dims of X that are normalized."""
    shape = match.shape("x")
    return None if shape is None else shape[match.bound["axis"] :]


def _axes(name: str, match: Match) -> list[int] | None:
    """Return the axes of a ReduceMean, counted from the last; None if it loses its dims, or they are not known."""
    mean, rank = match.maker(name), len(match.shape("x") or ())
    attributes = attributes_of(mean)
    axes = np.asarray(attributes.get("axes") if len(mean.input) < 2 else match.view.array(mean.input[1]))
    if axes.ndim != 1 or not attributes.get("keepdims", 1):
        return None
    return sorted(int(axis) - rank if axis >= 0 else int(axis) for axis in axes)


_PARTS = {
    "square": "Pow(x, 2) | Mul(x, x)",
    "inverse": "Reciprocal(root) | Div(1, root) | Pow(shifted, -0.5)",
    "root": "Sqrt(shifted)",
    "shifted": "Add((v := ReduceMean(square, ...)), epsilon)",
    "norm": "Div(x, root) | Mul(x, inverse)",
}
_LAYER_PARTS = {
    **_PARTS,
    "square": "Pow(d, 2) | Mul(d, d)",
    "norm": "Div(d, root) | Mul(d, inverse)",
    "d": "(deviation := Sub(x, (m := ReduceMean(x, ...))))",
}


def _fuse(operator: str, form: str, check: Check, bias: str = "") -> Rule:
    return Rule(
        form,
        f"{operator}(x, scale{bias}, axis=axis, epsilon=number)",
        (normalizes, check),
        "it computes in float32 and rounds otherwise",
        None,
        FUSED[operator],
        parts={"LayerNormalization": _LAYER_PARTS}.get(operator, _PARTS),
        says=f"a norm becomes {operator}",
    )


FUSE = (
    _fuse("LayerNormalization", "Add(Mul(norm, scale), bias)", scaled, ", bias"),
    _fuse("LayerNormalization", "Mul(norm, scale)", scaled),
    _fuse("LayerNormalization", "norm", unscaled),
    _fuse("RMSNormalization", "Mul(norm, scale)", scaled),
    _fuse("RMSNormalization", "norm", unscaled),
)


def deviates(match: Match) -> Answer:
    """Both means are over the same dims, which they keep, and X minus its mean is computed elsewhere, too."""

    def dims(node: NodeProto) -> object:
        axes = [match.view.array(name) for name in node.input[1:]]
        return [np.asarray(each).tolist() for each in axes], [*node.attribute]

    of_squares, of_x, x, m = match.maker("v"), match.maker("m"), match["x"], match["m"]
    if [of_x.op_type, *of_x.input[:1]] != ["ReduceMean", x]:
        return None
    readers = (each for each in match.view.readers[m] if (each.op_type, *each.input) == ("Sub", x, m))
    deviation = next(readers, None)
    attributes = attributes_of(of_squares)
    if deviation is None or dims(of_x) != dims(of_squares) or not attributes.get("keepdims", 1):
        return None
    return {"d": (parse("Sub(x, m)"), deviation), "attributes": attributes}


VARIANCES = tuple(
    Rule(
        f"Sub((v := ReduceMean(Pow(x, 2) | Mul(x, x){axes})), Pow(m, 2) | Mul(m, m))",
        f"ReduceMean(Mul(d, d){axes}, **attributes)",
        (deviates,),
        "other roundings, and never a negative number",
        None,
        since=1,
        says="its variance, E[x^2] - E[x]^2, is computed of the deviations, E[(x - E[x])^2]",
    )
    for axes in ("", ", axes")
)
"""A difference of two squares is as large as their rounding errors, and may be negative: the norm is then NaN."""


def fuse_norms(walk: Walk, _: str) -> str | None:
    """Replace norms by equivalent single operators, and variances by those of deviations."""
    if rewrite(walk, VARIANCES) + rewrite(walk, FUSE):
        return None
    said = "no norm in it is exactly one operator of its opset"
    newer = [replace(rule, since=1) for rule in FUSE]
    names = sorted({match.rule.becomes.partition("(")[0] for match in found(walk.scopes(), newer)})
    return f"{said}; --opset {max(map(FUSED.__getitem__, names))} has {', '.join(names)}" if names else said
