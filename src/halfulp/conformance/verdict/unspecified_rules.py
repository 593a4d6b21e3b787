"""The questions that rows leave open under ``unspecified``, and what of a case each concerns.

The table RULES has an entry for the key of every question of every row; a test asks for it. The entry says what of a
case is open. It is None where halfulp judges all the same: roundings by the exact value, special values by IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.floats import float_type, integer_range, is_float, is_nan
from halfulp.operators import pow as exact_pow
from halfulp.specs import unspecified
from halfulp.types import TYPES, element_type


class Rule(NamedTuple):
    """What an open question concerns.

    Attributes:
        elements: which elements of the output, by their operands.
        zero_signs: of which elements the sign, where they are zeros.
        whole: whether the whole case: even that there is an output.
        refusal: whether it is open that the case may be refused; what comes out if it is not is judged.
    """

    elements: Callable[[Case, Array, Array], Array] | None = None
    zero_signs: Callable[[Case, Array, Array], Array] | None = None
    whole: Callable[[Case], bool] | None = None
    refusal: Callable[[Case], bool] | None = None


# --- integer results -----------------------------------------------------------------------------


def _integer_overflow(case: Case, x: Array, y: Array) -> Array:
    return np.zeros(x.shape, bool) if is_float(x) or is_float(y) else _inexact(x, y) & (y >= 0)


def _integer_base(case: Case, x: Array, y: Array) -> Array:
    if is_float(x):
        return np.zeros(x.shape, bool)
    return _inexact(x, y) if is_float(y) else _inexact(x, y) & (y < 0)


def _inexact(x: Array, y: Array) -> Array:
    """Where the real power is no integer that the type of x holds."""
    least, largest = integer_range(element_type(x.dtype).name)
    wide = np.float64 if is_float(y) else np.uint64 if element_type(y.dtype).kind == "uint" else np.int64
    bases = x.astype(np.uint64 if least == 0 else np.int64).ravel().tolist()
    pairs = list(zip(bases, y.astype(wide).ravel().tolist(), strict=True))
    known = {}
    for pair in set(pairs):
        power = integer_power(*pair)
        known[pair] = power is None or not least <= power <= largest
    return np.array([known[pair] for pair in pairs], bool).reshape(x.shape)


def integer_power(x: int, y: int | float) -> int | None:
    """Return x^y where that is an integer of at most 64 bits, or None."""
    if y == 0 or x == 1:
        return 1
    if math.isnan(y):
        return None
    if math.isinf(y):
        if x in (0, -1):
            return (abs(x) if y > 0 else None) if x == 0 else 1
        return 0 if y < 0 else None
    if x == 0:
        return 0 if y > 0 else None
    numerator, denominator = y.as_integer_ratio()
    if x == -1:
        return (-1) ** (numerator % 2) if denominator == 1 else None
    # A root of it that is an integer: a square root for each factor 2 of the denominator.
    while denominator > 1 and x > 1:
        root = math.isqrt(x)
        if root * root != x:
            return None
        x, denominator = root, denominator // 2
    if denominator > 1 or y < 0 or numerator * (abs(x).bit_length() - 1) > 64:
        return None
    power = int(x**numerator)
    return power if abs(power) < 1 << 64 else None


def _prelu_overflow(case: Case, x: Array, y: Array) -> Array:
    if is_float(x):
        return np.zeros(x.shape, bool)
    least, largest = integer_range(element_type(x.dtype).name)
    products = np.asarray(x.astype(object) * y.astype(object))
    outside = np.asarray((products < least) | (products > largest), bool)
    return np.asarray(outside & (x < 0))


# --- floating results ----------------------------------------------------------------------------


def _beyond_the_range(case: Case, x: Array, y: Array) -> Array:
    """Where a type without infinities, or without zero, has no value for what comes out."""
    if not is_float(x) or float_type(element_type(x.dtype).name).has_infinity:
        return np.zeros(x.shape, bool)
    facts = float_type(element_type(x.dtype).name)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        if case.row.kernel == "prelu":
            real = np.where(wide_x < 0, wide_x * wide_y, wide_x)
        else:
            real = np.asarray(exact_pow(wide_x, wide_y))
        beyond = ~(np.abs(real) < 2.0**facts.greatest_exponent * (1 - 2.0 ** -(facts.digits + 1)))
        if not facts.has_zero:
            beyond |= real < 2.0**facts.least_exponent
    return np.asarray(beyond)


def _prelu_nan(case: Case, x: Array, y: Array) -> Array:
    return is_nan(x)


def _prelu_zero(case: Case, x: Array, y: Array) -> Array:
    return np.asarray(x == 0)


def _negative_base(case: Case, x: Array, y: Array) -> Array:
    if not is_float(y):
        return np.zeros(x.shape, bool)
    wide = x.astype(np.float64)
    odd = (wide == -1) | np.isinf(wide) | np.isinf(y.astype(np.float64))
    return np.asarray((wide < 0) & odd)


# --- whole cases ---------------------------------------------------------------------------------


def _axis(case: Case) -> int | None:
    axis = case.attributes.get("axis")
    return axis if isinstance(axis, int) else None


def _broadcasts(case: Case) -> bool:
    return bool(case.attributes.get("broadcast", 0) == 1)


def _negative_axis(case: Case) -> bool:
    axis = _axis(case)
    return axis is not None and axis < 0 and _broadcasts(case)


def _axis_alone(case: Case) -> bool:
    return _axis(case) is not None and not _broadcasts(case)


def _axis_of_one(case: Case) -> bool:
    return _axis(case) is not None and _broadcasts(case) and case.inputs[1].size == 1


def _differing_shapes(case: Case) -> bool:
    return len(case.inputs) == 2 and case.shapes[0] != case.shapes[1] and not _broadcasts(case)


def _other_broadcast(case: Case) -> bool:
    value = case.attributes.get("broadcast", 0)
    return isinstance(value, int) and value not in (0, 1)


def _slope_1d(case: Case) -> bool:
    # For an X of rank 2 the channels are the last dim, and so every reading is the same.
    if len(case.inputs) != 2:
        return False
    x, slope = case.inputs
    return slope.ndim == 1 and slope.size != 1 and not (x.ndim == 2 and x.shape[1:] == slope.shape)


def _slope_2d(case: Case) -> bool:
    # Of X's very shape, nothing needs to be broadcast.
    if len(case.inputs) != 2:
        return False
    x, slope = case.inputs
    return slope.ndim >= 2 and slope.size != 1 and slope.shape != x.shape


def _one_slope(case: Case) -> bool:
    return len(case.inputs) == 2 and case.inputs[1].size == 1 and case.inputs[1].ndim != 1


def _higher_rank(case: Case) -> bool:
    if len(case.inputs) != 2:
        return False
    x, slope = case.shapes
    return len(slope) > len(x) and set(slope[: len(slope) - len(x)]) == {1}


def _other_auto_broadcast(case: Case) -> bool:
    return case.attributes.get("auto_broadcast") in ("explicit", "pdpd")


def _differing_sizes(case: Case) -> bool:
    return len(case.inputs) == 2 and case.shapes[0] != case.shapes[1]


def _integer_scale(case: Case) -> bool:
    return case.attributes.get("ScaleBias") is not None and not is_float(case.inputs[0])


def _tiny_types(case: Case) -> bool:
    # That all wider ones are numeric nobody doubts.
    rows = (TYPES[name] for name in case.types)
    return any(row.bits < 8 or (row.kind == "float" and row.bits == 8) for row in rows)


RULES: dict[str, Rule | None] = {
    unspecified.ROUNDING.key: Rule(elements=_beyond_the_range),
    unspecified.SPECIAL_VALUES.key: None,
    unspecified.NAN.key: None,  # every NaN equals every other
    unspecified.INTEGER_OVERFLOW.key: Rule(elements=_integer_overflow),
    unspecified.INTEGER_BASE.key: Rule(elements=_integer_base),
    unspecified.ENVIRONMENT.key: None,  # the reproducibility cases say it
    unspecified.PRELU_ZERO_AND_NAN.key: Rule(elements=_prelu_nan, zero_signs=_prelu_zero),
    unspecified.PRELU_ROUNDING.key: Rule(elements=_beyond_the_range),
    unspecified.PRELU_INTEGER.key: Rule(elements=_prelu_overflow),
    "negative-axis": Rule(whole=_negative_axis),
    "axis-without-broadcast": Rule(whole=_axis_alone),
    "axis-of-one-element": Rule(whole=_axis_of_one),
    "shapes-without-broadcast": Rule(whole=_differing_shapes),
    "other-broadcast": Rule(whole=_other_broadcast),
    "slope-of-rank-1": Rule(whole=_slope_1d),
    "slope-of-rank-2": Rule(whole=_slope_2d),
    "slope-of-one-element": Rule(whole=_one_slope),
    "output-shape": None,
    "slope-of-higher-rank": Rule(whole=_higher_rank),
    "other-auto-broadcast": Rule(whole=_other_auto_broadcast),
    "supported-types": Rule(refusal=_tiny_types),
    "differing-sizes": Rule(whole=_differing_sizes),
    "negative-base": Rule(elements=_negative_base),
    "scale-bias-rounding": None,
    "scale-bias-of-integers": Rule(whole=_integer_scale),
    "exponent-not-float32": None,
    "prelu-nan": Rule(elements=_prelu_nan),
}
