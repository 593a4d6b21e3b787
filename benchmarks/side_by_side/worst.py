"""Arrays made of nothing but the cases that are slow elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from halfulp.benchmark.case import Array, Case
from halfulp.types import element_type

_FOLDER = Path(__file__).parents[2] / "data" / "worst_cases"
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_LEAST_NORMAL_EXPONENT = {"float64": -1022, "float32": -126, "float16": -14, "bfloat16": -126}


def _case(x: Array, y: Array, type_name: str, size: int) -> Case:
    dtype = element_type(type_name).dtype
    order = np.random.default_rng(7).integers(0, x.size, size)
    return Case("pow", x[order].astype(dtype), y[order].astype(dtype))


def exact(type_name: str, size: int) -> Case:
    """Return powers of small integers, all of which the type holds."""
    pairs = [(x, y) for x in range(2, 16) for y in range(2, 8) if math.log2(x) * y <= _DIGITS[type_name]]
    x, y = np.array(pairs, np.float64).T
    return _case(x, y, type_name, size)


def ties(type_name: str, size: int) -> Case:
    """Return squares of odd integers that have one bit too many: each lies amid two values."""
    digits = _DIGITS[type_name]
    least, most = math.isqrt(1 << digits) + 1, math.isqrt((2 << digits) - 1)
    x = np.arange(least | 1, most + 1, 2)[-4096:].astype(np.float64)
    return _case(x, np.full_like(x, 2), type_name, size)


def specials(type_name: str, size: int) -> Case:
    """Return what IEEE 754 has rules of its own for: zeros, ones, infinities, NaN, negative bases."""
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -2, 2, 0.5, -0.5, 3, -3])
    x, y = (axis.ravel() for axis in np.meshgrid(values, values))
    return _case(x, y, type_name, size)


def subnormals(type_name: str, size: int) -> Case:
    """Return subnormal bases and subnormal results, half of each."""
    random, count = np.random.default_rng(7), 4096
    lowest = _LEAST_NORMAL_EXPONENT[type_name]
    # A result of 2^r with r up to some bits below the least normal number.
    r = lowest - random.uniform(0.5, _DIGITS[type_name] - 2, count)
    y = random.uniform(1.5, 4, count).astype(element_type(type_name).dtype).astype(np.float64)
    x = np.exp2(r / y)
    fraction = random.uniform(2.0 ** (3 - _DIGITS[type_name]), 0.98, count)
    bases = np.ldexp(fraction, lowest)
    return _case(np.append(x, bases), np.append(y, random.uniform(-0.9, 0.9, count)), type_name, size)


def hard(type_name: str, size: int) -> Case:
    """Return the hard cases of data/worst_cases whose exponent has the base's type."""
    element = element_type(type_name)
    lines = (_FOLDER / f"{type_name}.txt").read_text().splitlines()
    words = [line.split() for line in lines if not line.startswith("#")]
    codes = [(int(x, 16), int(y, 16)) for x, y_type, y, *_ in words if y_type == type_name]
    x, y = np.array(codes, f"u{element.dtype.itemsize}").T.copy().view(element.dtype)
    return _case(x, y, type_name, size)


KINDS = {
    "exact cases": exact,
    "ties": ties,
    "specials": specials,
    "subnormals": subnormals,
    "hard cases": hard,
}
