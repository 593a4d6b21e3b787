"""The inputs on which the core is held against the oracle: for each pair of types a list of named parts.

Every part is a pair of 1-d arrays of one length. Random numbers come from the caller's generator.
"""

import functools
import os
from typing import NamedTuple

import numpy as np

from halfulp.conformance.cases.operands import Random, cast, exact_pairs
from halfulp.conformance.cases.values import every_value, hard_pairs, neighbours
from halfulp.conformance.cases.values import specials as of_cases
from halfulp.reference import wrap
from halfulp.types import TYPES, float_type, from_codes, from_integers, integer_range

LONG_FLOATS = {"float64", "float32", "float16", "bfloat16"}
"""Their powers have kernels of their own. Those of other types go through them: fewer random operands are enough,
except in make exhaustive, which has fresh ones."""
IS_FRESH = os.environ.get("HALFULP_SEED") == "fresh"


def few(count: int) -> int:
    """A number of random operands in make exhaustive, and a quarter of it otherwise."""
    return count if IS_FRESH else count // 4


class Part(NamedTuple):
    """Some pairs of operands, and why they are there."""

    name: str
    x: np.ndarray
    y: np.ndarray


def pow_grid(x_name: str, y_name: str, rng: np.random.Generator) -> list[Part]:
    """The parts for pow of two types; of types of at most 8 bits, every pair, which leaves nothing to chance."""
    if TYPES[x_name].bits <= 8 and TYPES[y_name].bits <= 8:
        special = outer("specials", specials(x_name), specials(y_name))
        return [special, outer("every pair", every_value(x_name), every_value(y_name))]
    n = 100 if {x_name, y_name} <= LONG_FLOATS else 20
    n = 500 if IS_FRESH else n
    parts = [
        outer("specials", specials(x_name), specials(y_name)),
        Part("edges of the range", *edges(x_name, y_name, rng, 4 * n)),
        Part("bases near 1", *near_one(x_name, y_name, rng, 2 * n)),
        Part("bases about 1", *about_one(x_name, y_name, rng, 6 * n if x_name == "float64" else n)),
        Part("exact cases and ties", *exact_pairs(x_name, y_name, int(rng.integers(1 << 32)), 3 * n)),
        Part("worst cases", *hard_pairs(x_name, y_name)),
        Part("random bits", random_bits(x_name, rng, 3 * n), random_bits(y_name, rng, 3 * n)),
        Part("random results", *random_results(x_name, y_name, rng, 4 * n)),
    ]
    return [part for part in parts if len(part.x)]


def prelu_grid(name: str, rng: np.random.Generator) -> list[Part]:
    """The parts for prelu of a type."""
    count = few(4000)
    x, slope = random_bits(name, rng, count), random_bits(name, rng, count)
    negative = np.array(-np.abs(rng.normal(size=count)) * 2.0 ** rng.integers(-20, 20, count))
    parts = [
        outer("specials", specials(name), specials(name)),
        Part("random bits", x, slope),
        Part("random values", cast(negative, name), cast(rng.normal(size=count), name)),
    ]
    if TYPES[name].kind == "float":
        parts.append(Part("products near the least value", *least_products(name, rng, few(1000))))
    if TYPES[name].bits <= 8:
        parts.append(outer("every pair", every_value(name), every_value(name)))
    return parts


def outer(name: str, x: np.ndarray, y: np.ndarray) -> Part:
    """Every element of x with every element of y."""
    return Part(name, np.repeat(x, len(y)), np.tile(y, len(x)))


@functools.cache
def specials(name: str) -> np.ndarray:
    """Those of the cases, and of floating types a signalling NaN, and one with every payload bit."""
    if TYPES[name].kind != "float":
        return of_cases(name)
    row = float_type(name)
    nans = {code | sign for code in (row.infinity + 1, row.sign_bit - 1) for sign in (0, row.sign_bit)}
    return np.concatenate([of_cases(name), from_codes([code % (1 << row.bits) for code in nans], name)])


