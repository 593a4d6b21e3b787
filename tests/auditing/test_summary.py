"""What an audit answers: which runtimes it judges, a summary for each, and what to do."""

import numpy as np
import onnx
import pytest
from tests.integrations.ir_models import SMALL, WEIGHTS
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.auditing import target as audit_target
from halfulp.auditing.convert import Conversion
from halfulp.auditing.findings import ModelReport, about_target
from halfulp.auditing.target import Statement
from halfulp.conversion.editor import Change
from halfulp.errors import command
from halfulp.measured import available

SLOPES = single("PRelu", 16, {"x": ("float32", ["N", 4, 4]), "s": ("float32", [4])})


def installs(monkeypatch: pytest.MonkeyPatch, found: dict[str, str | None]) -> None:
    """Have the audit find these runtimes installed."""
    monkeypatch.setattr(audit_target, "installed", lambda: found)


def test_what_is_installed_is_judged(monkeypatch):
    installs(monkeypatch, {"openvino": "2026.4.1", "onnxruntime": "99.0"})
    onnxruntime, openvino = hu.audit(SLOPES).summaries
    assert (openvino.target, openvino.version, openvino.asked) == ("openvino", "2026.4.1", "2026.4.1")
    assert (openvino.nodes, openvino.outcomes) == (1, {"wrong": 1})
    assert openvino.causes == {"wrong": ("slopes along the wrong dim",)}
    assert not openvino.is_right
    assert (onnxruntime.version, onnxruntime.asked) == (available()["onnxruntime"][-1], "99.0")
    assert onnxruntime.is_right


def test_a_version_that_is_not_known_is_the_newest(monkeypatch):
    installs(monkeypatch, {"onnxruntime": None})
    (summary,) = hu.audit(SLOPES).summaries
    assert (summary.version, summary.asked) == (available()["onnxruntime"][-1], None)


@pytest.mark.parametrize("found", [{}, {"onnxruntime": "1.31.1", "openvino": "2026.4.1"}])
def test_a_file_is_judged_by_the_runtimes_that_load_it(found, monkeypatch, tmp_path):
    installs(monkeypatch, found)
    assert [summary.target for summary in hu.audit(SLOPES).summaries] == ["onnxruntime", "openvino"]
    (tmp_path / "m.xml").write_text(SMALL)
    (tmp_path / "m.bin").write_bytes(WEIGHTS)
    assert [summary.target for summary in hu.audit(tmp_path / "m.xml").summaries] == ["openvino"]
    assert "no runtime judged" not in str(hu.audit(SLOPES, ()))
    onnx.save(SLOPES, tmp_path / "n.onnx")
    report = hu.audit(tmp_path)
    assert [(summary.file, summary.target) for summary in report.summaries] == [
        *(("m.xml", "openvino"), ("n.onnx", "onnxruntime"), ("n.onnx", "openvino"))
    ]
    assert sorted(target["name"] for target in report.json()["targets"]) == ["onnxruntime", "openvino"]


def test_jax_judges_no_file_unless_it_is_named():
    model = parsed("""15:
        g (float[N, 4] x) => (float[N, 4] z) { two = Constant<value_float = 2.0>()  z = Pow (x, two) }""")
    assert hu.audit(model).findings == ()
    report = hu.audit(model, "jax")
    assert [finding.target for finding in report.findings] == ["jax"]
    assert [summary.text for summary in report.summaries] == ["its one node wrong (the exponent 2)"]


@pytest.mark.parametrize(
    ("opset", "kind", "text", "reason"),
    [
        (
            21,
            "float32",
            "its one node refused (opset 21)",
            "its documents list opsets 9 to 20, and this node is of opset 21",
        ),
        (
            7,
            "float32",
            "its one node refused (opset 7)",
            "its documents list opsets 9 to 20, and this node is of opset 7",
        ),
        (15, "int32", "its one node refused (int32)", "its documents do not list this node's types"),
    ],
)
def test_the_cause_is_the_opset_or_the_types(opset, kind, text, reason):
    report = hu.audit(
        single("Pow", opset, {"x": (kind, ["N"]), "y": (kind, ["N"])}, (kind, ["N"])), "tensorrt"
    )
    assert [summary.text for summary in report.summaries] == [text]
    assert report.findings[0].text == reason


