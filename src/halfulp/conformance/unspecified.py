"""What of a case its document leaves open, by the row's ``unspecified``.

``specs/unspecified.py`` says which questions concern a case as a whole. The functions here say which elements the other
questions concern. Roundings are judged by the exact value and special values by IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast
from halfulp.conformance.floats import float_type, integer_range, is_float, is_nan
from halfulp.operators import pow as exact_pow
from halfulp.specs import TensorType
from halfulp.specs import unspecified as keys
from halfulp.specs.unspecified import QUESTIONS, Node
from halfulp.types import element_type


class UnspecifiedOutput(NamedTuple):
    """What a document leaves open of a case's output.

    Attributes:
        elements: for each element of the output whether it is open.
        zero_signs: for each element whether the sign of a zero is open.
        whole: whether everything is: even that there is an output.
        refusal: whether the case may be refused, though its output is judged if there is one.
        question: what is open, with its place in the row: ``"onnx.Pow-15.U4: An integer result ..."``.
    """

    elements: Array
    zero_signs: Array
    whole: bool
    refusal: bool
    question: str


@np.errstate(invalid="ignore")  # signalling NaNs
def unspecified(case: Case) -> UnspecifiedOutput | None:
    """Return what the document leaves open of a case; None where that is nothing."""
    operands = [TensorType(*operand) for operand in zip(case.types, case.shapes, strict=True)]
    node = Node(operands[0], operands[1] if len(operands) == 2 else None, case.attributes)
    asked = {
        entry.key: f"{case.row.id}.U{number}: {entry.question}"
        for number, entry in enumerate(case.row.unspecified, start=1)
    }
    for key, question in asked.items():
        if QUESTIONS[key].concerns(node, "all"):
            nothing = np.zeros((), bool)
            return UnspecifiedOutput(nothing, nothing, True, True, question)
    if case.clause is not None:
        return None
    x, *rest = broadcast(case)
    # An operator of one input has its exponent as an attribute.
    y = rest[0] if rest else np.broadcast_to(np.float32(case.attributes["Exponent"]), x.shape)
    elements, zero_signs = np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    refusal, first = False, None
    for key, question in asked.items():
        if QUESTIONS[key].concerns(node, "refusal"):
            refusal, first = True, first or question
        for table, mask in ((ELEMENTS, elements), (ZERO_SIGNS, zero_signs)):
            if key in table:
                found = table[key](case, x, y)
                mask |= found
                first = first or (question if found.any() else None)
    return None if first is None else UnspecifiedOutput(elements, zero_signs, False, refusal, first)


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


Elements = Callable[[Case, Array, Array], Array]

ELEMENTS: Mapping[str, Elements] = {
    keys.ROUNDING.key: _beyond_the_range,
    keys.INTEGER_OVERFLOW.key: _integer_overflow,
    keys.INTEGER_BASE.key: _integer_base,
    keys.PRELU_ZERO_AND_NAN.key: _prelu_nan,
    keys.PRELU_ROUNDING.key: _beyond_the_range,
    keys.PRELU_INTEGER.key: _prelu_overflow,
    "negative-base": _negative_base,
    "prelu-nan": _prelu_nan,
}
"""Which elements of an output are open, by the question's key."""

ZERO_SIGNS: Mapping[str, Elements] = {keys.PRELU_ZERO_AND_NAN.key: _prelu_zero}
"""Of which elements the sign is open, where they are zeros."""
