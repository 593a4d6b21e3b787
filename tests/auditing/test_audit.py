"""hu.audit: which nodes, which clauses, what is open, and what a broken or a foreign model comes to."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.integrations.ir_models import SMALL, WEIGHTS, saved, written
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.auditing.uses import Use
from halfulp.installed import has_module


def nodes(model: object) -> tuple[Use, ...]:
    """Return the nodes of one model's report."""
    (report,) = hu.audit(model, ()).models
    return report.nodes


def clauses(model: object) -> list[str]:
    """Return the clauses that the findings of a model cite."""
    found = hu.audit(model, ()).findings
    assert {finding.kind for finding in found} <= {"clause"}
    return [str(finding.clause) for finding in found]


EVERYWHERE = """<ir_version: 8, opset_import: ["": 18, "f": 1]>
    g (int32[N, 3] x, bool b) => (int32[N, 3] z, int32[N, 3] v) {
        z = f.outer (x)
        v = If (b) <
            then_branch = t () => (o) { h = Constant<value_int = -1>()  o = Pow (x, h) },
            else_branch = e () => (o) { o = Identity (x) }
        >
        w = PRelu (x, x)
    }
    <domain: "f", opset_import: ["": 15, "f": 1]> outer (x) => (y) { y = f.inner (x) }
    <domain: "f", opset_import: ["": 12]> inner (x) => (y) { two = Constant<value_int = 2>()  y = Pow (x, two) }
    <domain: "f", opset_import: ["": 12]> uncalled (x) => (y) { y = Pow (x, x) }"""


def test_subgraphs_and_called_functions():
    found = [
        (node.label, node.operator, str(node.inputs[0]), str(node.inputs[1]))
        for node in nodes(parsed(EVERYWHERE))
    ]
    assert found == [
        ("#1 (If).then_branch.#1 (Pow)", "onnx.Pow-15", "int32[N, 3]", "int64[] = -1"),
        ("#2 (PRelu)", "onnx.PRelu-16", "int32[N, 3]", "int32[N, 3]"),
        ("inner.#1 (Pow)", "onnx.Pow-12", "int32[N, 3]", "int64[] = 2"),
    ]


def test_a_function_of_the_models_own_named_pow_is_none_of_ours():
    model = parsed(
        """<ir_version: 10, opset_import: ["": 18]> g (float[3] x) => (float[3] z) { z = Pow (x, x) }"""
    )
    body = [helper.make_node("Add", ["a", "b"], ["c"])]
    imports = [helper.make_opsetid("", 18)]
    model.functions.append(helper.make_function("", "Pow", ["a", "b"], ["c"], body, imports))
    assert nodes(model) == ()


def test_an_attribute_of_another_standard_is_a_finding() -> None:
    """DirectML's power has an Exponent."""
    assert clauses(single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [2])}, Exponent="two")) == [
        "onnx.Pow-15.C5"
    ]


# --- other formats --------------------------------------------------------------------------------


def test_openvino(tmp_path):
    (node,) = nodes(written(tmp_path))
    assert (node.label, node.operator, node.asked) == ("'power' (Power)", "openvino.Power-1", "opset1")
    assert str(node.inputs[1]) == "float32[3] = 0.5, 1, 2"
    assert node.attributes == {"auto_broadcast": "numpy"}


def test_openvino_constants_behind_converts(tmp_path):
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


def test_openvino_bodies(tmp_path):
    ov = pytest.importorskip("openvino")
    op = pytest.importorskip("openvino.opset13")
    choice, x = op.parameter([], np.bool_), op.parameter([2, 3], np.int32)
    then, other = op.parameter([2, 3], np.int32), op.parameter([2, 3], np.int32)
    bodies = ov.Model([op.power(then, then, name="p")], [then]), ov.Model([op.result(other)], [other])
    branch = op.if_op(choice.output(0))
    branch.set_friendly_name("branch")
    branch.set_then_body(bodies[0])
    branch.set_else_body(bodies[1])
    branch.set_input(x.output(0), then, other)
    out = branch.set_output(bodies[0].results[0], bodies[1].results[0])
    (node,) = nodes(saved(tmp_path, [op.result(out)], [choice, x]))
    assert node.label == "'branch' (If).then_body.'p' (Power)"
    assert [str(operand) for operand in node.inputs] == ["int32[2, 3]"] * 2


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


