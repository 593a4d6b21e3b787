"""Values of attributes: the forms that are taken, and the one form that comes out."""

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.errors import SpecError
from halfulp.specs import ScaleBias, find

CONSTANT_POW = find("directml.ELEMENT_WISE_CONSTANT_POW-3_0")
LARGEST = float(np.finfo(np.float32).max)


def exponent(value: Any) -> float:
    result = CONSTANT_POW.check_attributes({"Exponent": value})["Exponent"]
    assert type(result) is float
    return result


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2.0),
        (0.5, 0.5),
        (0.1, float(np.float32(0.1))),
        (np.float16(0.1), float(np.float16(0.1))),
        (np.float64(0.1), float(np.float32(0.1))),
        (ml_dtypes.bfloat16(0.1), float(ml_dtypes.bfloat16(0.1))),
        (np.int8(-3), -3.0),
        (np.uint64(2**64 - 1), 2.0**64),
        (np.array(2.5), 2.5),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (LARGEST, LARGEST),
        (-0.0, -0.0),
        # One rounding: through float64 this tie would go to even, and down.
        (2**60 + 2**36 + 1, float(2**60 + 2**37)),
        (-(2**60 + 2**36 + 1), -float(2**60 + 2**37)),
        (2**60 + 2**36, float(2**60)),
        (2**60 + 2**36 - 1, float(2**60)),
    ],
)
def test_a_float_is_rounded_once(value, expected):
    result = exponent(value)
    assert result == expected
    assert math.copysign(1, result) == math.copysign(1, expected)


def test_a_nan_exponent_is_taken():
    assert math.isnan(exponent(math.nan))


@given(st.integers(-(2**127), 2**127))
def test_an_integer_goes_to_the_nearest_float32(value):
    result = np.float32(exponent(value))
    error = abs(Fraction(float(result)) - value)
    for direction in (math.inf, -math.inf):
        assert error <= abs(Fraction(float(np.nextafter(result, np.float32(direction)))) - value)


@pytest.mark.parametrize("value", [True, "2", 2j, (2.0,), np.bool_(True), 1e39, 10**400, LARGEST * 1.01])
def test_what_is_no_float(value):
    with pytest.raises(SpecError) as caught:
        exponent(value)
    assert caught.value.clause == "directml.ELEMENT_WISE_CONSTANT_POW-3_0.C7"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((2, 1), ScaleBias(2.0, 1.0)),
        ([0.1, -1], ScaleBias(float(np.float32(0.1)), -1.0)),
        ({"Bias": 1, "Scale": 2}, ScaleBias(2.0, 1.0)),
        (np.array([2.0, 1.0]), ScaleBias(2.0, 1.0)),
        (ScaleBias(2.0, 1.0), ScaleBias(2.0, 1.0)),
        (None, None),
    ],
)
@pytest.mark.parametrize(
    "id", ["ELEMENT_WISE_CONSTANT_POW-1_0", "ELEMENT_WISE_POW-1_0", "ELEMENT_WISE_POW-3_0"]
)
def test_scale_bias(id, value, expected):
    op = find(f"directml.{id}")
    attributes = {"Exponent": 2} if "CONSTANT" in id else {}
    assert op.check_attributes({**attributes, "ScaleBias": value})["ScaleBias"] == expected
    assert op.check_attributes(attributes)["ScaleBias"] is None


@pytest.mark.parametrize("value", [2, (1, 2, 3), {"Scale": 1}, ("a", 1), (1e39, 0)])
def test_what_is_no_scale_bias(value):
    with pytest.raises(SpecError, match=r"a pair \(Scale, Bias\) of FLOATs"):
        CONSTANT_POW.check_attributes({"Exponent": 1, "ScaleBias": value})


@pytest.mark.parametrize("value", [(), [0, 0], (1, 0), np.array([0, 1]), None])
def test_consumed_inputs_changes_nothing(value):
    op = find("onnx.PRelu-1")
    x, slope = ("float32", (2, 3)), ("float32", (3,))
    assert op.infer(x, slope, consumed_inputs=value) == x


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (np.int64(1), 1), (None, None)])
def test_an_int(value, expected):
    assert find("onnx.Pow-1").check_attributes({"axis": value})["axis"] == expected


def test_defaults():
    assert find("onnx.Pow-1").check_attributes({}) == {"axis": None, "broadcast": 0}
    assert find("openvino.Power-1").check_attributes({}) == {"auto_broadcast": "numpy"}
    assert find("onnx.PRelu-1").check_attributes({}) == {"consumed_inputs": None}
