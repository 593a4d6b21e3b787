"""``halfulp run --engine``: what is chosen and said, and that ONNX Runtime's run is reported like our own."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
import halfulp.running
from halfulp.cli import app
from halfulp.models.onnx import Onnx, load
from halfulp.models.run.inputs import Fit

ort: Any = pytest.importorskip("onnxruntime")
engine: Any = pytest.importorskip("halfulp.integrations.onnxruntime.engine")


NETWORK = "(float[N] x) => (float[M] z) { a = Abs(x)  b = Pow(a, x)  z = Neg(b) }"


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


def test_onnxruntimes_own_log_is_quiet(capfd):
    saved(
        "(float[N] x) => (float[P, Q] z) { s = Constant<value_ints=[9, -1]>()  p = Exp(x)  z = Reshape(p, s) }"
    )
    invoked("net.onnx", status=2)
    assert capfd.readouterr() == ("", "")  # the runtime's own log


def test_times_are_without_those_of_the_nodes_in_bodies():
    kinds, starts, times = ("If", "Pow", "Loop", "Abs"), (0, 10, 50, 60), (100, 30, 40, 10)
    events = [*zip(kinds, starts, times, strict=True), ("Add", 100, 5), ("Neg", 105, 1)]
    named = [{"args": {"op_name": name}, "ts": start, "dur": time} for name, start, time in events]
    assert engine._own_times(named) == [30, 30, 30, 10, 5, 1]


@pytest.mark.parametrize("exact", [True, False])
def test_settings_of_a_session(exact):
    model = Onnx(parsed(f"16: g {NETWORK}"), "m.onnx")
    settings: tuple[dict[str, Any], ...] = ({}, {"threads": 2}, {"optimized": False})
    sessions = [engine.open_session(model, exact=exact, **each) for each in settings]
    options = [session.get_session_options() for session in sessions]
    spins = [each.get_session_config_entry("session.intra_op.allow_spinning") for each in options]
    assert spins == ["1", "0", "1"]
    every, none = ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert [each.graph_optimization_level for each in options] == [every, every, none]
    for session in sessions:
        assert ("HalfulpExecutionProvider" in session.get_providers()) <= exact


def test_what_a_refusal_says():
    broken = parsed("16: g (float[2, 3] x, float[5] s) => (float[2, 3] z) { z = PRelu(x, s) }")
    with pytest.raises(hu.ModelError, match=r"\(onnx.PRelu-16.C2\)"):
        engine.open_session(Onnx(broken, "m.onnx"))
    assert engine._text(RuntimeError()) == "RuntimeError"


def test_whose_nodes_a_profile_names():
    """The provider's, the custom operators in a patched copy, and ONNX Runtime's own."""
    ours, own = "HalfulpExecutionProvider", "CPUExecutionProvider"
    kinds = (("Pow", ours), ("Pow_float32", own), ("Pow", own), ("Fused_Pow", own), ("Abs", own))
    facts = enumerate({"op_name": kind, "provider": provider} for kind, provider in kinds)
    events = [
        {"name": f"{n}_kernel_time", "cat": "Node", "ts": n, "dur": 1, "args": each} for n, each in facts
    ]
    others = [event | {"cat": "Session"} for event in events] + [events[0] | {"name": "0_fence_before"}]
    (report,) = engine._reports([*others, *events, {"name": "model_run"}], 15)
    found = [(row.operator, row.engine) for row in report.nodes]
    by_halfulp = ("onnx.Pow-15", "halfulp")
    assert found == [by_halfulp] * 2 + [(kind, "onnxruntime") for kind in ("Pow", "Fused_Pow", "Abs")]
