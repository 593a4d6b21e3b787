"""The operators around ours, each version by its document."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper, parser
from tests.models.onnx_models import single

from halfulp.errors import ModelError
from halfulp.models.run.api import run, run_with_report
from halfulp.types import TYPES

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


@pytest.mark.parametrize("type_name", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("node", "axes"),
    [
        ("LayerNormalization(x, s, b)", (2,)),
        ("LayerNormalization<axis=1>(x, s)", (1, 2)),
        ("RMSNormalization(x, s)", (2,)),
        ("InstanceNormalization(x, t, t)", (2,)),
        ("GroupNormalization<num_groups=1>(x, t, t)", (1, 2)),
        ("MeanVarianceNormalization<axes=[2]>(x)", (2,)),
    ],
)
def test_norms_of_short_types_are_computed_in_float32(
    node: str, axes: tuple[int, ...], type_name: str
) -> None:
    """The squares of |x| > 256 overflow in float16, whose norm would be 0."""
    kind = TYPES[type_name]
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 23]> g ({type_name}[2, 3, 64] x, {type_name}[64] s, {type_name}[64] b,'
        f" {type_name}[3] t) => ({type_name}[2, 3, 64] y) {{ y = {node} }}"
    )
    x = (400 * np.random.default_rng(0).standard_normal((2, 3, 64))).astype(kind.dtype)
    s, b, t = np.full(64, 2, kind.dtype), np.ones(64, kind.dtype), np.ones(3, kind.dtype)
    wide = x.astype(np.float64)
    centred = wide if "RMS" in node else wide - wide.mean(axes, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    exact = exact * (2 if "s" in node.split("(")[1] else 1) + ("b)" in node or "t)" in node)
    found = run(model, {"x": x, "s": s, "b": b, "t": t})["y"]
    assert found.dtype == kind.dtype
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=1e-2, atol=1e-2)


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
        ("Mul", 14, "int8", True),
        ("Less", 7, "int64", False),
        ("Less", 9, "int64", True),
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
