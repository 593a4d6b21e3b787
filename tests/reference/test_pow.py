"""The oracle's power, held against the table of C23 F.10.4.4, and exact fractions."""

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from tests.reference.nearest import code_of, nearest, values_of

from halfulp.reference import pow as exact_pow
from halfulp.types import TYPES, codes, float_type, integer_range

INF, NAN = math.inf, math.nan

# C23 F.10.4.4, written out: base, exponent, result.
C23 = [
    *[(s * 0.0, y, s * INF) for s in (1, -1) for y in (-1.0, -3.0)],  # odd integer < 0
    *[(s * 0.0, y, INF) for s in (1, -1) for y in (-2.0, -0.5, -1.5)],  # < 0, not an odd integer
    *[(s * 0.0, -INF, INF) for s in (1, -1)],
    *[(s * 0.0, y, s * 0.0) for s in (1, -1) for y in (1.0, 3.0)],  # odd integer > 0
    *[(s * 0.0, y, 0.0) for s in (1, -1) for y in (2.0, 0.5, 1.5, INF)],  # > 0, not an odd integer
    *[(-1.0, y, 1.0) for y in (INF, -INF)],
    *[(1.0, y, 1.0) for y in (0.0, -0.0, 1.5, INF, -INF, NAN)],
    *[(x, y, 1.0) for x in (0.0, -0.0, 1.5, -2.0, INF, -INF, NAN) for y in (0.0, -0.0)],
    *[(x, y, NAN) for x in (-2.0, -0.5) for y in (0.5, -1.5)],  # finite < 0, finite non-integer
    *[(x, -INF, INF) for x in (0.5, -0.5)],
    *[(x, -INF, 0.0) for x in (1.5, -1.5, 2.0, -2.0)],
    *[(x, INF, 0.0) for x in (0.5, -0.5)],
    *[(x, INF, INF) for x in (1.5, -1.5, 2.0, -2.0)],
    *[(-INF, y, -0.0) for y in (-1.0, -3.0)],
    *[(-INF, y, 0.0) for y in (-2.0, -0.5, -INF)],
    *[(-INF, y, -INF) for y in (1.0, 3.0)],
    *[(-INF, y, INF) for y in (2.0, 0.5, 1.5, INF)],
    *[(INF, y, 0.0) for y in (-1.0, -0.5, -INF)],
    *[(INF, y, INF) for y in (1.0, 0.5, INF)],
    *[(x, NAN, NAN) for x in (0.0, -0.0, 2.0, -1.0, INF, -INF, NAN)],
    *[(NAN, y, NAN) for y in (1.0, -2.0, 0.5, INF, -INF)],
]


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3"])
def test_special_values(name):
    dtype = TYPES[name].dtype
    with np.errstate(invalid="ignore"):
        x, y, expected = (np.array(column).astype(dtype) for column in zip(*C23, strict=True))
    result = exact_pow(x, y)
    wanted = np.where(np.isnan(expected.astype(float)), float_type(name).nan, codes(expected))
    assert codes(result).tolist() == wanted.tolist()


@pytest.mark.parametrize("sign", [0, 0x80000000])
def test_a_signalling_nan_counts_as_a_quiet_one(sign):
    signalling = np.array([sign | 0x7F800001], np.uint32).view(np.float32)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    assert exact_pow(signalling, zero)[0] == 1
    assert exact_pow(one, signalling)[0] == 1
    assert code_of(exact_pow(signalling, one)[0]) == 0x7FC00000


