"""Pairs (x, y) whose power is representable, or lies exactly midway between two neighbours.

A power is such a case only where, with r odd, x = r^(2^f) * 2^e and y = n / 2^f with 2^f dividing e, so that
x^y = r^n * 2^(e n / 2^f), and r^n has at most one digit more than the type. What looks at an approximation only
can't decide them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.cases.generators.pairs import Pairs
from halfulp.conformance.cases.generators.random import Random
from halfulp.conformance.floats import FloatType, float_type, from_codes, from_integers, integer_range
from halfulp.types import TYPES

_GREATEST_SHIFT = 5  # 3^(2^6) has more digits than any type's significand


@cache  # the same for all operators: they take long to make
def exact_pairs(x_name: str, y_name: str, number: int, count: int) -> Pairs:
    """Return at most count exact cases and ties: of the many there are, the ones of a number."""
    row = TYPES[x_name]
    draws = _Draws(Random(f"exact cases {x_name} {y_name} {number}"))
    made = _float_cases(float_type(x_name), draws) if row.kind == "float" else _integer_cases(x_name, draws)
    xs: list[Fraction] = []
    ys: list[Fraction] = []
    for _ in range(3 * count):
        if len(xs) == count:
            break
        base, exponent = next(made)
        if _representable(base, x_name) and _representable(exponent, y_name):
            xs.append(base)
            ys.append(exponent)
    return Pairs(_array(xs, x_name), _array(ys, y_name))


class _Draws:
    """Single numbers at random, drawn a thousand at a time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._numbers: list[float] = []

    def uniform(self, low: float = 0, high: float = 1) -> float:
        if not self._numbers:
            self._numbers = self._random.uniform(0, 1, 1000).tolist()
        return low + (high - low) * self._numbers.pop()

    def integer(self, low: int, high: int) -> int:
        return int(self.uniform(low, high + 1) // 1)


def _float_cases(facts: FloatType, draws: _Draws) -> Iterator[tuple[Fraction, Fraction]]:
    """Cases whose result is normal, subnormal, or a tie in either range."""
    while True:
        f = draws.integer(0, _GREATEST_SHIFT) if draws.uniform() < 0.5 else 0
        root = _odd_root(facts.digits / 2**f, draws)
        n = _exponent_for(root, facts.digits + 1, draws)
        if f:
            n = max(n - 1 + n % 2, 1)
        # The result's last digit: at a tie in the subnormal range, or anywhere.
        wanted = facts.least_exponent - 1
        if draws.uniform() > 0.3:
            wanted = draws.integer(facts.least_exponent - 2, facts.greatest_exponent)
        e = round(wanted / n) << f if n else 0
        sign = -1 if f == 0 and draws.uniform() < 0.3 else 1
        yield sign * Fraction(root ** (1 << f)) * Fraction(2) ** e, Fraction(n, 1 << f)


def _odd_root(digits: float, draws: _Draws) -> int:
    """An odd number of at most so many digits (a fraction of one counts), small ones preferred."""
    limit = 2**digits
    if limit <= 3 or draws.uniform() < 0.1:
        return 1
    return min(int(2 ** draws.uniform(1, digits)) | 1, int(limit) - 1 | 1)


def _exponent_for(root: int, digits: int, draws: _Draws) -> int:
    """An n such that root^n has at most so many digits, the greatest one preferred; any n for root 1."""
    if root == 1:
        magnitude = int(2 ** draws.uniform(0, 8))
        return magnitude if draws.uniform() < 0.5 else -magnitude
    n = 1
    while (root ** (n + 1)).bit_length() <= digits:
        n += 1
    return n if draws.uniform() < 0.5 else draws.integer(0, n)


def _integer_cases(name: str, draws: _Draws) -> Iterator[tuple[Fraction, Fraction]]:
    """Perfect powers with fractional exponents, and powers up to the ends of the range."""
    bits = TYPES[name].bits
    while True:
        f = draws.integer(0, _GREATEST_SHIFT)
        root = int(2 ** draws.uniform(0, bits / 2**f))
        n = draws.integer(0, 1 + bits // max(1, root.bit_length() - 1))
        sign = -1 if f == 0 and draws.uniform() < 0.3 else 1
        yield Fraction(sign * root ** (1 << f)), Fraction(n, 1 << f)


def _representable(value: Fraction, name: str) -> bool:
    """Whether the type holds this very number."""
    if TYPES[name].kind != "float":
        least, largest = integer_range(name)
        return value.denominator == 1 and least <= value <= largest
    facts = float_type(name)
    if value <= 0 and not facts.has_zero:
        return False
    n = value.numerator
    if n == 0:
        return True
    power_of_two = value.denominator & (value.denominator - 1) == 0
    trailing = (n & -n).bit_length() - 1
    last = trailing + 1 - value.denominator.bit_length()  # the exponent of the last digit
    digits = abs(n).bit_length() - trailing
    least = facts.least_exponent
    top = last + digits
    return (
        power_of_two and digits <= facts.digits and last >= least and top <= facts.greatest_exponent
    ) and abs(value) <= _largest(facts)


@cache
def _largest(facts: FloatType) -> Fraction:
    return Fraction(float(from_codes([facts.largest], facts.name).astype(np.float64)[0]))


def _array(values: list[Fraction], name: str) -> Array:
    if TYPES[name].kind == "float":
        return np.array([float(value) for value in values], np.float64).astype(TYPES[name].dtype)
    return from_integers((int(value) for value in values), name)
