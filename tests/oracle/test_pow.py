"""pow, the core against the oracle: every type of the table to the power of every other, bit for bit."""

import functools
import itertools

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from tests.oracle.compare import assert_same_bits
from tests.oracle.grids import IS_FRESH, Part, bases, few, pow_grid, random_bits, specials

import halfulp as hu
from halfulp import reference
from halfulp.conformance.cases.values import hard_pairs
from halfulp.types import TYPES, element_type
from halfulp.types import codes as bits

PAIRS = [(x, y) for x in TYPES for y in TYPES]


@pytest.mark.parametrize(("x_name", "y_name"), PAIRS)
def test_pow(x_name, y_name, rng):
    parts = pow_grid(x_name, y_name, rng)
    every_pair = [part for part in parts if part.name in ("specials", "every pair")]
    assert_same_bits(every_pair, hu.pow, by_columns)
    assert_same_bits([part for part in parts if part not in every_pair], hu.pow, reference.pow)


def by_columns(x, y):
    """The oracle's powers of every base to every exponent: each number is computed once for all types that have it."""
    codes, index = np.unique(bits(y), return_inverse=True)
    row = element_type(y.dtype)
    wide = np.float64 if row.kind == "float" else np.uint64 if row.name == "uint64" else np.int64
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        numbers = codes.view(y.dtype).astype(wide)
    keys = bits(numbers).tolist()
    base_codes, place = np.unique(bits(x), return_inverse=True)
    known = columns(x.dtype, base_codes.tobytes(), wide)
    new = [key not in known for key in keys]
    table = bits(reference.pow(base_codes.view(x.dtype)[:, None], numbers[new]))
    known.update(zip(bits(numbers[new]).tolist(), table.T, strict=True))
    return np.stack([known[key] for key in keys])[index, place].view(x.dtype)


@functools.cache
def columns(dtype, bases, wide):
    """The powers of some bases that were computed so far, by the exponent."""
    return {}


@pytest.mark.parametrize("shape", [(), (1000,)])
@pytest.mark.parametrize("y_name", ["float64", "float32", "float16", "bfloat16", "float8_e5m2"])
def test_a_type_without_zero(y_name, shape):
    """float8_e8m0fnu: an exact zero is its NaN, as ml_dtypes converts one; a small power is the least value."""
    dtype, y_dtype = TYPES["float8_e8m0fnu"].dtype, TYPES[y_name].dtype
    nan, least, one = 0xFF, 0x00, 0x7F
    assert np.zeros(1).astype(dtype).view(np.uint8) == nan
    assert np.full(1, 2.0**-149).astype(dtype).view(np.uint8) == least
    table = [
        # x, y, the code of x^y
        (2.0, -np.inf, nan),
        (2.0**127, -np.inf, nan),
        (0.5, np.inf, nan),
        (2.0**-127, np.inf, nan),
        (1.0, -np.inf, one),
        (2.0, -1000.0, least),
        (2.0**127, -49152.0, least),
        (0.5, 1000.0, least),
        (2.0**-127, 49152.0, least),
        (2.0**64, -2.0, least),
    ]
    for number, exponent, code in table:
        x, y = (np.full(shape, n).astype(kind) for n, kind in ((number, dtype), (exponent, y_dtype)))
        for power in (hu.pow, reference.pow):
            codes = bits(np.asarray(power(x, y))).reshape(-1)
            assert set(codes.tolist()) == {code}, (power, number, exponent)


NUMBERS = [
    *(2**70 + 1, -(2**64) - 2, 10**400, -(10**400) - 1, 0, 1, 2, -1, -3, 7, 2**24 + 1, 2**53 + 1, 2**63),
    *(2**64 - 1, -(2**63), 0.5, -0.5, 2.5, 1e300, -0.0),
]


@pytest.mark.parametrize("x_name", TYPES)
def test_python_number_as_exponent(x_name, rng):
    x = np.concatenate([specials(x_name), bases(x_name, rng, 100)])
    for number in [*NUMBERS, 1 / 3, float("inf"), float("-inf"), float("nan")]:
        part = Part(f"exponent {number!r}", x, np.zeros(len(x)))
        assert_same_bits(
            [part],
            lambda x, _, number=number: hu.pow(x, number),
            lambda x, _, number=number: reference.pow(x, number),
        )


@pytest.mark.parametrize(("x_name", "y_name"), PAIRS)
def test_one_operand_for_all(x_name, y_name, rng):
    """A constant exponent, or base, gives the bits that a tensor of it gives (N7)."""
    x, y = bases(x_name, rng, 300), bases(y_name, rng, 300)
    table = hu.pow(x[:, None], y)
    for index in range(0, 300, 60):
        assert np.array_equal(bits(hu.pow(x, y[index])), bits(np.ascontiguousarray(table[:, index])))
        assert np.array_equal(bits(hu.pow(x[index], y)), bits(table[index]))