def test_names_that_are_no_text():
    model = single("Pow", 13, {"x": ("float32", [2]), "y": ("float32", [2])}, axis=0)
    data = model.SerializeToString().replace(b"node", b"n\xffde")
    with pytest.raises(hu.ModelError, match="UTF-8"):
        hu.audit(data)


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


def test_a_sparse_exponent_is_valid():
    """Runtimes take it, though the onnx package's checker refuses the type."""
    model = parsed("17: g (float[4] x) => (float[4] y) { y = Pow(x, e) }")
    values, places = np.array([2, 3], np.float32), np.array([0, 3])
    tensors = numpy_helper.from_array(values, "e"), numpy_helper.from_array(places)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(*tensors, [4]))
    assert not hu.audit(model, targets=()).findings
    x = np.full(4, 2, np.float32)
    assert np.asarray(hu.run(model, {"x": x})["y"]).tolist() == [4, 1, 1, 8]


def test_inputs_of_several_types_are_found():
    model = parsed("""17:
        g (float[N] x) => (float[N] z) <float16[1] h = {15360}, float t = {2}> { p = Pow(x, t) z = Add(p, h) }""")
    for inputs in (None, {"x": np.ones(3, np.float32)}):
        report = hu.audit(model, targets=(), inputs=inputs)
        with pytest.raises(hu.HalfulpError, match=r"no data was looked at, .* node #1 .* refuse to load"):
            report.blocklist("trtexec")
        (finding,) = report.findings
        assert (finding.node, finding.kind, finding.to_do) == ("#1 (Add)", "declaration", "hu.repair(model)")
        assert finding.text.startswith("its inputs are float32 and float16, and Add takes one type")
    assert not hu.audit(hu.repair(model).model, targets=()).findings
    del model.graph.node[0]
    model.graph.node[0].input[0] = "x"
    (alone,) = hu.audit(model, targets=()).findings
    assert alone.text == finding.text


# --- slopes that do not fit, or may not -----------------------------------------------------------


BOTH = ["onnxruntime==1.31.1", "openvino==2026.4.1"]


def test_commands_for_a_model_with_a_broken_node_repair_it_first(tmp_path):
    model = parsed(
        '<ir_version: 8, opset_import: ["": 16]> g (float[1, 3, 4, 5] x, uint64[4] a)'
        " => (float[1, 3, 4, 5] y, float[4] z) <float[3] s = {1, 2, 3}, float[4] b = {1, 2, 3, 4}>"
        " { y = PRelu(x, s)  z = Pow(b, a) }"
    )
    (broken, refused) = hu.audit(model, "tensorrt").findings
    assert broken.to_do == (
        "hu.repair(model): the slope of shape [3] gets the shape [3, 1, 1]: per channel of X, [1, 3, 4, 5]"
    )
    assert str(refused.to_do).startswith('hu.convert(hu.repair(model).model, target="tensorrt"): ')
    assert hu.convert(hu.repair(model).model, target="tensorrt").changes
    other = parsed(
        '<ir_version: 8, opset_import: ["": 16]> g (float[2, 3] x, float[4, 5] w, uint64[4] a)'
        " => (float[4, 5] y, float[4] z) <float[4] b = {1, 2, 3, 4}> { y = Mul(x, w)  z = Pow(b, a) }"
    )
    (_, refused) = hu.audit(other, "tensorrt").findings  # no repair makes it valid
    assert str(refused.to_do).startswith('hu.convert(model, target="tensorrt"): ')
    for name, between, output in (
        ("m", "repaired", "converted"),
        ("converted", "repaired", "converted2"),
        ("repaired", "repaired2", "converted"),
    ):
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, path)
        first, last = (str(finding.to_do) for finding in hu.audit(path, "tensorrt").findings)
        assert first.startswith(f"halfulp repair {path} {between}.onnx: ")
        assert last.startswith(f"halfulp convert {between}.onnx {output}.onnx --target tensorrt: ")


# --- notices --------------------------------------------------------------------------------------


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