@pytest.mark.parametrize(
    ("name", "x", "y", "code"),
    [
        # Types without an infinity, a NaN, a minus zero or a zero.
        ("float8_e4m3fn", 0.0, -1.0, 0x7F),
        ("float8_e4m3fn", -8.0, 3.0, 0x7F),  # a negative overflow: the NaN has no sign
        ("float8_e4m3fn", -0.0, -1.0, 0x7F),
        ("float8_e4m3fnuz", -0.25, 5.0, 0x80 | 1),  # -2^-10, the least subnormal
        ("float8_e4m3fnuz", -0.125, 5.0, 0x00),  # -0 does not exist
        ("float8_e4m3fnuz", 2.0, 100.0, 0x80),
        ("float4_e2m1fn", 0.0, -1.0, 0x7),
        ("float4_e2m1fn", -6.0, 3.0, 0xF),
        ("float4_e2m1fn", -6.0, 0.5, 0x8),
        ("float8_e8m0fnu", 2.0, -INF, 0xFF),  # an exact zero
        ("float8_e8m0fnu", 2.0, -1000.0, 0x00),
        ("float8_e8m0fnu", 2.0, -1e300, 0x00),  # above zero: the least value is the nearest
        ("float8_e8m0fnu", 2.0, 127.5, 0xFE),
        ("float8_e8m0fnu", 2.0, 127.6, 0xFF),  # beyond 1.5 * 2^127
        ("float8_e8m0fnu", 4.0, 0.25, 0x7F),  # sqrt 2 is nearer to 1
        ("float8_e8m0fnu", 8.0, 0.25, 0x80),  # 2^0.75 = 1.68 is nearer to 2
    ],
)
def test_small_types(name, x, y, code):
    base = np.array([x]).astype(TYPES[name].dtype)
    assert code_of(exact_pow(base, np.array([y]))[0]) == code


