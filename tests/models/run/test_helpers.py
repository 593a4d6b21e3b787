"""The operators around ours, each version by its document."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper, parser
from tests.models.onnx_models import single

from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.run.api import run, run_with_report

NEWEST = onnx.defs.onnx_opset_version()
F32 = ("float32", None)


def evaluated(model: onnx.ModelProto, **inputs: object) -> np.ndarray:
    """Return the output, having seen that halfulp evaluated every node."""
    out, report = run_with_report(model, inputs)
    assert {row.engine for row in report.nodes} == {"halfulp"}
    return out["out"]


def constant(opset: int, **attribute: object) -> np.ndarray:
    node = helper.make_node("Constant", [], ["out"], "node", **attribute)
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("out")])
    return evaluated(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]))


@pytest.mark.parametrize("opset", [1, 9, 11, 13, NEWEST])
def test_constant(opset: int) -> None:
    value = numpy_helper.from_array(np.arange(3, dtype=np.int64))
    np.testing.assert_array_equal(constant(opset, value=value), [0, 1, 2])


@pytest.mark.parametrize(
    ("attribute", "value", "dtype"),
    [
        ("value_float", 1.5, np.float32),
        ("value_floats", [1.5, 2.0], np.float32),
        ("value_int", 3, np.int64),
        ("value_ints", [3, 4], np.int64),
        ("value_string", "a", object),
    ],
)
def test_constant_12(attribute: str, value: object, dtype: type) -> None:
    out = constant(12, **{attribute: value})
    assert out.dtype == dtype
    assert out.tolist() == value


def test_constant_sparse() -> None:
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", 1, [1], [5.0]), helper.make_tensor("i", 7, [1], [4]), [2, 3]
    )
    np.testing.assert_array_equal(constant(11, sparse_value=sparse), [[0, 0, 0], [0, 5, 0]])


def test_constant_needs_one_attribute() -> None:
    with pytest.raises(ModelError, match="takes one of its attributes"):
        constant(13, value_int=1, value_float=1.0)


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Less"])
@pytest.mark.parametrize("opset", [1, 6])
def test_legacy_broadcasting(op_type: str, opset: int) -> None:
    function = {"Add": np.add, "Mul": np.multiply, "Less": np.less}[op_type]
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    output = ("bool" if op_type == "Less" else "float32", None)

    def run(b: np.ndarray, **attributes: int) -> np.ndarray:
        return evaluated(single(op_type, opset, {"a": F32, "b": F32}, output, **attributes), a=a, b=b)

    b = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(run(b, broadcast=1, axis=1), function(a, b[:, None]))
    np.testing.assert_array_equal(run(b[:2], broadcast=1, axis=0), function(a, b[:2, None, None]))
    np.testing.assert_array_equal(run(a[0], broadcast=1), function(a, a[0]))
    np.testing.assert_array_equal(run(b[:1].reshape(1, 1), broadcast=1), function(a, b[0]))
    # "1-dim expansion doesn't work yet", but models of that time have it
    np.testing.assert_array_equal(run(a[:, :1, :1], broadcast=1, axis=0), function(a, a[:, :1, :1]))
    np.testing.assert_array_equal(run(a), function(a, a))
    for bad, attributes in ((b, {}), (b, {"broadcast": 1}), (b, {"broadcast": 1, "axis": 5}), (a[:1], {})):
        with pytest.raises(ModelError, match=r"node 'node'"):
            run(bad, **attributes)


@pytest.mark.parametrize("op_type", ["Sub", "Div"])
def test_legacy_broadcasting_of_foreign_operators(op_type: str) -> None:
    a, b = np.arange(1, 7, dtype=np.float32).reshape(2, 3), np.array([2, 4], np.float32)
    model = single(op_type, 6, {"a": F32, "b": F32}, broadcast=1, axis=0)
    want = {"Sub": np.subtract, "Div": np.divide}[op_type](a, b[:, None])
    np.testing.assert_array_equal(run(model, {"a": a, "b": b})["out"], want)


@pytest.mark.parametrize(
    ("node", "opset", "expected"),
    [
        ("LRN<size=3, alpha=3.0, beta=1.0>(x)", 13, [[[1 / 6, -1 / 11], [2 / 15, 3 / 11], [-3 / 14, 0]]]),
        ("LpNormalization<p=1, axis=1>(x)", 13, [[[1 / 6, -1 / 4], [2 / 6, 3 / 4], [-3 / 6, 0]]]),
        ("LogSoftmax<axis=2>(w)", 13, [[[0, -200], [-100, 0], [-500, 0]]]),
        ("Softmax<axis=1>(w)", 11, [[[0, 0], [0, 0], [0, 1]]]),
        ("Hardmax<axis=1>(w)", 11, [[[0, 0], [0, 0], [0, 1]]]),
        ("BatchNormalization<epsilon=0.0>(x, s, s, m, s)", 7, [[[2, 0], [6, 8], [-2, 4]]]),
        ("BatchNormalization<epsilon=0.0>(x, s, s, m, s)", 11, [[[2, 0], [6, 8], [-2, 4]]]),
        ("LogSoftmax<axis=1>(w)", 11, [[[-100, -300], [-300, -200], [-500, 0]]]),
    ],
)
def test_where_the_onnx_package_is_wrong(node: str, opset: int, expected: list[object]) -> None:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": {opset}]>
        g (float[1, 3, 2] x, float[1, 3, 2] w) => (float[1, 3, 2] y)
        <float[3] m = {{0, 1, 0}}, float[3] s = {{1, 4, 4}}> {{ y = {node} }}""")
    x = np.array([[[1, -1], [2, 3], [-3, 0]]], np.float32)
    w = np.array([[[400, 200], [200, 300], [0, 500]]], np.float32)
    found = run(model, {"x": x, "w": w})["y"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-6, atol=1e-30)


