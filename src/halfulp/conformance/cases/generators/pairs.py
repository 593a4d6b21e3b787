"""Pairs of ordinary operands: of moderate sizes, with results all over the range of the type."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.cases.generators.random import Random, cast, has_sign, log2
from halfulp.conformance.floats import codes, float_type, from_codes, integer_range
from halfulp.types import TYPES


class Pairs(NamedTuple):
    """Operands that meet: two 1-d arrays of one length."""

    x: Array
    y: Array


def joined(*parts: Pairs) -> Pairs:
    """Return the pairs of all parts, one after another."""
    return Pairs(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def outer(x: Array, y: Array) -> Pairs:
    """Return every element of x with every element of y."""
    return Pairs(np.repeat(x, len(y)), np.tile(y, len(x)))


def pow_values(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return bases of all ordinary sizes with exponents whose powers fill the range of the base's type."""
    x = bases(x_name, random, count)
    moderate = cast(random.mixed(random.normal(count) * 4, np.rint(random.normal(count) * 3)), y_name)
    y = random.mixed(exponents(x, result_logs(x_name, random, count), y_name, random), moderate)
    # Else most powers of negative bases would be NaN.
    rounded = (x < 0) & random.choose([True, True, True, False], count)
    return Pairs(x, np.where(rounded, cast(np.rint(y.astype(np.float64)), y_name), y))


def prelu_values(name: str, random: Random, count: int) -> Pairs:
    """Return activations of both signs with slopes as networks have them, and of other sizes."""
    x = bases(name, random, count)
    flipped = random.choose([True, False], count)
    if TYPES[name].kind == "int":
        x = np.where(flipped, cast(-random.spread(0, TYPES[name].bits - 1, count), name), x)
    elif has_sign(name):
        x = np.where(flipped, from_codes(codes(x) ^ codes(x).dtype.type(float_type(name).sign_bit), name), x)
    slopes = cast(random.mixed(random.uniform(0, 0.5, count), random.normal(count) * 3), name)
    return Pairs(x, slopes)


def bases(name: str, random: Random, count: int) -> Array:
    """Return numbers of moderate size, small integers, and numbers all over the range; one in four negative."""
    low, high = (-3.0, 3.0)
    if TYPES[name].kind == "float":
        facts = float_type(name)
        wide = random.spread(facts.least_exponent, facts.greatest_exponent, count)
    else:
        wide = random.spread(0, TYPES[name].bits, count)
    sizes = random.mixed(random.spread(low, high, count), np.rint(random.uniform(0, 20, count)), wide)
    signs = random.choose([1, 1, 1, -1], count) if has_sign(name) else np.ones(count)
    return finite(cast(sizes * signs, name))


def finite(array: Array) -> Array:
    """Return an array with 1 in place of what a conversion made infinite or NaN."""
    if TYPES[array.dtype.name].kind != "float":
        return array
    return np.where(np.isfinite(array), array, np.array(1).astype(array.dtype))


def result_logs(name: str, random: Random, count: int) -> Array:
    """Return binary logarithms all over the range of a type, one in four near 0."""
    if TYPES[name].kind == "float":
        facts = float_type(name)
        low, high = facts.least_exponent - 1, facts.greatest_exponent
    else:
        _, largest = integer_range(name)
        low, high = 0, (largest + 1).bit_length() - 1
    wide = random.uniform(low, high, count)
    near = random.normal(count)
    return np.where(random.choose([True, False, False, False], count), near, wide)


def exponents(x: Array, logs: Array, name: str, random: Random) -> Array:
    """Return exponents with log2 |x^y| near logs, and numbers of moderate size where x has no such powers."""
    with np.errstate(all="ignore"):
        y = logs / log2(x)
    return cast(np.where(np.isfinite(y), y, random.normal(len(y)) * 4), name)
