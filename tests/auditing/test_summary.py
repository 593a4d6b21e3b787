"""What an audit answers: which runtimes it judges, a summary for each, and what to do."""

from __future__ import annotations

import json

import onnx
import pytest
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.auditing import installed as audit_installed
from halfulp.auditing import target as audit_target
from halfulp.auditing.advice import about_target
from halfulp.auditing.convert import Conversion, Step
from halfulp.auditing.target import Statement
from halfulp.measured import available

SLOPES = single("PRelu", 16, {"x": ("float32", ["N", 4, 4]), "s": ("float32", [4])})


def installs(monkeypatch: pytest.MonkeyPatch, found: dict[str, str | None]) -> None:
    """Have the audit find these runtimes installed."""
    monkeypatch.setattr(audit_target, "installed", lambda: found)


def test_what_is_installed_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    installs(monkeypatch, {"openvino": "2026.4.1", "onnxruntime": "99.0"})
    openvino, onnxruntime = hu.audit(SLOPES).summaries
    assert (openvino.target, openvino.version, openvino.asked) == ("openvino", "2026.4.1", "2026.4.1")
    assert (openvino.nodes, openvino.outcomes) == (1, {"wrong": 1})
    assert openvino.causes == {"wrong": ("slopes along the wrong dim",)}
    assert not openvino.is_right
    assert (onnxruntime.version, onnxruntime.asked) == (available()["onnxruntime"][-1], "99.0")
    assert onnxruntime.is_right


def test_a_version_that_is_not_known_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    installs(monkeypatch, {"onnxruntime": None})
    (summary,) = hu.audit(SLOPES).summaries
    assert (summary.version, summary.asked) == (available()["onnxruntime"][-1], None)


def test_all_that_were_measured_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installs(monkeypatch, {})
    judged = [summary.target for summary in hu.audit(SLOPES).summaries]
    assert judged == [name for name in available() if not name.endswith("-native")]


def test_no_target_is_none() -> None:
    assert hu.audit(SLOPES, ()).summaries == ()


def test_what_is_found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_installed, "find_spec", lambda name: name == "torch" or None)
    monkeypatch.setattr(
        audit_installed, "packages_distributions", lambda: {"torch": ["torch-of-someone"], "jax": ["jax"]}
    )
    monkeypatch.setattr(audit_installed, "version", {"torch-of-someone": "2.13.0+cpu"}.__getitem__)
    assert audit_installed.installed() == {"torch": "2.13.0"}
    monkeypatch.setattr(audit_installed, "packages_distributions", dict)
    assert audit_installed.installed() == {"torch": None}
    monkeypatch.setattr(audit_installed, "find_spec", lambda name: None)
    assert audit_installed.installed() == {}


def test_nodes_are_counted_by_outcome() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["": 16]>
        g (float[N, 4, 4] x, float[4] s, bfloat16[N] b, float[2] p) => (float[N, 4, 4] z, bfloat16[N] k, float[2] q) {
            z = PRelu (x, s)  k = Pow (b, b)  q = Pow <axis = 0> (p, p) }""")
    (summary,) = hu.audit(model, ["onnxruntime==1.31.1"]).summaries
    assert summary.outcomes == {"right": 1, "refused": 1, "invalid": 1}
    assert str(summary) == "onnxruntime 1.31.1: 1 of 3 nodes refused (bfloat16); 1 of 3 nodes invalid"
    (unknown,) = hu.audit(model, "tensorrt").summaries
    assert "(not measured)" in str(unknown)


def test_bits_that_depend_are_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Statement("abacus", "exact", depends=("position",))
    monkeypatch.setattr("halfulp.auditing.api.statement", lambda *_: said)
    (summary,) = hu.audit(SLOPES, "openvino").summaries
    assert summary.text == "its one node not reproducible (by position)"


def test_openvino_files_are_judged_by_its_own_front_end() -> None:
    assert audit_target.asked("openvino").spoken_for_by("openvino") is audit_target.asked("openvino").native


CASTS = Conversion((Step("cast to float32", "rounded twice"),))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            Statement("openvino", "refused", conversion=CASTS),
            "halfulp convert 'my net.onnx' mended.onnx --target",
        ),
        (Statement("openvino", "refused", conversion=CASTS), "cast to float32 (rounded twice)"),
        (Statement("openvino", "wrong", conversion=CASTS, groups=("broadcast",)), "halfulp convert"),
        # A conversion doesn't mend these.
        (
            Statement("openvino", "wrong", conversion=CASTS, groups=("broadcast", "special")),
            "openvino.replace",
        ),
        (
            Statement("openvino", "wrong", conversion=CASTS, groups=("broadcast",), depends=("position",)),
            "openvino.replace",
        ),
        (Statement("onnxruntime", "refused", conversion=Conversion(refused="no way")), "onnxruntime.session"),
        (
            Statement("onnxruntime", "crashed", conversion=Conversion((Step("stays as it is"),))),
            "onnxruntime.session",
        ),
        (Statement("torch", "wrong"), "torch.replace"),
        (Statement("jax", "wrong"), "integrations.jax"),
        (Statement("onnx-reference", "wrong"), "halfulp run computes it exactly"),
    ],
)
def test_what_to_do(said: Statement, words: str) -> None:
    assert words in about_target("my net.onnx", said)


def test_what_to_do_is_right() -> None:
    (finding,) = hu.audit(SLOPES, "openvino").findings
    assert finding.to_do is not None
    assert finding.to_do.startswith(
        'hu.convert(model, target="openvino"): the slope gets the shape [1, 1, 4]'
    )
    mended = hu.convert(SLOPES, target="openvino").model
    assert isinstance(mended, onnx.ModelProto)
    assert hu.audit(mended, "openvino").findings == ()


def test_it_is_data() -> None:
    report = hu.audit(SLOPES, "openvino")
    document = json.loads(json.dumps(report.json()))
    (runtime,) = document["models"][0]["runtimes"]
    assert runtime["text"] == report.summaries[0].text
    assert runtime["outcomes"] == {"wrong": 1}
    assert document["findings"][0]["to_do"] == report.findings[0].to_do
    assert document["targets"][0]["installed"] is False
