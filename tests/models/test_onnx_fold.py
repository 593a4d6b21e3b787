"""Constants behind other nodes are constants, for every verb that looks at exponents and slopes."""

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from tests.models.onnx_models import parsed

import halfulp as hu

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]> g (float16[4] x) => (float16[4] y)'

# an exponent 2 in float16, by the nodes that make it
BEHIND = {
    "Identity": "<float16 c = {16384}> { e = Identity(c)",
    "Cast": "<int64 c = {2}> { e = Cast<to = 10>(c)",
    "CastLike": "<int64 c = {2}> { e = CastLike(c, x)",
    "Unsqueeze and Squeeze": "<float16 c = {16384}, int64[1] a = {0}> { u = Unsqueeze(c, a)  e = Squeeze(u, a)",
    "Unsqueeze before opset 13": "<float16 c = {16384}> { e = Unsqueeze<axes = [0]>(c)",
    "Reshape": "<float16 c = {16384}, int64[1] a = {1}> { e = Reshape(c, a)",
    "Concat": "<float16[1] c = {16384}> { k = Concat<axis = 0>(c)  e = Identity(k)",
    "Div": "<float16 c = {17408}, float16 d = {16384}> { e = Div(c, d)",
    "ConstantOfShape": "<int64[1] a = {1}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
    "Shape": "<int8[2] c = {0, 0}> { s = Shape(c)  e = Cast<to = 10>(s)",
    "a QDQ pair": "<float c = {2}, float s = {1}> { q = QuantizeLinear(c, s)  d = DequantizeLinear(q, s)"
    "  e = Cast<to = 10>(d)",
    "a Constant": "{ c = Constant<value = float {2}>()  e = Cast<to = 10>(c)",
}


def model(name: str) -> onnx.ModelProto:
    opset = 12 if "before" in name else 15
    return parser.parse_model(f"{HEAD.format(opset=opset)} {BEHIND[name]}  y = Pow(x, e) }}")


@pytest.mark.parametrize("name", BEHIND)
def test_a_constant_behind_other_nodes_is_seen(name):
    (node,) = hu.audit(model(name), ["onnxruntime"]).models[0].nodes
    assert node.inputs[1].text == "2"
    expanded = hu.convert(model(name), pow="expand").model
    assert expanded.graph.node[-1].op_type == "Mul"


def test_what_depends_on_an_input_is_no_constant():
    source = parser.parse_model(
        f"{HEAD.format(opset=15)} <float16 c = {{16384}}> {{ e = Max(c, x)  y = Pow(x, e) }}"
    )
    assert hu.convert(source, pow="expand").summary == "0 changes"


@pytest.mark.parametrize(
    "made",
    [
        "e = own.Constant<value = float {2}>()",
        "e = ConstantOfShape<value = float[1] {2}>(n)",
        "e = own.Identity(k)",
        "s = Shape<end = 0>(x)  e = Cast<to = 1>(s)",
        "e = RandomUniformLike(k)",
        "s = Range(j, i, i)  e = Cast<to = 1>(s)",
        "s = Shape(m)  v = Gather(s, i)  e = Cast<to = 1>(v)",
    ],
)
def test_nodes_that_only_look_like_constants(made):
    head = '<ir_version: 8, opset_import: ["" : 15, "own": 1]> g (float[4] x, int64[1] n, float[N, 2] m)'
    body = f"=> (float[4] y) <float k = {{2}}, int64 i = {{0}}, int64[2] j = {{1, 2}}> {{ {made}  y = Pow(x, e) }}"
    (node,) = hu.audit(parser.parse_model(f"{head} {body}"), ()).models[0].nodes
    assert node.inputs[1].text is None


def test_a_value_in_a_body_is_not_the_outer_constant_of_its_name():
    source = parsed("""15:
        g (bool c, float[2] x, float[2] n) => (float[2] y) <float[2] e = {2, 2}> { y = If (c) <
            then_branch = a () => (float[2] p) { e = Neg(n)  p = Pow(x, e) },
            else_branch = b () => (float[2] q) { q = Identity(x) }> }""")
    (node,) = hu.audit(source, ()).models[0].nodes
    assert node.inputs[1].text is None
    feed = {"c": np.array(True), "x": np.float32([2, 3]), "n": np.float32([1, 1])}
    model = hu.convert(source, pow="expand").model
    before, after = (ReferenceEvaluator(each).run(None, feed) for each in (source, model))
    np.testing.assert_array_equal(before[0], after[0])


@pytest.mark.parametrize("ir", [3, 4])
def test_an_input_with_a_default_is_a_constant_before_ir_version_4(ir):
    text = '<ir_version: 4, opset_import: ["" : 8]> g (float[4] x, float e = {2}) => (float[4] y) { y = Pow(x, e) }'
    source = parser.parse_model(text)
    source.ir_version = ir
    (node,) = hu.audit(source, ()).models[0].nodes
    assert node.inputs[1].text == ("2" if ir == 3 else None)


@pytest.mark.parametrize(
    "made",
    [
        "<int64[2] a = {1000000, 1000000}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
        "<int64[1] a = {-1}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
        "<float16 c = {16384}, int64[3] a = {4000000000, 4000000000, 4000000000}> { e = Expand(c, a)",
        "<float16[2] c = {16384, 16384}, int64[1] a = {7}> { e = Reshape(c, a)",
    ],
)
def test_a_claimed_size_takes_no_memory(made):
    source = parser.parse_model(f"{HEAD.format(opset=15)} {made}  y = Pow(x, e) }}")
    hu.audit(source, ["onnxruntime"])  # whatever it says of the node, it says it at once


def test_a_chain_of_any_length():
    nodes = "".join(f"  c{index + 1} = Identity(c{index})" for index in range(5000))
    source = parser.parse_model(
        f"{HEAD.format(opset=15)} <float16 c0 = {{16384}}> {{ {nodes}  y = Pow(x, c5000) }}"
    )
    assert len(hu.convert(source, pow="expand").changes) == 1
