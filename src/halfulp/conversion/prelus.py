"""PRelu in other operators, and back: each form that converters write is a row."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Editor, NoExactForm
from halfulp.conversion.rules import DIFFERS, Answer, Check, Match, Rule, written
from halfulp.models.graph import Array
from halfulp.models.onnx.walk import attributes_of
from halfulp.models.run.inputs import dtype_named
from halfulp.specs import in_force
from halfulp.specs.broadcast import UNIDIRECTIONAL

NAN = "a product that is a NaN may have another sign bit"
ZERO = "a zero may have another sign"
_INFINITE = "a slope that is infinite or NaN {} NaN where X is not negative"
_TWICE = f"{ZERO}; X = inf gave NaN, and a product near the limits of the type was rounded twice"


def fits(match: Match) -> Answer:
    """A PRelu of the opset takes these operands, for all sizes of their unknown dims."""
    x, slope = match.shape("x"), match.shape("slope")
    if (
        match.type("x") not in in_force("onnx", "PRelu", match.view.opset).type_variables["T"]
        or slope is None
    ):
        return None
    if x is None:
        return {} if slope == () else None
    pairs = zip(reversed(x), reversed(slope), strict=False)
    is_sure = UNIDIRECTIONAL.fits(x, slope) and all(b == 1 or (b == a is not None) for a, b in pairs)
    return {} if is_sure else None


def finite(match: Match) -> Answer:
    """No slope is infinite or NaN. If the slopes are not known, the change says what an infinite one gave."""
    slope = match.array("slope")
    if slope is None:
        return {DIFFERS: _INFINITE.format("gave")}
    return {} if _is_finite(slope) else None


def not_below_0(match: Match) -> Answer:
    """The slopes are finite and have no sign. If X is a zero, the product is that zero."""
    slope = match.array("slope")
    return {} if slope is not None and _is_finite(slope) and not np.signbit(slope).any() else None


def from_0_to_1(match: Match) -> Answer:
    """The slopes are constants from 0 to 1, so that PRelu is the maximum of X and the product."""
    slope = match.array("slope")
    if slope is None or not ((slope >= 0) & (slope <= 1)).all():
        return None
    return {} if slope.all() else {DIFFERS: "at +inf a slope of 0 gave NaN"}


def negated(match: Match) -> Answer:
    """The constant is a finite slope with the other sign."""
    slope = match.array("minus_slope")
    return {"slope": -slope} if slope is not None and _is_finite(slope) else None


def alpha(match: Match) -> Answer:
    """The slope is LeakyRelu's attribute."""
    kind = match.type("x")
    if "float" not in kind:
        return None
    given = np.float32(attributes_of(match.root).get("alpha", 0.01))
    slope = np.array(given.astype(dtype_named(kind)))
    is_rounded = float(slope) != float(given)
    return {"slope": slope} | ({DIFFERS: f"alpha is rounded to {kind}"} if is_rounded else {})


def computed(match: Match) -> Answer:
    """Nodes compute the slope of constants, which some importers do not do."""
    maker, slope = match.maker("slope"), match.array("slope")
    is_node = maker is not None and maker.op_type not in ("Constant", "DequantizeLinear")
    return {"stored": slope} if is_node and slope is not None else None


def of_type(*words: str) -> Check:
    """Return a check that the element type begins with one of these words."""
    return lambda match: {} if (match.type("x") or match.type("slope")).startswith(words) else None


def may_be_infinite(match: Match) -> Answer:
    """The change says what an infinite slope gives, unless all slopes are known and finite."""
    slope = match.array("slope")
    is_known = slope is not None and _is_finite(slope)
    return {} if is_known else {DIFFERS: _INFINITE.format("gives")}


def in_rank(match: Match) -> Answer:
    """A row of slopes gets the rank of X: OpenVINO makes a PReLU per channel of a sum with one of rank 1."""
    rank, slope = len(match.shape("x") or ()), match.shape("slope")
    is_row = rank > 2 and slope is not None and len(slope) == 1 and slope != (1,)
    return {"lead": range(rank - 1) if is_row else ()}


def per_channel(match: Match) -> Answer:
    """Before opset 7, a slope of rank 1 is one for each channel."""
    rank, slope = len(match.shape("x") or ()), match.shape("slope") or ()
    is_channel = rank > 1 and len(slope) == 1 and slope != (1,)
    return {"axis": 1, "broadcast": 1} if is_channel else {"axis": None, "broadcast": None}


def _is_finite(slope: Array) -> bool:
    return bool(np.isfinite(slope.astype(np.float64)).all())


