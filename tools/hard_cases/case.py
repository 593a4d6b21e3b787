"""A hard case, and its distance from the boundary, measured by MPFR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from halfulp.reference import decode
from halfulp.types import TYPES, FloatType, element_type, float_type, integer_range

Array = NDArray[Any]

PRECISION = 400  # far more than any distance that is found


@dataclass(frozen=True)
class Case:
    """A pair of operands, as bits. The distance is signed, in units of the result's last place."""

    x: int
    y_type: str
    y: int
    distance: float
    kind: str

    def line(self, x_type: str) -> str:
        widths = (TYPES[name].dtype.itemsize * 2 for name in (x_type, self.y_type))
        x, y = (f"0x{code:0{width}x}" for code, width in zip((self.x, self.y), widths, strict=True))
        return f"{x} {self.y_type} {y}  # {self.distance:+.3e}  {self.kind}"


def measure(x_type: str, x: Array, y: Array, kind: str) -> list[Case]:
    """Return the cases of two arrays of the same length, except those that are exact, ties, special or out of range."""
    row = element_type(x.dtype)
    cases = []
    codes = (array.view(f"u{array.dtype.itemsize}").tolist() for array in (x, y))
    for x_code, y_code, base, exponent in zip(*codes, decode(x), decode(y), strict=True):
        if row.kind == "float":
            distance = distance_of(base, exponent, float_type(row.name))
        else:
            distance = excess(base, exponent, *integer_range(row.name))
        if distance is not None:
            cases.append(Case(x_code, y.dtype.name, y_code, distance, kind))
    return cases


def distance_of(x: mpfr, y: mpfr, row: FloatType) -> float | None:
    """Return the signed distance of x^y from the nearest midpoint of two neighbours, in units of the last place."""
    with gmpy2.context(precision=PRECISION):
        power = x**y  # positive, since the bases are
        if not gmpy2.is_finite(power) or power == 0:
            return None
        last = max(int(gmpy2.floor(gmpy2.log2(power))) - row.digits + 1, row.least_exponent)
        scaled = gmpy2.mul_2exp(power, -last) if last < 0 else gmpy2.div_2exp(power, last)
        distance = float(scaled - gmpy2.floor(scaled) - mpfr("0.5"))
        return None if power.rc == 0 and distance in (0, -0.5) else distance


def excess(x: mpfr, y: mpfr, least: int, largest: int) -> float | None:
    """Return the signed distance of x^y from the nearest integer, if both are within the integer type."""
    with gmpy2.context(precision=PRECISION):
        power = x**y
        if not gmpy2.is_finite(power) or not least <= power <= largest + 1:
            return None
        distance = float(power - gmpy2.rint(power))
        return None if power.rc == 0 and distance == 0 else distance


def hardest(cases: list[Case], count: int) -> list[Case]:
    """Return the cases nearest to their boundaries, each pair once."""
    distinct = {(case.x, case.y_type, case.y): case for case in cases}
    return sorted(distinct.values(), key=lambda case: abs(case.distance))[:count]


def from_codes(codes: list[int] | Array, name: str) -> Array:
    """Return an array of a type from its bits."""
    dtype = TYPES[name].dtype
    return np.asarray(codes, f"u{dtype.itemsize}").view(dtype)
