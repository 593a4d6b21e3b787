"""Special values and signs of powers (core/numerics/pow_special.h, pow.h), against the list of IEEE 754-2019, 9.2.1.

Theorem. For every floating type, x^y has the sign of the list and, if the list has a value, that value. With
`domain_error` (DirectML's rule) a negative base takes only finite integral exponents.

    list        LIST below: the first row that applies
    classes     The functions depend on x only by comparisons with 0, 1 and infinity, and on y by these and parity_of.
                So each class of operands has representatives, among them its ends. For types of 8 bits or fewer, all
                encodings of x are tested; for others also the least and greatest of each class
    parity_of   every float against the definition, y/2 integral or not; doubles, which use the same template, at both
                ends of each binade and with random bits
    exponents   float64, since every floating type's exponents are doubles, and 64-bit integers
The vector loops (put_specials) compute the same: core_check compares them.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.compiled import output, program
from proofs.elements import FLOATS, INFINITY, FloatType, Value, ask, double_bits, float_type
from proofs.step import Step

NAN = float("nan")


def steps(core: Path) -> list[Step]:
    found = [
        Step(f"special values of {name}", functools.partial(special_values, core, name)) for name in FLOATS
    ]
    return [
        *found,
        Step("parity_of doubles", lambda: output(program("parity.cpp", core), "doubles").strip()),
        Step("parity_of floats", lambda: output(program("parity.cpp", core), "floats").strip(), quick=False),
    ]


class Operands:
    """The properties of x and y in the list."""

    def __init__(self, x: Value, x_negative: bool, y: Value, domain_error: bool):
        self.x, self.y, self.x_negative, self.domain_error = x, y, x_negative, domain_error
        self.size: Value = x if x > 0 else -x  # |x|
        is_integer = isinstance(y, Fraction) and y.denominator == 1
        self.odd = is_integer and int(y) % 2 == 1
        self.integral = is_integer

    def signed(self, value: float) -> float:
        """Return a value with x's sign if y is odd."""
        return -value if self.x_negative and self.odd else value


# The condition of each row, and the power. IEEE 754-2019, 9.2.1, pow; the first row is DirectML's.
Row = tuple[str, Callable[[Operands], bool], Callable[[Operands], float]]
LIST: list[Row] = [
    ("pow(x, +-0) is 1 for any x, even a NaN", lambda o: o.y == 0, lambda o: 1.0),
    ("pow(+1, y) is 1 for any y, even a NaN", lambda o: o.x == 1, lambda o: 1.0),
    ("a NaN otherwise", lambda o: o.x != o.x or o.y != o.y, lambda o: NAN),
    (
        "with domain_error: a base below zero, an exponent that is infinite or no integer",
        lambda o: o.domain_error and o.x < 0 and not o.integral,
        lambda o: NAN,
    ),
    (
        "pow(+-0, y) is +-infinity for y an odd integer < 0",
        lambda o: o.x == 0 and o.y < 0 and o.odd,
        lambda o: o.signed(INFINITY),
    ),
    ("pow(+-0, y) is +infinity for other y < 0", lambda o: o.x == 0 and o.y < 0, lambda o: INFINITY),
    ("pow(+-0, y) is +-0 for y an odd integer > 0", lambda o: o.x == 0 and o.odd, lambda o: o.signed(0.0)),
    ("pow(+-0, y) is +0 for other y > 0", lambda o: o.x == 0, lambda o: 0.0),
    ("pow(-1, +-infinity) is 1", lambda o: o.x == -1 and abs(o.y) == INFINITY, lambda o: 1.0),
    ("pow(x, +infinity) is +0 for -1 < x < 1", lambda o: o.y == INFINITY and o.size < 1, lambda o: 0.0),
    ("pow(x, +infinity) is +infinity for x < -1 or x > 1", lambda o: o.y == INFINITY, lambda o: INFINITY),
    (
        "pow(x, -infinity) is +infinity for -1 < x < 1",
        lambda o: o.y == -INFINITY and o.size < 1,
        lambda o: INFINITY,
    ),
    ("pow(x, -infinity) is +0 for x < -1 or x > 1", lambda o: o.y == -INFINITY, lambda o: 0.0),
    ("pow(+infinity, y) is +0 for y < 0", lambda o: o.x == INFINITY and o.y < 0, lambda o: 0.0),
    ("pow(+infinity, y) is +infinity for y > 0", lambda o: o.x == INFINITY, lambda o: INFINITY),
    (
        "pow(-infinity, y) is -0 or +0 for y < 0",
        lambda o: o.x == -INFINITY and o.y < 0,
        lambda o: o.signed(0.0),
    ),
    (
        "pow(-infinity, y) is -infinity or +infinity for y > 0",
        lambda o: o.x == -INFINITY,
        lambda o: o.signed(INFINITY),
    ),
    (
        "a NaN for a finite x < 0 and a finite y that is not an integer",
        lambda o: o.x < 0 and not o.integral,
        lambda o: NAN,
    ),
]


