"""``convert --pow`` and ``--prelu``: in other operators, and back; the bits that stay, stay; the others are said."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.models.onnx_models import single

import halfulp as hu

SPECIAL = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30, 3e20, 0.3])


def power(exponent: float, kind: str = "float", opset: int = 13) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({kind}[10] x) => ({kind}[10] y)'
    return parser.parse_model(f"{text} <{kind} e = {{{exponent}}}> {{ y = Pow(x, e) }}")


def operators(model: object) -> list[str]:
    assert isinstance(model, onnx.ModelProto)
    return [node.op_type for node in model.graph.node]


def test_an_exponent_that_is_none_of_these_stays() -> None:
    for model in (power(2.2), power(17), power(-2.6), power(-1, "int64")):
        found = hu.convert(model, pow="expand")
        (said,) = map(str, found.changes)
        assert said.startswith(
            "#0 (Pow): stays unchanged (no products, roots and reciprocals give this power"
        )
        assert ("--pow logarithms computes it approximately" in said) == ("int64" not in str(model))
        assert found.summary == "0 changes"


@pytest.mark.parametrize(
    ("body", "nodes", "said"),
    [
        ("float e = {2.2}> { y = Pow(x, e) }", ["Log", "Mul", "Exp"], "; NaN where X is below 0"),
        ("float e = {3}> { y = Pow(x, e) }", ["Mul", "Mul"], None),
        ("float e = {10}> { y = Pow(e, x) }", ["Mul", "Exp"], ""),
        ("int64 e = {2000}> { y = Pow(x, e) }", ["Log", "Mul", "Exp"], "; NaN where X is below 0"),
        ("int64 e = {17}> { y = Pow(x, e) }", ["Mul"] * 5, None),
        (
            "int64 e = {17}> { i = Cast<to = 7>(x)  y = Pow(x, i) }",
            ["Cast", "Cast", "Log", "Mul", "Exp"],
            "; NaN where X is below 0; NaN for 0^0 and inf^0",
        ),
        ("float e = {-2}> { y = Pow(e, x) }", ["Pow"], None),
    ],
)
def test_other_powers_by_logarithms(body: str, nodes: list[str], said: str | None) -> None:
    source = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y) <{body}'
    )
    found = hu.convert(source, pow="logarithms")
    assert operators(found.model) == nodes
    if said is not None:
        becomes = "Pow(x, e) becomes Exp(Mul(e, Log(x))) (off by some |Y * Log(X)| units in the last place"
        assert str(found.changes[0]).partition(": ")[2] == f"{becomes}{said})"
    x = np.float32([0.3, 1, 2.5, 4])
    expected, got = (hu.run(model, {"x": x})["y"] for model in (source, found.model))  # type: ignore[arg-type]
    np.testing.assert_allclose(got, expected, rtol=3e-6)


@pytest.mark.parametrize(
    ("node", "expanded"),
    [
        ("Pow(a, e)", ["Mul", "Mul"]),
        ("Pow(a, h)", ["Pow"]),
        ("PRelu(a, e)", ["Less", "Mul", "Where"]),
    ],
)
def test_behind_an_operator_that_only_a_runtime_knows(node: str, expanded: list[str]) -> None:
    source = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[4] x) => (float[4] y)'
        f" <float e = {{3}}, float h = {{0.5}}> {{ a = EfficientNMS_TRT(x)  y = {node} }}"
    )
    how = {"prelu" if "PRelu" in node else "pow": "expand"}
    found = hu.convert(source, **how)  # type: ignore[arg-type]
    assert operators(found.model) == ["EfficientNMS_TRT", *expanded]
    assert ("the type of its base is not known" in str(found.changes[0])) == ("h" in node)


@pytest.mark.parametrize(
    ("exponent", "expanded"),
    [
        ("e = Constant<value = float[3] {2, 2, 2}>()", ["Mul"]),
        ("e = Constant<value = float[1, 1] {2}>()", ["Mul"]),
        ("s = Shape(x)  e = ConstantOfShape<value = float[1] {2}>(s)", ["Mul"]),
        ("s = Shape(x)  t = Constant<value = float {2}>()  e = Expand(t, s)", ["Mul"]),
        (
            "s = Shape(x)  t = Constant<value = float {2}>()  e = Expand(t, s)  w = Neg(e)",
            ["Shape", "Expand", "Neg", "Mul"],
        ),
        ("e = Constant<value = float[3] {2, 2, 3}>()", ["Pow"]),
        ("e = Constant<value = float[1, 1, 1] {2}>()", ["Pow"]),
    ],
)
def test_one_exponent_for_all_elements(exponent: str, expanded: list[str]) -> None:
    """As torch.full_like and TensorFlow's converters write it."""
    source = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[N, 3] x) => (float y) {{ {exponent}  y = Pow(x, e) }}'
    )
    source.graph.output[0].type.tensor_type.ClearField("shape")
    if "w =" in exponent:
        source.graph.output.add(name="w")
    found = hu.convert(source, pow="expand").model
    assert [name for name in operators(found) if name != "Constant"] == expanded


