"""Every conversion of Cast, against exact rational arithmetic."""

import pickle
from bisect import bisect
from fractions import Fraction
from functools import cache
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from halfulp.models.run.cast import can_cast, cast
from halfulp.types import INTEGERS

SMALL = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"]
INTS = [*INTEGERS, "int2", "uint2"]


def dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@cache
def all_values(target: np.dtype) -> list[Fraction]:
    """Every finite value of a type, in order, without the second zero."""
    bits = np.arange(1 << (16 if target.itemsize == 2 else 8), dtype=f"u{target.itemsize}")
    if target.name == "float4_e2m1fn":
        bits = bits[:16]
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = bits.view(target).astype(np.float64)
    return sorted({Fraction(v) for v in values[np.isfinite(values)].tolist()})


def hard_inputs(target: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Float64 values on the ties of a type, and next to them by less than float32 can tell."""
    values = all_values(target)
    picks = rng.integers(0, len(values) - 1, 300)
    ties = np.array([float((values[i] + values[i + 1]) / 2) for i in picks])
    return np.concatenate(
        [ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties * (1 + 2.0**-40)]
    )


@pytest.mark.parametrize("name", SMALL)
def test_small_floats_round_once(name):
    target = dtype(name)
    values = all_values(target)
    x = hard_inputs(target, np.random.default_rng(1))
    got = cast(x, target, saturate=True).astype(np.float64)
    for given, result in zip(x.tolist(), got.tolist(), strict=True):
        exact = Fraction(given)
        assert np.isfinite(result)
        distance = abs(Fraction(result) - exact)
        above = bisect(values, exact)
        assert distance == min(abs(v - exact) for v in values[max(above - 1, 0) : above + 1])


@pytest.mark.parametrize("source", ["int64", "uint64"])
def test_integers_round_once(source):
    rng = np.random.default_rng(2)
    values = all_values(dtype("bfloat16"))
    whole = [int(v) for v in values if v.denominator == 1 and abs(v) < 2**63 and (v >= 0 or source[0] == "i")]
    ties = [(a + b) // 2 for a, b in pairwise(whole) if (a + b) % 2 == 0 and b - a > 2]
    picks = [ties[i] for i in rng.integers(0, len(ties), 200)]
    x = np.array([p + d for p in picks for d in (-1, 0, 1)], source)
    got = cast(x, dtype("bfloat16")).astype(np.float64)
    for given, result in zip(x.tolist(), got.tolist(), strict=True):
        above = bisect(whole, given)
        assert abs(int(result) - given) == min(abs(v - given) for v in whole[above - 1 : above + 1])


def test_extremes_of_64_bits():
    x = np.array([2**63 - 1, -(2**63), 2**62 + 1, 0, 1, -1], np.int64)
    assert cast(x, dtype("bfloat16")).astype(float).tolist() == [2.0**63, -(2.0**63), 2.0**62, 0, 1, -1]
    x = np.array([2**64 - 1, 2**63, 0, 1], np.uint64)
    assert cast(x, dtype("bfloat16")).astype(float).tolist() == [2.0**64, 2.0**63, 0, 1]


def test_saturation_of_float_8():
    x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan], np.float64)
    for name, greatest in (
        ("float8_e4m3fn", 448),
        ("float8_e4m3fnuz", 240),
        ("float8_e5m2", 57344),
        ("float8_e5m2fnuz", 57344),
    ):
        got = cast(x, dtype(name)).astype(float)
        assert got[:4].tolist() == [greatest, -greatest, greatest, -greatest]
        assert np.isnan(got[4])
    with np.errstate(all="ignore"):
        assert np.isnan(cast(x, dtype("float8_e4m3fn"), saturate=False).astype(float)).all()
        assert (
            cast(x, dtype("float8_e5m2"), saturate=False).astype(float)[:4].tolist() == [np.inf, -np.inf] * 2
        )


@pytest.mark.parametrize("name", INTS)
def test_integers_wrap(name):
    target = dtype(name)
    bits = int("".join(c for c in name if c.isdigit()))
    x = np.array([0, 1, -1, 7, 8, 200, -129, 2**31, -(2**40) - 3, 2**63 - 1], np.int64)
    got = [int(v) for v in cast(x, target)]
    for given, result in zip(x.tolist(), got, strict=True):
        wrapped = given % 2**bits
        assert result == (wrapped - 2**bits if name[0] == "i" and wrapped >= 2 ** (bits - 1) else wrapped)


def test_floats_truncate_and_what_does_not_fit_is_defined():
    with np.errstate(all="raise"):
        x = np.array([2.9, -2.9, -0.0, np.nan, np.inf, -np.inf, 1e300])
        assert cast(x, dtype("int64")).tolist() == [2, -2, 0, 0, 2**63 - 1, -(2**63), 2**63 - 1]
        assert cast(x, dtype("uint64")).tolist() == [2, 0, 0, 0, 2**64 - 1, 0, 2**64 - 1]
        assert cast(np.array([200.7, -9.0]), dtype("int8")).tolist() == [-56, -9]
        assert [int(v) for v in cast(np.array([7.5, 9.0], bfloat16), dtype("int4"))] == [7, -7]
        assert [int(v) for v in cast(np.array([np.nan, np.inf, -np.inf]), dtype("int4"))] == [0, -1, 0]


bfloat16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("source", [*SMALL, *INTS, "float64", "float32", "float16", "bool"])
@pytest.mark.parametrize("target", [*SMALL, *INTS, "float64", "float32", "float16", "bool"])
def test_small_numbers_pass_between_all_types(source, target):
    assert can_cast(dtype(source), dtype(target))
    x = np.array([0, 1, 1, 0]).astype(dtype(source))
    got = cast(x, dtype(target))
    assert got.dtype == dtype(target)
    assert (got is x) == (source == target)
    assert got.astype(float).tolist() == [0, 1, 1, 0]


def test_bool_of_floats():
    x = np.array([0.0, -0.0, np.nan, 1e-300])
    assert cast(x, dtype("bool")).tolist() == [False, False, True, True]
    assert cast(x.astype(bfloat16), dtype("bool")).tolist() == [False, False, True, False]


def test_strings_and_scales_are_left_to_the_onnx_package():
    assert not can_cast(dtype("float32"), np.dtype(object))
    assert not can_cast(np.dtype("<U3"), dtype("float32"))
    assert not can_cast(dtype("float32"), dtype("float8_e8m0fnu"))


@pytest.mark.parametrize(
    "target", [pickle.loads(pickle.dumps(np.dtype("float64"))), np.dtype(">f8")], ids=["pickled", "swapped"]
)
def test_a_dtype_that_is_not_the_one_object_of_numpy_rounds_once_too(target):
    assert target.isbuiltin != 1  # the trap: NumPy asks for identity
    assert cast(np.array([2**53 - 1]), target).tolist() == [2**53 - 1]
