"""Rounding an exact fraction to a floating type by comparing distances: slow, and unlike the oracle's own."""

from fractions import Fraction
from typing import Any

import numpy as np


def code_of(value: Any) -> int:
    """The bits of a NumPy scalar."""
    return int(np.asarray(value).view(f"u{np.asarray(value).dtype.itemsize}")[()])


def values_of(dtype: np.dtype) -> dict[int, Fraction]:
    """Every finite value of a type of at most 16 bits, by code; -0 left out."""
    bits = 4 if dtype.name.startswith("float4") else 8 * dtype.itemsize
    codes = np.arange(1 << bits, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = codes.view(dtype).astype(np.float64)
    return {
        int(code): Fraction(float(value))
        for code, value in zip(codes, values, strict=True)
        if np.isfinite(value) and not (value == 0 and np.signbit(value))
    }


def nearest(exact: Fraction, dtype: np.dtype) -> Any:
    """The finite value of float16, float32 or float64 nearest to a fraction, ties to the even code.

    Not for fractions that overflow. A zero has the fraction's sign.
    """
    magnitude = abs(exact)
    try:
        guess = dtype.type(float(magnitude))
    except OverflowError:
        guess = np.finfo(dtype).max
    candidates = [guess, np.nextafter(guess, dtype.type(0)), np.nextafter(guess, dtype.type(np.inf))]
    finite = [value for value in candidates if np.isfinite(value)]
    best = min(finite, key=lambda value: (abs(Fraction(float(value)) - magnitude), code_of(value) & 1))
    return -best if exact < 0 else best