_PARTS = {
    "product": "Mul(slope, x)",
    "negative": "Less(x, 0) | Not(GreaterOrEqual(x, 0))",
    "not_negative": "GreaterOrEqual(x, 0) | Not(Less(x, 0))",
    "positive": "Greater(x, 0) | Not(LessOrEqual(x, 0))",
    "not_positive": "LessOrEqual(x, 0) | Not(Greater(x, 0))",
    "above": "Relu(x) | Max(x, 0)",
    "below": "Min(x, 0) | Neg(opposite)",
    "opposite": "Relu(Neg(x)) | Max(Neg(x), 0)",  # -min(x, 0)
    "twice": "Sub(x, Abs(x))",  # 2 min(x, 0)
    "halved": "Mul(Mul(slope, twice), 0.5) | Mul(slope, Mul(twice, 0.5)) | Mul(Mul(slope, 0.5), twice)"
    " | Div(Mul(slope, twice), 2)",
}


def _fold(form: str, *checks: Check, differs: str) -> Rule:
    return Rule(form, "PRelu(x, slope)", (*checks, fits), differs, ulps=2, parts=_PARTS)


FOLD = (
    _fold("Where(negative, product, x) | Where(not_negative, x, product)", differs=NAN),
    _fold("Where(positive, x, product) | Where(not_positive, product, x)", not_below_0, differs=NAN),
    _fold("Where(positive, x, product) | Where(not_positive, product, x)", finite, differs=ZERO),
    _fold("Add(above, halved)", finite, differs=_TWICE),
    _fold("Add(above, Mul(slope, below))", finite, differs=ZERO),
    _fold("Sub(above, Mul(slope, opposite))", finite, differs=ZERO),
    _fold("Add(above, Neg(Mul(slope, opposite)))", finite, differs=ZERO),
    _fold("Add(above, Mul(Neg(slope), opposite))", finite, differs=ZERO),
    _fold("Sub(above, Mul(Neg(slope), below))", finite, differs=ZERO),
    _fold("Add(above, Mul(minus_slope, opposite))", negated, differs=ZERO),
    _fold("Max(x, product)", from_0_to_1, differs=NAN),
    _fold("LeakyRelu(x)", alpha, differs=NAN),
    Rule(
        "PRelu(x, slope)", "PRelu(x, stored)", (computed,), says="the slope, computed of constants, is stored"
    ),
)
"""The forms that become PRelu. A new one is a row."""

_WHERE = "Where(Less(x, 0), Mul(slope, x), x)"
_SUM = "Add(Relu(x), Mul(Neg(Relu(Neg(x))), {}))"
_BY_SUM = f"PRelu(x, slope) becomes {_SUM.format('slope')}"


def _expand(becomes: str, *checks: Check, differs: str | None = None, **more: Any) -> Rule:
    return Rule("PRelu(x, slope)", becomes, checks, differs, **more)


EXPAND = (
    _expand(_WHERE, of_type("int", "float", "bfloat"), differs=NAN, since=9),
    _expand("x", of_type("uint"), since=1, says="X is never below 0, and is the result"),
    _expand(
        _SUM.format("Unsqueeze(slope, axes=lead)"),
        in_rank,
        may_be_infinite,
        differs=ZERO,
        until=8,
        says=_BY_SUM,
    ),
    _expand(
        _SUM.format("slope, axis=axis, broadcast=broadcast"),
        per_channel,
        may_be_infinite,
        differs=ZERO,
        since=1,
        until=6,
        says=_BY_SUM,
    ),
)
"""Rows for the types and opsets of PRelu, into operators that every runtime has."""

BEFORE_9 = (
    EXPAND[1],
    _expand(
        "Add(x, Mul(Sub(Mul(x, slope), x), Cast(Less(Cast(x, to=wide), 0), to=kind)))",  # float64 keeps the sign
        lambda match: {"wide": "float64", "kind": match.type("x")},
        since=1,
        says="PRelu takes no {kind} before opset 9: x + (x < 0) * (slope * x - x), which is the same",
    ),
)
"""PRelu of integers in opsets whose PRelu takes floats only."""

BY_RELU = (
    replace(EXPAND[2], checks=(of_type("float", "bfloat"), *EXPAND[2].checks), until=math.inf),
    *EXPAND,
)
"""The same without comparisons."""


def why_it_stays(node: NodeProto, edit: Editor) -> None:
    """Give a notice about a form that is not folded because the rank of X is not known."""
    for rule in FOLD:
        match = None if fits not in rule.checks else replace(rule, checks=rule.checks[:-1]).match(node, edit)
        if match is not None and match.shape("x") is None:
            why = "the rank of X is not known, and a PRelu takes no slope of more dims; declare it in value_info"
            return edit.note(f"stays {written(match)}: {why}", is_notice=True)
    return None


def refuse(node: NodeProto, edit: Editor) -> None:
    """Refuse a PRelu that no row expands."""
    raise NoExactForm(f"the type of its input {node.input[0]!r} is not known")
