"""Outputs that verify nothing, and each verb that says so."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.models.run.report import vacuous

INF = np.inf
WIDE = """<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y, float[N] p) {
    z = Sub(x, x) d = Div(z, z) y = Pow(d, d) p = Pow(x, x) }"""
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


def test_a_verification_says_it():
    found = hu.convert(parser.parse_model(WIDE), opset=18, verify=True).verification
    assert found.same
    assert found.vacuous == {"y": "all NaN"}
    assert found.elements == 4 * 3
    assert SAID in str(found).splitlines()


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
    assert SAID in done.stdout.splitlines(), done.stderr
    (row, *_) = json.loads((tmp_path / "measured.json").read_text())["runtimes"]
    assert row["vacuous"] == {"y": "all NaN"}
