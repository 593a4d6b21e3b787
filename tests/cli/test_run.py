"""``halfulp run``: what it feeds, prints, writes and refuses."""

import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.integrations.ir_models import SMALL, WEIGHTS
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

from halfulp.cli import app
from halfulp.cli.models import rows_of


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
