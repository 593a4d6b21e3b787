"""The function body of PRelu-16: the onnx package's evaluator run on it agrees with the operator."""

import numpy as np
import pytest

from halfulp.errors import UnsupportedError
from halfulp.reference import prelu
from halfulp.specs import find, ids
from halfulp.types import element_type

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")

BODY = find("onnx.PRelu-16")


def grid(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return every pair of an interesting x and an interesting slope, as two arrays."""
    dtype = element_type(name).dtype
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        values = np.array([info.min, info.min + 1, 0, 1, 2, 7, info.max - 1, info.max], dtype)
        values = np.concatenate([values, values // 3, (0 - values) // 5])
    else:
        numbers = [0.0, 0.5, 1.0, 1.1, 3.0, 1e-7, 1e-3, 100.0, 6e4, np.inf]
        signed = np.array([*numbers, *(-number for number in numbers)], np.float64)
        values = np.concatenate([signed, [np.nan]]).astype(dtype)
    x, slope = np.meshgrid(values, values)
    return x, slope


def evaluated(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    evaluator = reference.ReferenceEvaluator(BODY.function_body())
    (result,) = evaluator.run(None, {"X": x, "slope": slope}, attributes={})
    return result


@pytest.mark.parametrize("name", BODY.type_variables["T"])
def test_the_body_agrees_with_the_definition(name):
    x, slope = grid(name)
    with np.errstate(all="ignore"):
        result = evaluated(x, slope)
    expected = prelu(x, slope)
    assert result.dtype == expected.dtype == x.dtype
    assert result.shape == x.shape
    if element_type(name).kind != "float":
        np.testing.assert_array_equal(result, expected)
        return
    # A NaN of any sign and payload is one: the body does not say which. All else is bit for bit.
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(result.astype(np.float64)), nan)
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(result.view(bits)[~nan], expected.view(bits)[~nan])


def test_the_body_broadcasts_the_slope():
    x = np.array([[-4, 5], [6, -7]], np.float32)
    np.testing.assert_array_equal(evaluated(x, np.array([3, 10], np.float32)), [[-12, 5], [6, -70]])


def test_the_body_is_the_onnx_packages_own():
    schema = onnx.defs.get_schema("PRelu", 16, "")
    own = schema.function_body
    body = BODY.function_body()
    assert [node.op_type for node in body.node] == [node.op_type for node in own.node]
    assert list(body.input) == list(own.input)
    assert list(body.output) == list(own.output)
    assert [(o.domain, o.version) for o in body.opset_import] == [("", 16)]
    onnx.checker.check_function(body)


def test_other_versions_have_none():
    for id in ids():
        if id != "onnx.PRelu-16":
            with pytest.raises(UnsupportedError) as caught:
                find(id).function_body()
            assert str(caught.value) == (f"{id} has no function body: its document defines none")
