"""The search of lattice.cpp: the integers at which a cubic modulo 1 is near 1/2."""

from __future__ import annotations

import ctypes
import math

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from hard_cases.case import Array
from hard_cases.compiled import load

NEAR = 2.0**-33
SLACK = 2.0**-20  # the maximum distance between the cubic and its tangent within a step
STEPS = 1 << 12  # per search; with more, the term in i^4 would matter
LONGEST = 1 << 27  # beyond it, the last of the coefficients' 128 bits would matter
ROOM = 1 << 10
PRECISION = 300


def hits(coefficients: list[mpfr], longest: int = LONGEST) -> Array:
    """Return the i in [0, longest] for which c0 + c1 i + c2 i^2 + c3 i^3 modulo 1 is within NEAR of 1/2."""
    curvature = max(abs(float(coefficients[2])), SLACK / longest**2)
    step = max(1, int(math.sqrt(SLACK / curvature)))
    length = min(STEPS * step, longest)
    found = (ctypes.c_int64 * ROOM)()
    count = load("lattice.cpp").lattice(
        (ctypes.c_uint64 * 8)(*(word for c in coefficients for word in split(c))),
        ctypes.c_int64(length),
        ctypes.c_int64(step),
        ctypes.c_double(SLACK),
        ctypes.c_double(NEAR),
        found,
        ROOM,
    )
    return np.array([i for i in found[:count] if i < length], np.int64)


def split(coefficient: mpfr) -> tuple[int, int]:
    """Return a coefficient modulo 1 as a 128-bit fixed-point fraction, in two words."""
    with gmpy2.context(precision=PRECISION):
        fixed = int(gmpy2.floor(gmpy2.mul_2exp(coefficient, 128))) % (1 << 128)
    return fixed >> 64, fixed & (2**64 - 1)


def along_exponent(x: float, y: float, step: float, digits: int, quantum: int) -> list[mpfr]:
    """Return the cubic for x^(y + i step), in units of the result's last place, by the exponential series."""
    with gmpy2.context(precision=PRECISION):
        value, rate = in_last_places(x, y, digits, quantum), gmpy2.log(mpfr(x)) * mpfr(step)
        return [value * rate**k / math.factorial(k) for k in range(4)]


def in_last_places(x: float, y: float, digits: int, quantum: int) -> mpfr:
    """Return x^y divided by the last place of a result with this number of digits."""
    power = mpfr(x) ** mpfr(y)
    last = max(int(gmpy2.floor(gmpy2.log2(power))) - digits + 1, quantum)
    return power * gmpy2.exp2(mpfr(-last))
