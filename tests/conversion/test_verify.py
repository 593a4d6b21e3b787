"""A verification tells the differences of a conversion from those that a runtime makes by itself."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from tests.models.onnx_models import parsed

import halfulp as hu
import halfulp.conversion as api
from halfulp.cli.programs import NETWORKS
from halfulp.conversion import verify
from halfulp.conversion.editor import Change
from halfulp.conversion.verify import Verification, difference, distance
from halfulp.models.graph import Node
from halfulp.models.onnx import Onnx
from halfulp.models.run.api import Evaluation

TEXT = """<ir_version: 8, opset_import: ["": 15]> g (float[N, 3] x) => (float[N, 3] y)
    <float[3] w = {1.5, 2.5, 3.5}, float e = {2.5}> {
        [exp] a = Exp(x)  [mul] b = Mul(a, w)  [round] c = Abs(b)  [pow] y = Pow(c, e) }"""


def verified(text: str = TEXT) -> Verification:
    found = hu.convert(parser.parse_model(text), opset=18, verify=True).verification
    assert found is not None
    return found


@pytest.fixture
def altering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[ModelProto], None]], None]:
    """Make the conversion between opsets do something wrong."""

    def install(change: Callable[[ModelProto], None]) -> None:
        first, *others = api.PASSES["opset"]
        wrong = first, lambda walk, _: change(walk.proto), *others
        monkeypatch.setitem(api.PASSES, "opset", wrong)

    return install


@pytest.mark.parametrize("factor", [1 + 2**-22, 1.01])
def test_an_unchanged_node_with_other_bits_is_a_difference(factor, monkeypatch):
    """No change announces that, so that it is told, with the tensor."""
    real = Evaluation.outputs

    def call(self: Evaluation, node: Node, inputs: list[Any], scope: dict[str, Any]) -> list[Any]:
        outputs = [*real(self, node, inputs, scope)]
        if node.type == "Exp" and node.opset >= 18:
            outputs[0] = outputs[0] * np.float32(factor)
        return outputs

    monkeypatch.setattr(Evaluation, "outputs", call)
    monkeypatch.setattr(verify, "find_spec", lambda name: None)
    found = verified()
    assert not found.same
    assert "the first tensor that differs is 'a', of node 'exp' (Exp): 3 of 3 elements differ" in str(found)


def nudge_weights(model: ModelProto) -> None:
    nudge(model, "w")


def nudge_exponent(model: ModelProto) -> None:
    nudge(model, "e")


def nudge(model: ModelProto, name: str) -> None:
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(np.nextafter(array, np.float32(9)), name))


def replace_exp(model: ModelProto) -> None:
    """Abs is nowhere near."""
    (node,) = (node for node in model.graph.node if node.op_type == "Exp")
    node.op_type = "Abs"


@pytest.mark.parametrize("engine", ["onnxruntime", "halfulp"])
@pytest.mark.parametrize(
    ("change", "node"),
    [
        (nudge_weights, "'b', of node 'mul' (Mul)"),
        (nudge_exponent, "'y', of node 'pow' (Pow)"),
        (replace_exp, "'a', of node 'exp' (Exp)"),
    ],
)
def test_a_wrong_conversion_is_a_difference(change, node, engine, altering, monkeypatch):
    """Though it be by one unit in the last place of a constant."""
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    else:
        monkeypatch.setattr(verify, "find_spec", lambda name: None)
    altering(change)
    found = verified()
    assert not found.same
    assert found.engine == engine
    assert f"the first tensor that differs is {node}: " in str(found)


@pytest.mark.newer
def test_the_weights_of_a_large_network_are_in_memory_once(monkeypatch):
    """They are in a file that all sessions map, and no copy of them is among the values that are compared."""
    pytest.importorskip("onnxruntime")
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[64] x) => (float[64] y) <float e = {2.5}> {
        copy = Identity (w)  product = MatMul (x, copy)  size = Abs (product)  power = Pow (size, e)
        y = LayerNormalization (power, x) }"""
    source = parser.parse_model(text)
    source.graph.initializer.append(numpy_helper.from_array(np.eye(64, dtype=np.float32), "w"))
    models: list[Onnx] = []
    real = verify.runs

    def runs(*given: Onnx) -> Any:
        models.extend(given)
        return real(*given)

    monkeypatch.setattr(verify, "runs", runs)
    monkeypatch.setattr(verify, "_LARGE", 1 << 14)
    found = hu.convert(source, opset=16, verify=True).verification
    assert found.same
    assert len(models) > 2  # node by node, too
    for model in models:
        assert model.proto.ByteSize() < 1 << 14
        assert not {"copy", "copy//given"} & {value.name for value in model.proto.graph.output}


