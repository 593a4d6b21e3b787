"""The operators beside Pow and PRelu: each version by its document, and sums of 16-bit floats."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator
from tests.models.onnx_models import parsed, run, single

import halfulp as hu
from halfulp.errors import ModelError
from halfulp.types import TYPES

NEWEST = onnx.defs.onnx_opset_version()
F32 = ("float32", None)


def evaluated(model: onnx.ModelProto, **inputs: object) -> np.ndarray:
    return np.asarray(run(model, inputs)["out"])


def test_an_operator_that_is_younger_than_its_opset():
    """It has the rules of its first version."""
    model = parsed("6: g (bool[2] c, float[2] x) => (float[2] out) { y = Pow (x, x)  out = Where (c, y, x) }")
    x = np.float32([2, 3])
    assert hu.run(model, {"c": x > 2, "x": x})["out"].tolist() == [2, 27]


@pytest.mark.parametrize("op_type", ["Add", "Mul", "Less", "Sub", "Div"])
@pytest.mark.parametrize("opset", [1, 6])
def test_legacy_broadcasting(op_type, opset):
    numpy_names = {"Mul": "multiply", "Sub": "subtract", "Div": "divide"}
    function = getattr(np, numpy_names.get(op_type, op_type.lower()))
    a = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
    output = ("bool" if op_type == "Less" else "float32", None)

    def run(b: np.ndarray, **attributes: int) -> np.ndarray:
        return evaluated(single(op_type, opset, {"a": F32, "b": F32}, output, **attributes), a=a, b=b)

    b = np.arange(1, 4, dtype=np.float32)
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
    a = a[:1, :1, :1]
    with pytest.raises(ModelError, match="contiguous subset"):  # only the second is broadcast
        run(b, broadcast=1)


SUMS = [
    *(f"ReduceMean<axes=[{axes}]>(x)" for axes in ("2", "0, 2")),
    *(f"{name}<axes=[2]>(x)" for name in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")),
    "ReduceLogSum<axes=[2]>(p)",
    *(f"LpNormalization<axis=2, p={p}>(x)" for p in (1, 2)),
    *(f"LpPool<kernel_shape=[40], strides=[40], p={p}>(x)" for p in (1, 2, 3)),
    "AveragePool<kernel_shape=[500], strides=[250]>(x)",
    "GlobalAveragePool(x)",
    "LRN<size=3>(image)",
    "Mean(p, p, x)",
    "Sum(big, big, x, less, less)",
    "CumSum(x, axis)",
    "MatMul(x, w)",
    'Einsum<equation="ijk,kl->il">(x, w)',
    "Conv(x, kernel)",
    "Softmax<axis=2>(none)",
    "Softplus(x)",
    "LayerNormalization(x, s, b)",
    "LayerNormalization<axis=2>(x, s)",
    "RMSNormalization(x, s)",
    "InstanceNormalization(x, t, t)",
    "GroupNormalization<num_groups=1>(x, t, t)",
    "MeanVarianceNormalization<axes=[2]>(x)",
]


WRONG_IN_THE_PACKAGE = [
    *((opset, "BatchNormalization(x, s, t, t, s)") for opset in (7, 9, 13, 14)),
    (7, "BatchNormalization<spatial=1, momentum=0.5>(x, s, t, t, s)"),
    *((opset, f"{name}(x)") for opset in (11, 13) for name in ("Softmax", "LogSoftmax", "Hardmax")),
    *(
        (11, f"{name}<axis={axis}>(x)")
        for axis in (0, 2, -1)
        for name in ("Softmax", "LogSoftmax", "Hardmax")
    ),
    *((13, f"{name}<axis=1>(x)") for name in ("Softmax", "LogSoftmax", "Hardmax")),
    *((13, f"LRN<size={size}, alpha=0.5, bias=2.0>(x)") for size in (3, 9)),
    (13, "LRN<size=5, beta=0.5>(x)"),
]


@pytest.mark.parametrize(("opset", "node"), WRONG_IN_THE_PACKAGE)
def test_operators_that_the_package_computes_by_another_version(opset, node):
    """ONNX Runtime computes the same node."""
    model = parser.parse_model(
        f'<ir_version: 7, opset_import: ["": {opset}]> g (float[2, 4, 3, 5] x, float[4] s, float[4] t)'
        f" => (float[] y) {{ y = {node} }}"
    )
    rng = np.random.default_rng(1)
    inputs = {
        "x": 60 * rng.standard_normal((2, 4, 3, 5)),
        "s": rng.random(4) + 0.5,
        "t": rng.standard_normal(4),
    }
    inputs = {name: value.astype(np.float32) for name, value in inputs.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    (exact,) = session.run(None, {name: value for name, value in inputs.items() if name in names})
    np.testing.assert_allclose(run(model, inputs)["y"], exact, rtol=1e-5, atol=1e-6)


def test_statistics_for_each_place_are_refused():
    model = parser.parse_model(
        '<ir_version: 3, opset_import: ["": 7]> g (float[2, 1, 2, 2] x, float[1, 2, 2] s) => (float[] y)'
        " { y = BatchNormalization<spatial=0>(x, s, s, s, s) }"
    )
    with pytest.raises(ModelError, match="spatial"):
        run(model, {"x": np.ones((2, 1, 2, 2), np.float32), "s": np.ones((1, 2, 2), np.float32)})


def model_of_sum(node: str, type_name: str) -> onnx.ModelProto:
    opset = 17 if "axes" in node else 23
    inputs = f"{type_name}[2, 3, 1000] x, {type_name}[1000, 2] w, {type_name}[4, 3, 200] kernel, int64 axis, "
    inputs += ", ".join(f"{type_name}[{size}] {name}" for size, name in ((1000, "s"), (1000, "b"), (3, "t")))
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}]>'
        f" g ({inputs}) => ({type_name}[] y) <float most = {{60000}}, int64[4] dims = {{2, 2, 100, 15}}> {{"
        f" p = Abs(x)  none = Sub(x, x)  big = CastLike(most, x)  less = Neg(big)  image = Reshape(x, dims)"
        f" y = {node} }}"
    )


@pytest.mark.parametrize("type_name", ["float16", "bfloat16"])
@pytest.mark.parametrize("node", SUMS)
def test_sums_of_short_types_are_computed_in_float32(node, type_name):
    """The onnx package computes the same node in float32. In float16 its sums overflow or stop growing."""
    rng = np.random.default_rng(0)
    x = np.sort(400 * rng.standard_normal((2, 3, 1000)))[:, :, ::-1]
    values = {"x": x, "w": rng.standard_normal((1000, 2)), "kernel": rng.standard_normal((4, 3, 200))}
    values |= {"s": np.full(1000, 2.0), "b": np.ones(1000), "t": np.ones(3)}
    dtype = TYPES[type_name].dtype
    short = {name: value.astype(dtype) for name, value in values.items()} | {"axis": np.int64(2)}
    wide = {name: value if name == "axis" else value.astype(np.float32) for name, value in short.items()}
    y = run(model_of_sum(node, type_name), short)["y"]
    assert y.dtype == dtype
    if "p=1" in node and node.startswith("LpN"):  # where the package sums X itself
        exact = wide["x"] / np.abs(wide["x"]).sum(2, keepdims=True)
    elif node.startswith("Softplus"):  # whose exponential overflows in onnx 1.19
        exact = np.logaddexp(wide["x"], 0)
    else:
        (exact,) = ReferenceEvaluator(model_of_sum(node, "float")).run(None, wide)
    limit = float(ml_dtypes.finfo(dtype).max)
    exact = np.where(np.abs(exact) > limit, np.copysign(np.inf, exact), exact)
    greatest = np.abs(exact[np.isfinite(exact)]).max(initial=0)
    np.testing.assert_allclose(y.astype(float), exact, rtol=2**-7, atol=2**-9 * greatest)


@pytest.mark.parametrize("type_name", ["float16", "float"])
@pytest.mark.parametrize("stash", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_a_stash_type_of_16_bits(stash, type_name):
    """As in ONNX Runtime, the result is that of float32, and the type is that of the outputs that have it."""
    text = f'<ir_version: 10, opset_import: ["": 23]> g ({type_name}[2, 64] x, {type_name}[64] s)'
    text += f" => ({type_name}[] y, float16[] m, {type_name}[] r)"
    text += " {{ y, m = LayerNormalization{0}(x, s)  r = RMSNormalization{0}(x, s) }}"
    x = (400 * np.random.default_rng(0).standard_normal((2, 64))).astype(np.float32)
    dtype = helper.tensor_dtype_to_np_dtype(
        TensorProto.FLOAT16 if type_name == "float16" else TensorProto.FLOAT
    )
    inputs = {"x": x.astype(dtype), "s": np.ones(64, dtype)}
    models = [parser.parse_model(text.format(each)) for each in ("", f"<stash_type={stash}>")]
    for model, kind in zip(models, (TensorProto.FLOAT, stash), strict=True):
        model.graph.output[1].type.tensor_type.elem_type = kind
    plain, found = (run(model, inputs) for model in models)
    for name in "yr":
        np.testing.assert_array_equal(found[name], plain[name])
        assert np.ptp(found[name].astype(float)) > 3
    assert found["m"].dtype == helper.tensor_dtype_to_np_dtype(stash)
    np.testing.assert_allclose(found["m"].astype(float), x.mean(1, keepdims=True), rtol=0.02, atol=0.1)
