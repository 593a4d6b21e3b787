"""Operands about the edges: of the range, of 1, of rounding, of parity, of integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.build import Types, case_id, elementwise, operand_types
from halfulp.conformance.cases.generators.exact import exact_pairs
from halfulp.conformance.cases.generators.pairs import (
    Pairs,
    bases,
    exponents,
    finite,
    joined,
    outer,
    result_logs,
)
from halfulp.conformance.cases.generators.random import Random, cast
from halfulp.conformance.floats import (
    codes,
    float_type,
    from_codes,
    from_integers,
    integer_range,
)
from halfulp.operators import pow as exact_pow
from halfulp.specs import OpVersion
from halfulp.types import TYPES

_SETS = {"quick": 1, "full": 4}


def edge(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield operands about the edges of the type: one set, or in full mode four."""
    x_name, y_name = operand_types(row, types)
    for number in range(_SETS[mode]):
        random = Random(case_id(row, types, "edge", str(number)))
        if row.kernel == "prelu":
            pairs = prelu_edges(x_name, random)
        elif len(types) == 1:
            pairs = range_edges_of(x_name, random, 400)
        else:
            pairs = pow_edges(x_name, y_name, random, number)
        yield from elementwise(row, types, "edge", str(number), pairs, with_open=mode == "full")


def pow_edges(x_name: str, y_name: str, random: Random, number: int) -> Pairs:
    """Return all kinds of edges for powers of two types."""
    return joined(
        range_edges(x_name, y_name, random, 500),
        near_one(x_name, y_name, random, 300),
        exact_pairs(x_name, y_name, number, 300),
        parity(x_name, y_name),
        Pairs(random.bits(x_name, 300), random.bits(y_name, 300)),
    )


