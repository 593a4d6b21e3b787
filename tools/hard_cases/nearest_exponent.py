"""Solve x^y = boundary for y. If y has more digits than the result, the float nearest to the solution is a hard case;
otherwise some of many are."""

from __future__ import annotations

from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from halfulp.reference import decode
from halfulp.types import TYPES, FloatType, float_type, integer_range
from hard_cases.case import Array, Case, from_codes, measure

PRECISION = 200


def near_midpoints(x_type: str, y_type: str, count: int, rng: np.random.Generator) -> list[Case]:
    """Return cases with random bases and the exponents nearest to those of random midpoints, also subnormal ones."""
    row = float_type(x_type)
    codes = rng.integers(0, row.largest, count, endpoint=True, dtype=np.uint64)
    boundaries = midpoints(codes.tolist(), row)
    return solved(random_bases(x_type, count, rng), boundaries, y_type, f"midpoint by {y_type}")


def near_thresholds(x_type: str, y_type: str, count: int, rng: np.random.Generator) -> list[Case]:
    """Return cases whose results are next to overflow, the least normal number and half the least number."""
    row = float_type(x_type)
    least_normal = 1 << (row.digits - 1)
    cases = []
    for kind, code in (("overflow", row.largest), ("least normal", least_normal - 1), ("underflow", 0)):
        boundary = midpoints([code] * count, row)
        cases += solved(random_bases(x_type, count, rng), boundary, y_type, f"threshold: {kind}")
    return cases


def near_integers(x_type: str, y_type: str, count: int, rng: np.random.Generator) -> list[Case]:
    """Return cases with integer bases and the exponents nearest to those of random integers of the type."""
    least, largest = integer_range(x_type)
    bits = largest.bit_length()
    bases = [max(2, int(2**u)) for u in rng.uniform(1, bits - 0.01, count)]
    integers = [mpfr(max(2, int(2**u)), 64) for u in rng.uniform(1, bits, count)]
    wide = np.array(bases, np.int64 if least else np.uint64)
    return solved(wide.astype(TYPES[x_type].dtype), integers, y_type, f"near an integer, by {y_type}")


def solved(x: Array, boundaries: list[mpfr], y_type: str, kind: str) -> list[Case]:
    """Return the cases with the exponents nearest to the solutions of x^y = boundary."""
    with gmpy2.context(precision=PRECISION):
        solutions = [
            float(gmpy2.log(boundary) / gmpy2.log(base)) if base not in (0, 1) else 0.0
            for base, boundary in zip(decode(x), boundaries, strict=True)
        ]
    with np.errstate(over="ignore"):
        y = np.array(solutions).astype(TYPES[y_type].dtype)
    return measure(x.dtype.name, x, y, kind)


def random_bases(name: str, count: int, rng: np.random.Generator) -> Array:
    """Return positive bases, of any size or near 1."""
    row = float_type(name)
    anywhere = rng.integers(1, row.largest, count, endpoint=True, dtype=np.uint64)
    near = np.clip(row.one + np.rint(rng.normal(size=count) * 2.0 ** (row.digits - 2)), 1, row.largest)
    chosen = np.where(rng.random(count) < 0.5, anywhere, near.astype(np.uint64))
    return from_codes(chosen, name)


def midpoints(codes: list[int], row: FloatType) -> list[mpfr]:
    """Return the midpoints between the magnitudes of these codes and the next ones, as if nothing overflowed."""
    return [midpoint(code, row) for code in codes]


def midpoint(code: int, row: FloatType) -> Any:
    least_normal = 1 << (row.digits - 1)
    place = max(code // least_normal - 1, 0)  # the last place, as a power of two above the quantum
    significand = code - place * least_normal
    with gmpy2.context(precision=PRECISION):
        return (mpfr(significand) + mpfr("0.5")) * gmpy2.exp2(mpfr(row.least_exponent + place))
