"""The error of the last phase (core/numerics/fixed_point.h, pow_exact.h): its powers are within 2^error_bits units in
their last place.

Theorem. Let x > 0 and y be dyadic numbers with significands of at most 64 bits, t = y log2 x, 2^-100 <= |t| < 2^13.
Then wide_exp2 of t's fraction is within 2^error_bits units in the last place of 2^(t - k), for each number of limbs.

    operations  round down by less than a unit: compared with integers, on random operands and on runs of ones and zeros
    constants   ln 2 and 2/ln 2, rounded down
    errors      programs/exact_phase_bounds.cpp compiles the functions with numbers that carry bounds of their value
                and error, and runs them for each shift a. A loop that ends at a zero term ends later with bounds; the
                terms that a run with numbers does not add are zero. The rest of a series is then less than two units
    t           is y times a logarithm of at least 0.4999 (for x next to 1, its logarithm times 2^a): a relative error.
                It is below 2^13, and shifting it rounds down
    formulas    the functions do compute logarithms and powers: the powers of random and extreme operands are compared
                with MPFR, within the same bound

Lemma. An end of the interval is rounded down to 64 bits and marked as slightly more (`inexact`). Boundaries of the
types have fewer bits. So rounding an end gives the same result as rounding any number up to the next unit: a result
that is at most that of x^y for the lower end, and at least that for the upper end. If |t| is below 2^-100, the power
is within 2^-64 of 1, on the right side. If |t| is 2^13 or more, the power is beyond every type.

Not proved: that 1024 bits always suffice for float64. No power is known that they do not decide.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import gmpy2  # type: ignore[import-untyped]

from proofs.bounds import demand
from proofs.compiled import output, program
from proofs.interval import log2_text
from proofs.sollya import floor_of
from proofs.step import Step

LIMBS = (3, 4, 6, 9, 17)
GREATEST_T = 1 << 13
LEAST_LOGARITHM = Fraction(4999, 10000)
REST_OF_A_SERIES = 2
OPERANDS, POWERS = 2000, 400
DIGITS = 17 * 64 + 200


def steps(core: Path) -> list[Step]:
    return [
        Step("operations of fixed-point numbers round down", lambda: operations(core)),
        Step("ln 2 and 2/ln 2", lambda: constants(core)),
        Step("2^error_bits", lambda: errors(core)),
        Step("powers against MPFR", lambda: powers(core)),
    ]


def answers(core: Path, questions: list[str]) -> list[str]:
    told = output(program("exact_phase.cpp", core), stdin="\n".join(questions) + "\n").splitlines()
    demand(len(told) == len(questions), "the program did not answer every question")
    return told


def hexadecimal(number: int, limbs: int) -> str:
    return " ".join(f"{number >> 64 * i & (2**64 - 1):x}" for i in reversed(range(limbs)))


def number_of(chance: random.Random, limbs: int, bits: int) -> int:
    """Return a number below 2^bits: random, or with runs of ones and zeros."""
    number = chance.getrandbits(bits)
    if chance.random() < 0.5:
        ends = [chance.randrange(bits + 1) for _ in range(4)]
        number = 0
        for a, b in (ends[:2], ends[2:]):
            number ^= (1 << a) - (1 << min(a, b))
    return number >> chance.choice((0, 0, 1, 63, 64, 65)) & ((1 << 64 * limbs) - 1)


def operations(core: Path) -> str:
    chance = random.Random(1)
    questions: list[str] = []
    expected: list[int] = []
    for limbs in LIMBS:
        bits, fraction = 64 * limbs, 64 * (limbs - 1)
        for _ in range(OPERANDS // len(LIMBS)):
            a, b = (number_of(chance, limbs, bits - 1) for _ in range(2))
            a, b = max(a, b), min(a, b)
            shift, divisor = chance.randrange(bits), chance.randrange(1, 2 ** chance.randrange(1, 64) + 1)
            numerator, denominator = sorted((chance.getrandbits(64), chance.getrandbits(64) | 1 << 63))
            small = a >> 32, b >> 32  # whose product is below 2^64
            for operation, operands, result in (
                ("+", (a, b), a + b),
                ("-", (a, b), a - b),
                ("*", small, small[0] * small[1] >> fraction),
            ):
                questions.append(f"{operation} {limbs} {' '.join(hexadecimal(o, limbs) for o in operands)}")
                expected.append(result)
            for operation, operand, result in (
                ("/", divisor, a // divisor),
                (">", shift, a >> shift),
                ("<", shift, a << shift & ((1 << bits) - 1)),
            ):
                questions.append(f"{operation} {limbs} {hexadecimal(a, limbs)} {operand}")
                expected.append(result)
            questions.append(f"q {limbs} {numerator} {denominator}")
            expected.append((numerator << fraction) // denominator)
    for question, told, result in zip(questions, answers(core, questions), expected, strict=True):
        demand(int(told, 16) == result, f"{question} is {told}")
    return f"{len(questions)} results"


def constants(core: Path) -> str:
    told = answers(core, ["c ln2", "c two_over_ln2"])
    for text, function in zip(told, ("log(2)", "2/log(2)"), strict=True):
        demand(int(text, 16) == floor_of(f"({function}) * 2^1024"), f"{function} is not rounded down")
    return "1024 bits of fraction"


def lines(text: str) -> Iterator[list[str]]:
    return (line.split() for line in text.splitlines())


def errors(core: Path) -> str:
    bounds = program("exact_phase_bounds.cpp", core)
    error_bits, worst = 0, Fraction(0)
    for word, *numbers in lines(output(bounds)):
        if word == "bits":
            error_bits = int(numbers[0])
        else:
            worst = max(worst, Fraction(float.fromhex(numbers[1])))
    demand(error_bits > 0 and worst > 0, "the program printed nothing")
    of_f = (worst + REST_OF_A_SERIES) * GREATEST_T / LEAST_LOGARITHM + 2
    of_power = max(
        Fraction(float.fromhex(error)) for _, _, error in lines(output(bounds, str(float(of_f * 2))))
    )
    # The rest of the exponential's series, after the maximum number of squarings.
    of_power += REST_OF_A_SERIES * 2**12
    demand(of_power <= 1 << error_bits, f"the error is {log2_text(of_power)}, and 2^{error_bits} is claimed")
    return f"{log2_text(of_power)} units, claimed 2^{error_bits}"


def operand(chance: random.Random) -> tuple[int, int]:
    """A dyadic number: an odd significand and an exponent."""
    significand = chance.getrandbits(chance.randrange(1, 65)) | 1
    if chance.random() < 0.3:
        significand = (1 << chance.randrange(1, 64)) + chance.choice((-1, 1))
    return significand | 1, chance.randrange(-80, 20) - significand.bit_length()


def powers(core: Path) -> str:
    chance = random.Random(2)
    questions: list[str] = []
    expected: list[gmpy2.mpfr] = []
    with gmpy2.context(precision=DIGITS, emin=-(1 << 30), emax=1 << 30):
        while len(questions) < POWERS * len(LIMBS):
            x, y = operand(chance), operand(chance)
            base = gmpy2.mpfr(x[0]) * gmpy2.exp2(x[1])
            t = gmpy2.mpfr(y[0]) * gmpy2.exp2(y[1]) * gmpy2.log2(base)
            size = abs(t)
            if base == 1 or not 2.0**-99 < size < GREATEST_T - 1:
                continue
            negative = chance.random() < 0.5
            for limbs in LIMBS:
                questions.append(f"p {limbs} {x[0]} {x[1]} {int(negative)} {y[0]} {y[1]}")
                expected.append(-t if negative else t)
        worst = gmpy2.mpfr(0)
        for question, told, t in zip(questions, answers(core, questions), expected, strict=True):
            words = told.split()
            demand(len(words) == 2, f"{question} is {told}")
            fraction = 64 * (int(question.split()[1]) - 1)
            power = gmpy2.mpfr(int(words[1], 16))
            exact = gmpy2.exp2(t - int(words[0]) + fraction)
            worst = max(worst, abs(power - exact))
        demand(worst <= 1 << 32, f"a power is {float(worst):.3g} units off")
    return f"{len(questions)} within 2^{float(gmpy2.log2(worst)):.1f} units"
