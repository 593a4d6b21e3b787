"""Powers of integers as float64, and ``integers="raise"``."""

import pickle

import gmpy2
import ml_dtypes
import numpy as np
import pytest

import halfulp as hu
from halfulp import operators
from halfulp.operators import CHECKED_UFUNC, FLOAT_POWER_UFUNC
from halfulp.types import TYPES

LONG = 2**53 + 1  # the least integer that float64 lacks
REASON = "is negative or not an integer"


def exact(x: int, y: float) -> float:
    """Return MPFR's power, rounded once to float64, subnormal numbers included."""
    with gmpy2.context(precision=3000, emin=-(10**6), emax=10**6):
        power = gmpy2.mpfr(x) ** gmpy2.mpfr(y)
    with gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True):
        return float(gmpy2.mpfr(power))


EXPONENTS = [0, 1, 2, 3, 19, 20, 21, -1, -2, -20, -21, 64, 65, -65, 2**62, -(2**62)]
FRACTIONS = [
    *(0.5, 0.25, -0.5, 1.5, 2.75, -20.1, 19.3, 0.1, 1e-9, 5e-324, -1e-300, np.inf, -np.inf, np.nan, 3.0),
    -2.0,
]


@pytest.mark.parametrize("y", [*EXPONENTS, *FRACTIONS])
def test_integers_that_float64_lacks(y):
    roots = [(2**31 - 1) ** 2, 3**36, (2**15 + 1) ** 4]  # some of their powers are exact
    bases = [LONG, -LONG, 2**63 - 1, -(2**63) + 1, 2**62 + 255, *roots, 3, 0, -(2**63)]
    got = hu.float_power(np.array(bases), y)
    np.testing.assert_array_equal(got, [exact(x, y) for x in bases])
    bases = [2**64 - 1, 2**63 + 1, 2**63 + 1024]
    np.testing.assert_array_equal(hu.float_power(np.array(bases, np.uint64), y), [exact(x, y) for x in bases])
    assert np.array_equal(hu.float_power(LONG, y), exact(LONG, y), equal_nan=True)


def test_exponents_are_arrays_of_any_type():
    x = np.array([LONG, 7, -LONG])[:, None]
    for y in (
        np.array([2, -1], np.int8),
        np.array([2, 1], np.uint64),
        np.array([0.5, 3], ml_dtypes.bfloat16),
    ):
        want = [[exact(base, exponent) for exponent in y.astype(float).tolist()] for base in x[:, 0].tolist()]
        np.testing.assert_array_equal(hu.float_power(x, y), want)


@pytest.mark.parametrize("name", TYPES)
def test_every_type_becomes_float64(name):
    x = np.array([1, 2, 4], TYPES[name].dtype)
    got = hu.float_power(x, x)
    assert got.dtype == np.float64
    assert got.tolist() == [exact(base, base) for base in x.astype(float).tolist()]


def test_it_is_numpys_function():
    for x, y in (
        (3, 2),
        (True, 2),
        (np.float32(2.5), 2),
        ([2, 3], [True, False]),
        (np.int8([-2]), 3),
        (2.5, 2.0),
    ):
        got, theirs = hu.float_power(x, y), np.float_power(x, y)
        assert type(got) is type(theirs)
        np.testing.assert_array_equal(got, theirs)
    with pytest.raises(hu.SpecError, match="X: complex"):
        hu.float_power(np.array([1j]), 2)
    with pytest.raises(hu.SpecError, match="broadcastable"):
        hu.float_power([1, 2], [1, 2, 3])


def test_out_may_be_the_operands_memory():
    x = np.array([LONG, 3, -LONG])
    out = x.view(np.float64)
    want = hu.float_power(x, 3)
    assert hu.float_power(x, 3, out=out) is out
    np.testing.assert_array_equal(out, want)
    with pytest.raises(hu.SpecError, match=r"^out is "):
        hu.float_power(x, 3, out=np.empty(3, np.float32))


