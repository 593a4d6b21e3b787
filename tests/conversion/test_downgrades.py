"""Operators of real networks in older opsets: exactly, or all that stand in the way named."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, parser

import halfulp as hu
from halfulp.errors import UnsupportedError


def model(opset: int, text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')


def downgraded(source: ModelProto, opset: int) -> ModelProto:
    """Return the model in an older opset, checked on inputs of every kind."""
    conversion = hu.convert(source, opset=opset, verify=True)
    assert conversion.verification is not None
    assert conversion.verification.same, conversion.verification
    assert isinstance(conversion.model, ModelProto)
    assert conversion.model.opset_import[0].version == opset
    return conversion.model


def operators(proto: ModelProto) -> list[str]:
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
    "Pad": (21, 10, "p = Constant <value_ints = [0, 1, 0, 2, 0, 1]> ()  y = Pad (x, p)", ["Pad"]),
    "Pad by a value": (
        13,
        10,
        (
            "p = Constant <value_ints = [0, 1, 0, 2, 0, 1]> ()  v = Constant <value_float = 2.5> ()"
            "  y = Pad (x, p, v)"
        ),
        ["Pad"],
    ),
    "Pad along axes": (
        18,
        11,
        (
            "p = Constant <value_ints = [1, 2]> ()"
            "  a = Constant <value_ints = [-1]> ()"
            '  y = Pad <mode = "reflect"> (x, p, , a)'
        ),
        ["Pad"],
    ),
    "Split": (18, 13, "y, z = Split <num_outputs = 2, axis = 1> (x)", ["Split"]),
    "ReduceSum": (
        13,
        12,
        "a = Constant <value_ints = [-1]> ()  y = ReduceSum <noop_with_empty_axes = 1> (x, a)",
        ["ReduceSum"],
    ),
    "ReduceMean": (18, 11, "a = Constant <value_ints = [1]> ()  y = ReduceMean (x, a)", ["ReduceMean"]),
    "Squeeze": (
        11,
        10,
        "u = Unsqueeze <axes = [-1]> (x)  y = Squeeze <axes = [-1]> (u)",
        ["Unsqueeze", "Squeeze"],
    ),
    "Gather": (13, 10, "i = Constant <value_ints = [-1, 0]> ()  y = Gather <axis = -2> (x, i)", ["Gather"]),
    "Slice": (
        13,
        9,
        (
            "b = Constant <value_ints = [1]> ()"
            "  e = Constant <value_ints = [-1]> ()"
            "  a = Constant <value_ints = [-2]> ()"
            "  y = Slice (x, b, e, a)"
        ),
        ["Slice"],
    ),
    "Clip": (13, 6, "lo = Constant <value_float = -0.5> ()  y = Clip (x, lo)", ["Clip"]),
    "Clip above": (13, 6, "hi = Constant <value_float = 0.5> ()  y = Clip (x, , hi)", ["Clip"]),
    "MaxPool": (
        12,
        8,
        "y = MaxPool <kernel_shape = [2], strides = [2], dilations = [1], ceil_mode = 0> (x)",
        ["MaxPool"],
    ),
    "AveragePool": (11, 7, "y = AveragePool <kernel_shape = [2], ceil_mode = 0> (x)", ["AveragePool"]),
    "Concat": (13, 10, "y = Concat <axis = -1> (x, x)", ["Concat"]),
}


@pytest.mark.parametrize("what", FORMS)
def test_an_exact_form(what: str) -> None:
    opset, to, body, kinds = FORMS[what]
    outputs = "float[P, Q, R] y, float[S, T, U] z" if " z = " in body else "float[...] y"
    source = model(opset, f"g (float[N, 5, 4] x) => ({outputs.replace('[...]', '')}) {{ {body} }}")
    found = operators(downgraded(source, to))
    assert [kind for kind in found if kind != "Constant"] == kinds


@pytest.mark.parametrize(
    ("opset", "to", "body", "words"),
    [
        (
            19,
            18,
            'p = Constant <value_ints = [0, 0, 1, 0, 0, 1]> ()  y = Pad <mode = "wrap"> (x, p)',
            "does not wrap",
        ),
        (18, 17, "y, z = Split <num_outputs = 2, axis = 2> (x)", "the dim's size is not known"),
        (13, 12, "y = ReduceSum <noop_with_empty_axes = 1> (x)", "it has no axes"),
        (13, 10, "y = Gather (x, i)", "no negative index"),
        (
            13,
            10,
            (
                "b = Constant <value_ints = [3]> ()"
                "  e = Constant <value_ints = [0]> ()"
                "  a = Constant <value_ints = [1]> ()"
                "  s = Constant <value_ints = [-1]> ()"
                "  y = Slice (x, b, e, a, s)"
            ),
            "goes forward only",
        ),
        (
            13,
            9,
            (
                "b = Constant <value_ints = [0]> ()"
                "  e = Constant <value_ints = [4]> ()"
                "  a = Constant <value_ints = [1]> ()"
                "  s = Constant <value_ints = [2]> ()"
                "  y = Slice (x, b, e, a, s)"
            ),
            "no steps before opset 10",
        ),
        (
            13,
            10,
            "m = ReduceMax <keepdims = 0> (x)  y = Clip (x, m)",
            "'m' in an attribute, and it is no constant",
        ),
        (
            12,
            9,
            "y = MaxPool <kernel_shape = [2], dilations = [2]> (x)",
            "MaxPool has no attribute dilations in opset 9",
        ),
    ],
)
def test_no_exact_form(opset: int, to: int, body: str, words: str) -> None:
    source = model(opset, f"g (float[N, 4, M] x, int64[K] i) => (float y) {{ {body} }}")
    with pytest.raises(UnsupportedError, match=words):
        hu.convert(source, opset=to)


def test_all_that_stand_in_the_way_are_named() -> None:
    body = " ".join(f'y{i} = Pad <mode = "wrap"> (x, p)  g{i} = Exp (y{i})' for i in range(6))
    source = model(
        19,
        "g (float[N, 4] x, int64[4] p, float d) => (float e)"
        f" {{ {body}  e = Pow (g5, d)  h, k = Split <num_outputs = 2> (x) }}",
    )
    with pytest.raises(UnsupportedError) as caught:
        hu.convert(source, opset=11)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert (
        "7 nodes have no exact form in opset 11: #0 (Pad), #2 (Pad), #4 (Pad), #6 (Pad) and 2 more: Pad does not"
        in text
    )
    assert "#13 (Split): before opset 18" in text


def test_in_a_function_and_in_a_body() -> None:
    source = parser.parse_model("""<ir_version: 8, opset_import: ["": 15, "own": 1]>
        net (float[N, 3] x, bool c) => (float[D] z) {
            y = own.f (x)
            z = If (c) <then_branch = a () => (float[A] t) { s = Shape <start = 1> (y)  t = Cast <to = 1> (s) },
                        else_branch = b () => (float[B] e) { e = ReduceSum <keepdims = 1> (y) }>
        }
        <domain: "own", opset_import: ["": 15]> f (x) => (y) { s = Shape (x)  r = Reshape (x, s)  y = Exp (r) }""")
    found = downgraded(source, 13)
    onnx.checker.check_model(found, full_check=True)
