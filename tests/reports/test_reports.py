"""Public bug reports that need more than commands; the others are in ``golden``, which tests/cli/test_golden.py tries.

Each model is made here with the facts of a report. The written model must load in ONNX Runtime and give the outputs of
the model that the reporter meant.
"""

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from tests.golden import parsed

import halfulp as hu


def made(text: str, versions: tuple[int, ...]) -> ModelProto:
    """Return a model; weights without values are made up."""
    opset, ir_version = (*versions, 8)[:2]
    runtimes = ', "com.microsoft": 1' if "com.microsoft" in text else ""
    return parsed(f'<ir_version: {ir_version}, opset_import: ["": {opset}{runtimes}]> {text}')


# https://github.com/opencv/opencv/issues/18179, as torch exports it: the exponent 1 / p is computed of a constant
def test_a_computed_exponent_becomes_a_constant_of_an_ir():
    pytest.importorskip("openvino")
    text = """gem (float[1, 3, 4, 4] x) => (float[1, 3, 1, 1] y) <float low = {1e-6}, float[1] p = {3}, float one = {1}>
        { c = Clip(x, low)  q = Pow(c, p)  a = GlobalAveragePool(q)  r = Reciprocal(p)  e = Mul(r, one)
        y = Pow(a, e) }"""
    found = hu.convert(made(text, (13,)), to="openvino", verify=True)
    assert found.verification.same


# https://github.com/microsoft/onnxruntime/issues/21935; megvii-research/TLC 3; anthonymlortiz/lcn 4: NaN for
# nearly equal numbers, of the root of a difference of squares
@pytest.mark.parametrize("operator", ["LayerNormalization", "MeanVarianceNormalization"])
def test_a_norm_of_nearly_equal_numbers(operator):
    onnxruntime = pytest.importorskip("onnxruntime")
    axes, more = ("axis = -1", ", w") if operator == "LayerNormalization" else ("axes = [1]", "")
    text = f"norm (float[2, 256] x) => (float[2, 256] y) <float[256] w> {{ y = {operator}<{axes}>(x{more}) }}"
    model = made(text if more else text.replace(" <float[256] w>", ""), (17,))
    plain = hu.convert(model, expand=operator).model
    assert "Sub" in [node.op_type for node in plain.graph.node]
    deviations = np.random.default_rng(0).integers(-8, 9, (2, 256)) / 256
    found = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": (1234 + deviations).astype(np.float32)}
    )[0]
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]) if more else 1
    centred = deviations - deviations.mean(axis=1, keepdims=True)
    right = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + (1e-5 if more else 0)) * weights
    np.testing.assert_allclose(found, right, atol=0.05)


# megvii-research/TLC 3; anthonymlortiz/lcn 4; sbryngelson/ANEForge 263: norms that a module writes out, in both orders
# and with other constants
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(
    "square", ["q = Pow(x, two)  a = ReduceMean<axes = [-1]>(q)  mm = Pow(m, too)", "q = Mul(x, x)"]
)
def test_a_variance_that_is_a_difference_of_squares(square, opset):
    onnxruntime = pytest.importorskip("onnxruntime")
    if "Mul" in square:
        square += "  a = ReduceMean<axes = [-1]>(q)  mm = Mul(m, m)"
    text = f"""tlc (float[4, 8] x) => (float[4, 8] y) <float two = {{2}}, float[1] too = {{2}}, float e = {{1e-5}}> {{
        m = ReduceMean<axes = [-1]>(x)  {square}  v = Sub(a, mm)  w = Add(v, e)  s = Sqrt(w)  d = Sub(x, m)
        n = Div(d, s)  u = Sub(x, n)  t = Sub(u, x)  y = Neg(t) }}"""
    found = hu.convert(made(text, (opset,)), fuse="norms")
    about_variance = ["E[x^2] - E[x]^2" in change.what for change in found.changes]
    assert about_variance == ([True, False] if opset == 17 else [True])
    feed = {"x": np.full((4, 8), 1234.1, np.float32)}
    session = onnxruntime.InferenceSession(
        found.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(None, feed)
    np.testing.assert_allclose(result, 0, atol=0.1)
