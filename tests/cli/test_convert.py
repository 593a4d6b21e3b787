"""``halfulp convert``: what it writes, prints and refuses."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import onnx
import pytest
from tests.models.onnx_models import parsed, single
from typer.testing import CliRunner

import halfulp as hu
import halfulp.conversion as api
from halfulp.cli import app
from halfulp.conversion import verify
from halfulp.conversion.editor import Change
from halfulp.conversion.verify import Run, Subject
from halfulp.conversion.walk import Walk


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["convert", *arguments])
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr if status == 2 else result.stdout


OLD = """<ir_version: 8, opset_import: ["": 6]>
    g (float[N, 3, 4] x, float[3] y) => (float[N, 3, 4] z) { p = PRelu (x, y)  z = Pow<axis=1, broadcast=1>(p, y) }"""


def test_to_another_opset() -> None:
    onnx.save(parsed(OLD), "old.onnx")
    text = invoked("old.onnx", "new.onnx", "--opset", "15", "--verify")
    assert text.splitlines() == [
        "#0 (PRelu): the slope, of shape [3], gets the shape [3, 1]",
        "#1 (Pow): Y is unsqueezed to float32[3, 1], where axis=1 puts it",
        "2 changes; written to new.onnx",
        "the same bits: 48 elements of outputs, 4 sets of inputs",
        "dims made up: N=1; -i DIM=N changes one",
    ]
    assert onnx.load("new.onnx").opset_import[0].version == 15


def test_the_suffix_says_the_format() -> None:
    onnx.save(parsed(OLD.replace("N,", "2,")), "old.onnx")
    for name in ("net.xml", "new.onnx"):
        assert f"written to {name}" in invoked("old.onnx", name)
    assert sorted(os.listdir()) == ["net.bin", "net.xml", "new.onnx", "old.onnx"]


@pytest.mark.parametrize("name", ["net.tflite", "net.onx", "net", "net.onnx.gz"])
def test_a_suffix_of_no_format_is_refused(name: str) -> None:
    onnx.save(parsed(OLD), "old.onnx")
    assert f"{name}: no format that is written has the suffix" in invoked("old.onnx", name, status=2)
    assert os.listdir() == ["old.onnx"]
    hu.convert("old.onnx", name, to="onnx")  # said to be one
    assert onnx.load(name).opset_import[0].version == 6


def test_a_model_is_replaced_if_that_is_said() -> None:
    onnx.save(parsed(OLD), "old.onnx")
    os.link("old.onnx", "same.onnx")
    for output in ("old.onnx", "./old.onnx", "same.onnx"):
        text = invoked("old.onnx", output, "--opset", "15", status=2)
        assert "is an input, which would be replaced; name another file, or add --force" in text
    invoked("old.onnx", "old.onnx", "--opset", "15", "--force")
    assert onnx.load("old.onnx").opset_import[0].version == 15


def test_for_a_target_and_with_bodies() -> None:
    onnx.save(parsed(OLD), "old.onnx")
    assert "opset 6 becomes 9" in invoked("old.onnx", "new.onnx", "--target", "tensorrt")
    assert "becomes its function body" in invoked("new.onnx", "wide.onnx", "--prelu", "expand")
    assert "PRelu's function body, becomes PRelu" in invoked("wide.onnx", "again.onnx", "--prelu", "fold")


def test_a_difference_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(parsed(OLD), "old.onnx")
    real = api.to_opset

    def swapping(walk: Walk, opset: int) -> list[Change]:
        changes = real(walk, opset)
        (power,) = (node for node in walk.model.graph.node if node.op_type == "Pow")
        power.input[:] = [power.input[1], power.input[0]]
        return changes

    monkeypatch.setattr(api, "to_opset", swapping)
    text = invoked("old.onnx", "new.onnx", "--opset", "15", "--verify", status=1)
    assert "output 'z', inputs of seed 0: 1" in text
    assert "the first tensor that differs is " in text
    assert Path("new.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.onnx", "new.onnx"], "none.onnx: can't be read"),
        (["old.onnx", "none/new.onnx", "--opset", "7"], "none/new.onnx: can't be written"),
        (["old.onnx", "-"], "-: only text is written to standard output; name a file"),
        (["old.onnx", "new.onnx", "--opset", "99"], "no such opset"),
        (["old.onnx", "new.onnx", "--target", "abacus"], "no such target"),
        (["old.onnx", "new.onnx", "--prelu", "iron"], "expanded or folded"),
        (["old.onnx", "new.xml", "--opset", "7"], "are for what becomes an ONNX model"),
        (["old.onnx", "new.json"], "new.json: no format that is written has the suffix '.json'"),
        (["net.xml", "new.onnx"], "net.xml: only ONNX models are converted"),
        (["old.onnx", "new.onnx", "-i", "N=2"], "--input is for --verify, which is not given"),
        (["old.onnx", "none/new.xml"], "none/new.xml: can't be written"),
        (["int.onnx", "new.onnx", "--opset", "11"], "node 'node' (Pow): no exact form in opset 11"),
    ],
)
def test_bad_input(arguments: list[str], words: str) -> None:
    onnx.save(parsed(OLD), "old.onnx")
    onnx.save(single("Pow", 12, {"x": ("int32", [2]), "y": ("int32", [2])}, ("int32", [2])), "int.onnx")
    before = sorted(os.listdir())
    text = invoked(*arguments, status=2)
    assert words in text
    assert len(text.splitlines()) <= 4
    assert sorted(os.listdir()) == before


def test_what_nothing_evaluates_is_written_and_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def unevaluated(*subjects: Subject) -> tuple[str, list[Run]]:
        return "halfulp", [partial(hu.run, subject.model) for subject in subjects]

    monkeypatch.setattr(verify, "runs", unevaluated)  # as where ONNX Runtime is not installed
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[N, C, H, W] x, float[R, 5] rois) => (float[R, C, P, Q] y)
        { z = Pow (x, x)  y = MaxRoiPool <pooled_shape = [1, 1]> (z, rois) }"""
    onnx.save(parsed(text), "old.onnx")
    told = invoked("old.onnx", "new.onnx", "--opset", "13", "--verify", status=1)
    assert "written to new.onnx\nnot verified: " in told
    assert "MaxRoiPool" in told
    assert onnx.load("new.onnx").opset_import[0].version == 13
