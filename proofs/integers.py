"""Powers of integer types (core/numerics/pow_int.h, kernels/int/pow.h).

Theorem. With an integer exponent y >= 0 the result is the power of the integers modulo 2^bits. With a negative
exponent, or one of a floating type, it is the real power truncated toward zero, saturated.

    8 bits      pow_wrap for every pair; the scalar function for every base with exponents of float64 that have few
                bits, against integer roots
    16 bits     pow_wrap for every pair, against repeated products
    32, 64      power<bits> is x^y by its recursion, an identity of integers modulo 2^bits: x^y = x^(y mod 2)
                (x^2)^(y/2). Large exponents: y = a + 2^8 b, x^(2^8) = 1 + 2^10 u for an odd x (squares of odd numbers
                are 1 modulo 8, and each further squaring adds a factor of 2: tested for every odd x modulo 2^10), and
                the binomial series. The series is exact modulo 2^bits if in each bracket the inverse of i's odd part
                is right, and i has fewer factors of 2 than 2^10: tested for each i. The template's steps: for 16 bits
                and 2^zeros from 2^5 on, every u and b. Extreme and random pairs are compared with Python's pow
    periods     reduced_exponent: odd units have a period that divides 2^(bits-2), since the generators -1 and 5 have.
                An even base to a power of at least `bits` is zero, and the period is not less than `bits`
    saturate    at both ends of each piece, for each type; floor_of_sum, floor_of_power: at and next to integers,
                against fractions
The tests of intervals between integers are those of proofs/rounding.py, with floor instead of a rounding: it is
monotone too.
"""

from __future__ import annotations

import functools
import math
import random
from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.compiled import output, program
from proofs.elements import INTEGERS, ask, double_bits, integer_value
from proofs.step import Step

PAIRS = 20000


def steps(core: Path) -> list[Step]:
    return [
        Step("pow_wrap of 8 bits: every pair", lambda: checked(core, "wrap8")),
        Step("pow_wrap of 16 bits: every pair", lambda: checked(core, "wrap16"), quick=False),
        Step("the binomial series of 16 bits", lambda: checked(core, "series")),
        Step("odd squares, and inverses", lambda: checked(core, "lemmas")),
        Step("pow_wrap of 32 and 64 bits", lambda: wide_pairs(core)),
        Step("periods", lambda: periods(core)),
        Step("saturate, floor_of_sum, floor_of_power", lambda: ends(core)),
        *(
            Step(f"{name} to powers of few bits", functools.partial(real_powers, core, name))
            for name in ("int4", "uint4", "int8", "uint8")
        ),
    ]


def checked(core: Path, part: str) -> str:
    """Run a part of the program, which fails at the first error, and return its summary."""
    told = output(program("integers.cpp", core), part).strip()
    demand(bool(told), "the program printed nothing")
    return told


def answers(core: Path, questions: list[str]) -> list[int]:
    told = output(program("integers.cpp", core), "ask", stdin="\n".join(questions) + "\n").split()
    demand(len(told) == len(questions), "the program did not answer every question")
    return [int(word) for word in told]