IMAGE = np.random.default_rng(0).standard_normal((1, 2, 7, 5)).astype(np.float32)
HUGE = np.float32([[1e10, -1e10, 3e38, np.inf, -np.inf, 1, 128.5], [3, -500, 2e5, 4e9, 0, -0.25, 1e-3]])


@pytest.mark.parametrize(
    ("node", "opset", "inputs"),
    [
        ('MaxPool <kernel_shape = [3, 2], strides = [2, 2], auto_pad = "SAME_LOWER"> (x)', 13, {}),
        ('MaxPool <kernel_shape = [3, 2], auto_pad = "SAME_UPPER"> (x)', 8, {}),
        ("MaxPool <kernel_shape = [3, 2], strides = [1, 2], pads = [0, 1, 2, 0]> (x)", 12, {}),
        ("GlobalLpPool (x)", 13, {}),
        ("GlobalLpPool <p = 3> (x)", 13, {}),
        ("Upsample <scales = [1.0, 1.0, 2.0, 1.5]> (x)", 7, {}),
        ('Upsample <scales = [1.0, 1.0, 2.0, 3.0], mode = "linear"> (x)', 8, {}),
        ("Upsample (x, s)", 9, {"s": np.float32([1, 1, 2, 3])}),
        ("Resize (x, s)", 10, {"s": np.float32([1, 1, 1.7, 2])}),
        ('Resize <mode = "linear"> (x, s)', 10, {"s": np.float32([1, 1, 0.7, 2])}),
        ("Scatter <axis = 2> (x, i, u)", 9, {"i": np.int64([[[[1, 0]]]]), "u": np.float32([[[[5, 6]]]])}),
        (
            "RoiAlign <output_height = 3, output_width = 2> (x, r, b)",
            10,
            {"r": np.float32([[0, 0, 4, 5], [1, 1, 3, 6]]), "b": np.int64([0, 0])},
        ),
        ("QuantizeLinear (x, s)", 13, {"x": HUGE, "s": np.float32(0.5)}),
        (
            "QuantizeLinear <axis = 0> (x, s, z)",
            13,
            {"x": HUGE, "s": np.float32([0.5, 9]), "z": np.int8([3, 5])},
        ),
        (
            "QuantizeLinear (x, s)",
            19,
            {"x": HUGE[1:].clip(-6e4, 6e4).astype(np.float16), "s": np.float16(1e-4)},
        ),
    ],
)
def test_where_the_onnx_package_differs_from_onnxruntime(
    node: str, opset: int, inputs: dict[str, np.ndarray]
) -> None:
    ort = pytest.importorskip("onnxruntime")
    feeds = {"x": IMAGE, **{name: np.asarray(value) for name, value in inputs.items()}}
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g () => () {{ out = {node} }}')
    model.graph.input.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    )
    kind = feeds["z"].dtype if "z" in feeds else "uint8" if "Quantize" in node else "float32"
    model.graph.output.append(
        helper.make_tensor_value_info("out", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    (expected,) = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    np.testing.assert_allclose(run(model, feeds)["out"], expected, rtol=1e-5, atol=1e-6)


def test_a_shrinking_resize_of_opset_10_is_refused() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 10]>
        g (float[1, 1, H, W] x, float[4] s) => (float[1, 1, A, B] z) { z = Resize(x, s) }""")
    with pytest.raises(UnsupportedError, match=r"(?s)node #0 \(Resize\): opset 10 does not say.*opset 11"):
        run(model, {"x": IMAGE[:, :1], "s": np.float32([1, 1, 0.5, 1])})


@pytest.mark.parametrize("opset", [7, 13, 14, NEWEST])
def test_numpy_broadcasting(opset: int) -> None:
    a, b = np.ones((3, 1), np.int32), np.arange(4, dtype=np.int32)
    model = single("Mul", opset, {"a": ("int32", None), "b": ("int32", None)}, ("int32", None))
    np.testing.assert_array_equal(evaluated(model, a=a, b=b), a * b)
    with pytest.raises(ModelError, match="can't be broadcast to one shape"):
        run(model, {"a": np.ones(3, np.int32), "b": b})


@pytest.mark.parametrize(
    ("op_type", "opset", "name", "allowed"),
    [
        ("Mul", 1, "int32", False),
        ("Mul", 6, "int32", True),
        ("Mul", 13, "int8", False),
        ("Mul", 14, "int8", True),
        ("Add", 7, "bfloat16", False),
        ("Add", 13, "bfloat16", True),
        ("Less", 7, "int64", False),
        ("Less", 9, "int64", True),
        ("Less", 13, "bfloat16", True),
        ("Identity", 12, "bfloat16", False),
        ("Identity", 13, "bfloat16", True),
    ],
)
def test_types_of_each_version(op_type: str, opset: int, name: str, allowed: bool) -> None:
    dtype = bfloat16 if name == "bfloat16" else np.dtype(name)
    x = np.array([2, 3], dtype)
    inputs = {"a": (name, None)} | ({} if op_type == "Identity" else {"b": (name, None)})
    output = ("bool" if op_type == "Less" else name, None)
    model = single(op_type, opset, inputs, output)
    feeds = dict.fromkeys(inputs, x)
    if allowed:
        assert evaluated(model, **feeds).dtype.name == output[0]
    else:
        with pytest.raises(ModelError, match=rf"onnx.{op_type}-\d+ does not take tensor\({name}\)"):
            run(model, feeds)


def test_inputs_of_one_type_variable() -> None:
    model = single("Mul", 15, {"a": F32, "b": ("float64", None)})
    with pytest.raises(ModelError, match="takes one type for all inputs of type T"):
        run(model, {"a": np.ones(1, np.float32), "b": np.ones(1)})


def test_where() -> None:
    model = single("Where", 16, {"c": ("bool", None), "a": F32, "b": F32})
    a, b = np.ones((2, 1), np.float32), np.zeros(3, np.float32)
    c = np.array([True, False, True])
    np.testing.assert_array_equal(evaluated(model, c=c, a=a, b=b), np.where(c, a, b))


@pytest.mark.parametrize("to", ["FLOAT16", "INT32", "BOOL"])
def test_cast_1_spells_the_type(to: str) -> None:
    model = single(
        "Cast",
        1,
        {"x": F32},
        (np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, to))).name, None),
        to=to,
    )
    assert (
        evaluated(model, x=np.array([1.5], np.float32)).dtype.name
        == {"FLOAT16": "float16", "INT32": "int32", "BOOL": "bool"}[to]
    )


def test_cast_to_what_does_not_exist() -> None:
    for opset, to in ((5, "FLOATY"), (9, 999)):
        with pytest.raises(ModelError, match="Cast does not know the type"):
            run(single("Cast", opset, {"x": F32}, F32, to=to), {"x": np.ones(1, np.float32)})


def test_cast_like_takes_the_other_type() -> None:
    model = single("CastLike", 15, {"x": ("float64", None), "like": ("bfloat16", None)}, ("bfloat16", None))
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(evaluated(model, x=x, like=np.zeros(0, bfloat16))[0]) == 1 + 2.0**-7


def test_cast_of_strings_goes_to_the_onnx_package() -> None:
    model = single("Cast", 13, {"x": F32}, F32, to=TensorProto.FLOAT)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    out, report = run_with_report(model, {"x": np.array(["1.5", "-2"], object)})
    assert out["out"].tolist() == [1.5, -2]
    assert report.nodes[0].engine == "onnx reference"


def reshape(opset: int, x: np.ndarray, shape: list[int], **attributes: int) -> np.ndarray:
    if opset < 5:
        return evaluated(single("Reshape", opset, {"x": F32}, shape=shape), x=x)
    model = single("Reshape", opset, {"x": F32, "shape": ("int64", None)}, **attributes)
    return evaluated(model, x=x, shape=np.array(shape, np.int64))


@pytest.mark.parametrize("opset", [1, 5, 13, 14, NEWEST])
def test_reshape(opset: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert reshape(opset, x, [4, 6]).shape == (4, 6)
    assert reshape(opset, x, [0, -1]).shape == (2, 12)
    assert reshape(opset, x, [-1, 0, 1, 2]).shape == (4, 3, 1, 2)
    assert reshape(opset, x, [24]).tolist() == list(range(24))
    for bad in ([5, 5], [-1, -1], [-2, -12], [1, 1, 1, 0], [7, -1]):
        with pytest.raises(ModelError, match="node 'node'"):
            reshape(opset, x, bad)


def test_reshape_of_nothing_and_allowzero() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert reshape(14, empty, [3, 0], allowzero=1).shape == (3, 0)
    assert reshape(13, empty, [0, 5, 3][:1] + [3]).shape == (0, 3)
    assert reshape(14, np.ones(1, np.float32), []).shape == ()
    for shape in ([0, -1], [2, 0, 1]):
        with pytest.raises(ModelError, match="node 'node'"):
            reshape(14, np.ones(2, np.float32), shape, allowzero=1)
    with pytest.raises(ModelError, match="another number of elements"):
        reshape(14, empty, [0, -1])  # the -1 could be anything


def unsqueeze(opset: int, x: np.ndarray, axes: list[int]) -> np.ndarray:
    if opset < 13:
        return evaluated(single("Unsqueeze", opset, {"x": F32}, axes=axes), x=x)
    return evaluated(
        single("Unsqueeze", opset, {"x": F32, "axes": ("int64", None)}), x=x, axes=np.array(axes, np.int64)
    )


@pytest.mark.parametrize("opset", [1, 11, 13, NEWEST])
def test_unsqueeze(opset: int) -> None:
    x = np.zeros((2, 3), np.float32)
    assert unsqueeze(opset, x, [0, 3]).shape == (1, 2, 3, 1)
    assert unsqueeze(opset, x, [2, 1]).shape == (2, 1, 1, 3)
    if opset < 11:
        with pytest.raises(ModelError, match="axes must be distinct dims"):
            unsqueeze(opset, x, [-1])
    else:
        assert unsqueeze(opset, x, [-1]).shape == (2, 3, 1)
    for bad in ([0, 0], [3], [0, 5]):
        with pytest.raises(ModelError, match="axes must be distinct dims"):
            unsqueeze(opset, x, bad)
