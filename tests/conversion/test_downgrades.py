"""Operators of real networks in older opsets: exactly, or all that stand in the way named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator

import halfulp as hu
from halfulp.errors import ModelError, UnsupportedError


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


def operators(proto: object) -> list[str]:
    assert isinstance(proto, ModelProto)
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
            "Pad has no mode wrap before opset 19",
        ),
        (18, 17, "y, z = Split <num_outputs = 2, axis = 2> (x)", "the dim's size is not known"),
        (
            13,
            12,
            "y = ReduceSum <noop_with_empty_axes = 1> (x)",
            "no attribute noop_with_empty_axes in opset 12",
        ),
        (
            13,
            10,
            "m = ReduceMax <keepdims = 0> (x)  y = Clip (x, m)",
            "'m' in an attribute, and it is not a constant number",
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
        "g (float[N, 4] x, int64[4] p, float d) => (float[N, 4] e)"
        f" {{ {body}  e = Pow (g5, d)  h, k = Split <num_outputs = 2> (x) }}",
    )
    with pytest.raises(UnsupportedError) as caught:
        hu.convert(source, opset=11)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert (
        "7 nodes have no exact form in opset 11: #0 (Pad), #2 (Pad), #4 (Pad), #6 (Pad) and 2 more: " in text
    )
    assert "before opset 18 the sizes of Split's parts are given" in text


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


# --- attributes at their defaults, and types that were added --------------------------------------------


CONV = "float[1, 3, 4, 4] x, float[3] s"


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
def test_versions_that_differ_in_defaults_and_types(
    opset: int, to: int, inputs: str, body: str, operators: list[str]
) -> None:
    source = model(opset, f"g ({inputs}) => (float y) {{ {body} }}")
    after = hu.convert(source, opset=to).model
    assert isinstance(after, onnx.ModelProto)
    assert [node.op_type for node in after.graph.node] == operators
    rng = np.random.default_rng(0)
    feeds = {
        info.name: rng.uniform(0.1, 1, [dim.dim_value for dim in info.type.tensor_type.shape.dim]).astype("f")
        for info in source.graph.input
    }
    (before,), (got,) = (ReferenceEvaluator(each).run(None, feeds) for each in (source, after))
    assert before.dtype == got.dtype
    np.testing.assert_array_equal(before, got)


def test_forms_that_the_onnx_packages_evaluator_does_not_compute() -> None:
    source = model(12, f"g ({CONV}) => (float y) {{ y = Hardmax (x) }}")
    with pytest.raises(UnsupportedError, match="since opset 13 Hardmax goes along one dim"):
        hu.convert(source, opset=13)
    assert downgraded(model(12, "g (float[2, 3] x) => (float[2, 3] y) { y = Hardmax (x) }"), 13)
    body = "y = BatchNormalization <training_mode = 0> (x, s, s, s, s)"
    after = hu.convert(model(18, f"g ({CONV}) => (float y) {{ {body} }}"), opset=9).model
    assert isinstance(after, ModelProto)
    assert not after.graph.node[0].attribute
    source = model(20, "g (float[1, 3, 4, 4] x, float[1, 2, 2, 2] g) => (float y) { y = GridSample (x, g) }")
    after = hu.convert(source, opset=19).model
    assert isinstance(after, ModelProto)
    assert after.graph.node[0].attribute[0].s == b"bilinear"


@pytest.mark.parametrize(
    ("opset", "to", "body", "words"),
    [
        (20, 18, "y = Cast <to = 1, saturate = 0> (x)", "Cast has no attribute saturate in opset 18"),
        (
            22,
            13,
            "y = LpPool <kernel_shape = [2, 2], ceil_mode = 1> (x)",
            "LpPool has no attribute ceil_mode",
        ),
        (
            14,
            13,
            "y = BatchNormalization <training_mode = 1> (x, s, s, s, s)",
            "BatchNormalization has no attribute training_mode",
        ),
        (
            15,
            14,
            "h = Cast <to = 10> (s)  y = BatchNormalization (x, h, h, s, s)",
            "takes operands of one type",
        ),
        (20, 19, "y = GridSample (v, g)", "GridSample takes inputs of rank 4 only"),
        (13, 12, "u = Reshape (x, i)  y = Hardmax <axis = 1> (u)", "goes along all dims from its axis on"),
        (
            14,
            13,
            "y = Reshape <allowzero = 1> (x, zero)",
            "allowzero came with opset 14, and its shape holds a 0",
        ),
    ],
)
def test_values_that_older_versions_do_not_have(opset: int, to: int, body: str, words: str) -> None:
    inputs = f"{CONV}, float[1, 4] r, int64[K] i, float[1, 1, 2, 2, 2] v, float[1, 2, 2, 2, 3] g"
    constants = "bool t = {1}, int64[1] k = {2}, int64[2] zero = {0, 4}"
    with pytest.raises(UnsupportedError, match=words):
        hu.convert(model(opset, f"g ({inputs}) => (float y) <{constants}> {{ {body} }}"), opset=to)


OLDER = {
    "Gemm": (13, 9, "float[N, 4] x, float[4, 3] w", "y = Gemm <alpha = 0.5, beta = 2.0> (x, w)", ["Gemm"]),
    "Gemm with C": (13, 9, "float[N, 4] x, float[4, 3] w", "y = Gemm (x, w, c)", ["Gemm"]),
    "CastLike": (
        15,
        13,
        "float[N, 4] x, float16[1] w",
        "h = CastLike (x, w)  y = CastLike (h, x)",
        ["Cast", "Cast"],
    ),
    "Gelu": (20, 13, "float[N, 4] x", "y = Gelu (x)", None),
    "Gelu by tanh": (20, 11, "float[N, 4] x", "y = Gelu <approximate = 'tanh'> (x)", None),
    "LayerNormalization": (
        17,
        11,
        "float[N, 5, 4] x, float[4] w",
        "y = LayerNormalization <epsilon = 0.001> (x, w)",
        None,
    ),
    "GroupNormalization": (
        21,
        13,
        "float[N, 4, 3] x, float[4] w",
        "y = GroupNormalization <num_groups = 2> (x, w, w)",
        None,
    ),
    "MeanVarianceNormalization": (
        9,
        8,
        "float[2, 3, 4, 4] x",
        "y = MeanVarianceNormalization (x)",  # with axes by default
        None,
    ),
    "Range": (11, 9, "float[5] x", "r = Range (from, to, by)  f = Cast <to = 1> (r)  y = Mul (x, f)", None),
    "HardSwish": (14, 11, "float[N, 4] x", "y = HardSwish (x)", ["HardSigmoid", "Mul"]),
    "Mish": (22, 9, "float[N, 4] x", "y = Mish (x)", ["Softplus", "Tanh", "Mul"]),
    "RMSNormalization": (23, 18, "float[N, 4] x, float[4] w", "y = RMSNormalization (x, w)", None),
    "Swish": (24, 13, "float[N, 4] x", "y = Swish <alpha = 1.5> (x)", None),
}


@pytest.mark.parametrize("what", OLDER)
def test_older_versions_and_function_bodies(what: str) -> None:
    """All bits, or where runtimes have a kernel for what became a function body, all but roundings."""
    opset, to, inputs, body, kinds = OLDER[what]
    constants = (
        "float half = {0.5}, float[3] c = {1, 2, 3}, float[4] scales = {1, 1, 2, 3}, bool[4] which = {1, 0, 1, 1},"
        " int64 from = {0}, int64 to = {5}, int64 by = {1},"
        " int64[4] sizes = {1, 2, 6, 3}, int64[1] k = {2}, int64[1] b = {1}, int64[1] z = {0}, int64[1] m = {-1}"
    )
    source = model(opset, f"g ({inputs}) => (float y) <{constants}> {{ {body} }}".replace("'", '"'))
    source.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(source, data_prop=True).graph
    has_shape = inferred.output[0].type.tensor_type.HasField("shape")
    source.graph.output[0].type.CopyFrom((inferred.output if has_shape else inferred.input)[0].type)
    onnx.checker.check_model(source, full_check=True)
    after = downgraded(source, to)
    found = [kind for kind in operators(after) if kind != "Constant"]
    assert found == kinds or (kinds is None and what.split()[0] not in found)


@pytest.mark.parametrize("node", ["Upsample <mode = 'linear'>", "Resize <mode = 'linear'>"])
def test_a_resize_of_opset_10_divides_coordinates_by_the_scale(node: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    text = f"y = {node} (x, scales)".replace("'", '"')
    opset = 9 if "Upsample" in node else 10
    source = model(
        opset,
        f"g (float[1, 1, 3, 3] x) => (float[1, 1, 6, 6] y) <float[4] scales = {{1, 1, 2, 2}}> {{ {text} }}",
    )
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 1, 3, 3)).astype(np.float32)}
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, feeds
        )
        for each in (source, hu.convert(source, opset=13).model)
    )
    np.testing.assert_array_equal(before[0], after[0])


def test_a_shape_that_may_hold_a_0_loses_allowzero() -> None:
    source = model(
        14, "g (float[N, M] x, int64[2] s) => (float[A, B] y) { y = Reshape <allowzero = 1> (x, s) }"
    )
    (change, _) = hu.convert(source, opset=13).changes
    assert change.differs == "an X without elements may get other dims"


def test_the_way_out_is_named() -> None:
    source = model(
        14, "g (float[N, 4] x, int64[1] b) => (float y) { h = HardSwish (x)  y = Slice (h, b, b) }"
    )
    words = (
        r"does not convert Slice to opset 10; the exporter may write it, .*; every node reaches --opset 11$"
    )
    with pytest.raises(UnsupportedError, match=words):
        hu.convert(source, opset=9)
    after = hu.convert(source, opset=11)
    assert "becomes the function body of HardSwish, which came with opset 14" in str(after.changes[0])


@pytest.mark.parametrize(
    ("output", "body", "said"),
    [
        ("float y", "y = Pow (r, r)", "'y', declared as float32[], is float32[2, 3] by its node"),
        ("float[6] y", "y = Pow (r, r)", "'y', declared as float32[6], is float32[2, 3] by its node"),
        (
            "float[6] y",
            "<float[6] r> { S y = Pow (r, r)",
            "'r', declared as float32[6], is float32",
        ),
    ],
)
def test_shapes_that_are_declared_wrongly(output: str, body: str, said: str) -> None:
    """The onnx package infers the rank from opset 14 on only."""
    reshape = "s = Shape (x)  r = Reshape (x, s) "
    text = f"{{ {reshape} {body}" if "S" not in body else body.replace("S", reshape)
    source = model(13, f"g (float[2, 3] x) => ({output}) {text} }}")
    onnx.checker.check_model(source, full_check=True)
    for opset in (14, 15, 21):
        conversion = hu.convert(source, opset=opset, verify=True)
        assert said in "\n".join(map(str, conversion.changes))
        assert conversion.verification is not None
        assert conversion.verification.same


def test_the_checker_names_the_node() -> None:
    """AveragePool before opset 22 has another size where a window starts in the padding."""
    body = "y = AveragePool <kernel_shape = [3, 3], strides = [3, 3], pads = [1, 1, 1, 1], ceil_mode = 1> (e)"
    source = model(22, f"g (float[1, 1, 2, 2] x) => (float[1, 1, 1, 1] y) {{ e = Exp (x)  {body} }}")
    onnx.checker.check_model(source, full_check=True)
    with pytest.raises(ModelError) as caught:
        hu.convert(source, opset=21)
    assert str(caught.value).splitlines() == [
        (
            "<ModelProto>: node #1 (AveragePool): converted, it would not pass the onnx package's"
            " checker: Inferred shape and existing shape differ in dimension 2: (2) vs (1)"
        ),
        f"  expected: --opset 22 to {onnx.defs.onnx_opset_version()}, where AveragePool stays unchanged",
    ]


def test_a_body_without_axes_and_a_node_without_a_body() -> None:
    source = model(9, "g (float[2, 3] x) => (float[1, 1] y) { y = ReduceSumSquare (x) }")
    assert operators(hu.convert(source, expand="ReduceSumSquare").model) == ["Mul", "ReduceSum"]
    source = model(17, "g (float[2, 4, 4] x, float[4, 1] s) => (float y) { y = LayerNormalization (x, s) }")
    with pytest.raises(UnsupportedError, match="its function body flattens 's', which broadcasts"):
        hu.convert(source, expand="LayerNormalization")
    change, *_ = hu.convert(source, expand="Gelu").changes
    assert (change.what, change.is_notice) == ("has no node Gelu", True)


def test_a_body_that_overflows_says_so() -> None:
    source = model(22, "g (float[4] x) => (float[4] y) { y = Softplus (x) }")
    change, *_ = hu.convert(source, expand="Softplus").changes
    assert "infinite where Exp(X) is, for X above 88.7" in str(change.differs)


def test_bodies_of_older_opsets_lack_types() -> None:
    source = model(22, "g (bfloat16[4] x) => (bfloat16[4] y) { y = Softplus (x) }")
    way_out = "the function body of Softplus is that of opset 18: first halfulp convert IN OUT --float32 all"
    with pytest.raises(UnsupportedError, match=f"in opset 21; {way_out}"):
        hu.convert(source, expand="Softplus")
    assert "Exp" in operators(hu.convert(hu.convert(source, float32="all").model, expand="Softplus").model)


@pytest.mark.parametrize(
    ("kind", "is_told"), [("int32", True), ("double", True), ("float16", False), ("float", False)]
)
def test_a_prelu_that_runtimes_have_only_as_a_function_body(kind: str, is_told: bool) -> None:
    source = model(16, f"g ({kind}[2, 3] x, {kind}[3] s) => ({kind}[2, 3] y) {{ y = PRelu (x, s) }}")
    notices = [str(each) for each in hu.convert(source, opset=15).changes if each.is_notice]
    assert [notice.partition(" for ")[0] for notice in notices] == [
        "#0 (PRelu): a runtime without a kernel"
    ] * is_told


def test_a_body_does_not_narrow_numbers_that_float32_does_not_hold() -> None:
    source = model(18, "g (double[1, 2] x) => (double[1, 1] y) { y = ReduceL2 (x) }")
    found = hu.convert(source, expand="ReduceL2").model
    assert operators(found) == ["Mul", "ReduceSum", "Sqrt"]
    x = np.array([[1, 1e-9]])
    assert ReferenceEvaluator(found).run(None, {"x": x + 1e-12})[0] == np.sqrt(((x + 1e-12) ** 2).sum())
    source = model(15, "g (int64 a, int64 b, int64 c) => (int64[N] y) { y = Range (a, b, c) }")
    feeds = {"a": np.array(0), "b": np.array((1 << 24) + 1), "c": np.array(1 << 21)}
    found = hu.convert(source, expand="Range").model
    assert ReferenceEvaluator(found).run(None, feeds)[0].ravel().tolist() == [n << 21 for n in range(9)]
