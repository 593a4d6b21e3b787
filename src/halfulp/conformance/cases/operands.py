"""Operands for cases: random numbers, ordinary pairs of operands, and pairs with an exact power or a tie.

Random numbers are the same on every machine and with every NumPy. NumPy keeps the raw stream of a bit
generator from version to version, but not the results of ``Generator``, and exp2 differs by machine. Here
everything comes from the raw stream, by arithmetic that is exact or rounded once.
"""

import math
import zlib
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.operators import pow as exact_pow
from halfulp.types import TYPES, FloatType, float_type, from_codes, from_integers, integer_range


class Random:
    """A stream of random numbers that a text determines."""

    def __init__(self, text: str) -> None:
        self._raw = np.random.PCG64(zlib.crc32(text.encode()))

    def words(self, count: int) -> Array:
        """Return random uint64."""
        return np.asarray(self._raw.random_raw(count))

    def uniform(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers between low and high."""
        return low + (high - low) * ((self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, low: int, high: int, count: int) -> Array:
        """Return int64 numbers from low to high - 1."""
        return np.floor(self.uniform(low, high, count)).astype(np.int64)

    def choose(self, options: Sequence[Any] | Array, count: int) -> Array:
        """Return elements of an array, each with the same probability."""
        options = np.asarray(options)
        return options[self.integers(0, len(options), count)]

    def mixed(self, *arrays: Array) -> Array:
        """Return an array with each element from one of some arrays of one length."""
        which = self.integers(0, len(arrays), len(arrays[0]))
        return np.asarray(np.stack(arrays)[which, np.arange(len(which))])

    def bits(self, name: str, count: int) -> Array:
        """Return values of a type with random bits, NaNs and infinities among them."""
        row = TYPES[name]
        words = self.words(count) >> np.uint64(64 - row.bits)
        if row.kind == "float":
            return from_codes(words.astype(f"u{row.dtype.itemsize}"), name)
        least = integer_range(name)[0]
        return from_integers((int(word) + least for word in words), name)

    def normal(self, count: int) -> Array:
        """Return numbers about 0, most of them within 1 of it (a sum of uniform ones)."""
        return sum((self.uniform(-1, 1, count) for _ in range(3)), np.zeros(count))

    def spread(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers from 2^low to 2^high, their logarithms uniform."""
        return np.asarray(exact_pow(np.float64(2), self.uniform(low, high, count)))


def cast(values: Array, name: str) -> Array:
    """Return float64 numbers converted to a type: rounded to nearest, clipped to the range of an integer type."""
    row = TYPES[name]
    if row.kind == "float":
        with np.errstate(all="ignore"):
            return values.astype(row.dtype)
    nearest = np.rint(np.nan_to_num(values)).ravel().tolist()
    return from_integers(map(int, nearest), name).reshape(values.shape)


def log2(values: Array) -> Array:
    """Return the binary logarithms of magnitudes to about 20 bits, the same on every machine."""
    with np.errstate(all="ignore"):
        logs = np.log2(np.abs(values.astype(np.float64)))
    fraction, exponent = np.frexp(logs)
    return np.ldexp(np.rint(fraction * 2.0**20) * 2.0**-20, exponent)


def has_sign(name: str) -> bool:
    """Return whether a type has negative numbers."""
    row = TYPES[name]
    return row.kind == "int" or (row.kind == "float" and float_type(name).has_zero)


# --- pairs of operands ---------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Bases or inputs with their exponents or slopes: two 1-d arrays of one length."""

    x: Array
    y: Array


def joined(*parts: Pairs) -> Pairs:
    """Return the pairs of all parts, one after another."""
    return Pairs(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def outer(x: Array, y: Array) -> Pairs:
    """Return every element of x with every element of y."""
    return Pairs(np.repeat(x, len(y)), np.tile(y, len(x)))


def pow_values(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return bases of all ordinary sizes with exponents such that the powers fill the range of the base's type."""
    x = bases(x_name, random, count)
    moderate = cast(random.mixed(random.normal(count) * 4, np.rint(random.normal(count) * 3)), y_name)
    y = random.mixed(exponents(x, result_logs(x_name, random, count), y_name, random), moderate)
    # Otherwise most powers of negative bases would be NaN.
    rounded = (x < 0) & random.choose([True, True, True, False], count)
    return Pairs(x, np.where(rounded, cast(np.rint(y.astype(np.float64)), y_name), y))


def prelu_values(name: str, random: Random, count: int) -> Pairs:
    """Return activations of both signs with slopes that networks have, and with others."""
    x = bases(name, random, count)
    flipped = random.choose([True, False], count)
    if TYPES[name].kind == "int":
        x = np.where(flipped, cast(-random.spread(0, TYPES[name].bits - 1, count), name), x)
    elif has_sign(name):
        x = np.where(flipped, -x, x)
    slopes = cast(random.mixed(random.uniform(0, 0.5, count), random.normal(count) * 3), name)
    return Pairs(x, slopes)


def bases(name: str, random: Random, count: int) -> Array:
    """Return moderate numbers, small integers, and numbers from the whole range; one in four is negative."""
    low, high = 0, TYPES[name].bits
    if TYPES[name].kind == "float":
        low, high = float_type(name).least_exponent, float_type(name).greatest_exponent
    wide = random.spread(low, high, count)
    sizes = random.mixed(random.spread(-3.0, 3.0, count), np.rint(random.uniform(0, 20, count)), wide)
    signs = random.choose([1, 1, 1, -1], count) if has_sign(name) else np.ones(count)
    return finite(cast(sizes * signs, name))


def finite(array: Array) -> Array:
    """Return an array with 1 in place of each infinity and NaN."""
    if TYPES[array.dtype.name].kind != "float":
        return array
    return np.where(np.isfinite(array), array, np.array(1).astype(array.dtype))


def result_logs(name: str, random: Random, count: int) -> Array:
    """Return binary logarithms from the whole range of a type, one in four near 0."""
    low, high = 0, TYPES[name].bits - (TYPES[name].kind == "int")
    if TYPES[name].kind == "float":
        low, high = float_type(name).least_exponent - 1, float_type(name).greatest_exponent
    wide, near = random.uniform(low, high, count), random.normal(count)
    return np.where(random.choose([True, False, False, False], count), near, wide)


def exponents(x: Array, logs: Array, name: str, random: Random) -> Array:
    """Return exponents with log2 |x^y| near logs, and moderate numbers where x has no such powers."""
    with np.errstate(all="ignore"):
        y = logs / log2(x)
    return cast(np.where(np.isfinite(y), y, random.normal(len(y)) * 4), name)


# --- exact cases and ties ------------------------------------------------------------------------
#
# A power x^y is representable, or lies exactly midway between two neighbours, only if x = r^(2^f) * 2^e
# with r odd and y = n / 2^f, where 2^f divides e. Then x^y = r^n * 2^(e n / 2^f), and r^n has at most one
# digit more than the type. An algorithm can't decide these cases from an approximation alone.

_MOST_ROOTS = 5  # 3^(2^6) has more digits than any type's significand


@cache  # all operators have the same, and making them takes a while
def exact_pairs(x_name: str, y_name: str, number: int, count: int) -> Pairs:
    """Return at most ``count`` exact cases and ties. Each ``number`` selects others."""
    row = TYPES[x_name]
    draws = _Draws(f"exact cases {x_name} {y_name} {number}")
    tried = _float_cases(float_type(x_name), draws) if row.kind == "float" else _integer_cases(x_name, draws)
    names = x_name, y_name
    fitting = (pair for pair in islice(tried, 3 * count) if all(map(_representable, pair, names)))
    arrays = []
    for name, numbers in zip(names, zip(*islice(fitting, count), strict=True), strict=True):
        if TYPES[name].kind == "float":
            arrays.append(np.array(list(map(float, numbers))).astype(TYPES[name].dtype))
        else:
            arrays.append(from_integers(map(int, numbers), name))
    return Pairs(*arrays)


class _Draws(Random):
    """Single numbers at random, drawn a thousand at a time."""

    _numbers: list[float] = []  # noqa: RUF012

    def one(self, low: float = 0, high: float = 1) -> float:
        self._numbers = self._numbers or self.uniform(0, 1, 1000).tolist()
        return low + (high - low) * self._numbers.pop()

    def integer(self, low: int, high: int) -> int:
        return int(self.one(low, high + 1) // 1)


def _float_cases(facts: FloatType, draws: _Draws) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield cases with a normal or subnormal result, or a tie in either range."""
    while True:
        f = draws.integer(0, _MOST_ROOTS) if draws.one() < 0.5 else 0
        digits = facts.digits / 2**f  # of an odd root, preferably a small one
        root = 1
        if (limit := 2**digits) > 3 and draws.one() >= 0.1:
            root = min(int(2 ** draws.one(1, digits)) | 1, int(limit) - 1 | 1)
        n = _exponent_for(root, facts.digits + 1, draws)
        if f:
            n = max(n - 1 + n % 2, 1)
        # The result's last digit: at a tie in the subnormal range, or anywhere.
        wanted = facts.least_exponent - 1
        if draws.one() > 0.3:
            wanted = draws.integer(facts.least_exponent - 2, facts.greatest_exponent)
        e = round(wanted / n) << f if n else 0
        sign = -1 if f == 0 and draws.one() < 0.3 else 1
        yield sign * Fraction(root ** (1 << f)) * Fraction(2) ** e, Fraction(n, 1 << f)


def _exponent_for(root: int, digits: int, draws: _Draws) -> int:
    """Return an n such that root^n has at most ``digits`` digits, preferably the greatest; any n for root 1."""
    if root == 1:
        magnitude = int(2 ** draws.one(0, 8))
        return magnitude if draws.one() < 0.5 else -magnitude
    n = 1
    while (root ** (n + 1)).bit_length() <= digits:
        n += 1
    return n if draws.one() < 0.5 else draws.integer(0, n)


def _integer_cases(name: str, draws: _Draws) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield perfect powers with fractional exponents, and powers up to the ends of the range."""
    bits = TYPES[name].bits
    while True:
        f = draws.integer(0, _MOST_ROOTS)
        root = int(2 ** draws.one(0, bits / 2**f))
        n = draws.integer(0, 1 + bits // max(1, root.bit_length() - 1))
        sign = -1 if f == 0 and draws.one() < 0.3 else 1
        yield Fraction(sign * root ** (1 << f)), Fraction(n, 1 << f)


def _representable(value: Fraction, name: str) -> bool:
    if TYPES[name].kind != "float":
        least, largest = integer_range(name)
        return value.denominator == 1 and least <= value <= largest
    try:
        nearest = float(cast(np.array(float(value)), name).astype(np.float64))
    except OverflowError:
        return False
    return math.isfinite(nearest) and Fraction(nearest) == value
