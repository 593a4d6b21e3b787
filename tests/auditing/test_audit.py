"""hu.audit: which nodes, which clauses, what is open, and what a broken or a foreign model comes to."""

from pathlib import Path

import numpy as np
import pytest
from tests.integrations.ir_models import SMALL, WEIGHTS, saved, written
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.auditing.uses import Use
from halfulp.installed import has_module


def nodes(model: object) -> tuple[Use, ...]:
    """Return the nodes of one model's report."""
    (report,) = hu.audit(model, ()).models
    return report.nodes


@pytest.mark.parametrize(
    "constant", ["<float[2] c = {1, 2}> {", "{ c = Constant <value_floats = [1., 2.]> ()"]
)
def test_a_node_that_a_runtime_computes_beforehand(constant):
    model = parsed(
        f"15: g (float[2] x) => (float[2] z) {constant} n = Neg(c) e = Exp(n) y = Pow(n, e) z = Add(x, y) }}"
    )
    (node,) = hu.audit(model, "openvino==2026.4.1").models[0].nodes
    assert "constant folding" in node.targets[0].depends


# --- other formats --------------------------------------------------------------------------------


def test_openvino_constants_behind_converts(tmp_path, monkeypatch):
    """Stored in float16, as tools write float32 networks, and out of range of the type between."""
    op = pytest.importorskip("openvino.opset13")
    x = op.parameter([2], np.float32, name="x")
    half = op.convert(op.constant(np.array(2.5, np.float16)), "f32")
    (node,) = nodes(saved(tmp_path, [op.power(x, half)], [x]))
    assert str(node.inputs[1]) == "float32[] = 2.5"
    unknown = op.convert(op.convert(op.constant(np.array(1, np.float16)), "nf4"), "f32")
    (node,) = nodes(saved(tmp_path, [op.power(x, unknown)], [x]))
    assert str(node.inputs[1]) == "float32[]"
    small = op.convert(op.convert(op.constant(np.array(1000, np.float16)), "f8e4m3"), "f32")
    path = saved(tmp_path, [op.power(x, small)], [x])
    (node,) = nodes(path)
    assert str(node.inputs[1]) == "float32[] = nan"
    (output,) = hu.run(path, {"x": np.array([2, 3], np.float32)}).values()
    assert np.isnan(output).all()
    monkeypatch.setattr("halfulp.auditing.uses._MOST_CONSTANT", 0)
    (node,) = nodes(path)
    assert str(node.inputs[1]) == "float32[]"


def test_an_openvino_constant_behind_a_thousand_converts(tmp_path):
    layers, edges, before = "", "", ("1", "0")
    for number in map(str, range(10, 1010)):
        layers += f"""<layer id="{number}" name="c{number}" type="Convert" version="opset1">
            <data destination_type="f32"/><input><port id="0"/></input>
            <output><port id="1" precision="FP32"><dim>3</dim></port></output></layer>"""
        edges += '<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="0"/>'.format(*before, number)
        before = number, "1"
    old = '<edge from-layer="1" from-port="0" to-layer="2" to-port="1" />'
    assert old in SMALL
    edges += '<edge from-layer="{}" from-port="{}" to-layer="2" to-port="1"/>'.format(*before)
    text = SMALL.replace("</layers>", f"{layers}</layers>").replace(old, edges)
    (tmp_path / "m.xml").write_text(text)
    (tmp_path / "m.bin").write_bytes(WEIGHTS)
    (node,) = nodes(tmp_path / "m.xml")
    assert str(node.inputs[1]) == "float32[3] = 0.5, 1, 2"


# --- what is broken -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"\x08\x08garbage", "^<bytes>: truncated, or not an ONNX model"),
        (b"<net", "fails in openvino"),
        (Path("none.onnx"), "none.onnx: can't be read"),
        (Path("/dev/null"), "not a plain file"),
    ],
)
def test_broken_models_are_errors_of_one_line(source, words):
    with pytest.raises(hu.ModelError, match=words):
        hu.audit(source)


