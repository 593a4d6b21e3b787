"""PRelu (core/numerics/prelu.h): x < 0 ? slope x : x, the product rounded once.

Theorem. For floating types the product is the exact one, rounded to nearest, ties to even. A NaN product is the
canonical NaN. Every x that is not negative, including NaN, is copied bit for bit. For integer types the result is the
product modulo 2^bits.

    8 bits      or fewer: every pair, against exact products
    16 bits     products are exact in floats or doubles, and rounded once (proofs/rounding.py): every pair by
                tests/exhaustive/test_prelu16.py
    32, 64      floats: one multiplication of the processor; here all classes of operands, with NaNs of all kinds.
                Integers: multiplication modulo 2^64 and its low bits, which depend only on low bits; here extremes
The vector loops compute the same: core_check compares them, and the exhaustive test runs them.
"""

from __future__ import annotations

import functools
import random
from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.elements import FLOATS, INTEGERS, FloatType, ask, float_type, integer_value
from proofs.integers import extreme
from proofs.special_values import bases
from proofs.step import Step

PAIRS = 4000


def steps(core: Path) -> list[Step]:
    floats = [Step(f"PRelu of {name}", functools.partial(of_floats, core, name)) for name in FLOATS]
    return floats + [
        Step(f"PRelu of {name}", functools.partial(of_integers, core, name)) for name in INTEGERS
    ]


def of_floats(core: Path, name: str) -> str:
    of, chance = float_type(core, name), random.Random(name)
    elements = bases(of, chance)
    cases = [(x, slope) for x in elements for slope in elements]
    questions = [f"prelu {name} {x} {slope}" for x, slope in cases]
    for question, told, (x, slope) in zip(questions, ask(core, questions), cases, strict=True):
        expected = float_prelu(of, x, slope)
        demand(int(told) == expected, f"{question} is {int(told):#x}, not {expected:#x}")
    return f"{len(cases)} pairs"


def float_prelu(of: FloatType, x: int, slope: int) -> int:
    value, factor = of.value(x), of.value(slope)
    if not value < 0:
        return x
    if isinstance(value, Fraction) and isinstance(factor, Fraction):
        product: Fraction | float = value * factor
    else:
        product = float(value) * float(factor)  # an infinity, or NaN
    return of.rounded(product, not of.is_negative(slope))


def of_integers(core: Path, name: str) -> str:
    bits, is_signed = INTEGERS[name], not name.startswith("u")
    chance = random.Random(name)
    every = range(1 << bits) if bits <= 8 else ()
    cases = [(x, slope) for x in every for slope in every]
    cases = cases or [(extreme(chance, bits), extreme(chance, bits)) for _ in range(PAIRS)]
    questions = [f"prelu {name} {x} {slope}" for x, slope in cases]
    for question, told, (x, slope) in zip(questions, ask(core, questions), cases, strict=True):
        base = integer_value(bits, is_signed, x)
        expected = (base * slope if base < 0 else base) % (1 << bits)
        demand(int(told) == expected, f"{question} is {told}, not {expected}")
    return f"{len(cases)} pairs"
