"""What an audit answers: which runtimes it judges, a summary for each, and what to do."""

import numpy as np
import onnx
import pytest
from tests.integrations.ir_models import SMALL, WEIGHTS
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.auditing import target as audit_target
from halfulp.auditing.target import Statement
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


def test_bits_that_depend_are_not_right(monkeypatch):
    said = Statement("abacus", "exact", depends=("position",))
    monkeypatch.setattr("halfulp.auditing.api.statement", lambda *_: said)
    (summary,) = hu.audit(SLOPES, "openvino").summaries
    assert summary.text == "its one node not reproducible (by position)"


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
