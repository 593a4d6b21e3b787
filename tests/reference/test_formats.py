"""The oracle's encode and decode, held against NumPy, ml_dtypes and plain fractions."""

import itertools
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from gmpy2 import mpfr
from tests.reference.nearest import values_of

from halfulp.reference import FLOAT_FORMATS, IntFormat, decode, from_codes
from halfulp.types import TYPES

FLOATS = [name for name, row in TYPES.items() if row.kind == "float"]
SMALL = [name for name in FLOATS if TYPES[name].bits <= 16]


def encode(value: object, name: str, *, inexact: bool = False) -> int:
    return FLOAT_FORMATS[name].encode(mpfr(value, 80), inexact)


def test_every_floating_type_has_a_row():
    assert list(FLOAT_FORMATS) == FLOATS


@pytest.mark.parametrize("name", FLOATS)
def test_row_agrees_with_finfo(name):
    row, info = FLOAT_FORMATS[name], ml_dtypes.finfo(TYPES[name].dtype)
    assert row.bits == info.bits
    assert row.digits == info.nmant + 1
    assert 2.0**row.quantum == float(info.smallest_subnormal)
    assert decode(from_codes([row.largest], row)) == [float(info.max)]


@pytest.mark.parametrize("name", SMALL)
def test_every_code_comes_back(name):
    row = FLOAT_FORMATS[name]
    codes = list(range(1 << row.bits))
    for code, value in zip(codes, decode(from_codes(codes, row)), strict=True):
        assert row.encode(value, False) == (row.nan if value != value else code)


@pytest.mark.parametrize("name", SMALL)
def test_midpoints_of_neighbours(name):
    """A midpoint goes to the even neighbour; the least bit cut off moves it up, one bit less down."""
    row = FLOAT_FORMATS[name]
    positive = sorted((value, code) for code, value in values_of(TYPES[name].dtype).items() if value >= 0)
    step = max(1, len(positive) // 4000)
    for (low, low_code), (high, high_code) in list(itertools.pairwise(positive))[::step]:
        middle = float(low + high) / 2
        # Powers of two alone: one digit, always odd, so that a tie goes up, as in ml_dtypes.
        even = high_code if row.digits == 1 or low_code % 2 else low_code
        assert encode(middle, name) == even
        assert encode(middle, name, inexact=True) == high_code
        assert encode(np.nextafter(middle, 0), name, inexact=True) == low_code
        assert encode(np.nextafter(middle, np.inf), name) == high_code


@pytest.mark.parametrize("name", SMALL)
def test_encode_agrees_with_ml_dtypes(name):
    """From float16 (every seventh value) ml_dtypes and NumPy round once, and agree."""
    source = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16)
    source = source[~np.isnan(source)]
    row = FLOAT_FORMATS[name]
    with np.errstate(over="ignore", invalid="ignore"):
        converted = source.astype(TYPES[name].dtype)
        is_nan = np.isnan(converted.astype(np.float32))
    expected = np.where(is_nan, row.nan, converted.view(row.storage))
    if not row.zero:  # ml_dtypes converts a negative number to NaN; here a sign never reaches such a type
        source, expected = source[~np.signbit(source)], expected[~np.signbit(source)]
    assert [encode(float(value), name) for value in source] == expected.tolist()


@pytest.mark.parametrize("name", FLOATS)
def test_specials_agree_with_ml_dtypes(name):
    row = FLOAT_FORMATS[name]
    with np.errstate(invalid="ignore"):
        codes = np.array([np.inf, np.nan, 0.0]).astype(TYPES[name].dtype).view(row.storage)
    assert [encode(word, name) for word in ("inf", "nan", "0")] == codes.tolist()


def test_largest_value_of_e4m3fn_keeps_its_tie():
    """448 and the NaN's place, 480, have their midpoint at 464, which goes to the even code, 448's."""
    assert encode(464, "float8_e4m3fn") == 0x7E
    assert encode(464, "float8_e4m3fn", inexact=True) == 0x7F


@pytest.mark.parametrize(
    ("bits", "signed", "value", "wrapped"),
    [
        (8, True, 127, 127),
        (8, True, 128, -128),
        (8, True, -129, 127),
        (8, False, -1, 255),
        (4, True, 8, -8),
        (4, False, 17, 1),
        (64, False, 2**64 + 5, 5),
        (64, True, 2**63, -(2**63)),
    ],
)
def test_wrap(bits, signed, value, wrapped):
    assert IntFormat("", bits, signed).wrap(value) == wrapped


@pytest.mark.parametrize(
    ("bits", "signed", "value", "expected"),
    [
        (8, True, "127.99", 127),
        (8, True, "128", 127),
        (8, True, "-128.99", -128),
        (8, True, "-0.99", 0),
        (8, True, "nan", 0),
        (8, False, "-inf", 0),
        (8, False, "inf", 255),
        (64, False, "18446744073709551614.9", 2**64 - 2),
        (64, True, "1e999999", 2**63 - 1),
    ],
)
def test_saturate(bits, signed, value, expected):
    assert IntFormat("", bits, signed).saturate(mpfr(value, 80)) == expected


def test_decode_keeps_every_bit_of_wide_integers():
    values = np.array([2**64 - 1, 2**53 + 1], np.uint64)
    assert [int(value) for value in decode(values)] == [2**64 - 1, 2**53 + 1]
    assert [Fraction(int(value)) for value in decode(np.array([-(2**63)], np.int64))] == [-(2**63)]


@pytest.mark.parametrize("digits", [1, 2, 53])
def test_far_below_the_least_value(digits):
    """A number up to half the least value becomes zero."""
    row = FLOAT_FORMATS["float32"]
    mantissa = mpfr((1 << digits) - 1)
    for shift in (150 + digits + 1, 150 + digits, 2000, 2**29):
        assert row.encode(gmpy2.div_2exp(mantissa, shift), True) == 0
    half = gmpy2.div_2exp(mpfr(1), 150)
    assert row.encode(half, False) == 0
    assert row.encode(half, True) == 1
