"""``halfulp run --engine``: what is chosen and said, and that ONNX Runtime's run is reported like our own."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed, run_with_report
from typer.testing import CliRunner

import halfulp as hu
import halfulp.running
from halfulp.cli import app
from halfulp.models.onnx import load, parse
from halfulp.models.run.inputs import Fit

ort: Any = pytest.importorskip("onnxruntime")
engine: Any = pytest.importorskip("halfulp.integrations.onnxruntime.engine")

SUPPORTED_OPS = """(float16[N] x, bool c) => (float16[M] z) {
    p = Pow(x, x)
    [second] q = PRelu(p, x)
    z = If(c) <then_branch = t () => (float16[M] a) { [inner] a = Pow(q, x) },
               else_branch = e () => (float16[M] b) { b = Pow(x, q) }>
}"""
NETWORK = "(float[N] x) => (float[M] z) { a = Abs(x)  b = Pow(a, x)  z = Neg(b) }"
ONLY_HALFULP = "(bfloat16[N] x) => (bfloat16[M] z) { a = Abs(x)  z = Pow(a, x) }"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(text: str) -> Path:
    model = parsed(f"16: g {text}")
    onnx.save(model, "net.onnx")
    return Path("net.onnx")


def invoked(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


def test_the_report_is_that_of_our_own_walk():
    path = saved(SUPPORTED_OPS)
    model = load(path)
    feeds = Fit({"N": 5}).inputs(model)
    ours, our_report = run_with_report(model, feeds)
    _, theirs, (their_report,) = engine.open_profiled(parse(path), feeds)
    assert theirs["z"].tobytes() == ours["z"].tobytes()

    def told(report: Any) -> dict[str, Any]:
        rows = [row for row in report.nodes if row.operator.startswith(("onnx.Pow", "onnx.PRelu"))]
        # Labels differ in a subgraph: ONNX Runtime does not say in which.
        return {
            row.label.rpartition(".")[2]: (row.operator, row.engine, row.inputs, row.outputs) for row in rows
        }

    assert told(their_report) == told(our_report)
    assert "#0 (Pow)" in told(their_report)
    assert their_report.share > 0
    assert os.listdir() == ["net.onnx"]


def test_auto_takes_onnxruntime_and_says_so():
    saved(NETWORK)
    text = invoked("net.onnx", "-o", "out.npz")
    assert "engine: onnxruntime, with Pow and PRelu by halfulp" in text
    assert "#1 (Pow)" in text
    assert "halfulp evaluated 1 of 3 nodes" in text
    assert "ONNX Runtime the other 2" in text
    x = Fit().inputs(load("net.onnx"))["x"]
    with np.load("out.npz") as out:
        np.testing.assert_array_equal(out["z"], -halfulp.pow(np.abs(x), x))


def test_auto_falls_back_and_says_why():
    saved(ONLY_HALFULP)
    text = invoked("net.onnx")
    assert "engine: halfulp (net.onnx: refused by onnxruntime: " in text
    assert "Abs(13)" in text.splitlines()[0]
    assert "refused by onnxruntime" in invoked("net.onnx", "--engine", "onnxruntime", status=2)
    assert text.splitlines()[1:] != []


def test_auto_walks_a_model_of_operators_that_halfulp_has():
    saved(SUPPORTED_OPS)
    assert "engine: halfulp (it has all operators of the model)" in invoked("net.onnx")
    assert "engine: onnxruntime" in invoked("net.onnx", "--engine", "onnxruntime")


@pytest.mark.parametrize("kind", ["path", "bytes", "message"])
def test_python_chooses_as_the_command_line_does(kind, monkeypatch):
    path = saved(NETWORK)
    source: Any = {"path": path, "bytes": path.read_bytes(), "message": onnx.load(path)}[kind]
    asked: list[Any] = []
    runner = engine.runner
    monkeypatch.setattr(engine, "runner", lambda *a, **k: asked.append(a) or runner(*a, **k))
    x = np.array([-2, 3], np.float32)
    want = -halfulp.pow(np.abs(x), x)
    for fed in (x, [-2, 3], x.astype(">f4")):
        assert hu.run(source, {"x": fed})["z"].tobytes() == want.tobytes()
    assert len(asked) == 3
    assert hu.run(source, {"x": x}, engine="halfulp")["z"].tobytes() == want.tobytes()
    outputs = hu.run(source, "random", dims={"N": 5}, seed=1)
    assert outputs["z"].shape == (5,)
    assert outputs.inputs["x"].tobytes() == Fit({"N": 5}).inputs(load(path), seed=1)["x"].tobytes()
    assert not outputs.vacuous
    assert len(asked) == 4
    with monkeypatch.context() as patch:
        patch.setattr(halfulp.running, "has_module", lambda name: False)
        assert hu.run(source, {"x": x})["z"].tobytes() == want.tobytes()
        with pytest.raises(
            hu.HalfulpError, match="not for the engine onnxruntime: onnxruntime is not installed"
        ):
            hu.run(source, {"x": x}, engine="onnxruntime")
    assert len(asked) == 4


def test_python_falls_back_too():
    path = saved(ONLY_HALFULP)
    assert hu.run(path, "random")["z"].dtype.name == "bfloat16"
    with pytest.raises(engine.Refused, match="refused by onnxruntime"):
        hu.run(path, "random", engine="onnxruntime")


def test_options_that_contradict_each_other():
    path = saved(NETWORK)
    x = {"x": np.ones(2, np.float32)}
    for call, words in (
        (lambda: hu.run(path, x, dims={"N": 2}), "dims are for inputs that are made up"),
        (lambda: hu.run(path, "made up"), "inputs must be a dict of arrays by name, or 'random'"),
        (lambda: hu.run(path, [1, 2]), "fed as a dict"),
        (lambda: hu.run(path, np.ones(2)), "fed as a dict"),
        (lambda: hu.run(path, x, engine="cuda"), "no such engine"),
        (lambda: hu.run(path, "random", seed=-1), "seed must be an integer >= 0"),
        (lambda: hu.run(path, "random", dims={"N": 1.5}), "the size of dim 'N' must be"),
    ):
        with pytest.raises(hu.HalfulpError, match=words):
            call()


def test_without_onnxruntime(monkeypatch):
    monkeypatch.setattr(halfulp.running, "has_module", lambda name: False)
    saved(NETWORK)
    assert "engine: halfulp (onnxruntime is not installed)" in invoked("net.onnx")
    assert "onnxruntime is not installed" in invoked("net.onnx", "--engine", "onnxruntime", status=2)
    assert "engine: halfulp\n" in invoked("net.onnx", "--engine", "halfulp")


def test_other_files_are_not_for_onnxruntime():
    hu.convert(saved("(float[2] x) => (float[2] z) { z = Pow(x, x) }"), "net.xml")
    assert "onnxruntime runs ONNX files only" in invoked("net.xml")
    assert "onnxruntime runs ONNX files only" in invoked("net.xml", "--engine", "onnxruntime", status=2)


def test_what_onnxruntime_says_is_told_whole_and_once(capfd):
    saved(
        "(float[N] x) => (float[P, Q] z) { s = Constant<value_ints=[1009, -1]>()  p = Exp(x)  z = Reshape(p, s) }"
    )
    text = invoked("net.onnx", "-i", "N=7", "--engine", "onnxruntime", status=2)
    assert "requested shape:{1009,-1}" in text  # its last words
    text = invoked("net.onnx", status=2)
    assert text.count("\n") == 1
    assert text.startswith("error: net.onnx: fails in onnxruntime")
    assert "dims made up: N=3; -i DIM=N changes one, -i NAME=FILE gives an input" in text
    assert "requested shape:{1009,-1}" in text
    assert capfd.readouterr() == ("", "")  # the runtime's own log
