"""Outputs that verify nothing, and each verb that says so."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.models.run.report import vacuous

INF = np.inf
NAN_ONLY = (
    '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { z = Sub(x, x) y = Div(z, z) }'
)
NAN_ONLY = NAN_ONLY.replace("y = Div(z, z)", "d = Div(z, z) y = Pow(d, d)")
WIDE = NAN_ONLY.replace("=> (float[N] y)", "=> (float[N] y, float[N] p)").replace("}", "p = Pow(x, x) }")
SAID = "output 'y' is all NaN: it verifies nothing"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.array([np.nan, np.nan]), "all NaN"),
        (np.array([np.nan, INF], ml_dtypes.float8_e5m2), "all NaN or infinite"),
        (np.array([-INF, INF], np.float16), "all infinite"),
        (np.ones((0, 4)), "empty"),
        ([], "empty"),
        (np.array([complex(np.nan, 1)], np.complex64), "all NaN"),
        ([np.array([np.nan]), np.ones((0,))], "all NaN"),
        (np.array([True, True]), "all equal (True)"),
        (np.array(["a", "a"], object), "all equal (a)"),
        (np.array(7.0), ""),
        (np.array([np.nan, 1.0]), ""),
        ([np.array([np.nan]), np.arange(2)], ""),
        (None, ""),
    ],
)
def test_a_value(value, reason):
    assert vacuous({"y": value}) == ({"y": reason} if reason else {})


def test_the_result_of_run():
    outputs: Any = hu.run(parser.parse_model(WIDE), {"x": np.float32([1, 2])})
    assert outputs.vacuous == {"y": "all NaN"}


def test_run_says_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(WIDE), "m.onnx")
    for engine in ("auto", "halfulp"):
        result = CliRunner().invoke(app, ["run", "m.onnx", "--engine", engine])
        assert result.exit_code == 0
        assert [line for line in result.output.splitlines() if "verifies" in line] == [SAID]


def test_a_verification_says_it():
    found = hu.convert(parser.parse_model(WIDE), opset=18, verify=True).verification
    assert found.same
    assert found.vacuous == {"y": "all NaN"}
    assert found.elements == 4 * 3
    assert SAID in str(found).splitlines()


def test_nothing_is_verified(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(NAN_ONLY), "m.onnx")
    result = CliRunner().invoke(app, ["convert", "m.onnx", "o.onnx", "--opset", "18", "--verify"])
    assert result.exit_code == 1
    assert result.output.splitlines()[1:] == [
        "not verified: the outputs verify nothing (output 'y' is all NaN): give inputs (--input NAME=FILE)"
    ]
    assert Path("o.onnx").is_file()


def test_an_ir_says_it(tmp_path):
    pytest.importorskip("openvino")
    text = WIDE.replace("}", "w = Sigmoid(p) }").replace("float[N] p)", "float[N] w)")
    found = hu.convert(parser.parse_model(text), tmp_path / "o.xml", verify=True).verification
    assert found.vacuous == {"y": "all NaN"}
    assert found.elements == 3


def test_bench_says_it(tmp_path):
    pytest.importorskip("onnxruntime")
    onnx.save(parser.parse_model(WIDE), tmp_path / "m.onnx")
    command = [sys.executable, "-m", "halfulp", "bench", "m.onnx", "--seconds", "0", "--threads", "1"]
    command += ["--json", "measured.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert f"onnxruntime: {SAID}" in done.stdout.splitlines(), done.stderr
    (row, *_) = json.loads((tmp_path / "measured.json").read_text())["runtimes"]
    assert row["vacuous"] == {"y": "all NaN"}