@pytest.mark.parametrize("step", [97, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_float16_to_small_integers_by_fractions(step):
    """Bases at some steps, every exponent from -6 to 9, against exact fractions and a search by distance."""
    values = values_of(np.dtype(np.float16))
    facts = float_type("float16")
    overflow = Fraction(65520)
    bases = np.array(sorted(values)[::step], np.uint16).view(np.float16)
    exponents = np.arange(-6, 10).astype(np.int8)
    result = exact_pow(bases[:, None], exponents)
    for i, base in enumerate(bases):
        for j, exponent in enumerate(exponents):
            if base == 0 and exponent <= 0:
                continue
            power = Fraction(float(base)) ** int(exponent)
            if abs(power) >= overflow:
                expected = facts.infinity | (facts.sign_bit if power < 0 else 0)
            else:
                expected = code_of(nearest(power, np.dtype(np.float16)))
            assert code_of(result[i, j]) == expected, (base, exponent)


@pytest.mark.parametrize("name", [name for name, row in TYPES.items() if row.kind != "float"])
def test_integers_wrap(name):
    row = TYPES[name]
    least, largest = integer_range(name)
    bases = sorted({least, largest, *range(max(least, -9), min(largest, 9) + 1)})
    x = np.array(bases, np.int64 if row.kind == "int" else np.uint64).astype(row.dtype)
    for exponent in (0, 1, 2, 3, 7, 64, 2**64 - 1):
        result = exact_pow(x, np.uint64(exponent))
        kept = [(pow(base, exponent, 1 << row.bits) - least) % (1 << row.bits) + least for base in bases]
        assert [int(value) for value in result] == kept


@pytest.mark.parametrize(
    ("dtype", "x", "y", "expected"),
    [
        (np.int64, 3, np.int64(39), 3**39),
        (np.int32, 0, np.int32(0), 1),
        (np.int32, 0, np.int32(-1), 2**31 - 1),
        (np.uint8, 0, np.int8(-2), 255),
        (np.int32, 1, np.int8(-5), 1),
        (np.int32, -1, np.int8(-5), -1),
        (np.int32, -1, np.int8(-4), 1),
        (np.int32, 2, np.int8(-1), 0),
        (np.int8, -2, np.float32(7), -128),
        (np.int8, -2, np.float32(9), -128),  # a float exponent saturates
        (np.int8, -2, np.int32(9), 0),  # an integer exponent wraps
        (np.int8, 2, np.float32(7), 127),
        (np.uint8, 3, np.float64(0.5), 1),
        (np.uint8, 9, np.float64(0.5), 3),
        (np.int32, 8, np.float64(1 / 3), 1),  # the double is below a third
        (np.int32, 8, np.nextafter(1 / 3, 1), 2),
        (np.int32, -8, np.float64(1 / 3), 0),  # NaN
        (np.int32, 5, np.float32(NAN), 0),
        (np.int32, 1, np.float32(NAN), 1),
        (np.int32, 5, np.float32(INF), 2**31 - 1),
        (np.int32, 5, np.float32(-INF), 0),
        (np.int32, -1, np.float32(INF), 1),
        (np.int32, 0, np.float32(0), 1),
        (np.uint64, 2**64 - 1, np.float32(1), 2**64 - 1),
        (np.uint64, 2**64 - 1, np.float32(0.5), 2**32 - 1),
        (np.int64, -(2**63), np.float32(1), -(2**63)),
        (np.int64, 2**62 + 1, np.float64(1), 2**62 + 1),
        (np.int64, 10**18 + 1, np.float64(0.5), 10**9),
    ],
)
def test_integer_targets(dtype, x, y, expected):
    assert exact_pow(np.array(x, dtype), np.array(y)) == expected


def test_python_number_as_exponent_counts_exactly():
    assert exact_pow(np.float64(-1), 2**70 + 1) == -1
    assert exact_pow(np.int8(3), 2**70 + 1) == np.int8(3)  # the order of 3 divides 2^6
    assert exact_pow(np.int8(3), 5.0) == 127
    assert exact_pow(np.int8(3), 5) == -13


def test_directml_rejects_negative_bases_with_fractional_exponents():
    x = np.array([-2, -1, -1, -INF, -INF, -2, -0.0, -1], np.float32)
    y = np.array([0.5, INF, -INF, 0.5, INF, 3, 0.5, 2], np.float32)
    np.testing.assert_array_equal(exact_pow(x, y, directml=True), [NAN] * 5 + [-8, 0, 1])
    assert exact_pow(np.int32(-1), np.float32(INF), directml=True) == 0


def test_scale_bias_is_one_rounding_to_float32():
    rng = np.random.default_rng(5)
    scale, bias = np.float32(1 / 3), np.float32(-0.7)
    for dtype in (np.float32, np.float16):
        x = rng.uniform(2, 4, 200).astype(dtype)
        exact = [Fraction(float(v)) * Fraction(float(scale)) + Fraction(float(bias)) for v in x]
        base = np.array([nearest(value, np.dtype(np.float32)) for value in exact])
        expected = exact_pow(base, np.float32(2.5))
        result = exact_pow(x, np.float32(2.5), scale_bias=(scale, bias))
        assert result.dtype == dtype
        if dtype is np.float32:
            np.testing.assert_array_equal(result, expected)
        else:  # the float32 base, and only the result in float16
            powers = exact_pow(base.astype(np.float64), np.float32(2.5))
            np.testing.assert_array_equal(result, powers.astype(np.float16))


def test_scale_bias_of_integers_goes_through_float64():
    x = np.array([2**53 + 1, 7, 0], np.int64)
    result = exact_pow(x, np.int64(1), scale_bias=(1.0, 0.5))
    assert result.tolist() == [2**53 + 2, 7, 0]  # 2^53 + 1.5 rounds to 2^53 + 2
    assert exact_pow(np.int8(16), np.int64(2), scale_bias=(1.0, 0.0)) == 127  # saturates
    assert exact_pow(np.int8(0), np.int64(-1), scale_bias=(-1.0, -0.0)) == 127  # one zero


def test_scale_bias_specials():
    x = np.array([INF, -INF, 0.0, 3e38, NAN], np.float32)
    np.testing.assert_array_equal(
        exact_pow(x, np.float32(1), scale_bias=(2.0, -1.0)), np.float32([INF, -INF, -1, INF, NAN])
    )
    np.testing.assert_array_equal(exact_pow(x, np.float32(1), scale_bias=(0.0, 1.0)), [NAN, NAN, 1, 1, NAN])
    assert np.signbit(exact_pow(np.float32(-0.0), np.float32(1), scale_bias=(1.0, -0.0)))


def test_shapes_strides_and_byte_order():
    x = np.arange(12, dtype=">f4").reshape(3, 4)[:, ::-2]
    result = exact_pow(x, np.array([[2], [1], [0]], np.int8))
    np.testing.assert_array_equal(result, np.float32([[9, 1], [7, 5], [1, 1]]))
    assert result.dtype == np.float32
    assert exact_pow(np.zeros((0, 3)), np.zeros(3)).shape == (0, 3)
    assert exact_pow(np.float16(-2), np.float16(3)).shape == ()


def test_the_callers_mpfr_context_does_not_matter():
    x, y = np.array([1.7, 9.3]), np.array([3.3, -0.4])
    expected = exact_pow(x, y)
    with gmpy2.context(precision=2, round=gmpy2.RoundUp, emax=5, emin=-5):
        np.testing.assert_array_equal(exact_pow(x, y), expected)
        assert exact_pow(np.int64(3), np.float64(39)) == 3**39
