"""Where a power or a PRelu leaves an element type: thresholds of constant exponents, and shares of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from halfulp.models.graph import Array
from halfulp.models.run.inputs import dtype_named
from halfulp.operators import op, pow, prelu
from halfulp.types import FLOATS

JUDGED = ("float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn")
"""The element types that networks are brought into."""

SHORT = JUDGED[1:2] + JUDGED[3:]
"""Those among them of so few exponents that ordinary data leave them."""

_PIECE = 1 << 20  # elements that are looked at at once


@dataclass(frozen=True)
class Limits:
    """The magnitudes of x beyond which x^exponent leaves a type; None where no x of the type does.

    Attributes:
        overflow: the result is infinite above it, or below it where the exponent is negative.
        zero: the result is zero below it, or above it where the exponent is negative.
    """

    overflow: float | None
    zero: float | None


@cache
def limits(exponent: float, type: str) -> Limits:
    """Return where powers with an exponent leave a type, found by bisection over its numbers with exact powers.

    Args:
        exponent: a number of the type other than 0.
        type: the name of an element type of floats.

    Example:
        >>> limits(2, "float16")
        Limits(overflow=255.875, zero=0.00017261505126953125)
        >>> limits(-1, "float16").overflow
        1.5318393707275391e-05
    """
    dtype = dtype_named(type)
    words = np.dtype(f"u{dtype.itemsize}")
    greatest = int(np.array(ml_dtypes.finfo(dtype).max, dtype).view(words))  # type: ignore[no-untyped-call]

    def number(bits: int) -> Array:
        return np.array([bits], words).view(dtype)

    def power(bits: int) -> float:
        return float(pow(number(bits), np.array(exponent).astype(dtype))[0])

    def last(holds: Callable[[float], bool]) -> float | None:
        """Return the greatest magnitude whose power does this, as all smaller ones do; None where none or all do."""
        low, high = 0, greatest + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if holds(power(middle)) else (low, middle)
        return None if low in (0, greatest) else float(number(low)[0])

    def after(magnitude: float | None) -> float | None:
        if magnitude is None:
            return None
        return float(number(int(np.array(magnitude).astype(dtype).view(words)) + 1)[0])

    if exponent > 0:
        return Limits(last(np.isfinite), after(last(lambda result: result == 0)))
    return Limits(after(last(lambda result: not np.isfinite(result))), last(lambda result: result != 0))


@dataclass
class Range:
    """The values of a tensor over all samples.

    Attributes:
        elements: how many there are.
        nan, infinite, zeros, subnormal, negative: how many of them are so.
        least, greatest: the magnitudes of finite numbers other than 0; least is infinite where there are none.
    """

    elements: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    subnormal: int = 0
    negative: int = 0
    least: float = np.inf
    greatest: float = 0.0
    _logarithms: float = 0.0  # their sum

    @property
    def typical(self) -> float:
        """The geometric mean of the magnitudes of finite numbers other than 0."""
        numbers = self.elements - self.nan - self.infinite - self.zeros
        return float(np.exp2(self._logarithms / numbers)) if numbers else 0.0

    def add(self, array: Array) -> None:
        """Count an array in."""
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
    """What becomes of a node's results in an element type.

    Attributes:
        elements: the results that are finite in the wider type.
        overflow: those of them that are infinite, or NaN, in this one.
        zero: those other than 0 that become 0.
        subnormal: those that become subnormal.
    """

    elements: int = 0
    overflow: int = 0
    zero: int = 0
    subnormal: int = 0

    def add(self, wide: Array, narrow: Array) -> None:
        """Count a node's results in."""
        tiny = float(ml_dtypes.finfo(narrow.dtype).tiny)  # type: ignore[no-untyped-call]
        for start in range(0, wide.size, _PIECE):
            right, found = (each.reshape(-1)[start : start + _PIECE].astype(float) for each in (wide, narrow))
            finite = np.isfinite(right)
            self.elements += int(finite.sum())
            self.overflow += int((finite & ~np.isfinite(found)).sum())
            self.zero += int((finite & (right != 0) & (found == 0)).sum())
            self.subnormal += int((finite & (found != 0) & (np.abs(found) < tiny)).sum())


def judged(type: str | None) -> tuple[str, ...]:
    """Return the types that a node is judged in: its own, where that is a short one, and shorter ones."""
    if type == "float64":
        return JUDGED
    if type == "float32":
        return JUDGED[1:]
    return (type,) if type in JUDGED else ()


def in_type(
    operator: str, operands: tuple[Array, Array], attributes: Mapping[str, Any], type: str
) -> tuple[Array, Array]:
    """Return a node's results in the type of its operands, and those of the operands cast to another type.

    The casts are those that a conversion of the network makes; versions that broadcast as NumPy does take every type.
    """
    x, y = operands
    compute: Callable[..., Any] = op(operator)
    if not attributes:
        compute = pow if ".Pow-" in operator else prelu
    dtype = dtype_named(type)
    with np.errstate(all="ignore"):
        narrow = x.astype(dtype), y.astype(dtype) if y.dtype.name in FLOATS else y
        return np.asarray(compute(x, y, **attributes)), np.asarray(compute(*narrow, **attributes))
