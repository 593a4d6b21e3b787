"""A model's own functions, converted: what nothing calls, versions, depth, attributes, overloads, names."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper
from tests.models.onnx_models import parsed

import halfulp as hu
from halfulp.conversion.opset import inline
from halfulp.errors import ModelError
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.walk import every_node

CALLED = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
    g (float[2, 3] x) => (float[2, 3] y) { y = own.f (x) }
    <domain: "own", opset_import: ["": 15]> f (x) => (y) { t = Pow (x, x)  y = PRelu (t, t) }"""

WAYS: dict[str, Callable[[ModelProto], object]] = {
    "run": lambda model: hu.run(model, {"x": np.ones((2, 3), np.float32)}),
    "audit": hu.audit,
    "opset": lambda model: hu.convert(model, opset=13),
    "target": lambda model: hu.convert(model, target="onnxruntime"),
    "fold": lambda model: hu.convert(model, prelu="fold"),
    "openvino": lambda model: hu.convert(model, to="openvino"),
}


def with_uncalled(text: str, version: int = 15) -> ModelProto:
    """Return a model with one more function, which nothing calls."""
    model = parsed(CALLED)
    model.functions.append(onnx.parser.parse_function(text))
    for entry in model.functions[-1].opset_import:
        if not entry.domain:
            entry.version = version
    return model


