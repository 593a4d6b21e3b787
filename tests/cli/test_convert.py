"""``halfulp convert``: what it writes, prints and refuses."""

import os
from functools import partial
from pathlib import Path

import onnx
import pytest
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
import halfulp.conversion as api
from halfulp.cli import app
from halfulp.conversion import verify
from halfulp.conversion.verify import Run
from halfulp.conversion.walk import Walk
from halfulp.models.graph import Model
from halfulp.models.run.api import run as evaluate


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


def test_the_suffix_says_the_format():
    onnx.save(parsed(OLD.replace("N,", "2,")), "old.onnx")
    invoked("old.onnx", "net.xml")
    assert sorted(os.listdir()) == ["net.bin", "net.xml", "old.onnx"]
    hu.convert("old.onnx", "net.tflite", to="onnx")  # said to be one
    assert onnx.load("net.tflite").opset_import[0].version == 6


def test_a_hard_link_to_the_model_is_not_replaced():
    onnx.save(parsed(OLD), "old.onnx")
    os.link("old.onnx", "same.onnx")
    assert "is an input, which would be replaced" in invoked(
        "old.onnx", "same.onnx", "--opset", "15", status=2
    )


def test_a_difference_is_status_1(monkeypatch):
    onnx.save(parsed(OLD), "old.onnx")

    def swap(walk: Walk, opset: int) -> None:
        (power,) = (node for node in walk.proto.graph.node if node.op_type == "Pow")
        power.input[:] = [power.input[1], power.input[0]]

    monkeypatch.setitem(api.PASSES, "opset", (*api.PASSES["opset"], swap))
    text = invoked("old.onnx", "new.onnx", "--opset", "15", "--verify", status=1)
    assert "output 'z', inputs of seed 0: 1" in text
    assert "the first tensor that differs is " in text
    assert Path("new.onnx").exists()


def test_what_nothing_evaluates_is_written_and_not_verified(monkeypatch):
    def unevaluated(*models: Model) -> tuple[str, list[Run]]:
        return "halfulp", [partial(evaluate, model) for model in models]

    monkeypatch.setattr(verify, "runs", unevaluated)  # as where ONNX Runtime is not installed
    text = """<ir_version: 8, opset_import: ["": 15]> g (float[N, C, H, W] x, float[R, 5] rois) => (float[R, C, P, Q] y)
        { z = Pow (x, x)  y = MaxRoiPool <pooled_shape = [1, 1]> (z, rois) }"""
    onnx.save(parsed(text), "old.onnx")
    told = invoked("old.onnx", "new.onnx", "--opset", "13", "--verify", status=1)
    assert "written to new.onnx\nnot verified: " in told
    assert "MaxRoiPool" in told
    assert onnx.load("new.onnx").opset_import[0].version == 13
