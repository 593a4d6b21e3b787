"""What of a case its document leaves open."""

import dataclasses
import itertools
from fractions import Fraction
from pathlib import Path

import gmpy2
import numpy as np
import pytest

from halfulp import specs
from halfulp.conformance.case import Case
from halfulp.conformance.cases.shapes import refusal
from halfulp.conformance.cases.values import every_value
from halfulp.conformance.judge import ELEMENTS, WHOLE_CASES, Outcome, integer_power, judge, unspecified
from halfulp.specs import find, ids
from halfulp.types import TYPES

F32 = np.float32


def test_every_question_that_leaves_a_case_open_is_one_of_a_row():
    asked = {entry.key for id in ids() for entry in find(id).unspecified}
    assert asked > {*WHOLE_CASES, *ELEMENTS}
    assert not {*WHOLE_CASES} & {*ELEMENTS}


def exact_integer(x, y):
    """x^y where that is an integer, by gmpy2, else None; y is a Fraction."""
    if x == 0 and y < 0:
        return None
    numerator, denominator = y.numerator, y.denominator
    if x < 0 and denominator > 1:
        return None
    if numerator < 0:
        # The reciprocal of an integer is one only of a unit.
        return int(gmpy2.mpz(x) ** -numerator) if abs(x) == 1 else None
    root, is_exact = gmpy2.iroot(gmpy2.mpz(abs(x)), denominator)
    if not is_exact:
        return None
    return int(root if x >= 0 else -root) ** numerator


EXPONENTS = [Fraction(n, d) for d in (1, 2, 4, 8, 16) for n in range(-9, 40)]


def test_integer_powers():
    bases = [*range(-20, 40), 256, 625, 65536, 2**32, 3**16, 5**8, 3**32, 2**62, -(2**31), 10**9, 2**63 + 1]
    for x, y in itertools.product(bases, EXPONENTS):
        number = int(y) if y.denominator == 1 else float(y)
        power = exact_integer(x, y)
        if power is not None and abs(power) >= 2**64:
            power = None
        assert integer_power(x, number) == power, (x, y)
        assert integer_power(x, float(number)) == power, (x, y)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("x", "y", "power"),
    [
        (2, 10**30, None),
        (-1, 10**30 + 1, -1),
        (0, 0, 1),
        (0, -0.0, 1),
        (5, NAN, None),
        (1, NAN, 1),
        (0, NAN, None),
        (2, -INF, 0),
        (-2, -INF, 0),
        (0, INF, 0),
        (-1, INF, 1),
        (-1, 0.5, None),
        (9, 5e-324, None),
        (3, 2**1000, None),
    ],
)
def test_integer_powers_at_the_ends(x, y, power):
    assert integer_power(x, y) == power


@pytest.mark.parametrize(("x_name", "y_name"), [("int8", "int8"), ("uint8", "uint8"), ("int8", "int4")])
def test_every_8_bit_power_is_open_unless_it_is_an_integer_of_the_type(x_name, y_name, monkeypatch):
    # A row that allows all of them together.
    every = {"T": tuple(TYPES), "T1": tuple(TYPES)}
    row = dataclasses.replace(find("onnx.Pow-15"), id="test.Pow-1", type_variables=every)
    monkeypatch.setitem(specs._ROWS, row.id, row)
    x, y = np.meshgrid(every_value(x_name), every_value(y_name))
    found = unspecified(Case("", "test.Pow-1", "special", (x, y)))
    limits = np.iinfo(x_name)
    for a, b, is_open in zip(x.ravel().tolist(), y.ravel().tolist(), found.elements.ravel(), strict=True):
        power = exact_integer(int(a), Fraction(int(b)))
        assert is_open == (power is None or not limits.min <= power <= limits.max), (a, b)


def open_elements(operator, *inputs, **attributes):
    found = unspecified(Case("", operator, "special", inputs, attributes))
    return (found.elements.tolist(), found.question.split(":")[0]) if found.question else None


def test_which_question_it_is():
    x = np.array([2, 2, 2], np.int32)
    assert open_elements("onnx.Pow-15", x, np.array([1, 40, 2])) == ([False, True, False], "onnx.Pow-15.U4")
    assert open_elements("onnx.Pow-15", x, np.array([1, -1, 2])) == ([False, True, False], "onnx.Pow-15.U5")
    assert open_elements("onnx.Pow-15", x, np.array([1, 0.5, 40])) == ([False, True, True], "onnx.Pow-15.U5")
    assert open_elements("onnx.Pow-15", x.astype(F32), np.array([1, -1, 400])) is None


