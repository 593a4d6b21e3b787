"""``convert --pow``: constant exponents as products, roots and reciprocals, and back; the bits that stay, stay."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.errors import HalfulpError

SPECIAL = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30, 3e20, 0.3])


def power(exponent: float, kind: str = "float", opset: int = 13) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({kind}[10] x) => ({kind}[10] y)'
    return parser.parse_model(f"{text} <{kind} e = {{{exponent}}}> {{ y = Pow(x, e) }}")


def operators(model: object) -> list[str]:
    assert isinstance(model, onnx.ModelProto)
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("exponent", "nodes", "said"),
    [
        (2, ["Mul"], "x^2 becomes products"),
        (3, ["Mul", "Mul"], "x^3 becomes products (each of its 2 products is rounded)"),
        (16, ["Mul"] * 4, "x^16 becomes products (each of its 4 products is rounded)"),
        (15, ["Mul"] * 6, "x^15 becomes products (each of its 6 products is rounded)"),
        (
            0.5,
            ["Sqrt"],
            "x^0.5 becomes Sqrt (Sqrt(-0) is -0, the power is 0; Sqrt(-inf) is NaN, the power is inf)",
        ),
        (-1, ["Reciprocal"], "x^-1 becomes Reciprocal"),
        (
            -0.5,
            ["Sqrt", "Reciprocal"],
            (
                "x^-0.5 becomes the Reciprocal of Sqrt (both are rounded; at -0 it gives -inf, the power inf;"
                " at -inf NaN, the power 0)"
            ),
        ),
        (1, ["Identity"], "x^1 becomes Identity"),
        (0, ["Shape", "ConstantOfShape"], "x^0 becomes ones"),
    ],
)
def test_expand(exponent: float, nodes: list[str], said: str) -> None:
    source = power(exponent)
    found = hu.convert(source, pow="expand")
    assert [str(change) for change in found.changes] == [f"#0 (Pow): {said}"]
    assert operators(found.model) == nodes
    expected, got = (hu.run(model, {"x": SPECIAL})["y"] for model in (source, found.model))  # type: ignore[arg-type]
    if "(" not in said:
        assert expected.tobytes() == got.tobytes()
    else:
        near = np.isclose(got, expected, rtol=1e-6, atol=0) & (np.signbit(got) == np.signbit(expected))
        unlike = ~near & ~(np.isnan(got) & np.isnan(expected))
        assert {*SPECIAL[unlike].tolist()} == ({-np.inf, -0.0} if "Sqrt" in said else set())


def test_an_exponent_that_is_none_of_these_stays() -> None:
    for model in (power(2.5), power(17), power(-2), power(-1, "int64")):
        assert hu.convert(model, pow="expand").changes == ()


def test_integers_wrap_around_as_their_powers_do() -> None:
    source = power(7, "int64")
    x = np.arange(10) * 12345 - 50000
    expanded = hu.convert(source, pow="expand").model
    assert isinstance(expanded, onnx.ModelProto)
    np.testing.assert_array_equal(hu.run(expanded, {"x": x})["y"], hu.run(source, {"x": x})["y"])


def test_fold_is_the_way_back() -> None:
    for exponent in (2, -1):
        source = power(exponent)
        folded = hu.convert(hu.convert(source, pow="expand").model, pow="fold").model  # type: ignore[arg-type]
        assert operators(folded) == ["Pow"]
        assert isinstance(folded, onnx.ModelProto)
        assert hu.run(folded, {"x": SPECIAL})["y"].tobytes() == hu.run(source, {"x": SPECIAL})["y"].tobytes()


def test_sqrt_becomes_a_power_only_of_what_is_never_negative() -> None:
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[10] x) => (float[10] y, float[10] z) <float e = {0.01}>'
    model = parser.parse_model(
        f"{text} {{ s = Mul(x, x)  m = ReduceMean<axes = [0]>(s)  a = Add(m, e)  r = Sqrt(a)  y = Mul(x, r)"
        "  z = Sqrt(x) }"
    )
    folded = hu.convert(model, pow="fold").model
    assert operators(folded) == ["Pow", "ReduceMean", "Add", "Pow", "Mul", "Sqrt"]


def test_bad_values_are_refused() -> None:
    with pytest.raises(HalfulpError, match="pow can be expanded or folded"):
        hu.convert(power(2), pow="unroll")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("opset", "function", "said"),
    [
        (13, "", "IR version 10 becomes 7, that of opset 13's tools"),
        (15, "", "IR version 10 becomes 8, that of opset 15's tools"),
        (13, "f", "IR version 10 becomes 8, with which its functions came"),
        (21, "", None),
    ],
)
def test_the_ir_version_goes_down_with_the_opset(opset: int, function: str, said: str | None) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> g (float[3] x) => (float[3] y)'
    body = '{ y = f.act(x) } <domain: "f", opset_import: ["" : 21]> act (a) => (b) { b = Pow(a, a) }'
    model = parser.parse_model(f"{text} {body if function else '{ y = Pow(x, x) }'}")
    found = hu.convert(model, opset=opset)
    assert [change.what for change in found.changes] == ([] if said is None else [said])
    onnx.checker.check_model(found.model, full_check=True)