def test_sqrt_becomes_a_power_only_of_what_is_never_negative() -> None:
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[10] x) => (float[10] y, float[10] z) <float e = {0.01}>'
    model = parser.parse_model(
        f"{text} {{ s = Mul(x, x)  m = ReduceMean<axes = [0]>(s)  a = Add(m, e)  r = Sqrt(a)  y = Mul(x, r)"
        "  z = Sqrt(x) }"
    )
    folded = hu.convert(model, pow="fold").model
    assert operators(folded) == ["Pow", "ReduceMean", "Add", "Pow", "Mul", "Sqrt"]


@pytest.mark.parametrize("rows", ["N", ""])
def test_a_prelu_whose_rank_is_not_known_is_named(rows: str) -> None:
    """As Keras's Dense and PReLU behind a layer of an unknown rank."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 13]> g (float[{rows or 1}, 2] x, int64[k] shape) => (float[a, b] z)
        <float[2, 2] w = {{1, 2, 3, 4}}, float[2] s = {{-0.1, -0.2}}> {{
            y = {"Identity (x)" if rows else "Reshape (x, shape)"}  d = MatMul (y, w)  p = Relu (d)
            n = Neg (d)  q = Relu (n)  t = Mul (s, q)  z = Add (p, t) }}"""
    )
    (change,) = hu.convert(model, prelu="fold").changes
    assert change.is_notice == (not rows)
    assert rows or "the rank of X is not known" in change.what


# --- PRelu ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [9, 15, 16, 21])
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_expanded_and_folded_back(kind: str, opset: int) -> None:
    model = single("PRelu", opset, {"x": (kind, ["N", 3, 4]), "s": (kind, [3, 1])}, (kind, ["N", 3, 4]))
    wide = hu.convert(model, prelu="expand").model
    assert isinstance(wide, onnx.ModelProto)
    assert [node.op_type for node in wide.graph.node] == ["Less", "Mul", "Where"]
    back = hu.convert(wide, prelu="fold").model
    assert isinstance(back, onnx.ModelProto)
    assert [node.op_type for node in back.graph.node] == ["PRelu"]
    assert back.graph.node[0].name == "node"
    assert not back.graph.initializer


