"""Operators of real networks in older opsets: exactly, or all that stand in the way named."""

import numpy as np
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator

import halfulp as hu
from halfulp.errors import UnsupportedError


def model(opset: int, text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def downgraded(source: ModelProto, opset: int) -> ModelProto:
    """Return the model in an older opset, checked on inputs of every kind."""
    conversion = hu.convert(source, opset=opset, verify=True)
    assert conversion.verification.same, conversion.verification
    assert conversion.model.opset_import[0].version == opset
    return conversion.model


def operators(proto: object) -> list[str]:
    return [node.op_type for node in proto.graph.node]


FORMS = {
    "Shape": (15, 11, "s = Shape (x)  y = Cast <to = 1> (s)", ["Shape", "Cast"]),
    "Shape from": (15, 13, "s = Shape <start = 1> (x)  y = Cast <to = 1> (s)", ["Shape", "Slice", "Cast"]),
    "Shape to": (
        15,
        13,
        "s = Shape <start = -2, end = -1> (x)  y = Cast <to = 1> (s)",
        ["Shape", "Slice", "Cast"],
    ),
    "Split": (18, 13, "y, z = Split <num_outputs = 2, axis = 1> (x)", ["Split"]),
    "ReduceSum": (
        13,
        12,
        "a = Constant <value_ints = [-1]> ()  y = ReduceSum <noop_with_empty_axes = 1> (x, a)",
        ["ReduceSum"],
    ),
    "ReduceMean": (18, 11, "a = Constant <value_ints = [1]> ()  y = ReduceMean (x, a)", ["ReduceMean"]),
    "Clip": (13, 6, "lo = Constant <value_float = -0.5> ()  y = Clip (x, lo)", ["Clip"]),
    "Clip above": (13, 6, "hi = Constant <value_float = 0.5> ()  y = Clip (x, , hi)", ["Clip"]),
    "MaxPool": (
        12,
        8,
        "y = MaxPool <kernel_shape = [2], strides = [2], dilations = [1], ceil_mode = 0> (x)",
        ["MaxPool"],
    ),
    "AveragePool": (11, 7, "y = AveragePool <kernel_shape = [2], ceil_mode = 0> (x)", ["AveragePool"]),
}


# --- attributes at their defaults, and types that were added --------------------------------------------


CONV = "float[1, 3, 4, 4] x, float[3] s"


@pytest.mark.newer
@pytest.mark.parametrize(
    ("opset", "to", "inputs", "body", "operators"),
    [
        (
            20,
            18,
            CONV,
            "i = Cast <to = 6, saturate = 1> (x)  y = Cast <to = 1, saturate = 1> (i)",
            ["Cast", "Cast"],
        ),
        (20, 15, CONV, "y = CastLike <saturate = 1> (x, s)", ["CastLike"]),
        (24, 22, CONV, 'i = Cast <to = 6, round_mode = "up"> (x)  y = Cast <to = 1> (i)', ["Cast", "Cast"]),
        (22, 13, CONV, "y = AveragePool <kernel_shape = [2, 2], dilations = [1, 1]> (x)", ["AveragePool"]),
        (
            22,
            13,
            CONV,
            "y = LpPool <kernel_shape = [2, 2], dilations = [1, 1], ceil_mode = 0> (x)",
            ["LpPool"],
        ),
        (18, 14, CONV, "y = BatchNormalization <training_mode = 0> (x, s, s, s, s)", ["BatchNormalization"]),
        (13, 11, CONV, "i = ArgMax <select_last_index = 0> (x)  y = Cast <to = 1> (i)", ["ArgMax", "Cast"]),
        (13, 12, CONV, "y = LRN <size = 3> (x)", ["LRN"]),
        (18, 12, CONV, "y = ReduceL1 <noop_with_empty_axes = 0> (x)", ["ReduceL1"]),
        (16, 15, CONV, "i = Shape <start = 0> (x)  y = Cast <to = 1> (i)", ["Shape", "Cast"]),
        (13, 12, CONV, "y = Softmax <axis = 1> (x)", ["Transpose", "Softmax", "Transpose"]),
        (13, 12, CONV, "y = Hardmax <axis = -2> (x)", ["Transpose", "Hardmax", "Transpose"]),
        (13, 10, CONV, "y = LogSoftmax (x)", ["LogSoftmax"]),
        (13, 10, CONV, "y = ReduceMean <axes = [-1]> (x)", ["ReduceMean"]),
    ],
)
def test_versions_that_differ_in_defaults_and_types(opset, to, inputs, body, operators):
    source = model(opset, f"g ({inputs}) => (float y) {{ {body} }}")
    after = hu.convert(source, opset=to).model
    assert [node.op_type for node in after.graph.node] == operators
    rng = np.random.default_rng(0)
    feeds = {
        info.name: rng.uniform(0.1, 1, [dim.dim_value for dim in info.type.tensor_type.shape.dim]).astype("f")
        for info in source.graph.input
    }
    (before,), (got,) = (ReferenceEvaluator(each).run(None, feeds) for each in (source, after))
    assert before.dtype == got.dtype
    np.testing.assert_array_equal(before, got)


def test_forms_that_the_onnx_packages_evaluator_does_not_compute():
    source = model(12, f"g ({CONV}) => (float y) {{ y = Hardmax (x) }}")
    with pytest.raises(UnsupportedError, match="since opset 13 Hardmax goes along one dim"):
        hu.convert(source, opset=13)
    assert downgraded(model(12, "g (float[2, 3] x) => (float[2, 3] y) { y = Hardmax (x) }"), 13)
    body = "y = BatchNormalization <training_mode = 0> (x, s, s, s, s)"
    after = hu.convert(model(18, f"g ({CONV}) => (float y) {{ {body} }}"), opset=9).model
    assert not after.graph.node[0].attribute
    source = model(20, "g (float[1, 3, 4, 4] x, float[1, 2, 2, 2] g) => (float y) { y = GridSample (x, g) }")
    after = hu.convert(source, opset=19).model
    assert after.graph.node[0].attribute[0].s == b"bilinear"


def test_bodies_of_older_opsets_lack_types():
    source = model(22, "g (bfloat16[4] x) => (bfloat16[4] y) { y = Softplus (x) }")
    way_out = "the function body of Softplus is that of opset 18: first halfulp convert IN OUT --float32 all"
    with pytest.raises(UnsupportedError, match=f"in opset 21; {way_out}"):
        hu.convert(source, expand="Softplus")
    assert "Exp" in operators(hu.convert(hu.convert(source, float32="all").model, expand="Softplus").model)


def test_a_body_does_not_narrow_numbers_that_float32_does_not_hold():
    source = model(18, "g (double[1, 2] x) => (double[1, 1] y) { y = ReduceL2 (x) }")
    found = hu.convert(source, expand="ReduceL2").model
    assert operators(found) == ["Mul", "ReduceSum", "Sqrt"]
    x = np.array([[1, 1e-9]])
    assert ReferenceEvaluator(found).run(None, {"x": x + 1e-12})[0] == np.sqrt(((x + 1e-12) ** 2).sum())
    source = model(15, "g (int64 a, int64 b, int64 c) => (int64[N] y) { y = Range (a, b, c) }")
    feeds = {"a": np.array(0), "b": np.array((1 << 24) + 1), "c": np.array(1 << 21)}
    found = hu.convert(source, expand="Range").model
    assert ReferenceEvaluator(found).run(None, feeds)[0].ravel().tolist() == [n << 21 for n in range(9)]


@pytest.mark.parametrize(
    ("opset", "inputs", "node", "attributes", "change"),
    [
        (7, "float[1, N] x, float[1, N] y", "Add", {}, []),
        (7, "float[] x, float y", "Add", {"broadcast": 1}, ["broadcasts by broadcast=1"]),
        (7, "float[] x, float[1] y", "Add", {"broadcast": 1}, ["broadcasts by broadcast=1"]),
        (7, "float[2, 3] x, float[3] y", "PRelu", {}, []),
        (
            14,
            "float[] x, int64[2] y",
            "Reshape<allowzero = 1>",
            {},
            ["loses allowzero, which came with opset 14"],
        ),
    ],
)
def test_operands_stay_where_the_older_opset_takes_them(opset, inputs, node, attributes, change):
    source = model(opset, f"g ({inputs}) => (float[] z) {{ z = {node} (x, y) }}")
    converted = hu.convert(source, opset=opset - 1)
    (changed,) = converted.model.graph.node
    assert {attribute.name: attribute.i for attribute in changed.attribute} == attributes
    assert [each.what for each in converted.changes if each.node.startswith("#0")] == change
