"""The inputs on which the core is held against the oracle: for each pair of types a list of named parts.

Every part is a pair of 1-d arrays of one length. Random numbers come from the caller's generator.
"""

import functools
import os
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from halfulp.conformance.cases.operands import exact_pairs
from halfulp.conformance.cases.values import hard_pairs
from halfulp.reference import FLOAT_FORMATS, FloatFormat, IntFormat, format_of
from halfulp.types import TYPES

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
        return [special, outer("every pair", every_code(x_name), every_code(y_name))]
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
        parts.append(outer("every pair", every_code(name), every_code(name)))
    return parts


def outer(name: str, x: np.ndarray, y: np.ndarray) -> Part:
    """Every element of x with every element of y."""
    return Part(name, np.repeat(x, len(y)), np.tile(y, len(x)))


@functools.cache
def specials(name: str) -> np.ndarray:
    """Zeros, infinities, NaNs, the ends of every range, small numbers, the ends of odd integers."""
    row = format_of(TYPES[name].dtype)
    return float_specials(row) if isinstance(row, FloatFormat) else integer_specials(row)


def float_specials(row: FloatFormat) -> np.ndarray:
    least_normal = 1 << (row.digits - 1)
    magnitudes = {0, 1, 2, least_normal - 1, least_normal, least_normal + 1, row.largest - 1, row.largest}
    # The infinity, a signalling NaN, the canonical one, one with every payload bit.
    magnitudes |= {row.overflow, row.overflow + 1, row.nan, row.sign_bit - 1}
    fraction = 2.0 ** -min(row.digits - 1, 52)
    odd = 2.0**row.digits - 1  # the largest odd integer
    values = [
        *(1, 1 + fraction, 1 - fraction / 2, 2, 3, 4, 5, 10, 0.5, 0.25, 0.75, 1.5, 2.5, odd, odd + 1),
        odd / 2,
    ]
    values += [2.0**24 + 1, 2.0**31, 2.0**53 - 1, 2.0**63, 2.0**64]
    with np.errstate(over="ignore"):
        codes = np.array(values).astype(TYPES[row.name].dtype).view(row.storage)
    mask = (1 << row.bits) - 1
    every = {(int(code) | sign) & mask for code in {*magnitudes, *codes} for sign in (0, row.sign_bit)}
    return np.array(sorted(every), row.storage).view(TYPES[row.name].dtype)


def integer_specials(row: IntFormat) -> np.ndarray:
    values = {
        row.least,
        row.least + 1,
        row.largest - 1,
        row.largest,
        *range(-5, 12),
        16,
        31,
        32,
        33,
        63,
        64,
        65,
    }
    values |= {sign * (2**k + d) for k in (7, 15, 24, 31, 53, 62, 63) for d in (-1, 0, 1) for sign in (1, -1)}
    return from_integers((value for value in values if row.least <= value <= row.largest), row.name)


