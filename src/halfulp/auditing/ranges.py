"""Where a power or a PRelu leaves an element type: thresholds of constant exponents, and shares of data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np

from halfulp.models.graph import Array
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import pow
from halfulp.types import FLOATS

JUDGED = ("float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn")
"""The element types that networks are converted to."""

SHORT = JUDGED[1:2] + JUDGED[3:]
"""The types among them whose exponent range is so small that ordinary data leave it."""

_AT_ONCE = 1 << 15  # numbers of a type whose powers are computed at once
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

    def last(holds: Callable[[Array], Array]) -> int:
        """Return the bits of the greatest number that meets a condition that all smaller ones meet, or 0."""
        low, high = 0, greatest + 1
        while high - low > 1:
            step = max(1, (high - low) // _AT_ONCE)
            bits = np.arange(low + step, high, step, dtype=np.int64)
            with np.errstate(all="ignore"):
                powers = np.asarray(pow(bits.astype(words).view(dtype), power)).astype(np.float64)
            count = int(np.argmin(np.append(holds(powers), False)))
            low, high = low + count * step, min(low + (count + 1) * step, high)
        return low

    def number(bits: int, *, ends: tuple[int, int]) -> float | None:
        return None if bits in ends else float(np.array([bits], words).view(dtype)[0])

    at_end = (0, greatest + 1)
    if exponent > 0:
        below = last(lambda powers: powers == 0)
        overflow = number(last(np.isfinite), ends=(0, greatest))
        return Limits(overflow, number(below + 1 if below else 0, ends=at_end))
    above = last(lambda powers: ~np.isfinite(powers))
    return Limits(
        number(above + 1 if above else 0, ends=at_end),
        number(last(lambda powers: powers != 0), ends=(0, greatest)),
    )


@dataclass
class Range:
    """A tensor's elements over all samples: counts by kind, and the magnitudes of finite ones other than 0."""

    elements: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    subnormal: int = 0
    negative: int = 0
    least: float = np.inf
    greatest: float = 0.0
    _logarithms: float = 0.0  # the sum of those of the magnitudes

    @property
    def typical(self) -> float:
        """The geometric mean of the magnitudes of finite numbers other than 0."""
        numbers = self.elements - self.nan - self.infinite - self.zeros
        return float(np.exp2(self._logarithms / numbers)) if numbers else 0.0

    def add(self, array: Array) -> None:
        """Add an array to the counts."""
        flat = array.reshape(-1)
        is_float = array.dtype.name in FLOATS
        tiny = float(ml_dtypes.finfo(array.dtype).tiny) if is_float else 0.0  # type: ignore[no-untyped-call]
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE].astype(np.float64)
            magnitudes = np.abs(piece)
            numbers = magnitudes[np.isfinite(piece) & (piece != 0)]
            self.elements += piece.size
            self.nan += int(np.isnan(piece).sum())
            self.infinite += int(np.isinf(piece).sum())
            self.zeros += int((piece == 0).sum())
            self.subnormal += int((numbers < tiny).sum())
            self.negative += int((piece < 0).sum())
            if numbers.size:
                self.least = min(self.least, float(numbers.min()))
                self.greatest = max(self.greatest, float(numbers.max()))
                self._logarithms += float(np.log2(numbers).sum())


@dataclass
class InType:
    """The number of a node's results that are lost in an element type."""

    elements: int = 0  # the results that are finite in the wider type
    overflow: int = 0  # those of them that are infinite, or NaN, in this one
    zero: int = 0  # those other than 0 that become 0
    subnormal: int = 0  # those that become subnormal

    def add(self, wide: Array, narrow: Array) -> None:
        """Add a node's results to the counts."""
        tiny = float(ml_dtypes.finfo(narrow.dtype).tiny)  # type: ignore[no-untyped-call]
        for start in range(0, wide.size, _PIECE):
            right, found = (each.reshape(-1)[start : start + _PIECE].astype(float) for each in (wide, narrow))
            finite = np.isfinite(right)
            self.elements += int(finite.sum())
            self.overflow += int((finite & ~np.isfinite(found)).sum())
            self.zero += int((finite & (right != 0) & (found == 0)).sum())
            self.subnormal += int((finite & (found != 0) & (np.abs(found) < tiny)).sum())


def judged(type: str | None) -> tuple[str, ...]:
    """Return the types that a node is judged in: its own, if that is a short type, and shorter ones."""
    shorter = {"float64": JUDGED, "float32": JUDGED[1:]}
    return shorter.get(type or "", (type,) if type in JUDGED else ())
