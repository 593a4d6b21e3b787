"""Halves that a runtime computes in float32: what an audit says of their neighbours, beside ONNX Runtime's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
from halfulp.auditing.halves import Net, Step
from halfulp.auditing.target import asked
from halfulp.cli import app

KEEPS = asked("onnxruntime==1.31.1").measured.halves["float16"]  # type: ignore[union-attr]


def traced(
    *steps: tuple[str, str, str], outputs: str = "z", keeps: frozenset[str] = KEEPS
) -> tuple[Any, Any]:
    """Return what is unrounded of nodes (operator, inputs, outputs): all values are float16, but those in capitals."""
    net = [Step(operator, operator, inputs.split(), made.split()) for operator, inputs, made in steps]
    found = Net(lambda: net, lambda name: "float32" if name.isupper() else "float16", outputs.split())
    unrounded = found.unrounded(keeps)
    return unrounded.sources, unrounded.readers


SUB, POW, ADD = ("Sub", "x y", "a"), ("Pow", "a b", "p"), ("Add", "p x", "z")
NONE: frozenset[str] = frozenset()


def test_from_node_to_node() -> None:
    sources, readers = traced(SUB, POW, ADD)
    assert (sources["a"], readers["p"]) == ("Sub", "Add")
    sources, readers = traced(("Pow", "x y", "z"))
    assert ("x" in sources, "z" in readers) == (False, False)


@pytest.mark.parametrize(
    ("between", "dropped"),
    [
        ([("Clip", "s", "a")], True),  # between two nodes in float32 it is computed in float32, too
        ([("Reshape", "s N", "t"), ("Clip", "t", "a")], False),
        ([("Clip", "s", "a"), ("Clip", "a", "other")], False),
        ([("If", "s", "a")], False),
        ([("Relu", "s", "a")], True),
        ([("Cast", "s", "F"), ("Cast", "F", "a")], True),
        ([("Floor", "s", "a")], True),
    ],
)
def test_onnx_runtime_rounds_where_it_has_a_kernel(
    between: list[tuple[str, str, str]], dropped: bool
) -> None:
    steps = ("Sub", "x y", "s"), *between, POW
    sources, _ = traced(*steps, outputs="p other")
    assert ("a" in sources) == dropped
    everywhere, _ = traced(*steps, outputs="p other", keeps=NONE)  # OpenVINO has none
    assert "a" in everywhere


@pytest.mark.parametrize(
    "before",
    [
        ("Abs", "x", "a"),
        ("Floor", "x", "a"),
        ("Concat", "x y", "a"),
        ("Constant", "", "a"),
        ("Cast", "x", "a"),
    ],
)
def test_nothing_is_rounded_before(before: tuple[str, str, str]) -> None:
    for keeps in (KEEPS, NONE):
        sources, _ = traced(before, POW, outputs="p", keeps=keeps)
        assert "a" not in sources


@pytest.mark.parametrize(
    ("after", "dropped"),
    [
        ([("Reshape", "p N", "z")], False),
        ([("Relu", "p", "z")], False),
        ([("Shape", "p", "Z")], False),
        ([("Cast", "p", "Z")], True),
        ([("Reshape", "p N", "q"), ("Exp", "q", "z")], True),
        ([("Neg", "p", "q"), ("Exp", "q", "z")], True),
        ([("QuantizeLinear", "p S", "Z")], False),
    ],
)
def test_who_reads(after: list[tuple[str, str, str]], dropped: bool) -> None:
    _, readers = traced(("Pow", "x y", "p"), *after)
    assert ("p" in readers) == dropped


def test_float32_has_no_such_neighbours() -> None:
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[N] x, float[N] y) => (float[N] z)
        { a = Sub (x, y)  b = Pow (a, y)  z = Exp (b) }"""
    assert hu.audit(parsed(text), "onnxruntime==1.31.1").findings == ()


def test_the_neighbour_and_what_helps_are_named() -> None:
    (finding,) = hu.audit(
        parsed(NETWORKS["a difference"].replace(OPSET, "15")), "onnxruntime==1.31.1"
    ).findings
    assert (finding.kind, finding.node) == ("wrong", "#1 (Pow)")
    assert finding.text == (
        "onnxruntime computes float16 in float32 without rounding between nodes: its base comes from #0 (Sub) unrounded"
    )
    assert finding.to_do == (
        "halfulp.integrations.onnxruntime.session(model) computes it exactly within ONNX Runtime"
    )
    (summary,) = hu.audit(parsed(NETWORKS["a mean"].replace(OPSET, "15")), "onnxruntime==1.31.1").summaries
    assert summary.text == "its one node wrong (halves not rounded between nodes)"


