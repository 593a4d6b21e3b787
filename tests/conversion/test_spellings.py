"""``convert --pow`` and ``--prelu``: in other operators, and back; the bits that stay, stay; the others are said."""

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed

import halfulp as hu


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