INTEGERS = [name for name, row in TYPES.items() if row.kind != "float" and row.bits >= 32]


@pytest.mark.parametrize("most", [3, 15, 16])
@pytest.mark.parametrize("y_name", INTEGERS)
@pytest.mark.parametrize("x_name", INTEGERS)
def test_small_integral_exponents(x_name, y_name, most, rng):
    """Tiles of nothing else have a way of their own, unless they are computed in place."""
    y = rng.integers(0, most, 600, endpoint=True).astype(TYPES[y_name].dtype)
    parts = [Part(f"exponents up to {most}", random_bits(x_name, rng, 600), y)]
    assert_same_bits(parts, hu.pow, reference.pow)

    def in_place(x, y):
        x = x.copy()
        return hu.pow(x, y, out=x)

    assert_same_bits(parts, in_place, reference.pow)


@pytest.mark.parametrize("y_name", ["int64", "uint64", "int32", "uint32", "int8"])
@pytest.mark.parametrize("x_name", ["int64", "uint64"])
def test_integers_whose_powers_are_small_or_not(x_name, y_name, rng):
    """Small ones may be products of doubles: about 2^51 and 2^53, of each base in turn, and one among small powers."""
    roots = [int(2 ** (bits / y)) + d for bits in (51, 52, 53) for y in range(1, 16) for d in (-1, 0, 1)]
    edges = [0, 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 0xBCC8 << 48, 0x7FF8 << 48, 0x8008 << 48]
    words = np.array([word * sign % 2**64 for word in roots + edges for sign in (1, -1)], np.uint64)
    y = np.arange(16)
    in_turn = np.repeat(words, 16).view(x_name), np.tile(y, words.size)
    few = rng.integers(0, 10, 600).astype(x_name) * (rng.choice([-1, 1], 600) if x_name == "int64" else 1)
    parts = [Part("in turn", in_turn[0], in_turn[1].astype(y_name))]
    for place in (0, 1, 15, 16, 31, 32, 100, 255, 256, 599):
        some, exponents = few.astype(x_name), rng.integers(0, 11, 600).astype(y_name)
        some[place], exponents[place] = rng.choice(words).view(x_name), rng.integers(0, 16)
        parts.append(Part(f"one at {place}", some, exponents))
    assert_same_bits(parts, hu.pow, reference.pow)


