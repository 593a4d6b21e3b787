"""``convert --pow`` and ``--prelu``: in other operators, and back; the bits that stay, stay; the others are said."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from tests.models.onnx_models import parsed

import halfulp as hu

SPECIAL = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30, 3e20, 0.3])


def power(exponent: float, kind: str = "float", opset: int = 13) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g ({kind}[10] x) => ({kind}[10] y)'
    return parser.parse_model(f"{text} <{kind} e = {{{exponent}}}> {{ y = Pow(x, e) }}")


def operators(model: object) -> list[str]:
    return [node.op_type for node in model.graph.node]


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
def test_other_powers_by_logarithms(body, nodes, said):
    source = parsed(f"13: g (float[4] x) => (float[4] y) <{body}")
    found = hu.convert(source, pow="logarithms")
    assert operators(found.model) == nodes
    if said is not None:
        becomes = "Pow(x, e) becomes Exp(Mul(e, Log(x))) (off by some |Y * Log(X)| units in the last place"
        assert str(found.changes[0]).partition(": ")[2] == f"{becomes}{said})"
    x = np.float32([0.3, 1, 2.5, 4])
    expected, got = (hu.run(model, {"x": x})["y"] for model in (source, found.model))
    np.testing.assert_allclose(got, expected, rtol=3e-6)


# --- PRelu ----------------------------------------------------------------------------------------


SLOPED = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30, -3e20, -0.3])


def activation(body: str, slope: str = "0.25", opset: int = 13) -> onnx.ModelProto:
    """A model of X, whose slope is a constant, or an input if none is given."""
    constants = "float zero = {0}, float half = {0.5}" + (f", float s = {{{slope}}}" if slope else "")
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[10] x{"" if slope else ", float[1] s"})'
    return parser.parse_model(f"{text} => (float[10] y) <{constants}> {{ {body} }}")


def results(model: object, **inputs: Any) -> Any:
    """Return what the onnx package's evaluator computes: ONNX Runtime's Where loses the sign of zeros."""
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, inputs)[0]


NAN = "a product that is a NaN may have another sign bit"
ZERO = "a zero may have another sign"
FORMS = {
    "c = Less (x, zero)  p = Mul (s, x)  y = Where (c, p, x)": NAN,
    "c = GreaterOrEqual (x, zero)  p = Mul (s, x)  y = Where (c, x, p)": NAN,
    "c = Greater (zero, x)  p = Mul (x, s)  y = Where (c, p, x)": NAN,
    "d = Less (x, zero)  c = Not (d)  p = Mul (x, s)  y = Where (c, x, p)": NAN,
    "c = Greater (x, zero)  p = Mul (x, s)  y = Where (c, x, p)": NAN,
    "c = Less (zero, x)  p = Mul (x, s)  y = Where (c, x, p)": NAN,
    "r = Relu (x)  n = Neg (x)  q = Relu (n)  p = Mul (s, q)  y = Sub (r, p)": ZERO,
    "r = Relu (x)  n = Neg (x)  q = Relu (n)  w = Neg (q)  p = Mul (w, s)  y = Add (p, r)": ZERO,
    "r = Relu (x)  n = Neg (x)  q = Max (n, zero)  t = Neg (s)  p = Mul (t, q)  y = Add (r, p)": ZERO,
    "r = Max (x, zero)  n = Min (zero, x)  p = Mul (s, n)  y = Add (r, p)": ZERO,
    "r = Relu (x)  a = Abs (x)  d = Sub (x, a)  e = Mul (s, d)  p = Mul (e, half)  y = Add (r, p)": ZERO,
    "p = Mul (s, x)  y = Max (x, p)": NAN,
    "y = LeakyRelu <alpha = 0.25> (x)": NAN,
}


# --- IR versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["2, 4, 4, 4", "2, 3, 5", "2, 4, 4"])
def test_slopes_in_a_sum_have_the_rank_of_x(shape):
    """OpenVINO makes a PReLU of the sum, with a slope of rank 1 for each channel."""
    ov = pytest.importorskip("openvino")
    dims = [int(dim) for dim in shape.split(", ")]
    model = parsed(f"13: g (float[{shape}] x) => (float[{shape}] y) {{ y = PRelu(x, s) }}")
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
def test_products_of_integers_wrap_where_the_power_saturates(kind, option):
    model = parsed(f"15: g ({kind}[3] x) => ({kind}[3] y) <float e = {{3.0}}> {{ y = Pow(x, e) }}")
    inputs = {"x": np.array([3, -5, 2**31 - 9]).astype(kind)}
    found = hu.convert(model, **option, verify=True, inputs=inputs)
    assert "wraps around, where the power saturates" in (found.changes[0].differs or "")
    assert found.verification.same