def test_other_libraries_arrays():
    pd, da = pytest.importorskip("pandas"), pytest.importorskip("dask.array")
    assert hu.float_power(pd.Series([2, 4], ["a", "b"]), -1).to_dict() == {"a": 0.5, "b": 0.25}
    lazy = hu.float_power(da.from_array(np.array([LONG, 2, 3]), chunks=2), 2)
    assert lazy.compute().tolist() == [exact(LONG, 2), 4, 9]
    assert hu.float_power(np.ma.masked_array([2, 3], [False, True]), -1).tolist() == [0.5, None]
    with pytest.raises(hu.HalfulpError, match="int64 overflows"):
        hu.pow(pd.Series([10]), 30, integers="raise")
    for ufunc in (CHECKED_UFUNC, FLOAT_POWER_UFUNC):
        assert pickle.loads(pickle.dumps(ufunc)) is ufunc


INTEGERS = [name for name, row in TYPES.items() if row.kind != "float"]


@pytest.mark.parametrize("name", INTEGERS)
def test_raise_refuses_exactly_what_wraps(name):
    row = TYPES[name]
    low = -(2 ** (row.bits - 1)) if row.kind == "int" else 0
    high = low + 2**row.bits - 1
    near = [round(high ** (1 / n)) + d for n in (1, 2, 3, 5, 7, 21) for d in (-1, 0, 1)]
    bases = {low, low + 1, high, 0, *near, *(-b for b in near)}
    for base in sorted(b for b in bases if low <= b <= high):
        for y in (0, 1, 2, 3, 5, 7, 21, 62, 63, 64, 65, 1000):
            x = np.array([1, base]).astype(row.dtype) if base < 2**63 else np.array([1, base], row.dtype)
            if low <= (power := base**y) <= high:
                assert hu.pow(x, y, integers="raise").astype(object).tolist() == [1, power]
                continue
            with pytest.raises(
                hu.HalfulpError, match=rf"{name} overflows at index \[1\]: {base} to the power {y};"
            ):
                hu.pow(x, y, integers="raise")


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([10, 2], [2, -1], rf"the exponent -1 at index \[1\] {REASON}; hu\.float_power"),
        ([1], [-1], REASON),
        ([4, 4], [2, 0.5], rf"the exponent 0\.5 at index \[1\] {REASON}"),
        ([4], [np.nan], REASON),
        ([1], [np.inf], REASON),
        ([4], np.array([0.5], ml_dtypes.bfloat16), REASON),
        ([[10], [3]], [2, 39.0, 40], r"int64 overflows at index \[0, 1\]: 10 to the power 39\.0"),
        (np.int64(10), 40, "int64 overflows: 10 to the power 40"),
        (10, 40, "int64 overflows: 10 to the power 40"),
        (np.full(200_000, 2), np.where(np.arange(200_000) == 150_000, 63, 62), r"\[150000\]"),
        (np.array([3], ">i8"), np.array([41], ">i4"), "int64 overflows"),
        (np.asfortranarray([[1, 2], [9, 1]]), 40, r"\[1, 0\]: 9"),
        ([[1, 9]], 40, r"\[0, 1\]: 9"),
    ],
)
def test_the_first_loss_is_named(x, y, words):
    with pytest.raises(hu.HalfulpError, match=words):
        hu.pow(x, y, integers="raise")


def test_one_exponent_for_all_is_not_copied_for_each(monkeypatch):
    strides = []
    monkeypatch.setattr(operators, "POW", lambda x, y: strides.append(y.strides) or x)
    operators._check_powers(np.ones((2, 3), np.int64), np.array(2))
    assert strides == [(0,)]


def test_what_raise_leaves_alone():
    assert hu.pow(10, -1, integers="raise") == 0.1
    assert hu.pow(np.array([0.5, 10]), -1, integers="raise").tolist() == [2, 0.1]
    assert hu.pow(np.array([], np.int64), -1, integers="raise").size == 0
    out = np.full(2, 7)
    with pytest.raises(hu.HalfulpError):
        hu.pow(np.array([1, 10]), [1, 30], out=out, integers="raise")
    assert out.tolist() == [7, 7]
    assert hu.pow(np.array([1, 10]), 2, out=out, integers="raise") is out
    assert out.tolist() == [1, 100]
    with pytest.raises(hu.SpecError, match="broadcastable"):
        hu.pow([1, 2], [1, 2, 3], integers="raise")
    with pytest.raises(hu.HalfulpError, match="integers must be 'wrap' or 'raise'"):
        hu.pow([1], [1], integers="no")
