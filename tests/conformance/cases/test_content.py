"""The content of the cases: each group has the elements that it is there for."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from halfulp.conformance.cases import case, cases
from halfulp.conformance.cases.values import FOLDER, cast, exact_pairs, log2, specials
from halfulp.reference import TOWARD_ZERO, decode
from halfulp.types import FLOATS, INTEGERS, TYPES, codes, float_type, integer_range


def test_edges_have_odd_exponents_that_a_double_does_not_hold():
    one = case("onnx.Pow-15/float32,int64/edge/0")
    x, y = (array.ravel() for array in one.inputs)
    odd = (y % 2 == 1) & (np.abs(y.astype(np.float64)) > 2**53) & (x < 0)
    assert odd.sum() > 20
    assert (y[odd].astype(np.float64).astype(object) != y[odd].astype(object)).any()


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3"])
def test_exact_cases_are_exact_or_ties(name):
    """No power has more than one digit beyond the type's, and every kind occurs."""
    row = float_type(name)
    x, y = exact_pairs(name, "float64", 0, 400)
    kinds = set()
    for base, exponent in zip(decode(x), decode(y), strict=True):
        power = TOWARD_ZERO.pow(base, exponent)
        assert power.rc == 0
        mantissa, last = power.as_mantissa_exp()
        digits = int(mantissa).bit_length()
        zeros = (int(mantissa) & -int(mantissa)).bit_length() - 1
        last += zeros
        digits -= zeros
        assert digits <= row.digits + 1
        fractional = Fraction(*exponent.as_integer_ratio()).denominator > 1
        if last == row.least_exponent - 1:
            kinds.add("subnormal tie")
        elif last >= row.least_exponent and digits == row.digits + 1:
            kinds.add("tie")
        elif last >= row.least_exponent:
            kinds.add("fractional" if fractional else "exact")
    assert kinds >= {"subnormal tie", "tie", "exact", "fractional"} - (
        {"fractional"} if row.digits < 3 else set()
    )


@pytest.mark.parametrize("name", FLOATS)
def test_specials_of_floats(name):
    values = specials(name).astype(np.float64)
    facts, info = float_type(name), ml_dtypes.finfo(TYPES[name].dtype)
    assert len(set(codes(specials(name)).tolist())) == len(values)
    wanted = {1.0, 2.0, 0.5, float(info.max), float(info.smallest_subnormal)}
    if facts.has_zero:
        wanted |= {0.0, 1.5, 3.0, -1.0, -float(info.max), -float(info.smallest_subnormal)}
    assert wanted <= set(values.tolist())
    assert np.isinf(values).sum() == (2 if facts.has_infinity else 0)
    assert np.isnan(values).any() == (name != "float4_e2m1fn")
    assert np.signbit(values[values == 0]).sum() == facts.has_minus_zero


@pytest.mark.parametrize("name", INTEGERS)
def test_specials_of_integers(name):
    values = set(specials(name).astype(object).tolist())
    low, high = integer_range(name)
    assert {low, low + 1, 0, 1, 2, 3, high - 1, high} <= {int(value) for value in values}


def test_the_grid_is_every_special_value_with_every_other():
    one = case("onnx.Pow-15/float32,float32/special/grid")
    bases, exponents = (np.unique(codes(array)) for array in one.inputs)
    assert one.inputs[0].size == len(bases) * len(exponents) == 11 * 13


@pytest.mark.parametrize(
    ("operator", "x_name", "y_name"),
    [
        ("openvino.Power-1", "int8", "int8"),
        ("openvino.Power-1", "float8_e5m2", "float8_e5m2"),
        ("openvino.PReLU-1", "float8_e4m3fn", "float8_e4m3fn"),
        ("openvino.Power-1", "uint4", "uint4"),
    ],
)
def test_full_mode_tries_every_pair_of_8_bit_values(operator, x_name, y_name):
    made = cases("full", [operator], types=[x_name])
    both = [one for one in made if one.name in ("every-pair", "every-pair-open")]
    pairs = {
        pair
        for one in both
        for pair in zip(*(codes(array).ravel().tolist() for array in one.inputs), strict=True)
    }
    count = 1 << TYPES[x_name].bits
    assert sum(one.inputs[0].size for one in both) == len(pairs) == count * count


@pytest.mark.parametrize(
    ("x_name", "y_name"), [("float64", "float64"), ("float32", "float64"), ("float16", "float32")]
)
def test_the_hard_cases_are_those_of_the_files(x_name, y_name):
    one = case(f"onnx.Pow-15/{x_name},{y_name}/hard/0")
    lines = (FOLDER / f"{x_name}.txt").read_text("ascii").splitlines()
    fields = [line.split("#")[0].split() for line in lines]
    pairs = [(int(part[0], 16), int(part[2], 16)) for part in fields if part and part[1] == y_name]
    assert list(zip(*(codes(array).ravel().tolist() for array in one.inputs), strict=True)) == pairs


def test_there_is_a_file_of_hard_cases_for_every_type():
    """In the source tree; the build copies them into the package."""
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(TYPES)
    rules = (FOLDER.parents[1] / "CMakeLists.txt").read_text("utf-8")
    assert "install(DIRECTORY data/worst_cases DESTINATION halfulp" in rules


def test_invalid_inputs_are_arrays_of_the_types_that_are_wrong():
    one = case("onnx.Pow-7/float32,float32/invalid/C3-float64,float32")
    assert one.types == ("float64", "float32")
    one = case("onnx.Pow-7/float32,float32/invalid/C4-1-inputs")
    assert one.types == ("float32",)


def test_casts():
    assert cast(np.array([-1, 300, 0.5, 1.5, np.inf]), "uint8").tolist() == [0, 255, 0, 2, 255]
    assert cast(np.array([2.0**63, -(2.0**63)]), "int64").tolist() == [2**63 - 1, -(2**63)]
    assert float(cast(np.array([1e9]), "float16")[0]) == np.inf


def test_logarithms_are_cut_the_same_way_everywhere():
    values = np.array([3.0, 1 + 2.0**-52, 1e-300])
    found = log2(values)
    assert np.allclose(found, np.log2(values), rtol=2.0**-20, atol=0)
    assert (np.frexp(found)[0] * 2**20 % 1 == 0).all()