def bases(of: FloatType, chance: random.Random) -> list[int]:
    """Return all encodings, or those at the ends of each class, NaNs of all kinds, and some others."""
    if of.bits <= 8:
        return list(range(1 << of.bits))
    one = of.bias << (of.precision - 1)
    ends = [0, 1, (1 << (of.precision - 1)) - 1, 1 << (of.precision - 1), one - 1, one, one + 1, of.largest]
    nans = [of.overflow + 1, of.nan, of.nan + 1, of.sign - 1]
    found = [*ends, of.overflow, *nans, *(chance.randrange(of.sign) for _ in range(40))]
    return found + [encoding | of.sign for encoding in found]


def exponents(chance: random.Random) -> list[tuple[str, int, Value]]:
    """Return types, encodings and values: both signs of the ends of each class, for doubles, and integers."""
    whole = [1, 2, 3, 4, 5, 2**31 - 1, 2**52 - 1, 2**52, 2**53 - 1, 2**53, 2**53 + 2, 2**63, 2**1023]
    other = [0.0, 5e-324, 0.5, 1.5, 2.0**51 + 0.5, 1 + 2.0**-52, 2.0**52 - 0.5, INFINITY, NAN]
    other += [math.ldexp(chance.random(), chance.randrange(-40, 60)) for _ in range(20)]
    found: list[tuple[str, int, Value]] = []
    for value in [*map(float, whole), *other]:
        for y in (value, -value):
            exact: Value = Fraction(y) if math.isfinite(y) else y
            found.append(("float64", double_bits(y), exact))
    found.append(("float64", double_bits(NAN) ^ 1 << 51 | 1, NAN))  # a signalling one
    integers = (0, 1, 2, 3, 2**53 + 1, 2**63 - 1)
    found += [("int64", y % 2**64, Fraction(y)) for integer in integers for y in (integer, -integer)]
    found += [("int64", 1 << 63, Fraction(-(2**63)))]
    found += [("uint64", y, Fraction(y)) for y in (0, 1, 2, 2**53 + 1, 2**63, 2**64 - 1)]
    return found


def special_values(core: Path, name: str) -> str:
    of, chance = float_type(core, name), random.Random(name)
    cases = [
        (x, y_type, y, y_value, domain_error)
        for x in bases(of, chance)
        for y_type, y, y_value in exponents(chance)
        for domain_error in (False, True)
    ]
    questions = [f"pow {of.name} {y_type} {int(domain)} {x} {y}" for x, y_type, y, _, domain in cases]
    used: set[str] = set()
    for question, told, (x, _, _, y_value, domain) in zip(
        questions, ask(core, questions), cases, strict=True
    ):
        operands = Operands(of.value(x), of.is_negative(x), y_value, domain)
        power = int(told)
        for row, applies, result in LIST:
            if applies(operands):
                used.add(row)
                value = result(operands)
                expected = of.rounded(value, math.copysign(1, value) < 0)
                demand(power == expected, f"{question} is {power:#x}, not {expected:#x}: {row}")
                break
        else:
            minus = operands.x_negative and operands.odd
            is_minus = bool(power & of.sign) and (power != of.nan or of.bits == 4)
            has_sign = of.has_minus_zero or power & ~of.sign
            of_nan = power == of.nan and of.bits != 4
            demand(of_nan or is_minus == (minus and bool(has_sign)), f"{question} is {power:#x}: its sign")
    return f"{len(cases)} pairs, {len(used)} of {len(LIST)} rows"