@pytest.mark.parametrize(
    "nodes",
    [
        "b = Less (x, one) p = Mul (s, x) z = Where (b, p, x)",
        "b = Less (zero, x) p = Mul (s, x) z = Where (b, p, x)",
        "b = Less (x, zero) p = Mul (s, s) z = Where (b, p, x)",
        "b = Less (x, zero) p = Mul (s, x) z = Where (b, x, p)",
        "b = Less (x, zero) p = Add (s, x) z = Where (b, p, x)",
        "b = Less (x, zero) p = Mul (s, x) y = Where (b, p, x) z = Add (y, p)",
        "b = Less (x, zero) p = Mul (l, x) z = Where (b, p, x)",
    ],
)
def test_what_only_looks_like_the_body(nodes: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 16]>
        g (float[N, 3] x, float[3] s, float[M, 3] l) => (float[A, 3] z)
        <float zero = {{0}}, float one = {{1}}> {{ {nodes} }}"""
    model = parser.parse_model(text)
    after = hu.convert(model, prelu="fold").model
    assert isinstance(after, onnx.ModelProto)
    assert [node.op_type for node in after.graph.node] == [node.op_type for node in model.graph.node]


def activation(body: str, slope: str = "0.25", opset: int = 13) -> onnx.ModelProto:
    """A model of X, whose slope is a constant, or an input if none is given."""
    constants = "float zero = {0}, float half = {0.5}" + (f", float s = {{{slope}}}" if slope else "")
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[10] x{"" if slope else ", float[1] s"})'
    return parser.parse_model(f"{text} => (float[10] y) <{constants}> {{ {body} }}")


@pytest.mark.parametrize(
    ("body", "slope", "kinds"),
    [
        ("p = Mul (s, x)  y = Max (x, p)", "1.5", ["Mul", "Max"]),
        ("p = Mul (s, x)  y = Max (x, p)", "", ["Mul", "Max"]),
        (
            "r = Relu (x)  n = Min (x, zero)  p = Mul (s, n)  y = Add (r, p)",
            "inf",
            ["Relu", "Min", "Mul", "Add"],
        ),
        ("c = Greater (x, zero)  p = Mul (x, s)  y = Where (c, x, p)", "inf", ["Greater", "Mul", "Where"]),
        (
            "r = Relu (x)  n = Min (x, half)  p = Mul (s, n)  y = Add (r, p)",
            "2",
            ["Relu", "Min", "Mul", "Add"],
        ),
        (
            "r = Relu (x)  n = Min (s, zero)  p = Mul (s, n)  y = Add (r, p)",
            "",
            ["Relu", "Min", "Mul", "Add"],
        ),
        ("r = Relu (x)  p = Mul (s, r)  y = Add (r, p)", "2", ["Relu", "Mul", "Add"]),
    ],
)
def test_what_is_no_prelu_or_another_function_for_some_slope_stays(
    body: str, slope: str, kinds: list[str]
) -> None:
    assert operators(hu.convert(activation(body, slope or ""), prelu="fold").model) == kinds


def test_infinite_slopes_are_named_where_the_slope_is_not_known() -> None:
    for body in (
        "c = Greater (x, zero)  p = Mul (x, s)  y = Where (c, x, p)",
        "r = Relu (x)  n = Neg (x)  q = Relu (n)  p = Mul (s, q)  y = Sub (r, p)",
    ):
        (change,) = hu.convert(activation(body, ""), prelu="fold").changes
        assert change.differs is not None
        assert change.differs.endswith("a slope that is infinite or NaN gave NaN where X is not negative")


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("u = Unsqueeze<axes = [1, 2]>(s)  y = PRelu(x, u)", ["PRelu"]),
        ("u = Unsqueeze<axes = [1, 2]>(s)  p = PRelu(x, u)  y = PRelu(p, u)", ["PRelu", "PRelu"]),
        ("u = Unsqueeze<axes = [1, 2]>(s)  p = PRelu(x, u)  y = Mul(p, u)", ["Unsqueeze", "PRelu", "Mul"]),
        ("d = DequantizeLinear(q, k)  y = PRelu(x, d)", ["DequantizeLinear", "PRelu"]),
    ],
)
def test_slopes_that_nodes_compute_are_stored(body: str, left: list[str]) -> None:
    source = parser.parse_model(f"""<ir_version: 7, opset_import: ["" : 11]> g (float[1, 3, 4, 4] x) =>
        (float[1, 3, 4, 4] y) <float[3] s = {{0.5, -1, 2}}, int8[3, 1, 1] q = {{1, -2, 3}}, float k = {{0.5}}> {{
        {body} }}""")
    found = hu.convert(source, prelu="fold", verify=True)
    assert operators(found.model) == left
    assert found.verification is not None
    assert found.verification.same


@pytest.mark.parametrize(
    ("opset", "slope"),
    [(1, [3]), (5, [1]), (6, [1]), (6, [3]), (7, [3, 1]), (8, [2, 3, 4]), (8, [])],
)
def test_before_where_a_prelu_becomes_a_sum(opset: int, slope: list[int]) -> None:
    source = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[2, 3, 4] x, float{slope or ""} s)'
        " => (float[2, 3, 4] y) { y = PRelu (x, s) }"
    )
    found = hu.convert(source, prelu="expand")
    assert sorted(operators(found.model)) == ["Add", "Mul", "Neg", "Neg", "Relu", "Relu"]
    assert isinstance(found.model, onnx.ModelProto)
    onnx.checker.check_model(found.model, full_check=True)
    rng = np.random.default_rng(1)
    inputs = {"x": rng.standard_normal((2, 3, 4), "f"), "s": rng.standard_normal(slope).astype("f")}
    for key in inputs:
        inputs[key] = np.asarray(inputs[key], np.float32)
    np.testing.assert_array_equal(*(hu.run(model, inputs)["y"] for model in (source, found.model)))
    assert "a zero may have another sign" in str(found.changes[0].differs)


@pytest.mark.parametrize(
    ("target", "kinds", "words"),
    [
        ("basic", ["Less", "Mul", "Where", "Mul", "Mul"], "x^3 becomes products: basic has no Pow"),
        ("iree", ["PRelu", "Mul", "Mul"], "IREE computes powers by logarithms"),
    ],
)
def test_a_target_without_an_operator_gets_its_spelling(target: str, kinds: list[str], words: str) -> None:
    model = activation("a = PRelu (x, s)  y = Pow (a, three)").graph
    model.initializer.append(onnx.numpy_helper.from_array(np.float32(3), "three"))
    source = onnx.helper.make_model(model, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    found = hu.convert(source, target=target)
    assert operators(found.model) == kinds
    assert words in str(found.changes[-1])


def test_integers_become_products_where_the_target_multiplies_them() -> None:
    (change,) = hu.convert(power(3, "int32"), target="tensorrt").changes
    assert str(change) == "#0 (Pow): x^3 becomes products: tensorrt takes no int32 here"
    assert "2^24" in str(hu.convert(power(17, "int32"), target="tensorrt").changes[-1].differs)


def test_a_power_that_has_no_other_spelling() -> None:
    source = power(2.2)
    with pytest.raises(
        hu.UnsupportedError, match="no products, roots and reciprocals give this power; --pow loga"
    ):
        hu.convert(source, target="basic")
    (change,) = hu.convert(source, target="iree").changes
    assert str(change.differs).startswith("IREE computes powers by logarithms")


# --- IR versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opset", "function", "said"),
    [
        (13, "", "IR version 10 becomes 7, that of opset 13's tools"),
        (15, "", "IR version 10 becomes 8, that of opset 15's tools"),
        (13, "f", "IR version 10 becomes 8, which its content needs"),
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


@pytest.mark.parametrize("shape", ["2, 4, 4, 4", "2, 3, 5", "2, 4, 4"])
def test_slopes_in_a_sum_have_the_rank_of_x(shape: str) -> None:
    """OpenVINO makes a PReLU of the sum, with a slope of rank 1 for each channel."""
    ov = pytest.importorskip("openvino")
    dims = [int(dim) for dim in shape.split(", ")]
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 13]> g (float[{shape}] x) => (float[{shape}] y) {{ y = PRelu(x, s) }}"""
    )
    slopes = np.linspace(-1.5, 2, dims[-1], dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(slopes, "s"))
    x = np.random.default_rng(3).standard_normal(dims).astype(np.float32)
    data = hu.convert(model, prelu="relu").model.SerializeToString()
    y = ov.Core().compile_model(ov.Core().read_model(data), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    np.testing.assert_allclose(y, np.where(x < 0, x * slopes, x), rtol=1e-5)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    "option", [{"pow": "expand"}, {"pow": "logarithms"}, {"target": "tensorrt"}, {"target": "basic"}]
)
def test_products_of_integers_wrap_where_the_power_saturates(kind: str, option: dict[str, str]) -> None:
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 15]> g ({kind}[3] x) => ({kind}[3] y) <float e = {{3.0}}>
        {{ y = Pow(x, e) }}"""
    )
    inputs = {"x": np.array([3, -5, 2**31 - 9]).astype(kind)}
    found = hu.convert(model, **option, verify=True, inputs=inputs)  # type: ignore[arg-type]
    assert "wraps around, where the power saturates" in (found.changes[0].differs or "")
    assert found.verification is not None
    assert found.verification.same