def range_edges(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return powers about overflow, the least normal number, the least subnormal, half of it; of integers, the ends."""
    x = bases(x_name, random, count)
    return Pairs(x, neighbours(exponents(x, end_logs(x_name, random, count), y_name, random), random))


def range_edges_of(name: str, random: Random, count: int) -> Pairs:
    """Return the same for exponents of an attribute: bases whose square, root and so on lie about the ends."""
    y = random.choose(np.array([2, 3, 0.5, -1, -2.5], np.float32), count)
    x = np.asarray(exact_pow(np.float64(2), end_logs(name, random, count) / y))
    return Pairs(neighbours(finite(cast(x, name)), random), y)


def end_logs(name: str, random: Random, count: int) -> Array:
    """Return binary logarithms of numbers about the ends of a type's range."""
    if TYPES[name].kind == "float":
        facts = float_type(name)
        top, low = facts.greatest_exponent, facts.least_exponent
        ends, unit = [top, top, low + facts.digits - 1, low, low - 1, 0], 2.0 ** (1 - facts.digits)
    else:
        bits = integer_range(name)[1].bit_length()
        ends, unit = [bits, bits, 1, 0], 2.0**-8
    offsets = random.mixed(
        random.normal(count) * unit, random.choose([0, 1e-9, -1e-9, 0.3, -0.3], count), random.normal(count)
    )
    return random.choose(np.array(ends, float), count) + offsets


def neighbours(y: Array, random: Random) -> Array:
    """Return numbers with some of them moved to a neighbour of their type."""
    name = y.dtype.name
    steps = random.choose([0, 0, 0, 1, -1, 2], len(y))
    if TYPES[name].kind != "float":
        least, largest = integer_range(name)
        stepped = (int(v) + step for v, step in zip(y.astype(object).tolist(), steps.tolist(), strict=True))
        return from_integers((min(max(value, least), largest) for value in stepped), name)
    facts = float_type(name)
    if not facts.has_zero:
        return y
    word = codes(y).astype(np.uint64)
    sign, magnitude = word & np.uint64(facts.sign_bit), word & np.uint64(facts.sign_bit - 1)
    moved = np.clip(magnitude.astype(np.int64) + steps, 0, facts.largest).astype(np.uint64)
    return from_codes(np.where(magnitude > facts.largest, word, moved | sign), name)


def near_one(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return bases within a few units of +-1, exponents so large that the results fill the range."""
    if TYPES[x_name].kind != "float" or not float_type(x_name).has_zero:
        x = bases(x_name, random, count)
        return Pairs(x, exponents(x, result_logs(x_name, random, count), y_name, random))
    facts = float_type(x_name)
    one = int(codes(np.array(1).astype(TYPES[x_name].dtype)))
    magnitudes = np.clip(one + np.rint(random.normal(count) * 4).astype(np.int64), 0, facts.largest)
    signs = random.choose([0, 0, 0, 0, facts.sign_bit], count).astype(np.uint64)
    x = from_codes(magnitudes.astype(np.uint64) | signs, x_name)
    return Pairs(x, exponents(x, result_logs(x_name, random, count), y_name, random))


def parity(x_name: str, y_name: str) -> Pairs:
    """Return negative bases with exponents of every size about the last that are odd, or integral at all."""
    signed = [-1.0, -2.0, -0.5, -0.0, 1.0]
    values = [2.0**k + d for k in (1, 3, 8, 11, 12, 23, 24, 25, 31, 32) for d in (-1, 0, 1)]
    if TYPES[y_name].kind == "float":
        digits = float_type(y_name).digits
        values += [2.0 ** (digits - s) - 1 for s in (0, 1, 2)] + [2.0**digits, 2.0 ** (digits - 1) - 0.5]
        y = cast(np.array(values + [-value for value in values]), y_name)
    else:
        least, largest = integer_range(y_name)
        wide = {*map(int, values), *(2**k + d for k in (52, 53, 54, 62, 63, 64) for d in (-1, 0, 1))}
        wide |= {-value for value in wide}
        y = from_integers(sorted(value for value in wide if least <= value <= largest), y_name)
    if TYPES[x_name].kind == "float":
        facts = float_type(x_name)
        if facts.has_zero:
            one = int(codes(np.array(1).astype(TYPES[x_name].dtype)))
            near = from_codes([facts.sign_bit | (one - 1), facts.sign_bit | (one + 1)], x_name)
            return outer(np.concatenate([cast(np.array(signed), x_name), near]), y)
    return outer(cast(np.array(signed), x_name), y)


def prelu_edges(name: str, random: Random) -> Pairs:
    """Return products about the least numbers and the largest, exact ties, zeros; of integers, products that wrap."""
    row = TYPES[name]
    anything = Pairs(random.bits(name, 300), random.bits(name, 300))
    if row.kind != "float":
        largest = integer_range(name)[1]
        x = cast(-random.spread(0, row.bits - 1, 700), name)
        with np.errstate(all="ignore"):
            wanted = float(largest) * random.choose([-1, 1], 700) * (1 + random.normal(700) * 0.1)
            slopes = wanted / x.astype(np.float64)
        return joined(Pairs(x, neighbours(cast(slopes, name), random)), anything)
    facts = float_type(name)
    if not facts.has_zero:
        return anything
    low, high = facts.least_exponent, facts.greatest_exponent
    x = -random.spread(low / 2 - 8, low / 2 + 8, 400)
    least = cast(x, name), cast(random.spread(low - 2, low + facts.digits + 1, 400) / x, name)
    x = -random.spread(high / 2 - 4, high / 2 + 4, 300)
    most = cast(x, name), cast(random.spread(high - 1, high + 1, 300) * random.choose([-1, 1], 300) / x, name)
    # Ties: 3 times an odd significand has one digit more than the type, if it is less than 4/3.
    half = 1 << (facts.digits - 1)
    odd = random.integers(half // 2, max(half * 2 // 3, half // 2 + 1), 200) * 2 + 1
    ties = cast(-odd.astype(np.float64), name), cast(random.choose([0.75, 1.5, 3.0, -1.5], 200), name)
    return joined(Pairs(*least), Pairs(*most), Pairs(*ties), anything)