def edges(x_name: str, y_name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers about the ends of the range: overflow, the least normal, the least subnormal, half of it."""
    row = format_of(TYPES[x_name].dtype)
    if isinstance(row, FloatFormat):
        top = (row.largest >> (row.digits - 1)) + row.quantum + row.digits - 1
        ends = [top, top + 1, row.quantum + row.digits - 1, row.quantum, row.quantum - 1, 0]
    else:
        ends = [row.bits - row.signed, row.bits - row.signed, 1, 0]
    x = bases(x_name, rng, count)
    units = rng.normal(size=len(x)) * 2.0 ** -(row.digits - 1 if isinstance(row, FloatFormat) else 8)
    offsets = np.where(rng.random(len(x)) < 0.6, units, rng.choice([0, 1e-9, -1e-9, 0.3, -0.3], len(x)))
    logs = rng.choice(np.array(ends, float), len(x)) + offsets
    return x, exponents_for(x, logs, y_name, rng)


def near_one(x_name: str, y_name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases within a few units of +-1, exponents so large that the results fill the range."""
    row = format_of(TYPES[x_name].dtype)
    if not isinstance(row, FloatFormat):
        return random_results(x_name, y_name, rng, count)
    one = int(cast(np.array([1.0]), x_name).view(row.storage)[0])
    steps = np.rint(rng.normal(size=count) * 4).astype(int)
    codes = np.clip(one + steps, 0, row.largest).astype(row.storage)
    if row.zero:  # otherwise the type has no sign
        codes |= np.where(rng.random(count) < 0.2, row.storage.type(row.sign_bit), row.storage.type(0))
    x = codes.view(TYPES[x_name].dtype)
    return x, exponents_for(x, result_logs(row, rng, count), y_name, rng)


def about_one(
    x_name: str, y_name: str, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bases within a twentieth of 1, where logarithms are small and exponents great, and results all over the range."""
    x = cast(rng.uniform(0.95, 1.05, count), x_name)
    return x, exponents_for(x, result_logs(format_of(TYPES[x_name].dtype), rng, count), y_name, rng)


def random_results(
    x_name: str, y_name: str, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bases of all sizes, exponents such that the results fill the range of x's type."""
    x = bases(x_name, rng, count)
    return x, exponents_for(x, result_logs(format_of(TYPES[x_name].dtype), rng, count), y_name, rng)


def result_logs(row: FloatFormat | IntFormat, rng: np.random.Generator, count: int) -> np.ndarray:
    """Binary logarithms all over the range of a type, one in four near 0; of integers, half of the latter."""
    if isinstance(row, IntFormat):
        logs = rng.uniform(-1, row.bits + 1, count)
        return np.where(rng.random(count) < 0.5, np.log2(np.maximum(1, np.rint(2**logs))), logs)
    logs = rng.uniform(row.quantum - 2, (row.largest >> (row.digits - 1)) + row.quantum + row.digits, count)
    return np.where(rng.random(count) < 0.25, rng.normal(size=count), logs)


def bases(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bases of all sizes: random bits, numbers of moderate size, small integers."""
    moderate = cast(np.exp2(rng.normal(size=count) * 3) * rng.choice([1, 1, 1, -1], count), name)
    small = cast(np.rint(rng.uniform(-3, 20, count)), name)
    return choose(rng, moderate, random_bits(name, rng, count), small)


def exponents_for(x: np.ndarray, logs: np.ndarray, y_name: str, rng: np.random.Generator) -> np.ndarray:
    """Exponents of the type y_name with log2 |x^y| near logs: the nearest ones and their neighbours."""
    row = format_of(TYPES[y_name].dtype)
    with np.errstate(all="ignore"):
        y = logs / np.log2(np.abs(x.astype(np.float64)))
    y = np.where(np.isfinite(y), y, rng.normal(size=len(y)) * 4)
    if isinstance(row, IntFormat):
        return cast(np.rint(y) + rng.choice([0, 0, 1, -1], len(y)), y_name)
    near = cast(y, y_name)
    magnitude = near.view(row.storage).astype(np.uint64) & np.uint64(row.sign_bit - 1)
    if not row.zero:
        return near
    moved = magnitude.astype(np.int64) + rng.choice([0, 0, 0, 1, -1, 2], len(y))
    moved = np.clip(moved, 0, row.largest).astype(row.storage)
    sign = near.view(row.storage) & row.storage.type(row.sign_bit)
    return np.where(magnitude > row.largest, near.view(row.storage), moved | sign).view(near.dtype)


def least_products(name: str, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors whose product lies about the least subnormal and the least normal."""
    row = FLOAT_FORMATS[name]
    x = -np.exp2(rng.uniform(row.quantum / 2 - 8, row.quantum / 2 + 8, count))
    product = np.exp2(row.quantum + rng.uniform(-2, row.digits + 1, count))
    return cast(x, name), cast(product / x, name)


def every_code(name: str) -> np.ndarray:
    """Every value of a type of at most 8 bits."""
    row = format_of(TYPES[name].dtype)
    if isinstance(row, IntFormat):
        return from_integers(range(row.least, row.largest + 1), name)
    return np.arange(1 << row.bits, dtype=row.storage).view(TYPES[name].dtype)


def random_bits(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bit patterns at random."""
    row = format_of(TYPES[name].dtype)
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - row.bits)
    if isinstance(row, IntFormat):
        return from_integers((row.wrap(int(value)) for value in bits), name)
    return bits.astype(row.storage).view(TYPES[name].dtype)


def cast(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers converted to a type: rounded somehow, clipped to the range of an integer type."""
    row = format_of(TYPES[name].dtype)
    if isinstance(row, IntFormat):
        return from_integers((min(max(int(value), row.least), row.largest) for value in values), name)
    with np.errstate(all="ignore"):
        return values.astype(TYPES[name].dtype)


def from_integers(values: Iterable[int], name: str) -> np.ndarray:
    wide = np.uint64 if TYPES[name].kind == "uint" else np.int64
    return np.array(list(values), wide).astype(TYPES[name].dtype)


def choose(rng: np.random.Generator, *arrays: np.ndarray) -> np.ndarray:
    """Each element from one of the arrays."""
    which = rng.integers(0, len(arrays), len(arrays[0]))
    result = arrays[0].copy()
    for index, array in enumerate(arrays):
        result[which == index] = array[which == index]
    return result
