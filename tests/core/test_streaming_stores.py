"""Results that are stored past the caches: of operands that are larger than these."""

import ml_dtypes
import numpy as np
import pytest
from tests.core.operands import assert_same

import halfulp as hu

ELEMENTS = (1 << 24) + 13  # of float32: an operand and its result have more than 128 MiB


@pytest.fixture(scope="module")
def bases() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(-10, 10, ELEMENTS).astype(np.float32)


def in_parts(x: np.ndarray, exponent: float) -> np.ndarray:
    """The powers, a part at a time, that is by ordinary stores."""
    parts = [hu.pow(part, np.float32(exponent)) for part in np.array_split(x.ravel(), 40)]
    return np.concatenate(parts).reshape(x.shape)


@pytest.mark.parametrize("offset", [0, 1, 7, 15])
def test_any_alignment(offset, bases):
    room = np.full(ELEMENTS + 32, np.float32(7))
    out = room[offset : offset + ELEMENTS]
    hu.pow(bases, np.float32(2), out=out)
    assert_same(out, in_parts(bases, 2))
    assert np.all(room[:offset] == 7)
    assert np.all(room[offset + ELEMENTS :] == 7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("offset", [0, 7])
def test_arrays_of_exponents(dtype, offset, bases):
    """Vectors of the first phase are stored so, and what it leaves to others after it."""
    count = ELEMENTS // (2 if dtype == "float64" else 1)
    x = np.abs(bases[:count]).astype(dtype)
    y = np.resize(np.linspace(-4, 4, 99991).astype(dtype), count)
    x[3::77777] = -x[3::77777]
    x[5::99999] = np.resize(np.array([np.nan, np.inf, -0.0, -3, 2.0**-24], dtype), len(x[5::99999]))
    x[1 << 20 : (1 << 20) + 5000], y[1 << 20 : (1 << 20) + 5000] = 3, 2  # exact, so that no interval decides
    out = np.full(count + 32, 7, dtype)
    hu.pow(x, y, out=out[offset : offset + count])
    parts = zip(np.array_split(x, 40), np.array_split(y, 40), strict=True)
    assert_same(out[offset : offset + count], np.concatenate([hu.pow(*part) for part in parts]))
    assert np.all(out[:offset] == 7)
    assert np.all(out[offset + count :] == 7)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("exponent", [2, -0.5, 2.625])
def test_16_bits(dtype, exponent):
    """Squares and reciprocal roots by formulas, which some bases have not, others looked up."""
    x = np.resize(np.arange(1 << 16, dtype=np.uint16), ELEMENTS).view(dtype)
    out = np.empty(ELEMENTS + 1, dtype)[1:]
    hu.pow(x, np.array(exponent, dtype), out=out)
    once = hu.pow(x[: 1 << 16], np.array(exponent, dtype))
    assert_same(out, np.resize(once, ELEMENTS))


@pytest.mark.parametrize("exponent", [0.5, 3])
def test_few_bases_without_a_formula(exponent, bases):
    x = np.abs(bases)
    x[5::99999] = [np.nan, np.inf, -0.0, -3, 1e-42] * (len(x[5::99999]) // 5) + [7] * (len(x[5::99999]) % 5)
    assert_same(hu.pow(x, np.float32(exponent)), in_parts(x, exponent))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("length", [1000, 1024])
def test_rows_of_16_bits(dtype, length, bases):
    """Rows that begin where no cache line does, with a slope for each row or column."""
    rows = (1 << 24) // length + 1
    x = np.resize(bases, (rows, length)).astype(dtype)
    out = np.empty(x.size + 9, dtype)[9:].reshape(x.shape)
    slopes = np.linspace(-1, 1, rows, dtype=np.float32).astype(dtype)
    assert_same(
        hu.prelu(x, slopes[:, None], out=out),
        np.concatenate([hu.prelu(x[i : i + 500], slopes[i : i + 500, None]) for i in range(0, rows, 500)]),
    )
    columns = np.resize(slopes, length)
    assert_same(
        hu.prelu(x, columns, out=out),
        np.concatenate([hu.prelu(x[i : i + 500], columns) for i in range(0, rows, 500)]),
    )


def test_rows_that_do_not_follow_each_other(bases):
    x = bases[: 4096 * 4096].reshape(4096, 4096)
    room = np.full((4096, 4099), np.float32(7))
    hu.pow(x, np.float32(2), out=room[:, 1:-2])
    assert_same(room[:, 1:-2], in_parts(x, 2))
    assert np.all(room[:, 0] == 7)
    assert np.all(room[:, -2:] == 7)
    assert_same(hu.pow(x.T, np.float32(2), out=np.empty_like(x)), in_parts(x, 2).T)