def test_right_is_the_exact_result_and_within_is_said_to_be():
    model = parsed("""15: g (float[N] x) => (float[N] a, float[N] b) {
        two = Constant<value_float = 2.0>()  three = Constant<value_float = 3.0>()
        a = Pow (x, two)  b = Pow (x, three) }""")
    report = hu.audit(model, "onnxruntime==1.31.1")
    (summary,) = report.summaries
    assert (summary.outcomes, summary.max_ulp) == ({"right": 1, "within": 1}, 1)
    assert str(summary) == "onnxruntime 1.31.1: 1 of 2 nodes right; 1 of 2 nodes within 1 ulp"
    assert not summary.is_right
    assert report.findings == ()
    (older,) = hu.audit(model, "onnxruntime==1.31.0").summaries
    assert str(older).startswith(f"onnxruntime 1.31.0 (measured: {older.version}): ")
    assert report.json()["models"][0]["runtimes"][0]["outcomes"] == summary.outcomes


def test_no_target_is_none():
    assert hu.audit(SLOPES, ()).summaries == ()


def test_what_is_found_here(monkeypatch):
    monkeypatch.setattr(audit_target, "has_module", lambda name: name != "openvino")
    found = {"onnxruntime": ["onnxruntime-of-someone"], "torch": ["torch"]}
    monkeypatch.setattr(audit_target, "packages_distributions", lambda: found)
    monkeypatch.setattr(audit_target, "version_of", {"onnxruntime-of-someone": "1.31.1+cpu"}.get)
    assert audit_target.installed() == {"onnxruntime": "1.31.1"}
    monkeypatch.setattr(audit_target, "packages_distributions", dict)
    assert audit_target.installed() == {"onnxruntime": None}
    # No list of all packages' files is read where the runtimes' own distributions are there.
    monkeypatch.delattr(audit_target, "packages_distributions")
    monkeypatch.setattr(audit_target, "version_of", {"onnxruntime": "1.32.0"}.get)
    assert audit_target.installed() == {"onnxruntime": "1.32.0"}
    monkeypatch.setattr(audit_target, "has_module", lambda name: False)
    assert audit_target.installed() == {}


def test_nodes_are_counted_by_outcome():
    model = parsed("""16:
        g (float[N, 4, 4] x, float[4] s, bfloat16[N] b, float[2] p) => (float[N, 4, 4] z, bfloat16[N] k, float[2] q) {
            z = PRelu (x, s)  k = Pow (b, b)  q = Pow <axis = 0> (p, p) }""")
    (summary,) = hu.audit(model, ["onnxruntime==1.31.1"]).summaries
    assert summary.outcomes == {"right": 1, "refused": 1, "invalid": 1}
    text = "1 of 3 nodes right; 1 of 3 nodes refused (bfloat16); 1 of 3 nodes invalid (it refuses the Pow)"
    assert str(summary) == f"onnxruntime 1.31.1: {text}"
    (unknown,) = hu.audit(model, "tensorrt").summaries
    assert "(not measured)" in str(unknown)


def test_bits_that_depend_are_not_right(monkeypatch):
    said = Statement("abacus", "exact", depends=("position",))
    monkeypatch.setattr("halfulp.auditing.api.statement", lambda *_: said)
    (summary,) = hu.audit(SLOPES, "openvino").summaries
    assert summary.text == "its one node not reproducible (by position)"


def test_openvino_files_are_judged_by_its_own_front_end():
    assert audit_target.asked("openvino").spoken_for_by("openvino") is audit_target.asked("openvino").native