def extreme(chance: random.Random, bits: int) -> int:
    """Return a number below 2^bits: random, with few bits, or next to a power of two."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.getrandbits(bits)
    if kind == 1:
        return chance.getrandbits(chance.randrange(1, bits))
    if kind == 2:
        return (1 << chance.randrange(bits)) + chance.choice((-1, 0, 1)) & ((1 << bits) - 1)
    return (1 << bits) - 1 - chance.getrandbits(chance.randrange(1, 12))


def wide_pairs(core: Path) -> str:
    chance = random.Random(4)
    questions, expected = [], []
    for bits in (32, 64):
        for _ in range(PAIRS // 2):
            x, y = extreme(chance, bits), extreme(chance, bits)
            questions.append(f"wrap {bits} {x} {y}")
            expected.append(pow(x, y, 1 << bits))
    for question, told, power in zip(questions, answers(core, questions), expected, strict=True):
        demand(told == power, f"{question} is {told}, not {power}")
    return f"{PAIRS} pairs"


def periods(core: Path) -> str:
    chance = random.Random(5)
    questions, exponents = [], []
    for bits in (4, 8, 16, 32):
        period = 1 << (bits - 2)
        demand(period >= bits, "an even base's power is not zero yet")
        for generator in (-1, 5):  # of the odd numbers modulo 2^bits (Gauss)
            demand(pow(generator, period, 1 << bits) == 1, f"{generator} has another period")
        for _ in range(200):
            y = extreme(chance, 63)
            questions.append(f"reduced {bits} {y}")
            exponents.append((bits, y))
    for (bits, y), told in zip(exponents, answers(core, questions), strict=True):
        demand(told < 1 << bits, f"the exponent {y} is reduced to {told}, which has too many bits")
        for x in (0, 2, 3, 5, (1 << bits) - 1, (1 << (bits - 1)) - 2, chance.getrandbits(bits)):
            demand(
                pow(x, told, 1 << bits) == pow(x, y, 1 << bits), f"{x}^{y} is not {x}^{told} of {bits} bits"
            )
    return f"{len(questions)} exponents"


def ends(core: Path) -> str:
    """Compare saturation for each type, and integer parts of sums of doubles."""
    chance = random.Random(6)
    questions, expected = [], []
    for name, bits in INTEGERS.items():
        is_signed = not name.startswith("u")
        least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
        near = {0, 1, greatest - 1, greatest, greatest + 1, -least, -least + 1, (1 << 64) - 1}
        for magnitude in sorted(m for m in near if 0 <= m < 1 << 64):
            for negative in (False, True):
                questions.append(f"saturate {int(is_signed)} {bits} {int(negative)} {magnitude}")
                value = -magnitude if negative else magnitude
                expected.append(min(max(value, least), greatest) % (1 << 64))
    for _ in range(PAIRS):
        high = math.ldexp(chance.getrandbits(53) | 1 << 52, chance.randrange(-52, 12))
        if chance.random() < 0.5:
            high = float(round(high)) or 1.0
        part = chance.choice((-1, 1, 0, 1 - 2.0**-30, chance.random(), -chance.random(), -(2.0**-50)))
        low = math.ulp(high) / 2 * part
        if keeps_its_floor(high, low):
            questions.append(f"sum {double_bits(high)} {double_bits(low)}")
            expected.append(math.floor(Fraction(high) + Fraction(low)) % (1 << 64))
        k, down = chance.randrange(0, 66), 1 - math.frexp(high)[1]
        high, low = math.ldexp(high, down), math.ldexp(low, down)  # high in [1, 2)
        if keeps_its_floor(math.ldexp(high, k), math.ldexp(low, k)):
            questions.append(f"power {double_bits(high)} {double_bits(low)} {k}")
            expected.append(min(math.floor((Fraction(high) + Fraction(low)) * 2**k), (1 << 64) - 1))
    for question, told, result in zip(questions, answers(core, questions), expected, strict=True):
        demand(told == result, f"{question} is {told}, not {result}")
    return f"{len(questions)} results"


def keeps_its_floor(high: float, low: float) -> bool:
    """Return whether floor_of_sum's assumption holds: if high has a fraction, low does not reach the next integer."""
    return high == math.floor(high) or math.floor(Fraction(high) + Fraction(low)) == math.floor(high)


def real_powers(core: Path, name: str) -> str:
    """Compare every base with exponents n/2^r: the floor of the 2^r-th root of x^n, by integers."""
    bits, is_signed = INTEGERS[name], not name.startswith("u")
    exponents = sorted({Fraction(n, 1 << r) for n in range(-9, 40) for r in range(5)} | {Fraction(2) ** 70})
    cases = [(x, y) for x in range(1 << bits) for y in exponents]
    questions = [f"pow {name} float64 0 {x} {double_bits(float(y))}" for x, y in cases]
    least, greatest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    for question, told, (encoding, y) in zip(questions, ask(core, questions), cases, strict=True):
        expected = real_power(integer_value(bits, is_signed, encoding), y, least, greatest)
        found = integer_value(bits, is_signed, int(told))
        demand(found == expected, f"{question} is {found}, not {expected}")
    return f"{len(cases)} pairs"


def real_power(x: int, y: Fraction, least: int, greatest: int) -> int:
    """Return x^y truncated and saturated. NaN gives 0, and 0 to a negative power gives the maximum."""
    if y == 0 or x == 1:
        return 1
    if x == 0:
        return 0 if y > 0 else greatest
    if x < 0 and y.denominator > 1:
        return 0
    minus = x < 0 and y.numerator % 2 == 1
    size = abs(x)
    if size == 1:
        magnitude = 1
    elif y < 0:
        magnitude = 0
    elif y > 64:
        magnitude = 1 << 64
    else:
        magnitude = size**y.numerator
        for _ in range(y.denominator.bit_length() - 1):
            magnitude = math.isqrt(magnitude)
    return max(least, min(greatest, -magnitude if minus else magnitude))
