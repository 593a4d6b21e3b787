"""Grades of faults, by how ordinary the operands are that show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.floats import float_type, is_float
from halfulp.types import element_type

GRADES = {
    "support": "valid models are refused, or invalid ones taken",
    "reproducibility": "only bits that depend on surroundings",
    "zero-signs": "only signs of zeros",
    "subnormals": "only subnormal numbers, such as those that are flushed to zero",
    "exponents": "only exponents beyond 2^53",
    "nan": "only NaN operands or results",
    "edges": "zeros, infinities, and numbers near overflow or underflow",
    "ordinary": "ordinary values",
}
"""The grades of faults, the least first. A crash, a hang or an output of a wrong type has the grade ordinary."""

_PLACES = {name: place for place, name in enumerate(GRADES)}


def worst(grades: Sequence[str | None]) -> str | None:
    """Return the worst of some grades; None if there are none."""
    return max((grade for grade in grades if grade is not None), key=_PLACES.__getitem__, default=None)


def at_least(grade: str | None, least: str) -> bool:
    """Return whether a fault is as grave as a grade. One of an older document, without a grade, is."""
    return grade is None or _PLACES[grade] >= _PLACES[least]


def grades_of(operands: Sequence[Array], expected: Array, got: Array, *, is_power: bool) -> Array:
    """Return the grade of each element that is wrong, as an array of str; operands have the output's shape."""
    with np.errstate(all="ignore"):
        numbers = [array.astype(np.float64) for array in operands]
        right = expected.astype(np.float64)
        found = np.full(expected.shape, "ordinary", "<U15")
        if is_float(expected):
            facts = float_type(element_type(expected.dtype).name)
            big, small = 2.0 ** (facts.greatest_exponent - 1), _least_normal(expected)
            found[(np.abs(right) >= big) | (np.abs(right) <= 2 * small)] = "edges"
        for array, number in zip(operands, numbers, strict=True):
            if is_float(array):
                found[~np.isfinite(number) | (number == 0)] = "edges"
        if is_power:
            found[np.isfinite(numbers[-1]) & (np.abs(numbers[-1]) > 2.0**53)] = "exponents"
        if is_float(expected):
            # A result that rounds up to the least normal number was subnormal before.
            found[(right != 0) & (np.abs(right) <= _least_normal(expected))] = "subnormals"
        for number in (*numbers, right):
            found[np.isnan(number)] = "nan"
        for array, number in zip(operands, numbers, strict=True):
            if is_float(array):
                found[(number != 0) & (np.abs(number) < _least_normal(array))] = "subnormals"
        if is_float(expected):
            found[(right == 0) & (got.astype(np.float64) == 0)] = "zero-signs"
    return found


def _least_normal(array: Array) -> float:
    facts = float_type(element_type(array.dtype).name)
    return float(2.0 ** (facts.least_exponent + facts.digits - 1))
