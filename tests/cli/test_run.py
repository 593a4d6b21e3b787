"""``halfulp run``: what it feeds, prints, writes and refuses."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.integrations.ir_models import SMALL, WEIGHTS
from tests.models.onnx_models import parsed, single
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.cli.run import rows_of
from halfulp.models.onnx import load
from halfulp.models.run.inputs import Fit


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["run", "--engine", "halfulp", *arguments])
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stdout if status == 0 else result.stderr


MIXED = """<ir_version: 8, opset_import: ["": 15]>
    g (float[N, 4] x, float[4] s) => (float[N, 4] z) { a = Abs (x)  p = Pow (a, s)  z = PRelu (p, s) }"""


def test_without_inputs_it_makes_them_up():
    onnx.save(parsed(MIXED), "net.onnx")
    text = invoked("net.onnx", "-i", "N=2", "-o", "out.npz")
    feeds = Fit({"N": 2}).inputs(load("net.onnx"))
    with np.load("out.npz") as out:
        assert out["z"].tobytes() == hu.run("net.onnx", feeds)["z"].tobytes()
    for words in (
        "#1 (Pow)",
        "onnx.Pow-15",
        "onnx.PRelu-9",
        "onnx.Abs-13",
        "float32[2, 4]",
        "onnx reference",
        "halfulp evaluated 2 of 3 nodes",
        "the onnx package's reference evaluator the other 1",
        "input (made up)",
        "written to out.npz",
    ):
        assert words in text
    assert sorted(os.listdir()) == ["net.onnx", "out.npz"]


def test_a_summary_counts_nan_and_infinities():
    model = parsed("15: g (bfloat16[N] x, bfloat16[N] y) => (bfloat16[N] z) { z = Pow (x, y) }")
    onnx.save(model, "net.onnx")
    np.save("x.npy", np.array([-2, 0, 0, 3], ml_dtypes.bfloat16))
    np.save("y.npy", np.array([0.5, -1, -1, 2], ml_dtypes.bfloat16))
    text = invoked("net.onnx", "-i", "x=x.npy", "-i", "y=y.npy", "-o", "out.npz")
    row = next(line.split() for line in text.splitlines() if line.startswith(" z "))
    assert row == ["z", "bfloat16[4]", "9", "inf", "1", "2"]
    with np.load("out.npz") as out:
        got = out["z"].view(ml_dtypes.bfloat16).astype(float)
    assert got[1:].tolist() == [np.inf, np.inf, 9]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-i", "x=x.npy", "-i", "s=s.npy"],
        ["-i", "x=x.pb", "-i", "s=both.npz"],
        ["-i", "both.npz"],
        ["-i", "x=one.npz", "-i", "s=s.npy"],
    ],
)
def test_inputs_from_files(arguments):
    onnx.save(parsed(MIXED), "net.onnx")
    x, s = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([0.5, 1, 2, 3], np.float32)
    np.save("x.npy", x)
    np.save("s.npy", s)
    np.savez("both.npz", x=x, s=s)
    np.savez("one.npz", only=x)
    Path("x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    text = invoked("net.onnx", *arguments, "-o", "out.npz")
    assert "made up" not in text
    with np.load("out.npz") as out:
        assert out["z"].tobytes() == hu.run("net.onnx", {"x": x, "s": s})["z"].tobytes()


def test_a_file_alone_is_the_only_input():
    text = '<ir_version: 8, opset_import: ["": 15]> g (float[N] x) => (float[N] z) { z = Pow (x, x) }'
    onnx.save(parsed(text), "x.onnx")
    np.save("x.npy", np.array([2, 3], np.float32))
    assert "27" in invoked("x.onnx", "-i", "x.npy")
    onnx.save(parsed(MIXED), "net.onnx")
    assert "an input must be NAME=FILE" in invoked("net.onnx", "-i", "x.npy", status=2)


def test_sequences_and_text_are_written():
    onnx.save(
        parsed("""17: g (float[N] x) => (seq(float[N]) q, string[N] t) {
            q = SequenceConstruct (x, x)
            t = Cast <to = 8> (x)
        }"""),
        "net.onnx",
    )
    assert "sequence of 2" in invoked("net.onnx", "-o", "out.npz")
    with np.load("out.npz") as out:
        assert sorted(out.files) == ["q.0", "q.1", "t"]
        assert out["t"].dtype.kind == "U"


def test_a_model_without_inputs():
    onnx.save(
        parsed("15: g () => (float z) { x = Constant <value_float = 3.0> () z = Pow (x, x) }"), "net.onnx"
    )
    assert "27" in invoked("net.onnx")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_numbers_of_float32_are_rounded_to_a_shorter_type(kind):
    onnx.save(single("Pow", 15, {"x": (kind, [3]), "y": (kind, [])}, output=(kind, [3])), "net.onnx")
    line = f"input 'x': its numbers, in float32, are rounded to {kind}"
    for numbers, rounded in (([1.0001, 2, np.nan], True), ([-np.inf, 2, np.nan], False)):
        np.savez("both.npz", x=np.array(numbers, np.float32), y=np.float64(2))
        result = CliRunner().invoke(app, ["run", "net.onnx", "-i", "both.npz"])
        assert f"{kind}[3]" in result.stdout
        assert (line in result.stderr) is rounded
    np.savez("both.npz", x=np.array([1e39, 2, -np.inf]), y=np.float32(2))
    text = invoked("net.onnx", "-i", "both.npz", status=2)
    assert f"input 'x': {kind} does not hold 1 of its 3 numbers" in text


def test_a_name_is_no_escape_sequence():
    model = single("Pow", 15, {"x": ("float32", ["N"]), "y": ("float32", ["N"])})
    model.graph.node[0].name = "\x1b[2J[red]name[/red]"
    onnx.save(model, "net.onnx")
    text = invoked("net.onnx")
    assert "\x1b" not in text
    assert "[red]name[/red]" in text


def test_a_reader_that_goes_away_is_no_error():
    onnx.save(parsed(MIXED), "net.onnx")
    command = f"{sys.executable} -m halfulp run net.onnx | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# --- OpenVINO's files ---------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.xml").write_text(SMALL)
    (tmp_path / "m.bin").write_bytes(WEIGHTS)
    np.save(tmp_path / "x.npy", np.array([[3, 2, 4]], np.float32))
    return tmp_path


def ran(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def test_an_openvino_model(folder):
    out = folder / "out.npz"
    told = ran(folder / "m.xml", "-i", f"data={folder / 'x.npy'}", "-o", out)
    assert "openvino.Power-1" in told
    assert np.load(out)["y"].tolist() == [[3, 4, 2]]
    assert "input (made up)" in ran(folder / "m.xml")


# --- the table of values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype(">f4"),
        pickle.loads(pickle.dumps(np.dtype("float32"))),
        np.dtype(np.longdouble),
        np.dtype(ml_dtypes.float8_e5m2),
    ],
)
def test_every_kind_of_dtype_has_its_range(dtype):
    x = np.array([0.5, -2, np.nan, np.inf]).astype(dtype)
    (cells,) = rows_of({"x": x})
    assert cells[2:] == ["-2", "inf", "1", "1"]


def test_a_chain_of_thousands_of_powers_has_a_short_table():
    body = "  ".join(f"t{i + 1} = Pow (t{i}, t{i})" for i in range(2000))
    text = f'<ir_version: 8, opset_import: ["": 15]> g (float[2] t0) => (float[2] t2000) {{ {body} }}'
    onnx.save(parsed(text), "m.onnx")
    printed = invoked("m.onnx")
    assert "all others of these, 1940 times" in printed
    assert "halfulp evaluated 2000 of 2000 nodes" in printed
    assert len(printed.splitlines()) < 200