def test_the_model_is_left_as_it_is():
    model = single("Pow", 13, {"x": ("float32", [2]), "y": ("float32", [2])}, axis=0)
    before = model.SerializeToString(deterministic=True)
    hu.audit(model, ["onnxruntime"])
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    "what", ["", "graph's name", "import of com.microsoft", "type of an output", "type of an input"]
)
def test_what_the_checker_alone_refuses_is_no_finding(what):
    """ONNX Runtime loads all of these but one without the type of an input."""
    ort = pytest.importorskip("onnxruntime")
    model = parsed("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[N] x) => (float[N] z) <float two = {2}> { y = com.microsoft.Gelu(x) z = Pow(y, two) }""")
    if "name" in what:
        model.graph.name = ""
    elif "import" in what:
        del model.opset_import[1]
    elif what:
        (model.graph.output if "output" in what else model.graph.input)[0].type.Clear()
    findings = hu.audit(model, targets=()).findings
    try:
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        assert (what, [finding.kind for finding in findings]) == ("type of an input", ["declaration"])
    else:
        assert not findings
        assert hu.repair(model).valid


def test_large_constants_are_not_read(monkeypatch):
    monkeypatch.setattr("halfulp.auditing.uses._MOST_CONSTANT", 3)
    model = parsed("""15: g (float[4] x) => (float[4] y) <float[4] e = {1, 2, 3, 4}, float[1, 3] f = {1, 2, 3}>
        { y = Pow(x, e) z = Pow(y, f) }""")
    assert [node.inputs[1].text for node in nodes(model)] == [None, "1, 2, 3"]


def test_nodes_that_halfulp_computes_are_named(tmp_path):
    plugin = pytest.importorskip("halfulp.integrations.onnxruntime")
    model = parsed("16: g (float[N] x) => (float[N] y) { y = PRelu(x, x) }")
    sources = [(plugin.patch(model), "#0 (PRelu_float32)")]
    if has_module("openvino"):
        from openvino import Core, save_model

        from halfulp.integrations.openvino import replace

        save_model(replace(Core().read_model(written(tmp_path))), tmp_path / "m.xml")
        sources.append((tmp_path / "m.xml", "'power' (HalfulpPower)"))
    for source, named in sources:
        report = hu.audit(source, ())
        assert report.models[0].unread == (named,)
        assert f"not looked into: {named}" in " ".join(str(report).split())


@pytest.mark.newer
@pytest.mark.parametrize(
    ("square", "keeps"),
    [
        ("power", (True, True)),
        ("power", (True, False)),
        ("product", (False, True)),
        ("product", (True, True)),
    ],
)
def test_a_norm_of_an_ir_whose_means_lose_their_dims(square, keeps, tmp_path):
    ov = pytest.importorskip("openvino")
    layers, axis = ov.opset13, np.array([-1])
    x = layers.parameter([8, 8], np.float32)
    centred = layers.subtract(x, layers.reduce_mean(x, axis, keeps[0]))
    squares = layers.power(centred, np.float32(2)) if square == "power" else layers.multiply(centred, centred)
    shifted = layers.add(layers.reduce_mean(squares, axis, keeps[1]), np.float32(0.01))
    root = layers.sqrt(shifted) if square == "power" else layers.power(shifted, np.float32(0.5))
    path = saved(tmp_path, [layers.divide(centred, root)], [x])
    given = (3 * np.random.default_rng(0).standard_normal((8, 8))).astype(np.float32)
    compiled = ov.Core().compile_model(ov.Core().read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    wide = given - given.astype(float).mean(-1, keepdims=keeps[0])
    right = wide / np.sqrt((wide**2).mean(-1, keepdims=keeps[1]) + 0.01)
    is_right = np.allclose(compiled(given)[0], right, atol=1e-4)
    assert is_right == all(keeps)
    texts = [finding.text for finding in hu.audit(path, "openvino").findings]
    assert texts == (
        [] if is_right else ["a fusion of nodes: it becomes part of a norm whose means keep their dims"]
    )
