"""Pairs (x, y) whose power is representable, or lies exactly midway between two neighbours.

A power is such a case only where, with r odd, x = r^(2^f) * 2^e and y = n / 2^f with 2^f dividing e,
so that x^y = r^n * 2^(e n / 2^f), and r^n has at most one digit more than the type. They fail every
rounding test that looks at an approximation, and a wrong decision about a tie shows nowhere else.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from halfulp.reference.formats import FLOAT_FORMATS, FloatFormat, IntFormat, format_of
from halfulp.types import TYPES

GREATEST_SHIFT = 5  # 3^(2^6) has more digits than any type's significand


def exact_pairs(
    x_name: str, y_name: str, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """At most count pairs, at random, of the types x_name and y_name."""
    row = format_of(TYPES[x_name].dtype)
    cases = float_cases(row, rng) if isinstance(row, FloatFormat) else integer_cases(row, rng)
    xs, ys = [], []
    for _ in range(4 * count):
        if len(xs) == count:
            break
        base, exponent = next(cases)
        if representable(base, x_name) and representable(exponent, y_name):
            xs.append(base)
            ys.append(exponent)
    return from_fractions(xs, x_name), from_fractions(ys, y_name)


def float_cases(row: FloatFormat, rng: np.random.Generator) -> Iterator[tuple[Fraction, Fraction]]:
    """Random cases whose result is normal, subnormal, or a tie in either range."""
    digits = row.digits
    top = (row.largest >> (digits - 1)) + row.quantum  # exponents of results run from quantum to about here
    while True:
        f = int(rng.integers(0, GREATEST_SHIFT + 1)) if rng.random() < 0.5 else 0
        root = odd_root(digits / 2**f, rng)
        n = exponent_for(root, digits + 1, rng)
        if f:
            n = max(n - 1 + n % 2, 1)
        # The result's last digit: at a tie in the subnormal range (quantum - 1), or anywhere.
        wanted = row.quantum - 1 if rng.random() < 0.3 else int(rng.integers(row.quantum - 2, top + digits))
        e = round(wanted / n) << f if n else 0
        sign = -1 if f == 0 and rng.random() < 0.3 else 1
        yield sign * Fraction(root ** (1 << f)) * Fraction(2) ** e, Fraction(n, 1 << f)


def odd_root(digits: float, rng: np.random.Generator) -> int:
    """An odd number of at most so many digits (a fraction of a digit counts), small ones preferred."""
    limit = 2**digits
    if limit <= 3 or rng.random() < 0.1:
        return 1
    return min(int(2 ** rng.uniform(1, digits)) | 1, int(limit) - 1 | 1)


def exponent_for(root: int, digits: int, rng: np.random.Generator) -> int:
    """An n such that root^n has at most so many digits, the greatest one preferred; any n for root 1."""
    if root == 1:
        return int(rng.choice([-1, 1])) * int(2 ** rng.uniform(0, 8))
    n = 1
    while (root ** (n + 1)).bit_length() <= digits:
        n += 1
    return n if rng.random() < 0.5 else int(rng.integers(0, n + 1))


def integer_cases(row: IntFormat, rng: np.random.Generator) -> Iterator[tuple[Fraction, Fraction]]:
    """Perfect powers with fractional exponents: where truncation has nothing to cut off."""
    while True:
        f = int(rng.integers(0, GREATEST_SHIFT + 1))
        root = int(2 ** rng.uniform(0, row.bits / 2**f))
        n = int(rng.integers(-2, 2 + row.bits // max(1, root.bit_length() - 1)))
        sign = -1 if f == 0 and rng.random() < 0.3 else 1
        yield Fraction(sign * root ** (1 << f)), Fraction(n, 1 << f)


def representable(value: Fraction, name: str) -> bool:
    """Whether the type holds this very number."""
    row = format_of(TYPES[name].dtype)
    if isinstance(row, IntFormat):
        return value.denominator == 1 and row.least <= value <= row.largest
    if value == 0 or not row.zero:
        return row.zero or (value > 0 and value.numerator & (value.numerator - 1) == 0 and within(value, row))
    return within(value, row) and exponent_of_last_digit(value) >= row.quantum


def within(value: Fraction, row: FloatFormat) -> bool:
    """Whether the magnitude has no more digits than the type, and is not beyond its largest."""
    n = value.numerator
    digits = abs(n).bit_length() - ((n & -n).bit_length() - 1)
    return (
        value.denominator & (value.denominator - 1) == 0
        and digits <= row.digits
        and abs(value) <= largest(row)
    )


def exponent_of_last_digit(value: Fraction) -> int:
    n = value.numerator
    return (n & -n).bit_length() - value.denominator.bit_length()


def largest(row: FloatFormat) -> Fraction:
    """The largest finite value."""
    code = np.array([row.largest], row.storage).view(TYPES[row.name].dtype)
    return Fraction(float(code.astype(np.float64)[0]))


def from_fractions(values: list[Fraction], name: str) -> np.ndarray:
    """An array of numbers that the type holds."""
    dtype = TYPES[name].dtype
    if name in FLOAT_FORMATS:
        return np.array([float(value) for value in values], np.float64).astype(dtype)
    wide = np.uint64 if TYPES[name].kind == "uint" else np.int64
    return np.array([int(value) for value in values], wide).astype(dtype)