ONE = np.float32([1.0])
NAN = np.uint32([0x7FC00000]).view(np.float32)


@pytest.mark.parametrize(
    ("a", "b", "told", "away"),
    [
        (NAN, -NAN, None, "equal"),
        (NAN, ONE, "1 of 1 elements differ, first at 0: nan became 1.0", "1 of 1 infinite or NaN"),
        (
            np.float32([0.0]),
            np.float32([-0.0]),
            "1 of 1 elements differ, first at 0: 0.0 became -0.0",
            "equal",
        ),
        (ONE, None, "float32[1] became absent", "missing"),
        (None, ONE, "absent became float32[1]", "absent became float32[1]"),
        (None, None, None, "missing"),
        (ONE, np.float64([1.0]), "float32[1] became float64[1]", "float32[1] became float64[1]"),
        (ONE, np.float32([1, 1]), "float32[1] became float32[2]", "float32[1] became float32[2]"),
        (
            ONE,
            np.float32([1.5]),
            "1 of 1 elements differ, first at 0: 1.0 became 1.5",
            "at most 0.5 away (of 1)",
        ),
        ([ONE, NAN], [ONE, NAN], None, "sequence of 2 became sequence of 2"),
        (
            [ONE, ONE],
            [ONE, NAN],
            "1 of 1 elements differ, first at 0: 1.0 became nan",
            "sequence of 2 became",
        ),
        ([ONE], [ONE, ONE], "sequence of 1 became sequence of 2", "sequence of 1 became sequence of 2"),
        ([ONE], ONE, "sequence of 1 became float32[1]", "sequence of 1 became float32[1]"),
        (ONE, [ONE], "float32[1] became sequence of 1", "float32[1] became sequence of 1"),
        (
            np.array(["a", "b"], object),
            np.array(["a", "c"], object),
            "1 of 2 elements differ, first at 1: b",
            None,
        ),
    ],
)
def test_how_two_values_differ(a, b, told, away):
    found = difference(a, b)
    assert found is None if told is None else found.startswith(told)
    assert away is None or distance(a, b)[1].startswith(away)


MANY, MOST = np.float32([8, 1, -2]), np.iinfo(np.int32).max