UNCALLED = {
    "an opset to come": with_uncalled(
        '<domain: "own", opset_import: ["": 15]> u (x) => (y) { y = Pow (x, x) }', 10**9
    ),
    "opset -5": with_uncalled('<domain: "own", opset_import: ["": 15]> u (x) => (y) { y = Pow (x, x) }', -5),
    "a cycle": with_uncalled(
        '<domain: "own", opset_import: ["": 15, "own": 1]> u (x) => (y) { c = own.u (x)  y = Pow (c, x) }'
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", UNCALLED)
def test_a_function_that_nothing_calls_is_left_out(what, way):
    WAYS[way](UNCALLED[what])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [10**9, 2**62, 0, -5])
def test_a_called_function_of_an_unknown_opset_is_refused(version, way):
    model = parsed(CALLED)
    model.functions[0].opset_import[0].version = version
    with pytest.raises(ModelError, match="the function 'f' asks for an unknown opset"):
        WAYS[way](model)


def chained(count: int, *, called: bool) -> ModelProto:
    """Return a model with functions that call each other in a chain, and whether the graph calls the last."""
    call = f"y = own.f{count - 1} (x)" if called else "y = Pow (x, x)"
    head = '<domain: "own", opset_import: ["": 15, "own": 1]>'
    texts = [f"{head} f{i} (x) => (y) {{ y = own.f{i - 1} (x) }}" for i in range(1, count)]
    return parsed(
        f'<ir_version: 10, opset_import: ["": 15, "own": 1]> g (float[2, 3] x) => (float[2, 3] y) {{ {call} }}'
        f"{head} f0 (x) => (y) {{ y = Pow (x, x) }}" + "".join(texts)
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_long_chain_of_functions(way):
    WAYS[way](chained(60, called=True))
    with pytest.raises(ModelError, match="nest too deep"):
        WAYS[way](chained(300, called=True))


@pytest.mark.parametrize("way", ["opset", "target", "openvino"])
def test_a_chain_that_nothing_calls(way):
    conversion: Any = WAYS[way](chained(300, called=False))
    said = "<ModelProto>: functions that nothing calls are left out: f0, f1, f2, f3 and 296 more"
    assert said in map(str, conversion.changes)


WITHIN = """<ir_version: 10, opset_import: ["": 18, "own": 1]>
    g (float[2, 3] x, bool c) => (float[2, 3] y) {
        f_t = own.f <alpha = 2.0> (x, c)
        t = If (c) <
            then_branch = yes () => (k) { k = own.f <alpha = 3.0> (f_t, c) },
            else_branch = no () => (k2) { k2 = own.g2 (f_t) }>
        y = own.f (t, c)
    }
    <domain: "own", opset_import: ["": 18, "own": 1]> f <alpha: float = 0.5> (x, c) => (y) {
        t = If (c) <
            then_branch = yes () => (k) { u = own.g2 (x)  k = LeakyRelu <alpha: float = @alpha> (u) },
            else_branch = no () => (k) { k = own.g2 (x) }>
        n = Neg (t)
        y = LeakyRelu <alpha: float = @alpha> (n)
    }
    <domain: "own", opset_import: ["": 18]> g2 (x) => (y) {
        two = Constant <value_int = 2> ()  t = Tanh (x)  y = Pow (t, two)
    }"""


@pytest.mark.parametrize("opset", [18, 13, 11])
def test_calls_in_subgraphs_of_graphs_and_functions(opset):
    """Values of the graphs around a call have types there, and attributes their defaults."""
    conversion = hu.convert(parsed(WITHIN), opset=opset, verify=True)
    assert conversion.verification.same, conversion.verification


def test_functions_are_inlined_with_their_attributes_and_their_own_names():
    model = parsed(WITHIN)
    assert [str(change) for change in inline(Onnx(model, "m"))] == ["m: its functions are inlined"]
    onnx.checker.check_model(model, full_check=True)
    for seed, c in enumerate((True, False)):
        x = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)
        feeds = {"x": x, "c": np.array(c)}
        assert hu.run(model, feeds)["y"].tobytes() == hu.run(parsed(WITHIN), feeds)["y"].tobytes()


def test_inlined_names_have_the_number_of_the_call_each_node_before_those_within_it():
    model = parsed("""<ir_version: 9, opset_import: ["": 18, "own": 1]>
        g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = t () => (float[2] a) { a = own.f (x) },
                        else_branch = e () => (float[2] b) { n = Neg (x)  b = own.f (n) }> }
        <domain: "own", opset_import: ["": 18]> f (x) => (y) { [power] y = Pow (x, x) }""")
    inline(Onnx(model, "m"))
    names = [node.name for node in every_node(model.graph) if node.op_type == "Pow"]
    assert names == ["f/2/power", "f/5/power"]


def test_functions_of_other_opsets_are_inlined_as_they_say_it():
    """The onnx package's inliner leaves such a function, or forgets the axis as it converts it."""
    model = parsed("""<ir_version: 9, opset_import: ["": 18, "own": 1]>
        g (float[3, 3] x, float[3] s) => (float[3, 3] y) { y = own.f <axis = 0> (x, s) }
        <domain: "own", opset_import: ["": 6]> f (x, s) => (y) { y = Pow <axis = 0, broadcast = 1> (x, s) }""")
    del model.graph.node[0].attribute[:]
    feeds = {"x": np.full((3, 3), 2, np.float32), "s": np.array([1, 2, 3], np.float32)}
    expected = hu.run(model, feeds)["y"]
    changes = inline(Onnx(model, "m"))
    assert [str(change) for change in changes] == [
        "f.#0 (Pow): Y is unsqueezed to float32[3, 1], where axis=0 puts it",
        "m: its functions are inlined",
    ]
    assert np.array_equal(hu.run(model, feeds)["y"], expected)


def test_overloads_are_functions_of_their_own():
    model = parsed("""<ir_version: 10, opset_import: ["": 18, "own": 1]>
        g (float[2, 3] x) => (float[2, 3] y) { t = own.f (x)  y = own.f (t) }
        <domain: "own", opset_import: ["": 18]> f (x) => (y) { y = Pow (x, x) }""")
    body = [helper.make_node("Exp", ["x"], ["y"])]
    for overload in ("b", "c"):
        model.functions.append(
            helper.make_function(
                "own", "f", ["x"], ["y"], body, [helper.make_opsetid("", 18)], overload=overload
            )
        )
    model.graph.node[1].overload = "b"
    conversion = hu.convert(model, opset=12, verify=True)
    assert [function.overload for function in conversion.model.functions] == ["", "b"]
    assert conversion.verification.same
    x = {"x": np.array([[0.5, 1, 2], [3, 0.25, 0]], np.float32)}
    expected = hu.run(model, x)["y"]
    inline(Onnx(model, "m"))
    assert np.array_equal(hu.run(model, x)["y"], expected)


def test_a_function_named_as_an_operator_is_not_that_operator():
    model = parsed("""<ir_version: 10, opset_import: ["": 18, "own": 1]>
        g (float[2, 3] x) => (float[2, 3] y) { y = own.Pow (x, x) }
        <domain: "own", opset_import: ["": 18]> Pow (a, b) => (c) { c = Add (a, b) }""")
    assert not hu.convert(model, target="tensorrt").changes
    inline(Onnx(model, "m"))
    assert [node.op_type for node in model.graph.node] == ["Add"]
