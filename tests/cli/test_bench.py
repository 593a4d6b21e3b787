"""``halfulp bench``: what a person sees.

It measures in a process of its own, because it sets the environment for libraries.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.models.onnx_models import parsed

COMMAND = [sys.executable, "-m", "halfulp", "bench"]


def test_a_table_of_times_and_exactness():
    done = subprocess.run(
        [*COMMAND, "--seconds", "0", "--threads", "1"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert "halfulp" in lines[1]
    assert "numpy" in lines[1]
    assert np.__version__ in lines[2]
    rows = [line for line in lines if " ** " in line or line.strip().startswith("PRelu")]
    assert len(rows) == 4
    assert all("±" in row for row in rows)
    assert "exact" in done.stdout
    assert "on 1 thread (" in done.stdout


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    text = """<ir_version: 8, opset_import: ["": 15]>
        g (float[N] x, float[N] y) => (float[N] z) { power = Pow(x, y)  z = Exp(power) }"""
    onnx.save(parser.parse_model(text), path)
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True)


def test_a_network_with_its_own_kernels_and_with_ours(network, tmp_path):
    pytest.importorskip("onnxruntime")
    done = run(network, "--seconds", "0", "--threads", "1", "--json", tmp_path / "measured.json")
    assert done.returncode == 0, done.stderr
    assert "dims made up: N=" in done.stdout
    assert "1 of 1 node" in done.stdout
    assert "with halfulp" in done.stdout
    assert "x as fast; outputs " in done.stdout
    document = json.loads((tmp_path / "measured.json").read_text())
    found = {row["runtime"]: row for row in document["runtimes"]}["onnxruntime"]
    assert found["halfulp"]["results"]["misrounded"] == 0
    assert found["halfulp"]["results"]["nodes"] == 1
    assert found["own"]["seconds"]["median"] > 0
    assert found["ratio"] > 0


def test_a_node_that_a_fusion_takes_is_exact_by_itself(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    model = parsed("""17: g (float[4, 2] x) => (float[4, 2] z)
        <float e = {4}, float eps = {0.01}, float[2] gain = {1, 2}, float[2] shift = {0, 0}> {
            m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  p = Pow (d, e)  v = ReduceMean <axes = [-1]> (p)
            a = Add (v, eps)  s = Sqrt (a)  q = Div (d, s)  n = Mul (q, gain)  z = Add (n, shift) }""")
    onnx.save(model, tmp_path / "fourth.onnx")
    x = np.array([[1, 5], [0, 9], [2, 2], [3, -3]], np.float32)
    (z,) = ort.InferenceSession(tmp_path / "fourth.onnx").run(None, {"x": x})
    centred = x - x.mean(-1, keepdims=True)
    right = centred / np.sqrt((centred**4).mean(-1, keepdims=True) + 0.01) * [1, 2]
    command = [*COMMAND, "fourth.onnx", "--seconds", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("onnxruntime"))
    assert ("node by node: exact" in row) != np.allclose(z, right, rtol=1e-3)
