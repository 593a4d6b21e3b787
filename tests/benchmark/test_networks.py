"""A network in the runtimes that are installed: what runs, how exact its nodes are, what is refused."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.models.onnx_models import parsed

import halfulp as hu
from halfulp.benchmark.network import (
    Contender,
    InRuntime,
    Network,
    compare,
    document,
    light,
    network_of,
    runtimes_of,
    sentences,
    watched,
)
from halfulp.integrations import ir
from halfulp.models.onnx import load
from halfulp.models.run.inputs import Fit

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


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, InRuntime]:
    """Return what comparing a model in each runtime gives, by runtime."""
    path = tmp_path_factory.mktemp("rows") / "net.onnx"
    onnx.save(parser.parse_model(request.param), path)
    runtimes = runtimes_of(path)
    if len(runtimes) < 2:
        pytest.skip("needs onnxruntime and openvino")
    with network(path) as found:
        return {row.runtime: row for row in compare(found, runtimes, seconds=0)}


@contextmanager
def network(path: Path, inputs: dict[str, Any] | None = None) -> Iterator[Network]:
    """Yield a network as the verb prepares it."""
    with light(path) as copy:
        model: Any = ir.load(copy) if path.suffix == ".xml" else load(copy, keep_unknown=True)
        values = Fit({"N": 5000}).inputs(model) if inputs is None else inputs
        yield network_of(copy, model, watched(copy, model), values, threads=1)


def ran(found: Contender | str) -> Contender:
    """Return what a runtime gave; it must not have refused the network."""
    assert isinstance(found, Contender), found
    return found


@pytest.mark.parametrize("rows", [MIXED], indirect=True)
def test_own_nodes_are_off_and_ours_exact(rows):
    for row in rows.values():
        own, ours = ran(row.own), ran(row.ours)
        assert len(own.exactness) == len(ours.exactness) == 3
        assert own.results.total == 15000
        assert own.results.misrounded > 0
        assert ours.results.misrounded == 0
        assert row.difference.total == 10000
        assert row.difference.misrounded > 0
        assert row.ratio is not None
        assert 0 < row.ratio < 1000
        assert len(own.times) == len(ours.times) >= 3


RENAMED = """<ir_version: 8, opset_import: ["": 15]>
    g (float16[N] x, float16[N] y) => (float16[N] z) { s = Sub(x, y)  p = Pow(s, y)  z = Identity(p) }"""


@pytest.mark.parametrize("rows", [RENAMED], indirect=True)
def test_an_output_with_two_names_counts_once(rows):
    for row in rows.values():
        assert row.difference.total == 5000


@pytest.mark.parametrize("rows", [MIXED], indirect=True)
def test_the_profile_tells_our_nodes_from_others(rows):
    for found in (rows["onnxruntime"].own, rows["onnxruntime"].ours):
        assert ran(found).nodes.executed == 3
        assert 0 < ran(found).nodes.share < 1
        assert ran(found).nodes.seconds > 0


@pytest.mark.parametrize("rows", [INTEGER], indirect=True)
def test_a_refusal_is_told_once_and_ours_still_runs(rows):
    row = rows["onnxruntime"]
    assert isinstance(row.own, str)
    assert "Pow(15)" in row.own
    assert ran(row.ours)
    assert row.ratio is None
    assert row.difference is None
    told = list(sentences([row]))
    assert len(told) == 1
    assert told[0].startswith("onnxruntime: ")
    assert "net.onnx: refused by onnxruntime: Failed to find kernel" in told[0]
    (entry,) = document([row])
    assert entry["own"] == {"refused": row.own}
    assert entry["ratio"] is None


OTHERS = """<ir_version: 8, opset_import: ["": 15, "mine": 1]>
    g (float[N, 4] x, bool c) => (float[N, 4] z)
    {
        a = LeakyRelu<alpha=0.3>(x)
        b = LpNormalization(a)
        two = Constant<value_int=2>()
        f = mine.square(b)
        i = Pow(f, two)
        j = If (c) <then_branch = t () => (float[N, 4] p) { p = Pow(i, i) },
                    else_branch = e () => (float[N, 4] q) { q = PRelu(i, i) }>
        z = LeakyRelu<alpha=0.2>(j)
    }
    <domain: "mine", opset_import: ["": 15]> square (u) => (v)
    { h = Constant<value_float=2.5>()  v = Pow(u, h) }"""


@pytest.mark.parametrize("rows", [OTHERS], indirect=True)
def test_no_count_is_greater_than_the_nodes_of_the_network(rows):
    """OpenVINO makes a PReLU of LeakyRelu, and a Power of LpNormalization."""
    for row in rows.values():
        for found in (row.own, row.ours):
            assert ran(found).nodes.executed <= 3  # of four, since one branch is not taken
            assert len(ran(found).exactness) == 2  # those that no branch holds


def test_a_network_in_openvinos_own_format(tmp_path):
    """Its tensors need no names."""
    text = """<ir_version: 8, opset_import: ["": 16]> g (float[5000] x, float[5000] y) => (float[5000] z) {
        p = Pow(x, y)  q = Mul(p, x)  z = PRelu(q, y) }"""
    pytest.importorskip("openvino")
    path = tmp_path / "net.xml"
    hu.convert(parser.parse_model(text), path)
    written = path.read_text()
    path.write_text(re.sub(r' names="[pq]"', "", written))
    assert path.read_text() != written
    with network(path, Fit().inputs(ir.load(path))) as found:
        (row,) = compare(found, ["openvino"], seconds=0)
    for contender in (ran(row.own), ran(row.ours)):
        assert len(contender.exactness) == 2
        assert 1 <= contender.nodes.executed <= 2  # OpenVINO may merge its own
    assert ran(row.own).results.misrounded > 0
    assert ran(row.ours).results.misrounded == 0


def test_the_weights_lie_beside_the_copy(tmp_path):
    """So that no session and no model of it holds them."""
    weights = np.arange(4096, dtype=np.float32)
    proto = parsed("15: g (float[4096] x) => (float[4096] z) { y = Mul(x, w) z = Pow(y, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "net.onnx")
    with light(tmp_path / "net.onnx") as copy:
        assert copy.name == "net.onnx"
        assert copy.stat().st_size < 1000
        model: Any = load(copy)
        assert model.graph.constants["w"].tobytes() == weights.tobytes()
    onnx.save(proto, tmp_path / "out.onnx", save_as_external_data=True, location="own.bin", size_threshold=0)
    with light(tmp_path / "out.onnx") as copy:
        model = load(copy)
        assert model.graph.constants["w"].tobytes() == weights.tobytes()