def test_a_function_stands_where_it_is_called() -> None:
    model = parsed("""<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float16[N] x, float16[N] y) => (float16[N] z) { a = Sub (x, y)  z = own.f (a, y) }
        <domain: "own", opset_import: ["": 15]> f (x, y) => (z) { z = Pow (x, y) }""")
    (finding,) = hu.audit(model, "onnxruntime==1.31.1").findings
    assert "its base comes from the caller of 'f' unrounded" in finding.text


# --- beside the runtimes' bits ------------------------------------------------------------------------

OPSET = "OPSET"
_HEAD = f"""<ir_version: 8, opset_import: ["": {OPSET}]>
    g (float16[16, 16] x, float16[16, 16] y, float16[16, 16] p, float16[16] s, float16[1, 1, 16, 16] i,
       float16[1, 1, 3, 3] w, float16[1] q, float[16, 16] f) => """
NETWORKS = {
    "alone": _HEAD + "(float16[16, 16] z) { z = Pow (x, p) }",
    "a difference": _HEAD + "(float16[16, 16] z) { a = Sub (x, y)  z = Pow (a, p) }",
    "a mean": _HEAD + "(float16[16, 1] z) { a = Pow (x, p)  z = ReduceMean <axes = [1]> (a) }",
    "a cast": _HEAD + "(float16[16, 16] z) { a = Cast <to = 10> (f)  z = Pow (a, p) }",
    "a cast of integers": _HEAD
    + "(float16[16, 16] z) { n = Cast <to = 6> (f) a = Cast <to = 10> (n)  z = Pow (a, p) }",
    "a power in float32": _HEAD
    + "(float16[16, 16] z) { a = Cast <to = 1> (x)  b = Pow (a, p)  z = Cast <to = 10> (b) }",
    "read by a cast": _HEAD + "(float[16, 16] z) { a = Pow (x, p)  z = Cast <to = 1> (a) }",
    "an absolute value": _HEAD + "(float16[16, 16] z) { a = Abs (x)  z = Pow (a, p) }",
    "a transposed difference": _HEAD
    + "(float16[16, 16] z) { a = Sub (x, y)  b = Transpose (a)  z = Pow (b, p) }",
    "two kernels between": _HEAD
    + "(float16[16, 16] z) { a = Sub (x, y)  b = Transpose (a)  c = Squeeze (b)  z = Pow (c, p) }",
    "an output between": _HEAD
    + "(float16[16, 16] z, float16[16, 16] b) { a = Sub (x, y)  b = Transpose (a)  z = Pow (b, p) }",
    "a LayerNorm": _HEAD + "(float16[16, 16] z) { a = LayerNormalization (x, s)  z = Pow (a, p) }",
    "a LayerNorm of a sum": _HEAD
    + "(float16[16, 16] z) { b = Add (x, y)  a = LayerNormalization (b, s)  z = Pow (a, p) }",
    "a Conv": _HEAD + "(float16[1, 1, 14, 14] z) { a = Conv (i, w)  z = PRelu (a, q) }",
    "a power of a power": _HEAD + "(float16[16, 16] z) { a = Pow (x, p)  z = Pow (a, y) }",
    "an exponent": _HEAD + "(float16[16, 16] z) { a = Sub (x, y)  z = Pow (x, a) }",
    "reshaped at the end": _HEAD + "(float16[16, 16] z) { a = Pow (x, p)  b = Transpose (a)  z = Relu (b) }",
}


def feeds() -> dict[str, np.ndarray]:
    """Return inputs: positive ones, of few bits where a network needs no more."""
    rng = np.random.default_rng(1)
    f = 1 + rng.random((16, 16), np.float32)
    halves = {
        "x": f,
        "y": rng.random((16, 16)) / 9,
        "p": np.full((16, 16), 1.5),
        "s": np.linspace(3, 1, 16),
        "i": rng.random((1, 1, 16, 16)),
        "w": rng.random((1, 1, 3, 3)) - 1,
        "q": [0.3],
    }
    return {name: np.array(array, np.float16) for name, array in halves.items()} | {"f": f}


def alone(node: onnx.NodeProto, values: dict[str, np.ndarray], opset: int, run: Any) -> list[np.ndarray]:
    """Return what a node makes by itself: the exact result of ours, the runtime's of any other."""
    arrays = [values[name] for name in node.input]
    if node.op_type in ("Pow", "PRelu"):
        return [{"Pow": hu.pow, "PRelu": hu.prelu}[node.op_type](*arrays)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in dict(zip(node.input, arrays, strict=True)).items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "alone", infos, outputs)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    model = onnx.shape_inference.infer_shapes(model)
    return run(model, {name: values[name] for name in node.input})  # type: ignore[no-any-return]


