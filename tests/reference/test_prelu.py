"""The oracle's PRelu, held against exact fractions and hand-written values."""

from fractions import Fraction

import numpy as np
import pytest
from tests.reference.nearest import code_of, nearest

from halfulp.reference import prelu
from halfulp.types import TYPES


def test_what_is_not_below_zero_is_copied_bit_for_bit():
    codes = np.array(
        [0x7F800001, 0xFF812345, 0x7FC00000, 0xFFC00000, 0, 0x80000000, 0x7F800000, 1], np.uint32
    )
    x = codes.view(np.float32)
    assert prelu(x, np.float32(np.nan)).view(np.uint32).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("x", "slope", "code"),
    [
        (-np.inf, 0.0, 0x7FC00000),
        (-1.0, -np.nan, 0x7FC00000),
        (-2.0, 0.0, 0x80000000),
        (-2.0, -0.0, 0),
        (-np.inf, 2.0, 0xFF800000),
        (-3e38, -2.0, 0x7F800000),
        (-(2.0**-149), 0.5, 0x80000000),  # a tie, to zero
        (-(2.0**-149), 0.75, 0x80000001),
        (-(2.0**-148), 0.75, 0x80000002),  # a tie, to even
    ],
)
def test_special_products(x, slope, code):
    assert code_of(prelu(np.float32(x), np.float32(slope))[()]) == code


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_products_by_fractions(dtype):
    rng = np.random.default_rng(6)
    x, slope = (rng.uniform(-1, 1, 500).astype(dtype) for _ in range(2))
    slope *= dtype(2) ** rng.integers(-14, 10, 500).astype(dtype)
    result = prelu(x, slope)
    for a, b, got in zip(x, slope, result, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b))
        expected = nearest(exact, np.dtype(dtype)) if a < 0 else a
        assert code_of(got) == code_of(expected)


def test_bfloat16_rounds_once():
    dtype = TYPES["bfloat16"].dtype
    x, slope = (np.array([value]).astype(dtype) for value in (-1.0078125, 1.5))
    assert float(prelu(x, slope)[0]) == -1.515625  # -1.51171875 is a tie, to even
    x = np.array([-1.0], dtype)
    assert prelu(x, np.array([0.333], dtype))[0] == -np.array([0.333], dtype)[0]


@pytest.mark.parametrize(
    ("name", "x", "slope", "code"),
    [
        ("float8_e4m3fn", -448, -2, 0x7F),
        ("float8_e4m3fn", -448, 2, 0x7F),  # a NaN product has no sign
        ("float8_e4m3fnuz", -0.0009765625, 0.25, 0x00),  # no minus zero
        ("float8_e5m2fnuz", -57344, 2, 0x80),
        ("float4_e2m1fn", -6, 6, 0xF),
        ("float4_e2m1fn", -0.5, 0.5, 0x8),
        ("float8_e8m0fnu", 4, 8, 0x81),
    ],
)
def test_small_types(name, x, slope, code):
    dtype = TYPES[name].dtype
    assert code_of(prelu(np.array([x]).astype(dtype), np.array([slope]).astype(dtype))[0]) == code


def test_integers_wrap_and_unsigned_are_copied():
    x = np.array([-128, -3, 0, 5], np.int8)
    assert prelu(x, np.int8(-1)).tolist() == [-128, 3, 0, 5]
    assert prelu(x, np.int8(100)).tolist() == [0, -44, 0, 5]
    unsigned = np.array([0, 200, 255], np.uint8)
    assert prelu(unsigned, np.uint8(7)).tolist() == [0, 200, 255]
    assert prelu(np.int64(-(2**63)), np.int64(-1)) == -(2**63)
    small = np.array([-8, -3, 7]).astype(TYPES["int4"].dtype)
    assert [int(value) for value in prelu(small, small)] == [0, -7, 7]


def test_types_must_agree():
    with pytest.raises(TypeError, match="x is float32, slope is float16"):
        prelu(np.float32(1), np.float16(1))
