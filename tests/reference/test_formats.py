"""The oracle's encode and decode, held against NumPy, ml_dtypes and plain fractions."""

import itertools
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from tests.reference.nearest import values_of

from halfulp.reference import decode, saturate, to_nearest, wrap
from halfulp.reference import encode as encode_all
from halfulp.types import FLOATS, TYPES, codes, float_type, from_codes

SMALL = [name for name in FLOATS if TYPES[name].bits <= 16]


def encode(value: object, name: str, *, inexact: bool = False) -> int:
    """Return the code of a number, or of one that is greater by far less than any type tells apart."""
    exact = value if isinstance(value, mpfr) else mpfr(value, 80)
    rounded = to_nearest(name).add(exact, mpfr("1e-9999" if inexact else "-0"))
    return int(codes(encode_all([rounded], name))[0])


@pytest.mark.parametrize("name", SMALL)
def test_every_code_comes_back(name):
    every = range(1 << TYPES[name].bits)
    for code, value in zip(every, decode(from_codes(every, name)), strict=True):
        assert encode(value, name) == (float_type(name).nan if value != value else code)


@pytest.mark.parametrize("name", SMALL)
def test_midpoints_of_neighbours(name):
    """A midpoint goes to the even neighbour; the least bit cut off moves it up, one bit less down."""
    positive = sorted((value, code) for code, value in values_of(TYPES[name].dtype).items() if value >= 0)
    step = max(1, len(positive) // 4000)
    for (low, low_code), (high, high_code) in list(itertools.pairwise(positive))[::step]:
        middle = float(low + high) / 2
        # Powers of two alone: one digit, always odd, so that a tie goes up, as in ml_dtypes.
        even = high_code if float_type(name).digits == 1 or low_code % 2 else low_code
        assert encode(middle, name) == even
        assert encode(middle, name, inexact=True) == high_code
        assert encode(np.nextafter(middle, 0), name, inexact=True) == low_code
        assert encode(np.nextafter(middle, np.inf), name) == high_code


@pytest.mark.parametrize("name", SMALL)
def test_encode_agrees_with_ml_dtypes(name):
    """From float16 (every seventh value) ml_dtypes and NumPy round once, and agree."""
    source = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16)
    source = source[~np.isnan(source)]
    with np.errstate(over="ignore", invalid="ignore"):
        converted = source.astype(TYPES[name].dtype)
        is_nan = np.isnan(converted.astype(np.float32))
    expected = np.where(is_nan, float_type(name).nan, codes(converted))
    if not float_type(
        name
    ).has_zero:  # ml_dtypes converts a negative number to NaN; here a sign never reaches such a type
        source, expected = source[~np.signbit(source)], expected[~np.signbit(source)]
    assert [encode(float(value), name) for value in source] == expected.tolist()


@pytest.mark.parametrize("name", FLOATS)
def test_specials_agree_with_ml_dtypes(name):
    with np.errstate(invalid="ignore"):
        converted = np.array([np.inf, np.nan, 0.0]).astype(TYPES[name].dtype)
    assert [encode(word, name) for word in ("inf", "nan", "0")] == codes(converted).tolist()


def test_largest_value_of_e4m3fn_keeps_its_tie():
    """448 and the NaN's place, 480, have their midpoint at 464, which goes to the even code, 448's."""
    assert encode(464, "float8_e4m3fn") == 0x7E
    assert encode(464, "float8_e4m3fn", inexact=True) == 0x7F


@pytest.mark.parametrize(
    ("name", "value", "wrapped"),
    [
        ("int8", 127, 127),
        ("int8", 128, -128),
        ("int8", -129, 127),
        ("uint8", -1, 255),
        ("int4", 8, -8),
        ("uint4", 17, 1),
        ("uint64", 2**64 + 5, 5),
        ("int64", 2**63, -(2**63)),
    ],
)
def test_wrap(name, value, wrapped):
    assert wrap(value, name) == wrapped


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("int8", "127.99", 127),
        ("int8", "128", 127),
        ("int8", "-128.99", -128),
        ("int8", "-0.99", 0),
        ("int8", "nan", 0),
        ("uint8", "-inf", 0),
        ("uint8", "inf", 255),
        ("uint64", "18446744073709551614.9", 2**64 - 2),
        ("int64", "1e999999", 2**63 - 1),
    ],
)
def test_saturate(name, value, expected):
    assert saturate(mpfr(value, 80), name) == expected


def test_decode_keeps_every_bit_of_wide_integers():
    values = np.array([2**64 - 1, 2**53 + 1], np.uint64)
    assert [int(value) for value in decode(values)] == [2**64 - 1, 2**53 + 1]
    assert [Fraction(int(value)) for value in decode(np.array([-(2**63)], np.int64))] == [-(2**63)]


@pytest.mark.parametrize("digits", [1, 2, 53])
def test_far_below_the_least_value(digits):
    """A number up to half the least value becomes zero."""
    mantissa = mpfr((1 << digits) - 1)
    for shift in (150 + digits + 1, 150 + digits, 2000, 2**29):
        assert encode(gmpy2.div_2exp(mantissa, shift), "float32", inexact=True) == 0
    half = gmpy2.div_2exp(mpfr(1), 150)
    assert encode(half, "float32") == 0
    assert encode(half, "float32", inexact=True) == 1