def in_onnx_runtime(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    ort: Any = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {each.name for each in session.get_inputs()}
    return session.run(None, {n: a for n, a in inputs.items() if n in wanted})  # type: ignore[no-any-return]


def in_openvino(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    ov: Any = pytest.importorskip("openvino")
    read = ov.Core().read_model(model.SerializeToString())
    compiled = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    wanted = {name for port in compiled.inputs for name in port.names}
    results = compiled({n: a for n, a in inputs.items() if n in wanted})
    return [np.array(results[port]) for port in compiled.outputs]


@pytest.mark.parametrize(("target", "run"), [("onnxruntime", in_onnx_runtime), ("openvino", in_openvino)])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_an_audit_says_is_so(name: str, target: str, run: Any) -> None:
    """A network's bits differ from those of its nodes one by one where the audit says so, and nowhere else."""
    opset = 17 if "LayerNorm" in name else 15
    model = parsed(NETWORKS[name].replace(OPSET, str(opset)))
    used = {name for node in model.graph.node for name in node.input}
    for info in [info for info in model.graph.input if info.name not in used]:
        model.graph.input.remove(info)
    values = feeds()
    for node in model.graph.node:
        values |= dict(zip(node.output, alone(node, values, opset, run), strict=True))
    got = run(model, feeds())
    expected = [values[info.name] for info in model.graph.output]
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(got, expected, strict=True))
    said = hu.audit(model, target).findings
    dropped = any("without rounding between nodes" in finding.text for finding in said)
    assert dropped != same, (said, sum(int((a != b).sum()) for a, b in zip(got, expected, strict=True)))


BODIES = """<ir_version: 8, opset_import: ["": 15]>
    g (bool c, int64 n, float16[16, 16] x, float16[16, 16] y, float16[16, 16] p) => (float16[16, 16] z) """
IF = """If (c) <then_branch = t () => (float16[16, 16] r) { %s },
                else_branch = e () => (float16[16, 16] s) { s = Identity (x) }>"""
LOOP = """Loop (n, c, %s) <body = b (int64 i, bool d, float16[16, 16] u) => (bool f, float16[16, 16] v)
    { f = Identity (d)  v = Pow (u, p) }>"""


@pytest.mark.parametrize(("target", "run"), [("onnxruntime", in_onnx_runtime), ("openvino", in_openvino)])
@pytest.mark.parametrize(
    "nodes",
    [
        f"a = Sub (x, y)  z = {IF % 'r = Pow (a, p)'}",
        f"z = {IF % 'r = Pow (x, p)'}",
        f"z = {IF % 'a = Sub (x, y)  r = Pow (a, p)'}",
        f"a = Pow (x, p)  z = {IF % 'r = Exp (a)'}",
        f"w = {IF % 'r = Pow (x, p)'}  z = Exp (w)",
        f"a = Sub (x, y)  z = {LOOP % 'a'}",
        f"z = {LOOP % 'x'}",
        f"w = {LOOP % 'x'}  z = Exp (w)",
    ],
)
def test_halves_enter_and_leave_bodies(nodes: str, target: str, run: Any, tmp_path: Path) -> None:
    """ONNX Runtime rounds the values that enter and leave a body, OpenVINO does not."""
    model = parsed(f"{BODIES}{{ {nodes} }}")
    used = set(nodes.replace("(", " ").replace(")", " ").replace(",", " ").split())
    for info in [info for info in model.graph.input if info.name not in used]:
        model.graph.input.remove(info)
    inputs = {**feeds(), "c": np.array(True), "n": np.array(2)}
    inputs = {info.name: inputs[info.name] for info in model.graph.input}
    (got,) = run(model, inputs)
    is_same = np.array_equal(got, hu.run(model, inputs, engine="halfulp")["z"])
    assert bool(hu.audit(model, target).findings) != is_same
    if target == "openvino":
        ov: Any = pytest.importorskip("openvino")
        ov.save_model(
            ov.Core().read_model(model.SerializeToString()), tmp_path / "m.xml", compress_to_fp16=False
        )
        assert bool(hu.audit(tmp_path / "m.xml", target).findings) != is_same


def test_an_ir_is_followed_too(tmp_path: Path) -> None:
    onnx.save(parsed(NETWORKS["a difference"].replace(OPSET, "15")), tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "m.onnx"), str(tmp_path / "m.xml")])
    assert result.exit_code == 0, result.output
    (finding,) = hu.audit(tmp_path / "m.xml", "openvino").findings
    assert "openvino computes float16 in float32" in finding.text
    assert finding.text.endswith("its base comes from 'a' (Subtract) unrounded")