HALVES = Conversion((Change("", "cast from bfloat16 to float32"),))
CASTS = Conversion((Change("", "cast to float32", "rounded twice"),))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            Statement("openvino", "refused", conversion=CASTS),
            "halfulp convert 'my net.onnx' converted.onnx --target",
        ),
        (Statement("openvino", "refused", conversion=CASTS), "cast to float32 (rounded twice)"),
        (Statement("openvino", "wrong", conversion=CASTS, groups=("broadcast",)), "halfulp convert"),
        # A conversion doesn't mend these.
        (
            Statement("openvino", "wrong", conversion=CASTS, groups=("broadcast",), depends=("position",)),
            "openvino.replace",
        ),
        (Statement("onnxruntime", "refused", conversion=Conversion(refused="no way")), "onnxruntime.session"),
        (Statement("onnxruntime", "refused", conversion=HALVES), "to float32; or --float32 all in its place"),
        (Statement("torch", "wrong"), "torch.replace"),
        (Statement("jax", "wrong"), "integrations.jax"),
        (Statement("onnx-reference", "wrong"), "halfulp run computes it exactly"),
    ],
)
def test_what_to_do(said, words):
    (node,) = hu.audit(SLOPES, ()).models[0].nodes
    assert words in str(about_target(ModelReport("my net.onnx", "onnx"), node, said))


def test_only_onnxruntime_has_a_conversion_of_all_nodes_instead():
    (node,) = hu.audit(SLOPES, ()).models[0].nodes
    said = Statement("tensorrt", "refused", conversion=HALVES)
    remedy = about_target(ModelReport("net.onnx", "onnx"), node, said)
    assert remedy.reason == "cast from bfloat16 to float32"


def test_what_openvino_narrows_is_left_to_halfulp():
    (node,) = hu.audit(single("Pow", 15, {"x": ("int64", [4]), "y": ("int64", [4])}), ()).models[0].nodes
    said = Statement("openvino", "wrong")
    remedy = about_target(ModelReport("net.onnx", "onnx"), node, said)
    assert str(remedy) == "halfulp run computes it exactly"


def behind_convolutions(*widths: int) -> onnx.ModelProto:
    """Return a network of 4 channels with slopes [4] behind each convolution, whose result has one of these widths."""
    inputs = "".join(f", float[1, 1, 4, {width + 2}] x{width}" for width in widths)
    outputs = ", ".join(f"float[1, 4, 2, {width}] y{width}" for width in widths)
    nodes = "".join(f"c{w} = Conv(x{w}, k) y{w} = PRelu(c{w}, s)\n" for w in widths)
    return parsed(f"""16: g ({inputs[2:]}) => ({outputs})
        <float[4, 1, 3, 3] k = {{{", ".join(["1, -1"] * 18)}}}, float[4] s = {{-2, 0.25, 0.5, 3}}> {{ {nodes} }}""")


@pytest.mark.parametrize("widths", [(4,), (4, 5)])
def test_slopes_behind_a_convolution_as_wide_as_its_channels(widths):
    ort = pytest.importorskip("onnxruntime")
    openvino = pytest.importorskip("openvino")
    model = behind_convolutions(*widths)
    finding = next(found for found in hu.audit(model, "openvino").findings if found.kind == "wrong")
    call, _, reason = str(finding.to_do).partition(": ")
    repaired = hu.repair(model, slopes="channel" if "slopes" in call else None).model
    assert call == ('hu.repair(model, slopes="channel")' if widths == (4,) else "hu.repair(model)")
    assert ("the shape [1, 1, 1, 4]" in reason) == (widths == (4,))  # as one of the two choices
    x = {f"x{w}": np.random.default_rng(w).normal(size=(1, 1, 4, w + 2)).astype(np.float32) for w in widths}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    per_channel = ort.InferenceSession(repaired.SerializeToString(), options).run(None, x)
    core = openvino.Core()
    for each in (model, repaired):
        hint = {"INFERENCE_PRECISION_HINT": "f32"}  # the default is bf16 on some processors
        results = core.compile_model(core.read_model(each.SerializeToString()), "CPU", hint)(x)
        assert all(
            np.allclose(results[i], right, rtol=1e-4, atol=1e-4) for i, right in enumerate(per_channel)
        )
    assert hu.audit(repaired, "openvino").findings == ()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("<ModelProto>", r'hu.convert(model, float32="a\"b,$c")'),
        ("-m n.onnx", "halfulp convert './-m n.onnx' converted.onnx --float32 'a\"b,$c'"),
    ],
)
def test_a_command_quotes_the_names_of_nodes(file, said):
    assert command(file, "convert", float32='a"b,$c') == said
