"""The inputs on which the core is held against the oracle: for each pair of types a list of named parts.

Every part is a pair of 1-d arrays of one length, most of them made as those of ``check`` are. Random numbers come from
the caller's generator.
"""

import functools
import os
from typing import NamedTuple

import numpy as np

from halfulp.conformance.cases import values
from halfulp.conformance.cases.values import (
    Random,
    cast,
    every_value,
    exact_pairs,
    exponents,
    hard_pairs,
    outer,
)
from halfulp.types import TYPES, codes, float_type, from_codes

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
    special = Part("specials", *outer(specials(x_name), specials(y_name)))
    if TYPES[x_name].bits <= 8 and TYPES[y_name].bits <= 8:
        return [special, Part("every pair", *outer(every_value(x_name), every_value(y_name)))]
    n = 500 if IS_FRESH else 100 if {x_name, y_name} <= LONG_FLOATS else 20
    random, x = drawn(rng), bases(x_name, rng, 4 * n)
    ends = exponents(x, y_name, random, values.end_logs(x_name, random, 4 * n))
    parts = [
        special,
        Part("edges of the range", x, values.neighbours(ends, random)),
        Part("bases near 1", *values.near_one(x_name, y_name, random, 2 * n)),
        Part("bases about 1", *about_one(x_name, y_name, random, 6 * n if x_name == "float64" else n)),
        Part("exact cases and ties", *exact_pairs(x_name, y_name, int(rng.integers(1 << 32)), 3 * n)),
        Part("worst cases", *hard_pairs(x_name, y_name)),
        Part("random bits", random_bits(x_name, rng, 3 * n), random_bits(y_name, rng, 3 * n)),
        Part("random results", *values.pow_values(x_name, y_name, random, 4 * n)),
    ]
    return [part for part in parts if len(part.x)]


def prelu_grid(name: str, rng: np.random.Generator) -> list[Part]:
    """The parts for prelu of a type."""
    count, random = few(4000), drawn(rng)
    parts = [
        Part("specials", *outer(specials(name), specials(name))),
        Part("random bits", random_bits(name, rng, count), random_bits(name, rng, count)),
        Part("random values", *values.prelu_values(name, random, count)),
        Part("edges of the range", *values.prelu_edges(name, random)),
    ]
    if TYPES[name].bits <= 8:
        parts.append(Part("every pair", *outer(every_value(name), every_value(name))))
    return parts


@functools.cache
def specials(name: str) -> np.ndarray:
    """Those of ``check``; and signalling NaNs, and NaNs with every payload bit."""
    known = values.specials(name)
    if TYPES[name].kind != "float":
        return known
    facts = float_type(name)
    nans = {code | sign for code in (facts.infinity + 1, facts.sign_bit - 1) for sign in (0, facts.sign_bit)}
    every = {*codes(known).tolist(), *(code % (2 * facts.sign_bit) for code in nans)}
    return from_codes(sorted(every), name)


def about_one(x_name: str, y_name: str, random: Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases within a twentieth of 1, where logarithms are small and exponents great, and results all over the range."""
    x = cast(random.uniform(0.95, 1.05, count), x_name)
    y = exponents(x, y_name, random)
    return x, values.neighbours(y, random)


def bases(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bases of all sizes, and random bits."""
    random = drawn(rng)
    return random.mixed(values.bases(name, random, count), random.bits(name, count))


def random_bits(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Bit patterns at random."""
    return drawn(rng).bits(name, count)


def drawn(rng: np.random.Generator) -> Random:
    """Random operands as ``check`` makes them, of a seed that a generator gives."""
    return Random(str(rng.integers(1 << 62)))
