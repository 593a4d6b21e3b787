"""Constants behind other nodes are constants, for every verb that looks at exponents and slopes."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

import halfulp as hu

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]> g (float16[4] x) => (float16[4] y)'

# an exponent 2 in float16, by the nodes that make it
BEHIND = {
    "Identity": "<float16 c = {16384}> { e = Identity(c)",
    "Cast": "<int64 c = {2}> { e = Cast<to = 10>(c)",
    "CastLike": "<int64 c = {2}> { e = CastLike(c, x)",
    "Unsqueeze and Squeeze": "<float16 c = {16384}, int64[1] a = {0}> { u = Unsqueeze(c, a)  e = Squeeze(u, a)",
    "Reshape": "<float16 c = {16384}, int64[1] a = {1}> { e = Reshape(c, a)",
    "Concat": "<float16[1] c = {16384}> { k = Concat<axis = 0>(c)  e = Identity(k)",
    "Div": "<float16 c = {17408}, float16 d = {16384}> { e = Div(c, d)",
    "ConstantOfShape": "<int64[1] a = {1}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
    "a QDQ pair": "<float c = {2}, float s = {1}> { q = QuantizeLinear(c, s)  d = DequantizeLinear(q, s)"
    "  e = Cast<to = 10>(d)",
    "a Constant": "{ c = Constant<value = float {2}>()  e = Cast<to = 10>(c)",
}


def model(name: str, opset: int = 15) -> onnx.ModelProto:
    return parser.parse_model(f"{HEAD.format(opset=opset)} {BEHIND[name]}  y = Pow(x, e) }}")


@pytest.mark.parametrize("name", BEHIND)
def test_a_constant_behind_other_nodes_is_seen(name: str) -> None:
    (node,) = hu.audit(model(name), ["onnxruntime"]).models[0].nodes
    assert node.inputs[1].text == "2"
    expanded = hu.convert(model(name), pow="expand").model
    assert isinstance(expanded, onnx.ModelProto)
    assert expanded.graph.node[-1].op_type == "Mul"


def test_what_depends_on_an_input_is_no_constant() -> None:
    source = parser.parse_model(
        f"{HEAD.format(opset=15)} <float16 c = {{16384}}> {{ e = Max(c, x)  y = Pow(x, e) }}"
    )
    assert hu.convert(source, pow="expand").summary == "0 changes"


@pytest.mark.parametrize(
    "made", ["own.Constant<value = float {2}>()", "ConstantOfShape<value = float[1] {2}>(n)"]
)
def test_nodes_that_only_look_like_constants(made: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 15, "own": 1]> g (float[4] x, int64[1] n) => (float[4] y)'
    (node,) = hu.audit(parser.parse_model(f"{head} {{ e = {made}  y = Pow(x, e) }}"), ()).models[0].nodes
    assert node.inputs[1].text is None


@pytest.mark.parametrize(
    "made",
    [
        "<int64[2] a = {1000000, 1000000}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
        "<int64[1] a = {-1}> { e = ConstantOfShape<value = float16[1] {16384}>(a)",
        "<float16 c = {16384}, int64[3] a = {4000000000, 4000000000, 4000000000}> { e = Expand(c, a)",
        "<float16[2] c = {16384, 16384}, int64[1] a = {7}> { e = Reshape(c, a)",
    ],
)
def test_a_claimed_size_takes_no_memory(made: str) -> None:
    source = parser.parse_model(f"{HEAD.format(opset=15)} {made}  y = Pow(x, e) }}")
    hu.audit(source, ["onnxruntime"])  # whatever it says of the node, it says it at once


def test_a_chain_of_any_length() -> None:
    nodes = "".join(f"  c{index + 1} = Identity(c{index})" for index in range(5000))
    source = parser.parse_model(
        f"{HEAD.format(opset=15)} <float16 c0 = {{16384}}> {{ {nodes}  y = Pow(x, c5000) }}"
    )
    assert len(hu.convert(source, pow="expand").changes) == 1
