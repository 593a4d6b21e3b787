"""The verdicts on right answers, and on every kind of wrong ones."""

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

from halfulp.conformance.case import Case
from halfulp.conformance.judge import (
    HISTOGRAM,
    Outcome,
    decimal,
    distances,
    grades_of,
    judge,
    shown,
    verdicts,
)
from halfulp.errors import SpecError
from halfulp.types import FLOATS, TYPES, codes, from_codes, ranks

F32 = np.float32


def pow_case(x, y, operator="onnx.Pow-15", **other):
    return Case(f"{operator}/a,b/values/0", operator, "values", (np.asarray(x), np.asarray(y)), **other)


CASE = pow_case(np.array([2, 3, 4], F32), np.array([2, 3, 4], F32))
RIGHT = np.array([4, 27, 256], F32)


def moved(array, index, steps):
    """Return the array with one element moved by ``steps`` representable values away from zero."""
    result = array.copy()
    result.ravel().view(f"u{array.itemsize}")[index] += steps
    return result


@pytest.mark.parametrize(
    ("steps", "bin", "verdict"),
    [
        (0, "0", "exact"),
        *((steps, bin, "within") for steps, bin in ((1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"))),
        *((steps, bin, "wrong") for steps, bin in ((5, "5-16"), (16, "5-16"), (17, ">16"))),
    ],
)
def test_some_ulps_off(steps, bin, verdict):
    got = moved(RIGHT, 1, steps)
    found = judge(CASE, RIGHT, got)
    assert (found.verdict, found.elements, found.max_ulp) == (verdict, 3, steps)
    assert found.histogram == {**dict.fromkeys(HISTOGRAM, 0), **Counter(["0", "0", bin])}
    assert found.wrong == (verdict == "wrong")
    assert (found.example is None) == (verdict == "exact")
    assert judge(CASE, RIGHT, got, ulp_limit=steps).verdict == ("within" if steps else "exact")
    assert judge(CASE, RIGHT, got, ulp_limit=0.5).verdict == ("wrong" if steps else "exact")


def test_the_example_is_the_first_of_the_greatest_differences():
    got = moved(moved(moved(RIGHT, 0, 2), 1, 3), 2, 3)
    example = judge(CASE, RIGHT, got).example
    assert example == {
        "index": [1],
        "inputs": [{"value": "3", "bits": "0x40400000"}] * 2,
        "expected": {"value": "27", "bits": "0x41d80000"},
        "got": {"value": "27.000006", "bits": "0x41d80003"},
        "ulp": 3,
    }


LARGEST = np.finfo(F32).max
SPECIAL = [
    (np.inf, LARGEST),
    (LARGEST, np.inf),
    (np.inf, -np.inf),
    (np.nan, 1),
    (1, np.nan),
    (np.inf, np.nan),
]


@pytest.mark.parametrize(("expected", "got"), [*SPECIAL, (0.0, -0.0), (-0.0, 0.0)])
def test_special_values_gone_wrong(expected, got):
    found = judge(CASE, np.array([4, expected, 256], F32), np.array([4.000002, got, 256], F32), ulp_limit=1e9)
    assert (found.verdict, found.wrong, found.histogram["special"]) == ("wrong", 1, 1)
    assert found.example["index"] == [1]  # worse than any distance
    assert found.example["ulp"] is None
    assert found.max_ulp == 4


def test_every_nan_is_a_nan():
    nans = from_codes([0x7FC00000, 0xFFC00001, 0x7F800001], "float32")
    assert judge(CASE, np.full(3, np.nan, F32), nans).verdict == "exact"


def test_zero_and_the_least_number_are_neighbours():
    tiny = np.finfo(F32).smallest_subnormal
    found = judge(CASE, np.array([0, tiny, -tiny], F32), np.array([tiny, 0, -0.0], F32))
    assert (found.verdict, found.max_ulp, found.histogram["special"]) == ("within", 1, 0)


@pytest.mark.parametrize("name", [name for name in FLOATS if TYPES[name].bits <= 16])
def test_ranks_count_the_values_of_a_type_in_their_order(name):
    values = from_codes(np.arange(1 << TYPES[name].bits), name)
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.float64)
    values, numbers = values[~np.isnan(numbers)], numbers[~np.isnan(numbers)]
    order = np.lexsort((~np.signbit(numbers), numbers))
    assert (np.diff(ranks(values[order]).astype(object)) == 1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_in_wide_types(dtype):
    values = np.array([-np.inf, -2, -1e-40, -0.0, 0.0, 1, 1.5, np.finfo(dtype).max], dtype)
    with np.errstate(over="ignore", under="ignore"):
        after = np.nextafter(values, dtype(np.inf))
    steps = distances(values, after)[0].tolist()
    # -0 to the least number takes two steps, by way of +0; to infinity it is special.
    assert steps == [0, 1, 1, 2, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1), ("int4", -8, 7), ("uint4", 0, 15)],
)
def test_integers_differ_by_units(name, low, high):
    a, b = (np.array([value]).astype(TYPES[name].dtype) for value in (low, high))
    one = np.ones_like(a)
    found = judge(pow_case(one, one, operator="openvino.Power-1"), a, b, ulp_limit=1e30)
    assert (found.verdict, found.max_ulp, found.wrong) == ("wrong", high - low, 1)
    assert distances(b, a)[0].tolist() == [high - low]


def test_one_unit_is_wrong_for_an_integer():
    x = np.array([2, 3, 4], np.int32)
    found = judge(pow_case(x, x), x**x, x**x + np.array([0, 1, 0], np.int32))
    assert (found.verdict, found.wrong, found.max_ulp) == ("wrong", 1, 1)


INVALID = Case(
    "onnx.Pow-7/float32,float32/invalid/C2-2,3",
    "onnx.Pow-7",
    "invalid",
    (np.ones(2, F32), np.ones(3, F32)),
    clause="onnx.Pow-7.C2",
)
ERROR = SpecError("onnx.Pow-7.C2", "X and Y must be broadcastable to one shape")


@pytest.mark.parametrize(
    ("case", "got", "verdict", "message"),
    [
        (CASE, RIGHT.astype(np.float64), "wrong", "the output is float64[3], not float32[3]"),
        (CASE, RIGHT.reshape(1, 3), "wrong", "the output is float32[1, 3], not float32[3]"),
        (CASE, np.array(["a"]), "wrong", "the output is string[1], not float32[3]"),
        *((CASE, Outcome(kind, "  no\nmore of it"), kind, "no") for kind in ("refused", "crashed", "hung")),
        (INVALID, Outcome("refused", "no"), "rejected", "no"),
        (INVALID, np.ones(3, F32), "accepted", "onnx.Pow-7.C2 must refuse it"),
        *((INVALID, Outcome(kind, "no"), kind, "no") for kind in ("crashed", "hung")),
    ],
)
def test_an_answer_as_a_whole(case, got, verdict, message):
    found = judge(case, RIGHT if case is CASE else ERROR, got)
    assert (found.verdict, found.message, found.max_ulp) == (verdict, message, None)
    assert found.wrong == (3 if verdict == "wrong" else 0)


def test_what_the_document_leaves_open_is_not_judged():
    x, y = np.array([2, 2, 0], np.int32), np.array([3, 40, -1], np.int64)
    case = pow_case(x, y)
    right = np.array([8, 0, 2**31 - 1], np.int32)
    found = judge(case, right, np.array([8, -7, -7], np.int32))
    assert (found.verdict, found.elements) == ("exact", 1)
    assert found.histogram["0"] == 1
    found = judge(case, right, np.array([9, -7, -7], np.int32))
    assert (found.verdict, found.wrong, found.max_ulp, found.example["index"]) == ("wrong", 1, 1, [0])
    assert verdicts(case, right, right).tolist() == ["exact", "unspecified", "unspecified"]


def test_everything_open():
    case = pow_case(np.array([2], np.int32), np.array([-1], np.int32))
    for got in (np.array([5], np.int32), Outcome("refused", "integers to negative powers")):
        found = judge(case, np.array([0], np.int32), got)
        assert (found.verdict, found.elements) == ("unspecified", 0)
    # Neither a crash nor another type is something that a document could leave open.
    assert judge(case, np.array([0], np.int32), Outcome("crashed", "")).verdict == "crashed"
    assert judge(case, np.array([0], np.int32), np.array([0.5])).verdict == "wrong"


def test_an_open_attribute_leaves_the_whole_case_open():
    x, y = np.ones((2, 3), F32), np.ones(3, F32)
    case = pow_case(x, y, "onnx.Pow-1", attributes={"axis": -1, "broadcast": 1})
    assert judge(case, x, Outcome("refused", "negative axis")).verdict == "unspecified"
    assert judge(case, x, np.zeros((1, 1), F32)).verdict == "unspecified"
    case = pow_case(x, y, "onnx.Pow-1", clause="onnx.Pow-1.C5")
    assert judge(case, ERROR, np.zeros((1, 1), F32)).verdict == "unspecified"


def test_the_sign_of_a_zero_that_prelu_passes_is_open():
    x, slope = np.array([[-0.0, 0.0]], F32), np.array([[-1, np.inf]], F32)
    case = Case("", "onnx.PRelu-16", "special", (x, slope))
    assert judge(case, x, np.array([[0.0, 0.0]], F32)).verdict == "exact"
    found = judge(case, x, np.array([[0.0, np.nan]], F32))
    assert (found.verdict, found.wrong, found.example["index"]) == ("wrong", 1, [0, 1])
    assert verdicts(case, x, np.array([[0.0, np.nan]], F32)).tolist() == [["exact", "wrong"]]
    assert judge(pow_case(x, np.ones_like(x)), x, -x).wrong == 2


def test_no_elements():
    empty = np.ones((0, 3), F32)
    case = pow_case(empty, empty)
    assert judge(case, empty, empty).verdict == "exact"
    assert judge(case, empty, np.ones((3, 0), F32)).verdict == "wrong"


def test_the_example_shows_the_operands_that_met():
    x, y = np.arange(1, 7, dtype=F32).reshape(2, 3), np.array([7, 8], F32)
    case = pow_case(x, y, "onnx.Pow-1", attributes={"axis": 0, "broadcast": 1})
    right = x ** y[:, None]
    example = judge(case, right, moved(right, 5, 9)).example
    assert [one["value"] for one in example["inputs"]] == ["6", "8"]
    case = Case("", "directml.ELEMENT_WISE_CONSTANT_POW-3_0", "values", (x,), {"Exponent": 2.0})
    example = judge(case, x**2, moved(x**2, 1, 9)).example
    assert [one["value"] for one in example["inputs"]] == ["2"]


@pytest.mark.parametrize("name", [name for name in FLOATS if TYPES[name].bits <= 16])
def test_decimals_give_the_value_back(name):
    every = np.arange(1 << TYPES[name].bits, dtype=f"u{TYPES[name].dtype.itemsize}").view(TYPES[name].dtype)
    some = every[:: 1 if TYPES[name].bits <= 8 else 251]
    with np.errstate(all="ignore"):
        for value in some:
            again = np.float64(decimal(value)).astype(TYPES[name].dtype)
            assert codes(again) == codes(value) or (np.isnan(again) and np.isnan(value))


def test_decimals_of_wide_types():
    for number in (0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -123456789.123456789):
        assert float(decimal(np.float64(number))) == number
    assert decimal(F32(16777216)) == "16777216"
    assert shown(ml_dtypes.bfloat16(-0.1)) == {"value": "-0.1", "bits": "0xbdcd"}
    assert shown(np.uint64(2**64 - 1)) == {"value": "18446744073709551615", "bits": "0xffffffffffffffff"}


@pytest.mark.parametrize(
    ("exponent", "dtype", "grade"),
    [
        (2**53, np.int64, "ordinary"),
        (2**53 + 1, np.int64, "exponents"),
        (-(2**53) - 1, np.int64, "exponents"),
        (2**53 + 1, np.uint64, "exponents"),
        (2.0**53, np.float64, "ordinary"),
        (2.0**53 + 2, np.float64, "exponents"),
    ],
)
def test_exponents_beyond_2_53_are_told_by_their_integers(exponent, dtype, grade):
    """The nearest double of 2^53 + 1 is 2^53."""
    x, y, one = np.array([-1.0], "f4"), np.array([exponent], dtype), np.array([1.0], "f4")
    assert grades_of((x, y), -one, one, is_power=True).tolist() == [grade]
