"""What a document leaves open, narrowed to what one node can touch: by types, shapes, attributes, constants.

Each question of a row has its test here, by its key; a test proves that none is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from halfulp.auditing.constant import holds_only, integral, number
from halfulp.auditing.node import Operand, Use
from halfulp.models.graph import Array
from halfulp.specs import Unspecified
from halfulp.types import TYPES


@dataclass(frozen=True)
class Open:
    """A question that a node touches, and how it does so."""

    question: Unspecified
    where: str


def touched(use: Use) -> tuple[Open, ...]:
    """Return the questions of a node's row that the node can touch, in the row's order."""
    facts = _Facts(use)
    found = ((question, _TESTS[question.key](facts)) for question in use.row.unspecified)
    return tuple(Open(question, where) for question, where in found if where is not None)


class _Facts:
    """What the tests ask of a node."""

    def __init__(self, use: Use) -> None:
        self.use = use
        self.x = use.inputs[0] if use.inputs else Operand("")
        self.y = use.inputs[1] if len(use.inputs) > 1 else None
        self.attributes = use.attributes
        self.type = self.x.type

    def is_kind(self, *kinds: str) -> bool:
        """Tell whether the base may be of one of these kinds of types."""
        return _is_kind(self.type, kinds)

    @property
    def floating(self) -> bool:
        return self.is_kind("float")

    @property
    def named(self) -> str:
        return self.type or "a type that is not known"

    @property
    def second(self) -> Array | None:
        """The values of the exponent or slope, where they are known: as float64, or as integers."""
        return self.use.second.values

    @property
    def exponent(self) -> str:
        return self.use.second.text or "?"

    def second_is_kind(self, *kinds: str) -> bool:
        """Tell whether the exponent's type may be of one of these kinds."""
        if self.y is None:
            return "float" in kinds
        return _is_kind(self.y.type, kinds)

    def rank_of_second(self) -> int | None:
        return None if self.y is None or self.y.shape is None else len(self.y.shape)

    def may_have_one_element(self) -> bool:
        assert self.y is not None
        return self.y.shape is None or all(dim in (1, None) or isinstance(dim, str) for dim in self.y.shape)


def _is_kind(type: str | None, kinds: tuple[str, ...]) -> bool:
    return type is None or (type in TYPES and TYPES[type].kind in kinds)


# --- Pow ------------------------------------------------------------------------------------------


def _rounding(f: _Facts) -> str | None:
    # x^0 and x^1 are exact, unless a scale and a bias come before.
    if not f.floating or (holds_only(f.second, 0, 1) and f.attributes.get("ScaleBias") is None):
        return None
    return f"powers in {f.named}" if f.second is None else f"{f.named} to the power of {f.exponent}"


def _special_values(f: _Facts) -> str | None:
    if not f.floating:
        return None
    if f.second is None:
        return "zeros, infinities, NaN and negative bases"
    if holds_only(f.second, 0):
        return "x^0, of a NaN too"
    if not np.isfinite(f.second).all():
        return f"an exponent of {f.exponent}"
    if integral(f.second).all():
        return "a base of zero, infinity or NaN"
    return f"a base of zero, infinity or NaN, and a negative one to the power of {f.exponent}"


def _nan(f: _Facts) -> str | None:
    return None if not f.floating or holds_only(f.second, 0) else "every NaN"


def _integer_overflow(f: _Facts) -> str | None:
    if not f.is_kind("int", "uint") or not f.second_is_kind("int", "uint"):
        return None
    if f.second is not None:
        if f.second.dtype.kind not in "iu" or not (f.second > 1).any():
            return None
        return f"{f.named} to the power of {f.exponent}"
    return f"a power that {f.named} does not hold"


def _integer_base(f: _Facts) -> str | None:
    if not f.is_kind("int", "uint") or not f.second_is_kind("int", "float"):
        return None
    if f.second is None:
        floats = f.second_is_kind("float")
        return f"{f.named} to a power that is {'no integer, or ' if floats else ''}below 0"
    if f.second.dtype.kind in "iu" and not (f.second < 0).any():
        return None
    return f"{f.named} to the power of {f.exponent}"


def _environment(f: _Facts) -> str | None:
    return "every result"


def _negative_axis(f: _Facts) -> str | None:
    axis = f.attributes.get("axis")
    return f"axis={axis}" if isinstance(axis, int) and axis < 0 else None


def _axis_alone(f: _Facts) -> str | None:
    if f.attributes.get("axis") is None or f.attributes.get("broadcast", 0):
        return None
    return f"axis={f.attributes['axis']} without broadcast=1"


def _axis_of_one(f: _Facts) -> str | None:
    if f.attributes.get("axis") is None or not f.attributes.get("broadcast", 0):
        return None
    if f.y is None or not f.may_have_one_element():
        return None
    return f"axis={f.attributes['axis']} and a Y of {f.y}"


