"""Where a power or a PRelu leaves an element type: thresholds of constant exponents, and shares of data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isfinite

import ml_dtypes
import numpy as np

from halfulp.models.graph import Array
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import pow

JUDGED = ("float32", "float16", "bfloat16")
"""The element types that networks are converted to."""

_PIECE = 1 << 20  # elements that are processed at once


@dataclass(frozen=True)
class Limits:
    """The magnitudes of x beyond which x^exponent leaves a type; None if it stays in the type for every x."""

    overflow: float | None  # the result is infinite above it, or below it where the exponent is negative
    zero: float | None  # the result is zero below it, or above it where the exponent is negative


@cache
def limits(exponent: float, type: str) -> Limits:
    """Return where powers with an exponent other than 0 leave a type of floats.

    It is found by bisection over the type's numbers with exact powers.
    """
    dtype = dtype_named(type)
    words = np.dtype(f"u{dtype.itemsize}")
    greatest = int(np.array(ml_dtypes.finfo(dtype).max, dtype).view(words))  # type: ignore[no-untyped-call]
    with np.errstate(over="ignore"):
        power = np.array(exponent).astype(dtype)

    def number(bits: int) -> Array:
        return np.array(bits, words).view(dtype)

    def edge(holds: Callable[[float], bool], *, before: bool = False) -> float | None:
        """Return the least number whose power meets a condition that those of greater ones meet; or the one before."""
        place = bisect_left(
            range(1, greatest + 1), True, key=lambda bits: holds(float(pow(number(bits), power)))
        )
        return None if place in (0, greatest) else float(number(place if before else place + 1))

    with np.errstate(all="ignore"):
        if exponent > 0:
            return Limits(
                edge(lambda power: not isfinite(power), before=True), edge(lambda power: power != 0)
            )
        return Limits(edge(isfinite), edge(lambda power: power == 0, before=True))


@dataclass
class Range:
    """A tensor's elements over all samples: counts by kind, and the magnitudes of finite ones other than 0."""

    elements: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    least: float = np.inf
    greatest: float = 0.0

    def add(self, array: Array) -> None:
        """Add an array to the counts."""
        flat = array.reshape(-1)
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE].astype(np.float64)
            magnitudes = np.abs(piece)
            numbers = magnitudes[np.isfinite(piece) & (piece != 0)]
            self.elements += piece.size
            self.nan += int(np.isnan(piece).sum())
            self.infinite += int(np.isinf(piece).sum())
            self.zeros += int((piece == 0).sum())
            if numbers.size:
                self.least = min(self.least, float(numbers.min()))
                self.greatest = max(self.greatest, float(numbers.max()))


@dataclass
class InType:
    """The number of a node's results that are lost in an element type."""

    elements: int = 0  # the results that are finite in the wider type
    overflow: int = 0  # those of them that are infinite, or NaN, in this one
    zero: int = 0  # those other than 0 that become 0

    def add(self, wide: Array, narrow: Array) -> None:
        """Add a node's results to the counts."""
        for start in range(0, wide.size, _PIECE):
            right, found = (each.reshape(-1)[start : start + _PIECE].astype(float) for each in (wide, narrow))
            finite = np.isfinite(right)
            self.elements += int(finite.sum())
            self.overflow += int((finite & ~np.isfinite(found)).sum())
            self.zero += int((finite & (right != 0) & (found == 0)).sum())


def judged(type: str | None) -> tuple[str, ...]:
    """Return the types that a node is judged in: its own, if that is a short type, and shorter ones."""
    shorter = {"float64": JUDGED, "float32": JUDGED[1:]}
    return shorter.get(type or "", (type,) if type in JUDGED else ())