@pytest.mark.parametrize(
    ("op_type", "right", "found", "differs", "ulps", "within"),
    [
        ("Pow", MANY, np.nextafter(MANY, 9), "rounded", 2, True),
        ("Pow", MANY, MANY + np.float32([0, 1e-6, 0]), "rounded", 2, False),  # of each element
        ("Exp", MANY, MANY + np.float32([0, 1e-6, 0]), "rounded", 2, True),  # of the greatest
        ("Exp", MANY, MANY + np.float32([0, 1e-5, 0]), "rounded", 2, False),
        ("Exp", MANY, MANY + np.float32([0, 5e-5, 0]), "rounded", None, True),
        ("Exp", MANY, MANY + np.float32([0, 5e-4, 0]), "rounded", None, False),
        ("Pow", MANY, MANY * np.float32(1.00001), "rounded", None, True),
        ("Pow", MANY, MANY * np.float32(1.0001), "rounded", None, False),
        ("Pow", MANY, np.float32([np.nan, 1, -2]), "rounded", 2, False),
        ("Pow", MANY, np.float32([np.nan, 1, -2]), "a slope gives NaN", 2, True),
        ("Pow", MANY, np.full(3, np.nan, np.float32), "a slope gives NaN", 2, False),
        ("Pow", np.float32([np.inf, 0]), np.float32([np.inf, np.nan]), "a slope gives NaN", 2, True),
        ("Pow", MANY, MANY[:2], "rounded", 2, False),
        ("Pow", MANY, MANY.astype(np.float64), "rounded", 2, False),
        ("Pow", MANY, None, "rounded", 2, False),
        ("Pow", np.int32([MOST, 9]), np.int32([-7, 9]), verify.WRAPS, 0, True),
        ("Pow", np.int32([MOST, 9]), np.int32([-7, 8]), verify.WRAPS, 0, False),
        ("Pow", np.int32([MOST, 9]), np.int32([-7, 9]), "rounded", 0, False),
        ("Pow", np.int32([MOST, 9]), np.int32([-7, 9]), None, 0, False),
    ],
)
def test_what_is_within_an_announced_difference(op_type, right, found, differs, ulps, within):
    node = Node("#0", "onnx", "", op_type, "15", 15, ("x", "e"), ("y",))
    assert verify._is_within(Change("#0", "", differs, output="y", ulps=ulps), node, right, found) == within
    assert not verify._is_within(None, node, right, found)


@pytest.mark.parametrize(
    "body",
    [
        "t = Constant <value = bool {1}> ()  r, m = Dropout (p, half, t)",
        "n = RandomNormalLike (p)  r = Add (n, p)",
        """t = Constant <value = bool {1}> ()  r = If (t) <then_branch = a () => (u) { u = RandomUniformLike (p) },
            else_branch = b () => (v) { v = Identity (p) }>""",
    ],
)
def test_random_numbers_are_no_difference(body, altering):
    pytest.importorskip("onnxruntime")
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[8, 8] x) => (float[8, 8] y)
        <float half = {{0.5}}, float e = {{3.0}}> {{ p = Pow (x, e)  {body}  q = Pow (r, e)  y = Exp (q) }}"""
    found = verified(text)
    assert found.same
    assert found.notes[-1].startswith("other numbers in each run, since node")
    altering(nudge_exponent)
    assert not verified(text).same


def test_random_numbers_in_openvino():
    pytest.importorskip("openvino")
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[8, 8] x) => (float[8, 8] y) {
        n = RandomUniform <shape = [8, 8]> ()  y = Pow (n, x) }"""
    found = hu.convert(parser.parse_model(text), to="openvino", verify=True).verification
    assert found.same
    assert "other numbers in each run, since node #0 (RandomUniform) draws them" in str(found)


def test_no_outputs_verify_nothing():
    model = Onnx(parser.parse_model(TEXT), "m")
    found = verify.compare(model.with_outputs([]), model.with_outputs([]), verify.Feed())
    assert not found.same
    assert str(found).startswith("not verified: ")


# --- differences that a change announces -----------------------------------------------------------

ROOT = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 8] x, float[8] e) => (float[N, 8] y, float[N, 8] z)
    <float third = {0.333}> { a = Abs(x)  [root] y = Pow(a, third)  [any] z = Pow(x, e) }"""


WITHIN = "on the same operands each tensor is as near as the changes announce"


@pytest.mark.newer
def test_a_difference_that_a_change_announces_is_a_note():
    found = hu.convert(parser.parse_model(ROOT), pow="logarithms", verify=True).verification
    assert found.same, found
    assert found.notes[0].startswith("output 'y', inputs of seed 0: ")
    assert found.notes[-1] == WITHIN


def test_what_is_announced_of_a_power_in_a_function_or_body():
    text = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[N, 8] x, bool c) => (float[N, 8] y, float[N, 8] z) <float third = {0.333}> {
            y = own.f (x)  a = Abs (x)
            z = If (c) <then_branch = t () => (float[N, 8] p) { p = Pow (a, third) },
                        else_branch = u () => (float[N, 8] q) { q = Pow (x, third) }> }
        <domain: "own", opset_import: ["": 17]> f (x) => (v) { k = Constant <value_float = 0.7> ()  v = Pow (x, k) }"""
    found = hu.convert(parser.parse_model(text), pow="logarithms", verify=True).verification
    assert found.same, found
    assert found.notes[-1] == WITHIN


