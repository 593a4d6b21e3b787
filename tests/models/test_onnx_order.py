"""Models whose nodes are not in order: sorted as they are read, which is said in one line."""

import random
import subprocess
import sys
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.models.onnx_models import parsed

import halfulp as hu
from halfulp import HalfulpWarning
from halfulp.models.onnx import load, parse
from halfulp.models.onnx.walk import in_order

SAID = (
    "its nodes were not in order and have been sorted; a node without a name has its number in the new order"
)

UNSORTED = """<ir_version: 8, opset_import: ["": 15]> g (float[N] x) => (float[N] z)
    { [pow] y = Pow (late, x)  [last] z = Abs (y)  [maker] late = Abs (x) }"""
SUBGRAPH = """<ir_version: 8, opset_import: ["": 15]> g (bool c, float[N] x) => (float[N] y) {
    [if] y = If (c) <then_branch = t () => (float[N] a) { a = Pow (b, late)  b = Abs (x) },
                     else_branch = e () => (float[N] b) { b = Abs (x) }>
    [maker] late = Abs (x) }"""
FUNCTION = """<ir_version: 8, opset_import: ["": 15, "f": 1]> g (float[N] x) => (float[N] y) { y = f.f (x) }
    <domain: "f", opset_import: ["": 15]> f (x) => (y) { y = Pow (a, a)  a = Abs (x) }"""


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_a_long_chain(seed):
    """No recursion, and no pass over the others for each node."""
    nodes = [helper.make_node("Abs", [f"v{i}"], [f"v{i + 1}"], f"n{i}") for i in range(3000)]
    random.Random(seed).shuffle(nodes)
    value = helper.make_tensor_value_info("v0", TensorProto.FLOAT, [])
    model = helper.make_model(helper.make_graph(nodes, "g", [value], [value]))
    assert names(in_order(model)[0]) == [f"n{i}" for i in range(3000)]


@pytest.mark.parametrize("text", [UNSORTED, SUBGRAPH, FUNCTION], ids=["graph", "subgraph", "function"])
def test_read_and_run(text):
    x = np.array([-2.0, 3.0], np.float32)
    inputs = {"x": x} | ({"c": np.array(True)} if text is SUBGRAPH else {})
    right = {UNSORTED: [0.25, 27.0], SUBGRAPH: [4.0, 27.0], FUNCTION: [4.0, 27.0]}[text]
    with pytest.warns(HalfulpWarning, match=f"^<ModelProto>: {SAID}; halfulp repair writes it in order$"):
        outputs = hu.run(parsed(text), inputs)
    assert next(iter(outputs.values())).tolist() == right


def test_in_the_plugins():
    ort = pytest.importorskip("onnxruntime")
    from halfulp.integrations import onnxruntime as hort

    feeds = {"x": np.array([-2.0, 3.0], np.float32)}
    with warnings.catch_warnings(action="ignore"):  # before 1.24; later ONNX Runtime sorts the nodes itself
        (session,) = hort.session(parsed(UNSORTED)).run(None, feeds)
    with pytest.warns(HalfulpWarning):
        data = hort.patch(parsed(UNSORTED)).SerializeToString()
    options = ort.SessionOptions()
    hort.register(options)
    assert (
        session.tolist() == ort.InferenceSession(data, options).run(None, feeds)[0].tolist() == [0.25, 27.0]
    )


@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_converted(to):
    if to == "openvino":
        pytest.importorskip("openvino")
    conversion = hu.convert(parsed(UNSORTED), to=to, verify=True)
    assert str(conversion.changes[0]) == f"<ModelProto>: {SAID}"
    assert conversion.verification.same
    if to == "onnx":
        assert names(conversion.model) == ["maker", "pow", "last"]


VERBS = {"run": ["run"], "convert": ["convert", "--verify"]}


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_line_says_it_once(verb, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(parsed(UNSORTED), path)
    files = [str(path), *([str(tmp_path / "out.onnx")] if verb == "convert" else [])]
    command = [sys.executable, "-m", "halfulp", *VERBS[verb], *files]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in lines if "in order" in line)
    assert line.removesuffix("; halfulp repair writes it in order") == f"{path}: {SAID}"


def test_a_model_in_order_is_the_callers_own():
    model = parsed(UNSORTED)
    ordered, _ = in_order(model)
    assert parse(ordered).proto is ordered
    assert load(ordered).graph.nodes[0].label == "'maker' (Abs)"


def test_a_model_with_a_cycle_is_not_said_to_be_sorted():
    """Nor if another list of its nodes was not in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(hu.HalfulpError, match="cycle"):
            load(parsed(FUNCTION.replace("y = f.f (x) }", "y = f.f (x)  loop = Pow (loop, x) }")))
