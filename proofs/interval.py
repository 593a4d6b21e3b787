"""Intervals with rational ends, and polynomials over symbols in intervals. All of it is exact: bounds are rigorous."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

Number = int | float | Fraction


@dataclass(frozen=True)
class Interval:
    """The numbers from `least` to `greatest`."""

    least: Fraction
    greatest: Fraction

    @classmethod
    def of(cls, least: Number, greatest: Number) -> Interval:
        return cls(Fraction(least), Fraction(greatest))

    @classmethod
    def within(cls, bound: Number) -> Interval:
        """Return the numbers of at most this magnitude."""
        return cls(-Fraction(bound), Fraction(bound))

    @classmethod
    def hull(cls, numbers: Iterable[Fraction]) -> Interval:
        found = list(numbers)
        return cls(min(found), max(found))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.least + other.least, self.greatest + other.greatest)

    def __sub__(self, other: Interval) -> Interval:
        return self + other.times(-1)

    def __mul__(self, other: Interval) -> Interval:
        return Interval.hull(
            a * b for a in (self.least, self.greatest) for b in (other.least, other.greatest)
        )

    def times(self, factor: Number) -> Interval:
        return Interval.hull(Fraction(factor) * end for end in (self.least, self.greatest))

    def power(self, exponent: int) -> Interval:
        ends = Interval.hull(end**exponent for end in (self.least, self.greatest))
        return Interval(Fraction(0), ends.greatest) if exponent % 2 == 0 and 0 in self else ends

    def __contains__(self, number: Number) -> bool:
        return self.least <= number <= self.greatest

    def meet(self, other: Interval) -> Interval:
        return Interval(max(self.least, other.least), min(self.greatest, other.greatest))

    @property
    def width(self) -> Fraction:
        return self.greatest - self.least

    @property
    def magnitude(self) -> Fraction:
        """The maximum magnitude."""
        return max(-self.least, self.greatest)

    @property
    def mignitude(self) -> Fraction:
        """The minimum magnitude."""
        return Fraction(0) if 0 in self else min(abs(self.least), abs(self.greatest))


def floor_log2(value: Fraction) -> int:
    """Return floor(log2 value), for a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def ceil_log2(value: Fraction) -> int:
    guess = floor_log2(value)
    return guess if value == Fraction(2) ** guess else guess + 1


def rounded_up(value: Fraction, bits: int) -> Fraction:
    """Return the next number with this number of bits."""
    if value == 0:
        return value
    unit = Fraction(2) ** (floor_log2(abs(value)) + 1 - bits)
    return -(-value // unit) * unit


def log2_text(value: Fraction) -> str:
    """Return a bound as text such as 2^-53.21, rounded up."""
    if value == 0:
        return "0"
    exponent = floor_log2(value)
    if value == Fraction(2) ** exponent:
        return f"2^{exponent}"
    return f"2^{math.ceil((exponent + math.log2(value / Fraction(2) ** exponent)) * 100 + 1e-6) / 100:.2f}"


Monomial = tuple[tuple[str, int], ...]  # symbols and their powers, in order


@dataclass(frozen=True)
class Polynomial:
    """A polynomial with rational coefficients."""

    terms: Mapping[Monomial, Fraction]

    @classmethod
    def constant(cls, value: Number) -> Polynomial:
        return cls({(): Fraction(value)} if value else {})

    @classmethod
    def symbol(cls, name: str) -> Polynomial:
        return cls({((name, 1),): Fraction(1)})

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, Fraction(0)) + coefficient
            if total:
                terms[monomial] = total
            else:
                del terms[monomial]
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -coefficient for monomial, coefficient in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, Fraction] = {}
        for a, a_coefficient in self.terms.items():
            for b, b_coefficient in other.terms.items():
                monomial = product(a, b)
                terms[monomial] = terms.get(monomial, Fraction(0)) + a_coefficient * b_coefficient
        return Polynomial({monomial: coefficient for monomial, coefficient in terms.items() if coefficient})

    def only(self, *symbols: str) -> Polynomial:
        """Return the terms that have only these symbols."""
        return Polynomial({m: c for m, c in self.terms.items() if all(symbol in symbols for symbol, _ in m)})

    def with_value(self, symbol: str, value: Polynomial) -> Polynomial:
        """Return the polynomial with a symbol replaced by another polynomial."""
        result = Polynomial({})
        for monomial, coefficient in self.terms.items():
            powers = dict(monomial)
            term = Polynomial({(): coefficient})
            for _ in range(powers.pop(symbol, 0)):
                term = term * value
            result = result + term * Polynomial({tuple(sorted(powers.items())): Fraction(1)})
        return result

    def range(self, symbols: Mapping[str, Interval]) -> Interval:
        least = greatest = Fraction(0)
        for monomial, coefficient in self.terms.items():
            part = Interval(coefficient, coefficient)
            for symbol, power in monomial:
                part = part * symbols[symbol].power(power)
            least, greatest = least + part.least, greatest + part.greatest
        return Interval(least, greatest)


def product(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for symbol, power in b:
        powers[symbol] = powers.get(symbol, 0) + power
    return tuple(sorted(powers.items()))