def edges(x_name: str, y_name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers about the ends of the range: overflow, the least normal, the least subnormal, half of it."""
    if TYPES[x_name].kind == "float":
        row = float_type(x_name)
        top, low = row.greatest_exponent, row.least_exponent
        ends, unit = [top, top + 1, low + row.digits - 1, low, low - 1, 0], 2.0 ** (1 - row.digits)
    else:
        bits = integer_range(x_name)[1].bit_length()
        ends, unit = [bits, bits, 1, 0], 2.0**-8
    x = bases(x_name, rng, count)
    units = rng.normal(size=len(x)) * unit
    offsets = np.where(rng.random(len(x)) < 0.6, units, rng.choice([0, 1e-9, -1e-9, 0.3, -0.3], len(x)))
    logs = rng.choice(np.array(ends, float), len(x)) + offsets
    return x, exponents_for(x, logs, y_name, rng)


def near_one(x_name: str, y_name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases within a few units of +-1, exponents so large that the results fill the range."""
    if TYPES[x_name].kind != "float":
        return random_results(x_name, y_name, rng, count)
    row = float_type(x_name)
    steps = np.rint(rng.normal(size=count) * 4).astype(int)
    words = np.clip(row.one + steps, 0, row.largest).astype(np.uint64)
    if row.has_zero:  # otherwise the type has no sign
        words |= np.where(rng.random(count) < 0.2, np.uint64(row.sign_bit), np.uint64(0))
    x = from_codes(words, x_name)
    return x, exponents_for(x, result_logs(x_name, rng, count), y_name, rng)


def about_one(
    x_name: str, y_name: str, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bases within a twentieth of 1, where logarithms are small and exponents great, and results all over the range."""
    x = cast(rng.uniform(0.95, 1.05, count), x_name)
    return x, exponents_for(x, result_logs(x_name, rng, count), y_name, rng)


def random_results(
    x_name: str, y_name: str, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bases of all sizes, exponents such that the results fill the range of x's type."""
    x = bases(x_name, rng, count)
    return x, exponents_for(x, result_logs(x_name, rng, count), y_name, rng)


def result_logs(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Binary logarithms all over the range of a type, one in four near 0; of integers, half of the latter."""
    if TYPES[name].kind != "float":
        logs = rng.uniform(-1, TYPES[name].bits + 1, count)
        return np.where(rng.random(count) < 0.5, np.log2(np.maximum(1, np.rint(2**logs))), logs)
    row = float_type(name)
    logs = rng.uniform(row.least_exponent - 2, row.greatest_exponent + 1, count)
    return np.where(rng.random(count) < 0.25, rng.normal(size=count), logs)


def bases(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bases of all sizes: random bits, numbers of moderate size, small integers."""
    moderate = cast(np.exp2(rng.normal(size=count) * 3) * rng.choice([1, 1, 1, -1], count), name)
    small = cast(np.rint(rng.uniform(-3, 20, count)), name)
    return choose(rng, moderate, random_bits(name, rng, count), small)


def exponents_for(x: np.ndarray, logs: np.ndarray, y_name: str, rng: np.random.Generator) -> np.ndarray:
    """Exponents of the type y_name with log2 |x^y| near logs: the nearest ones and their neighbours."""
    with np.errstate(all="ignore"):
        y = logs / np.log2(np.abs(x.astype(np.float64)))
    y = np.where(np.isfinite(y), y, rng.normal(size=len(y)) * 4)
    return neighbours(cast(y, y_name), Random(str(rng.integers(1 << 32))))


def least_products(name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors whose product lies about the least subnormal and the least normal."""
    row = float_type(name)
    x = -np.exp2(rng.uniform(row.least_exponent / 2 - 8, row.least_exponent / 2 + 8, count))
    product = np.exp2(row.least_exponent + rng.uniform(-2, row.digits + 1, count))
    return cast(x, name), cast(product / x, name)


def random_bits(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bit patterns at random."""
    row = TYPES[name]
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - row.bits)
    if row.kind != "float":
        return from_integers((wrap(int(value), name) for value in bits), name)
    return from_codes(bits, name)


def choose(rng: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
    """Each element from one of the arrays."""
    which = rng.integers(0, len(arrays), len(arrays[0]))
    result = arrays[0].copy()
    for index, array in enumerate(arrays):
        result[which == index] = array[which == index]
    return result
