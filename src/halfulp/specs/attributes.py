"""The types that attributes have in the documents, and the check of a value against each.

A checker takes a value as a caller gives it and returns it in the one form that the rest of the
code sees; it raises BadValue where the document's type does not admit the value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from halfulp.types import TYPES, type_name


class BadValue(Exception):
    """A value that is not of an attribute's type; the message says what was expected."""


class ScaleBias(NamedTuple):
    """DirectML's DML_SCALE_BIAS: two FLOATs."""

    Scale: float
    Bias: float


def _int(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise BadValue("an INT") from None


def _ints(value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadValue("INTS: a sequence of integers")
    try:
        return tuple(map(_int, value))
    except BadValue:
        raise BadValue("INTS: a sequence of integers") from None


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise BadValue("a string")
    return value


def _float(value: Any) -> float:
    """Return a number rounded once to float32, as a Python float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number or (isinstance(value, np.generic) and type_name(value.dtype) in TYPES)):
        raise BadValue("a FLOAT: one number")
    if isinstance(value, int | np.integer):
        value = _shortened(int(value))
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    if math.isinf(rounded) and not math.isinf(value):
        raise BadValue("a FLOAT: a number within the range of float32")
    return rounded


def _shortened(value: int) -> float:
    """Return a float64 that rounds to the same float32 as the integer does.

    A long integer rounded to float64 and then to float32 would be rounded twice. Its leading 40
    bits, the last of them set if anything was cut off, round as the whole does.
    """
    magnitude = abs(value)
    cut = max(magnitude.bit_length() - 40, 0)
    sticky = bool(magnitude & ((1 << cut) - 1))
    try:
        shortened = math.ldexp(float((magnitude >> cut) | sticky), cut)
    except OverflowError:
        raise BadValue("a FLOAT: a number within the range of float32") from None
    return math.copysign(shortened, value)


def _scale_bias(value: Any) -> ScaleBias:
    expected = "a pair (Scale, Bias) of FLOATs, a mapping with the keys Scale and Bias, or None"
    if isinstance(value, Mapping):
        if set(value) != {"Scale", "Bias"}:
            raise BadValue(expected)
        value = (value["Scale"], value["Bias"])
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadValue(expected)
    parts = tuple(value)
    if len(parts) != 2:
        raise BadValue(expected)
    try:
        return ScaleBias(*map(_float, parts))
    except BadValue:
        raise BadValue(expected) from None


CHECKERS: dict[str, Callable[[Any], Any]] = {
    "INT": _int,
    "INTS": _ints,
    "string": _string,
    "FLOAT": _float,
    "DML_SCALE_BIAS": _scale_bias,
}
