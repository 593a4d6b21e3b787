"""A network in the runtimes that are installed: what runs, how exact its nodes are, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from halfulp.benchmark.networks.comparison import InRuntime, compare, runtimes_of
from halfulp.benchmark.networks.contender import Network
from halfulp.benchmark.networks.show import document, sentences
from halfulp.models.load import load
from halfulp.models.run.inputs import make_inputs

MIXED = """<ir_version: 8, opset_import: ["": 15]>
    g (float[N] x, float[N] y) => (float[N] power, float[N] last) {
        power = Pow(x, y)
        two = Constant<value_float=2.0>()
        sum = Add(power, x)
        square = Pow(sum, two)
        slope = Constant<value_floats=[0.25]>()
        last = PRelu(square, slope)
    }"""
INTEGER = """<ir_version: 8, opset_import: ["": 15]>
    g (float16[N] x, uint8[N] y) => (float16[N] z) { z = Pow(x, y) }"""
BRANCH = """<ir_version: 8, opset_import: ["": 15]>
    g (bool c, float[N] x) => (float[N] z) {
        y = Exp(x)
        z = If (c) <then_branch = a () => (float[N] p) { p = Pow(y, y) },
                    else_branch = b () => (float[N] q) { q = PRelu(y, y) }>
    }"""


@pytest.fixture
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, InRuntime]:
    """Return what comparing a model in each runtime gives, by runtime."""
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(request.param), path)
    model = load(path)
    network = Network(path, model, make_inputs(model, dims={"N": 5000}), threads=1)
    runtimes = runtimes_of(path)
    if len(runtimes) < 2:
        pytest.skip("needs onnxruntime and openvino")
    return {row.runtime: row for row in compare(network, runtimes, seconds=0)}


@pytest.mark.parametrize("rows", [MIXED], indirect=True)
def test_own_nodes_are_off_and_ours_exact(rows: dict[str, InRuntime]) -> None:
    for row in rows.values():
        assert row.own.contender is not None
        assert row.ours.contender is not None
        assert row.own.contender.compared == row.ours.contender.compared == 3
        assert row.own.contender.results.total == 15000
        assert row.own.contender.results.misrounded > 0
        assert row.ours.contender.results.misrounded == 0
        assert row.difference is not None
        assert row.difference.total == 10000
        assert row.difference.misrounded > 0
        assert row.ratio is not None
        assert 0 < row.ratio < 1000
        assert len(row.own.times) == len(row.ours.times) >= 3


@pytest.mark.parametrize("rows", [MIXED], indirect=True)
def test_the_profile_tells_our_nodes_from_others(rows: dict[str, InRuntime]) -> None:
    for found in (rows["onnxruntime"].own, rows["onnxruntime"].ours):
        assert found.contender is not None
        assert found.contender.nodes.executed == 3
        assert 0 < found.contender.nodes.share < 1
        assert found.contender.nodes.seconds > 0


@pytest.mark.parametrize("rows", [INTEGER], indirect=True)
def test_a_refusal_is_told_once_and_ours_still_runs(rows: dict[str, InRuntime]) -> None:
    row = rows["onnxruntime"]
    assert "Pow(15)" in row.own.refused
    assert row.ours.contender is not None
    assert row.ratio is None
    assert row.difference is None
    told = list(sentences([row]))
    assert len(told) == 1
    assert told[0].startswith("onnxruntime: ")
    assert "net.onnx: refused by onnxruntime: Failed to find kernel" in told[0]
    (entry,) = document([row])
    assert entry["own"] == {"refused": row.own.refused}
    assert entry["ratio"] is None


@pytest.mark.parametrize("rows", [BRANCH], indirect=True)
def test_nodes_in_subgraphs_are_timed_but_not_compared(rows: dict[str, InRuntime]) -> None:
    contender = rows["onnxruntime"].ours.contender
    assert contender is not None
    assert contender.compared == 0
    assert contender.nodes.executed == 1  # of the branch that was taken
    assert 0 < contender.nodes.share < 1


def test_which_runtimes_read_which_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfulp.benchmark.networks.comparison.find_spec", lambda name: object())
    assert runtimes_of(Path("a.onnx")) == ("onnxruntime", "openvino")
    assert runtimes_of(Path("a.XML")) == ("openvino",)
    assert runtimes_of(Path("a.json")) == ()


def test_special_values_count_as_equal_where_they_are(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(MIXED), path)
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -2.0], np.float32)
    network = Network(path, load(path), {"x": x, "y": x[::-1].copy()}, threads=1)
    (row,) = compare(network, ["onnxruntime"], seconds=0)
    assert row.difference is not None
    assert row.difference.misrounded == 0