def _differing_shapes(f: _Facts) -> str | None:
    if f.attributes.get("broadcast", 0) or f.y is None:
        return None
    known = all(operand.shape is not None and None not in operand.shape for operand in (f.x, f.y))
    if known and f.x.shape == f.y.shape:
        return None
    return f"{f.x} and {f.y} without broadcast=1"


def _odd_broadcast(f: _Facts) -> str | None:
    broadcast = f.attributes.get("broadcast", 0)
    return None if broadcast in (0, 1) else f"broadcast={broadcast}"


# --- PRelu ----------------------------------------------------------------------------------------


def _prelu_zero_and_nan(f: _Facts) -> str | None:
    return "an X of zero or NaN" if f.floating else None


def _prelu_rounding(f: _Facts) -> str | None:
    if not f.floating or holds_only(f.second, 0, 1, -1):
        return None
    return f"products in {f.named}" if f.second is None else f"{f.named} times {f.exponent}"


def _prelu_integer(f: _Facts) -> str | None:
    if not f.is_kind("int", "uint") or (not f.is_kind("uint") and holds_only(f.second, 0, 1)):
        return None
    return f"products in {f.named}"


def _long_slope(f: _Facts) -> str | None:
    rank = f.rank_of_second()
    if f.y is None or rank not in (None, 1) or f.y.shape == (1,):
        return None
    return f"a slope of {f.y}"


def _high_slope(f: _Facts) -> str | None:
    rank = f.rank_of_second()
    return f"a slope of {f.y}" if rank is None or rank >= 2 else None


def _one_slope(f: _Facts) -> str | None:
    return f"a slope of {f.y}" if f.y is not None and f.may_have_one_element() else None


def _shape_of_y(f: _Facts) -> str | None:
    return f"an X of {f.x}"


def _higher_slope(f: _Facts) -> str | None:
    if f.y is None or f.rank_of_second() is None:
        return "a slope whose rank is not known"
    if f.x.shape is None:
        return "an X whose rank is not known" if f.rank_of_second() else None
    return f"a slope of {f.y}" if len(f.y.shape or ()) > len(f.x.shape) else None


# --- OpenVINO and DirectML ------------------------------------------------------------------------


def _auto_broadcast(f: _Facts) -> str | None:
    rule = f.attributes.get("auto_broadcast", "numpy")
    return None if rule in ("none", "numpy") else f"auto_broadcast={rule}"


def _which_types(f: _Facts) -> str | None:
    usual = f.type in TYPES and TYPES[str(f.type)].bits >= (16 if f.floating else 8)
    return None if usual else f"operands in {f.named}"


def _negative_base(f: _Facts) -> str | None:
    scaled = f.attributes.get("ScaleBias") is not None
    if (not f.is_kind("float", "int") and not scaled) or not f.second_is_kind("float"):
        return None
    if f.second is not None:
        return None if integral(f.second).all() else f"a negative base to the power of {f.exponent}"
    return "a negative base to a power that is no integer"


def _scale_bias(f: _Facts) -> str | None:
    return None if f.attributes.get("ScaleBias") is None or not f.floating else "ScaleBias is given"


def _scale_bias_integer(f: _Facts) -> str | None:
    if f.attributes.get("ScaleBias") is None or not f.is_kind("int", "uint"):
        return None
    return f"ScaleBias is given with {f.named}"


def _exponent_rounding(f: _Facts) -> str | None:
    numbers = [f.attributes.get("Exponent"), *(f.attributes.get("ScaleBias") or ())]
    with np.errstate(over="ignore"):
        rounded = [n for n in numbers if n is not None and float(np.float32(n)) != n and n == n]
    return f"{number(rounded[0])} is no float32" if rounded else None


def _strides_of_0(f: _Facts) -> str | None:
    return None if f.y is None or f.x.shape == f.y.shape else f"{f.x} and {f.y}"


_TESTS: Mapping[str, Callable[[_Facts], str | None]] = {
    "rounding": _rounding,
    "special-values": _special_values,
    "nan": _nan,
    "integer-overflow": _integer_overflow,
    "integer-base": _integer_base,
    "environment": _environment,
    "negative-axis": _negative_axis,
    "axis-without-broadcast": _axis_alone,
    "axis-of-one-element": _axis_of_one,
    "shapes-without-broadcast": _differing_shapes,
    "other-broadcast": _odd_broadcast,
    "prelu-zero-and-nan": _prelu_zero_and_nan,
    "prelu-rounding": _prelu_rounding,
    "prelu-integer-overflow": _prelu_integer,
    "slope-of-rank-1": _long_slope,
    "slope-of-rank-2": _high_slope,
    "slope-of-one-element": _one_slope,
    "output-shape": _shape_of_y,
    "slope-of-higher-rank": _higher_slope,
    "other-auto-broadcast": _auto_broadcast,
    "supported-types": _which_types,
    "negative-base": _negative_base,
    "scale-bias-rounding": _scale_bias,
    "scale-bias-of-integers": _scale_bias_integer,
    "exponent-not-float32": _exponent_rounding,
    "differing-sizes": _strides_of_0,
    "prelu-nan": _prelu_zero_and_nan,
}
"""By the question's key."""