@pytest.mark.parametrize("pow", ["expand", "logarithms"])
def test_more_than_a_change_announces_is_a_difference(pow, altering):
    """An exponent that is off by a thousandth, as if the conversion had taken another one."""

    def change(model: ModelProto) -> None:
        (node,) = (each for each in model.graph.node if each.op_type == "Pow")
        node.input[0] = "b"
        model.graph.node.insert(1, helper.make_node("Mul", ["a", "k"], ["b"]))
        model.graph.initializer.append(numpy_helper.from_array(np.float32(1.0001), "k"))

    altering(change)
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[N, 8] x) => (float[N, 8] y)
        <float e = {{{3 if pow == "expand" else 0.333}}}> {{ a = Abs(x)  [power] y = Pow(a, e) }}"""
    found = hu.convert(parser.parse_model(text), opset=18, pow=pow, verify=True).verification
    assert not found.same
    assert "of node 'power' (Pow): " in found.differences[1]
    assert found.differences[1].endswith(", which is more than its change announces")


@pytest.mark.newer
@pytest.mark.parametrize("large", [False, True])
def test_a_fused_norm_is_judged_by_the_runtime_that_computes_it(large):
    """In float16 the square overflows if it is written out, but not in ONNX Runtime's operator."""
    pytest.importorskip("onnxruntime")
    model = onnx.load(NETWORKS / ("norm_float16.onnx" if large else "transformer_block.onnx"))
    activations = np.random.default_rng(0).normal(scale=400, size=(4, 64)).astype(np.float16)
    inputs = {model.graph.input[0].name: activations} if large else None
    found = hu.convert(model, opset=17, fuse="norms", verify=True, inputs=inputs).verification
    assert found.same, found
    assert found.engine == "onnxruntime"
    if large:
        assert re.search(r"away \(of [\d.]+\) before, at most 0\.00\d+ away", found.notes[0])
        assert found.notes[1].startswith("a fused norm rounds in other places than the nodes that it was")
    else:
        assert WITHIN in str(found)


def test_onnx_runtime_sums_a_pool_in_another_order():
    """Its kernel for opset 19 and later; a change of the data beside it is a difference all the same."""
    pytest.importorskip("onnxruntime")
    source = parsed("""17: g (float[1, 3, 9, 9] x) => (float[1, 3, 7, 7] y) <float e = {2.0}> {
            p = Pow (x, e)  y = AveragePool <kernel_shape = [3, 3]> (p) }""")
    found = hu.convert(source, opset=20, verify=True).verification
    assert found.same, found


@pytest.mark.parametrize(("x", "failure"), [([[-1, 2]], False), ([[-1, -2]], True), ([[0, 0]], True)])
def test_numbers_that_are_nan_verify_nothing(x, failure):
    """Some elements are a difference, and all of them leave nothing to compare."""
    source = parsed("""17: g (float16[N, 2] x) => (float16[N, 2] z)
        <float16 two = {16384}> {
            s = Pow (x, two)  m = ReduceMean <axes = [-1]> (s)  r = Sqrt (m)  d = Div (x, r)  z = Log (d) }""")
    found = hu.convert(source, float32="norms", verify=True, inputs={"x": np.float16(x)}).verification
    assert not found.same
    assert bool(found.failure) == failure
    assert failure or found.differences[0].startswith("output 'z': 1 of 2 elements are infinite or NaN")


def test_a_loop_whose_turns_are_an_input_ends():
    """The special values of integers would be as many turns."""
    source = parsed("""15: g (float[1] x, int64 n) => (float[1] y) <float two = {2}> {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[1] a) => (bool d, float[1] o) {
            d = Identity (c)  o = Pow (a, two) }> }""")
    sets, _ = verify.Feed().sets(Onnx(source, "m").check(), lambda inputs: {})
    assert all(inputs["n"] < 8 for _, inputs in sets)