def random_words(width: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of this many bits, of all sizes, with all numbers of zeros at their end."""
    words = rng.integers(0, 1 << width, count, np.uint64, endpoint=width < 64) & np.uint64((1 << width) - 1)
    zeros = rng.integers(0, width, count).astype(np.uint64)
    return np.where(rng.random(count) < 0.5, words >> zeros, words >> zeros << zeros)


def as_integers(words: np.ndarray, name: str) -> np.ndarray:
    """The numbers modulo the type's."""
    row = TYPES[name]
    storage = np.dtype(f"u{row.dtype.itemsize}")
    return (words & np.uint64((1 << row.bits) - 1)).astype(storage).view(row.dtype)


ALL_INTEGERS = [name for name, row in TYPES.items() if row.kind != "float"]


@pytest.mark.parametrize("y_name", ALL_INTEGERS)
@pytest.mark.parametrize("x_name", ALL_INTEGERS)
def test_huge_integral_exponents(x_name, y_name, rng):
    """By a series, of bases one of whose neighbours is divisible by any power of two."""
    width, count = TYPES[y_name].bits - (TYPES[y_name].kind == "int"), few(3000)
    x = as_integers(
        random_words(TYPES[x_name].bits, count, rng) + rng.integers(-1, 2, count).astype(np.uint64), x_name
    )
    y = random_words(width, count, rng)
    edges = np.array([max(0, (1 << k) + d) for k in range(width) for d in (-1, 0, 1)] * few(16), np.uint64)
    parts = [
        Part("all sizes", x, as_integers(y, y_name)),
        Part("one size after the other", x, as_integers(np.sort(y), y_name)),
        Part("powers of two", np.resize(x, edges.size), as_integers(np.sort(edges), y_name)),
    ]
    assert_same_bits(parts, hu.pow, reference.pow)


@pytest.mark.parametrize("y_name", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("x_name", ALL_INTEGERS)
def test_integers_truncated(x_name, y_name, rng):
    """Powers of all sizes, at the top of the range, next to integers; bases beyond 2^53; roots that are integers."""
    row = TYPES[x_name]
    most, count = row.bits - (row.kind == "int"), few(1500)
    x = np.exp2(rng.uniform(1, most - 0.01, count)).astype(np.uint64)
    if most > 53:
        x[: count // 3] = rng.integers(1 << 53, 1 << most, count // 3, np.uint64)
    log2_x = np.log2(x.astype(float))
    parts = []
    for name, least, greatest in (
        ("all", 0, most),
        ("high", most - 1.5, most + 0.1),
        ("highest", most - 0.002, most),
    ):
        logs = rng.uniform(least, greatest, x.size)
        near = np.log2(np.maximum(1, np.rint(np.exp2(np.minimum(logs, 50)))))
        logs = np.where((logs < 50) & (rng.random(x.size) < 0.5), near, logs)
        parts.append(Part(name, as_integers(x, x_name), (logs / log2_x).astype(TYPES[y_name].dtype)))
    root = rng.integers(2, 1 << max(2, most // 2), count, np.uint64)
    for power, exponents in ((2, [0.5, 1.5, 2.5]), (3, [1 / 3, 2 / 3]), (4, [0.25, 0.75, 1.25])):
        near = root ** np.uint64(power) + rng.integers(-1, 2, root.size).astype(np.uint64)
        y = rng.choice(exponents, root.size).astype(TYPES[y_name].dtype)
        parts.append(Part(f"roots of order {power}", as_integers(near, x_name), y))
    parts += [
        Part(f"-{p.name}", as_integers(-p.x.astype(np.int64).view(np.uint64), x_name), p.y) for p in parts
    ]
    assert_same_bits(parts, hu.pow, reference.pow)


# Those that the kernels have a formula for.
FORMULAS = [2, 0.5, -1, 3, 4, -2, -0.5, 1.5]


@pytest.mark.parametrize("exponent", FORMULAS)
@pytest.mark.parametrize("x_name", ["float64", "float32", "float16", "bfloat16"])
def test_constant_exponent_with_a_formula(x_name, exponent, rng):
    """Each part by itself, since a formula is left where a block holds anything that it can't compute."""
    dtype, count = TYPES[x_name].dtype, few(3000)
    sign = rng.choice([-1, 1], count) if exponent == int(exponent) else 1
    x = (sign * rng.uniform(1, 2, count) * 2.0 ** rng.integers(-6, 6, count)).astype(dtype)
    few_bits = (sign * rng.integers(1, 100, count) * 2.0 ** rng.integers(-4, 4, count)).astype(dtype)
    codes = rng.integers(0, 2 ** TYPES[x_name].bits, count, np.uint64).astype(bits(x).dtype).view(dtype)
    with np.errstate(invalid="ignore"):
        numbers = codes[~np.isnan(codes)]
    hard, exponents = hard_pairs(x_name, x_name)
    kinds = {
        "ordinary": x,
        "few bits": few_bits,
        "positive": abs(numbers),
        "not NaN": numbers,
        "zeros": np.where(rng.random(count) < 0.3, 0, x).astype(dtype),
        "worst cases": hard[exponents == exponent],
    }
    parts = [Part(name, kind, np.full(len(kind), exponent, dtype)) for name, kind in kinds.items()]
    assert_same_bits(parts, lambda x, _: hu.pow(x, dtype.type(exponent)), reference.pow)


@pytest.mark.parametrize("in_a_block", [1, 20])
@pytest.mark.parametrize("x_name", ["float64", "float32", "float16"])
def test_hard_cases_among_others(x_name, in_a_block):
    """The lanes that a first phase leaves take other ways where a block has one or few of them."""
    x, y = hard_pairs(x_name, x_name)
    block, column = np.divmod(np.arange(len(x)), in_a_block)
    bases = np.full((len(x) // in_a_block + 1, 2048), 1.7, x.dtype)
    exponents = np.full_like(bases, 1.3)
    bases[block, 97 * column], exponents[block, 97 * column] = x, y
    powers = hu.pow(bases, exponents)[block, 97 * column]
    np.testing.assert_array_equal(bits(powers), bits(reference.pow(x, y)))


@pytest.mark.parametrize("exponent", FORMULAS)
@pytest.mark.parametrize("x_name", ["float64", "float32", "float16", "bfloat16"])
def test_special_bases_among_others(x_name, exponent, rng):
    """A formula changes its way where a block begins to hold special bases, and back where it has none any more."""
    dtype = TYPES[x_name].dtype
    ordinary = rng.uniform(0.01, 10, 2300).astype(dtype)
    known = np.unique(bits(np.concatenate([ordinary, specials(x_name)])))
    powers = reference.pow(known.view(dtype), np.full(known.shape, exponent, dtype))
    parts = []
    for special in specials(x_name):
        for share in (1, 0.5, 1 / 2048):
            x = ordinary.copy()
            x[rng.permutation(x.size)[: max(1, int(share * x.size))]] = special
            parts.append(Part(f"{share} of {special}", x, np.full(x.shape, exponent, dtype)))
    mixed = rng.choice(specials(x_name), 2300)
    parts.append(Part("specials only", mixed, np.full(mixed.shape, exponent, dtype)))

    def oracle(x, _):
        return powers[np.searchsorted(known, bits(x))]

    def in_place(x, _):
        x = x.copy()
        return hu.pow(x, dtype.type(exponent), out=x)

    assert_same_bits(parts, lambda x, _: hu.pow(x, dtype.type(exponent)), oracle)
    assert_same_bits(parts, in_place, oracle)


@pytest.mark.parametrize("exponent", FORMULAS)
@pytest.mark.parametrize("x_name", ["float64", "float32", "float16", "bfloat16"])
def test_one_special_base_at_every_place(x_name, exponent, rng):
    dtype = TYPES[x_name].dtype
    y = dtype.type(exponent)
    x = rng.uniform(0.01, 10, 280).astype(dtype)
    expected = bits(reference.pow(x, np.full(x.shape, y)))
    for special in np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.5]).astype(dtype):
        power = bits(reference.pow(np.array([special]), np.array([y])))[0]
        for place in range(x.size):
            some, right = x.copy(), expected.copy()
            some[place], right[place] = special, power
            assert np.array_equal(bits(hu.pow(some, y)), right), (special, place)


def rounded_product(a, b):
    """The products of integers below 2^48, rounded to 24 bits, half to even, as doubles."""
    low = np.uint64((1 << 24) - 1)
    lowest = (a & low) * (b & low)
    middle = (a >> 24) * (b & low) + (a & low) * (b >> 24) + (lowest >> 24)
    high, rest = (a >> 24) * (b >> 24) + (middle >> 24), (middle & low) << 24 | lowest & low
    top, more = (
        high << 8 | rest >> 40,
        rest << 24 != 0,
    )  # all bits but the last 40, and whether any of those is set
    shift = np.frexp(top.astype(np.float64))[1].astype(np.uint64) - 24
    kept, left, half = top >> shift, top & ((np.uint64(1) << shift) - 1), np.uint64(1) << (shift - 1)
    kept += (left > half) | ((left == half) & (more | (kept & 1 == 1)))
    return np.ldexp(kept.astype(np.float64), shift.astype(np.int64) + 40)


@pytest.mark.parametrize("scale", [1.0, -1.0, 2.0**-30])
@pytest.mark.parametrize("exponent", [3, 4])
def test_every_significand_of_a_product(exponent, scale):
    """No kernel tests whether a cube or a fourth power is near a boundary; the last scale is for those by doubles.

    A quarter of the significands, except in make exhaustive.
    """
    for first in range(1 << 23, 1 << 24, 1 << (20 if IS_FRESH else 22)):
        x = np.arange(first, first + (1 << 20), dtype=np.uint64)
        powers = rounded_product(x * x, x if exponent == 3 else x * x)
        expected = (powers * (scale * 2.0**-23) ** exponent).astype(np.float32)
        got = hu.pow((x * (scale * 2.0**-23)).astype(np.float32), np.float32(exponent))
        assert np.array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("exponent", [*(n / 2 for n in range(-9, 10)), 0.25, 1 / 3])
@pytest.mark.parametrize("x_name", ["float16", "bfloat16"])
def test_every_base_of_16_bits(x_name, exponent):
    """Arrays of exponents, formulas block by block, and the look-ups of large arrays give the same powers."""
    dtype = TYPES[x_name].dtype
    x = np.arange(1 << 16).astype(np.uint16).view(dtype)
    y = dtype.type(exponent)
    expected = bits(hu.pow(x, np.full(x.shape, y)))
    for size in (7, 33, 4096):
        pieces = [hu.pow(x[i : i + size], y) for i in range(0, x.size, size)]
        assert np.array_equal(bits(np.concatenate(pieces)), expected)
    assert np.array_equal(bits(hu.pow(np.tile(x, 5), y)), np.tile(expected, 5))


@pytest.mark.parametrize("x_name", ["float16", "bfloat16"])
def test_reciprocal_roots_are_far_from_boundaries(x_name):
    """Farther than the formula's error, which is not the same on every processor."""
    precision = int(ml_dtypes.finfo(TYPES[x_name].dtype).nmant) + 1
    for significand, parity in itertools.product(range(2 ** (precision - 1), 2**precision), (1, 2)):
        power = gmpy2.rec_sqrt(gmpy2.mpfr(significand * parity))
        power *= 2 ** (precision - 1 - gmpy2.floor(gmpy2.log2(power)))
        # The boundaries of numbers of this many bits are integers and a half.
        distance = abs(power - gmpy2.floor(power) - 0.5)
        assert distance > power * 2.0**-22


@pytest.mark.parametrize("exponent", [2, 0.5, 2.5, -3])
@pytest.mark.parametrize(
    "x_name", [name for name, row in TYPES.items() if row.kind == "float" and row.bits <= 8]
)
def test_every_base_of_8_bits_or_fewer(x_name, exponent):
    """Looked up, as large arrays are, and in the oracle."""
    row = TYPES[x_name]
    x = np.arange(1 << row.bits).astype(np.uint8).view(row.dtype)
    expected = reference.pow(x, np.full(x.shape, exponent))
    repeats = 4096 // x.size + 1
    assert np.array_equal(bits(hu.pow(np.tile(x, repeats), exponent)), np.tile(bits(expected), repeats))


def operands_for_phases(kind, rng, dtype, n=1536):
    """Bases and exponents where the first phases, which take blocks, need care."""
    x, y = rng.uniform(0.01, 10, n), rng.uniform(-4, 4, n)
    some = rng.random(n) < 0.02
    info = ml_dtypes.finfo(dtype)
    bits_of_fraction, normal = int(info.nmant), -int(info.minexp)
    match kind:
        case "tiny powers":
            y = rng.uniform(-normal, 8 - normal, n) / np.log2(x)
        case "great powers":
            y = rng.uniform(normal - 8, normal + 2, n) / np.log2(x)
        case "subnormal powers":
            y = rng.uniform(-normal - bits_of_fraction - 1, -normal, n) / np.log2(x)
        case "growth":
            x, y = rng.uniform(1, 1.1, n), rng.uniform(1, 500, n)
        case "next to 1":
            fractions = rng.uniform(-1, 1, n) * 2.0 ** rng.uniform(-bits_of_fraction - 1, -4, n)
            x, y = 1 + fractions, rng.uniform(-64, 64, n)
        case "great exponents among others":
            x, y = np.where(some, 1 + 2.0**-bits_of_fraction, x), np.where(some, 2.0**bits_of_fraction, y)
        case "subnormal bases":
            subnormal = 2.0 ** rng.uniform(-normal - bits_of_fraction, -normal, n)
            x, y = np.where(some, subnormal, x), np.where(some, y / 5, y)
        case "special among others":
            x, y = (
                np.where(some, rng.choice([0, -0.0, np.inf, np.nan], n), -x),
                np.where(some, y, np.round(y)),
            )
        case "special exponents":
            y = np.where(some, rng.choice([np.inf, -np.inf, np.nan], n), y)
        case "many special":
            x = np.where(rng.random(n) < 0.5, rng.choice([0, -0.0, np.inf, np.nan, -(2.0**-normal)], n), x)
        case "negative":
            x, y = rng.uniform(-10, 10, n), np.where(rng.random(n) < 0.5, y, np.round(y))
        case "exact among others":
            x, y = np.where(some, rng.integers(1, 100, n), x), np.where(some, rng.integers(-1, 4, n), y)
        case "ties":
            half = 2 ** (bits_of_fraction // 2 + 1)
            x, y = half + 1 + 2 * rng.integers(0, half // 4, n), np.full(n, 2)
    with np.errstate(over="ignore"):
        return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize(
    "kind",
    [
        *("tiny powers", "great powers", "subnormal powers", "growth", "next to 1"),
        *("great exponents among others", "subnormal bases", "special among others", "special exponents"),
        *("many special", "negative", "exact among others", "ties"),
    ],
)
def test_pow_by_phases_of_blocks(kind, dtype, rng):
    x, y = operands_for_phases(kind, rng, dtype)
    expected = bits(reference.pow(x, y))
    assert np.array_equal(bits(hu.pow(x, y)), expected)
    for n in (1, 15, 16, 17, 31, 32, 33, 255, 257, 513):
        assert np.array_equal(bits(hu.pow(x[n : 2 * n], y[n : 2 * n])), expected[n : 2 * n])
    assert np.array_equal(bits(hu.pow(x[::3], y[::3])), expected[::3])
    in_place = x.copy()
    assert np.array_equal(bits(hu.pow(in_place, y, out=in_place)), expected)