def test_integer_prelu():
    x, slope = np.array([[-3, -(2**31), 5]], np.int32), np.array([[7, 2, 2**31 - 1]], np.int32)
    assert open_elements("onnx.PRelu-16", x, slope) == ([[False, True, False]], "onnx.PRelu-16.U4")
    assert open_elements("onnx.PRelu-9", -x, slope // 2) == ([[False, False, True]], "onnx.PRelu-9.U4")


def test_types_without_an_infinity():
    name = "float8_e4m3fn"
    x = np.array([2, 2, 16, 1, 0], np.float64).astype(TYPES[name].dtype)
    y = np.array([8, 9, -64, np.nan, -1], np.float64).astype(TYPES[name].dtype)
    # 512 overflows; 0^-1 is an infinity.
    assert open_elements("openvino.Power-1", x, y)[0] == [False, True, False, False, True]
    assert open_elements("openvino.Power-1", x.astype(F32), y.astype(F32)) is None
    name = "float8_e8m0fnu"
    x = np.array([2, 2, 2, 2], np.float64).astype(TYPES[name].dtype)
    y = np.array([64, 128, 0.5, np.nan], np.float64).astype(TYPES[name].dtype)
    assert open_elements("openvino.Power-1", x, y)[0] == [False, True, False, True]


def test_prelu_of_nan_and_zero():
    x = np.array([[np.nan, 0, -0.0, -1]], F32)
    found = unspecified(Case("", "onnx.PRelu-16", "special", (x, np.ones_like(x))))
    assert found.elements.tolist() == [[True, False, False, False]]
    assert found.zero_signs.tolist() == [[False, True, True, False]]


def test_how_far_the_nan_of_a_negative_base_reaches():
    x, y = np.array([[[[-2, -1, -np.inf, -2, 2]]]], F32), np.array([[[[0.5, 0.5, 0.5, np.inf, np.inf]]]], F32)
    found = unspecified(Case("", "directml.ELEMENT_WISE_POW-1_0", "special", (x, y)))
    assert found.elements.ravel().tolist() == [False, True, True, True, False]


def test_special_values_of_sonnx_are_open_where_its_table_differs():
    page = (Path(__file__).parents[3] / "docs/findings/sonnx.md").read_text(encoding="utf-8")
    table = {}
    exec(page.split("```python\n")[1].partition("```")[0], table)
    different = {(x.tobytes(), y.tobytes()) for x, y, *_ in table["differing"]()}
    assert len(different) == 13
    x, y = np.meshgrid(*(np.concatenate(table[name]).astype(F32) for name in ("BASES", "EXPONENTS")))
    elements, question = open_elements("sonnx.Pow-15", x, y)
    assert question == "sonnx.Pow-15.U2"
    assert elements == [
        [(a.tobytes(), b.tobytes()) in different for a, b in zip(*rows, strict=True)]
        for rows in zip(x, y, strict=True)
    ]
    x, y = np.array([2, 1, 2, 3], np.int32), np.array([-1, -1, 31, 2], np.int32)
    assert open_elements("sonnx.Pow-15", x, y) == ([True, True, True, False], "sonnx.Pow-15.U4")


WHOLE = [
    ("onnx.Pow-1", (2, 3), (3,), {"broadcast": 1, "axis": -1}, True),
    ("onnx.Pow-1", (2, 3), (3,), {"broadcast": 1, "axis": 1}, False),
    ("onnx.Pow-1", (2, 3), (2, 3), {"axis": 0}, True),
    ("onnx.Pow-1", (2, 3), (1,), {"broadcast": 1, "axis": 0}, True),
    ("onnx.Pow-1", (2, 3), (1,), {"broadcast": 1}, False),
    ("onnx.Pow-1", (2, 3), (3,), {}, True),
    ("onnx.Pow-1", (2, 3), (2, 3), {"broadcast": 2}, True),
    ("onnx.Pow-1", (2, 3), (2, 3), {"broadcast": "1"}, False),
    ("onnx.Pow-1", (2, 3), (2,), {"broadcast": 1}, False),
    ("onnx.Pow-7", (2, 3), (2,), {}, False),
    ("onnx.PRelu-1", (2, 3, 4), (3,), {}, True),
    ("onnx.PRelu-1", (2, 3), (3,), {}, False),
    ("onnx.PRelu-1", (2, 3, 4), (1,), {}, False),
    ("onnx.PRelu-1", (2, 3, 4), (), {}, True),
    ("onnx.PRelu-6", (2, 3, 4), (3, 1), {}, True),
    ("onnx.PRelu-6", (2, 3, 4), (2, 3, 4), {}, False),
    ("onnx.PRelu-7", (2, 3), (1, 2, 3), {}, True),
    ("onnx.PRelu-7", (2, 3), (2, 2, 3), {}, False),
    ("openvino.Power-1", (2, 3), (2, 3), {"auto_broadcast": "explicit"}, True),
    ("openvino.Power-1", (2, 3), (2, 3), {"auto_broadcast": "numpy"}, False),
    ("openvino.PReLU-1", (2, 3), (1, 2, 3), {}, True),
    ("directml.ELEMENT_WISE_POW-3_0", (2, 3), (3,), {}, True),
]


@pytest.mark.parametrize(("operator", "x", "y", "attributes", "is_open"), WHOLE)
def test_whole_cases(operator, x, y, attributes, is_open):
    inputs = (np.ones(x, F32), np.ones(y, F32))
    clause = refusal(find(operator), inputs, attributes)
    assert unspecified(Case("", operator, "invalid", inputs, attributes, clause=clause)).whole == is_open


def test_scale_bias_of_integers():
    x = np.ones((2, 3), np.int8)
    case = Case("", "directml.ELEMENT_WISE_POW-3_0", "values", (x, x), {"ScaleBias": (1.0, 0.0)})
    assert unspecified(case).whole


@pytest.mark.parametrize(
    ("name", "may_be_refused"),
    [("float8_e5m2", True), ("int4", True), ("float4_e2m1fn", True), ("int8", False), ("bfloat16", False)],
)
def test_types_of_which_it_is_open_whether_they_are_numeric(name, may_be_refused):
    x = np.ones(3).astype(TYPES[name].dtype)
    case = Case("", "openvino.Power-1", "values", (x, x))
    verdict = "unspecified" if may_be_refused else "refused"
    assert judge(case, x, Outcome("refused", "no such type")).verdict == verdict
    # An output is judged.
    assert judge(case, x, x + x, ulp_limit=0).verdict == "wrong"
