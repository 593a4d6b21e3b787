"""A network in the runtimes that are installed: what runs, how exact its nodes are, what is refused."""

from __future__ import annotations

import importlib
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.benchmark.in_runtimes import InRuntime, compare, document, runtimes_of, sentences
from halfulp.benchmark.network import Contender, Network, NodeTimes, light, network_of, watched
from halfulp.integrations import ir
from halfulp.models.onnx import load
from halfulp.models.onnx.tensors import release
from halfulp.models.run.fitting import Fit

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
def test_own_nodes_are_off_and_ours_exact(rows: dict[str, InRuntime]) -> None:
    for row in rows.values():
        own, ours = ran(row.own), ran(row.ours)
        assert len(own.exactness) == len(ours.exactness) == 3
        assert own.results.total == 15000
        assert own.results.misrounded > 0
        assert ours.results.misrounded == 0
        assert row.difference is not None
        assert row.difference.total == 10000
        assert row.difference.misrounded > 0
        assert row.ratio is not None
        assert 0 < row.ratio < 1000
        assert len(own.times) == len(ours.times) >= 3


RENAMED = """<ir_version: 8, opset_import: ["": 15]>
    g (float16[N] x, float16[N] y) => (float16[N] z) { s = Sub(x, y)  p = Pow(s, y)  z = Identity(p) }"""


@pytest.mark.parametrize("rows", [RENAMED], indirect=True)
def test_an_output_with_two_names_counts_once(rows: dict[str, InRuntime]) -> None:
    for row in rows.values():
        assert row.difference is not None
        assert row.difference.total == 5000


def test_a_difference_everywhere_is_told_in_words() -> None:
    own, ours = (Contender(NodeTimes(0, 0, 0), (), {"y": np.full(4, x, "f")}, times=[1.0]) for x in (1, 2))
    (told, *_) = sentences([InRuntime("openvino", "1", own, ours)])
    assert told.endswith("; outputs at most 8,388,608 ulp apart, in all of 4 elements")


@pytest.mark.parametrize("rows", [MIXED], indirect=True)
def test_the_profile_tells_our_nodes_from_others(rows: dict[str, InRuntime]) -> None:
    for found in (rows["onnxruntime"].own, rows["onnxruntime"].ours):
        assert ran(found).nodes.executed == 3
        assert 0 < ran(found).nodes.share < 1
        assert ran(found).nodes.seconds > 0


@pytest.mark.parametrize("rows", [INTEGER], indirect=True)
def test_a_refusal_is_told_once_and_ours_still_runs(rows: dict[str, InRuntime]) -> None:
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


@pytest.mark.parametrize("rows", [BRANCH], indirect=True)
def test_nodes_in_subgraphs_are_timed_but_not_compared(rows: dict[str, InRuntime]) -> None:
    contender = ran(rows["onnxruntime"].ours)
    assert not contender.exactness
    assert contender.nodes.executed == 1  # of the branch that was taken
    assert 0 < contender.nodes.share < 1


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
def test_no_count_is_greater_than_the_nodes_of_the_network(rows: dict[str, InRuntime]) -> None:
    """OpenVINO makes a PReLU of LeakyRelu, and a Power of LpNormalization."""
    for row in rows.values():
        for found in (row.own, row.ours):
            assert ran(found).nodes.executed <= 3  # of four, since one branch is not taken
            assert len(ran(found).exactness) == 2  # those that no branch holds


@pytest.mark.parametrize("text", [MIXED, OTHERS, BRANCH], ids=["alone", "functions", "branches"])
def test_each_runtime_has_the_network_twice_and_lets_go_of_it(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session for each set of kernels, and never more than two at a time."""
    ort: Any = pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    networks_in_openvino: Any = importlib.import_module("halfulp.benchmark.in_openvino")
    proto = parser.parse_model(text)
    proto.graph.output.append(onnx.helper.make_tensor_value_info("mark", 1, None))
    proto.graph.node.add(op_type="Exp", input=["x"], output=["mark"])
    opened: list[str] = []
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    def note(runtime: str, held: Any, outputs: list[str]) -> None:
        nonlocal most
        if "mark" in outputs:  # a model of the nodes alone has other outputs
            opened.append(runtime)
            alive.add(held)
            most = max(most, len(alive))

    class Session(ort.InferenceSession):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            note("onnxruntime", self, [output.name for output in self.get_outputs()])

    class Counted(networks_in_openvino.Compiled):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            note("openvino", self, [name for end in self._compiled.outputs for name in end.get_names()])

    monkeypatch.setattr(ort, "InferenceSession", Session)
    monkeypatch.setattr(networks_in_openvino, "Compiled", Counted)
    told: list[str] = []
    onnx.save(proto, tmp_path / "net.onnx")
    with network(tmp_path / "net.onnx") as found:
        release()
        first = len(opened)  # what gave the operands of the nodes
        assert first <= 1
        assert not alive
        compare(found, ["onnxruntime", "openvino"], seconds=0, progress=told.append)
    assert opened[first:] == ["onnxruntime"] * 2 + ["openvino"] * 2
    assert most == 2
    assert not alive
    ours = " with halfulp"
    steps = [": reading", ": preparing", f"{ours}: preparing", ": measuring"]
    assert told == [f"{runtime}{step}" for runtime in ("onnxruntime", "openvino") for step in steps]


def test_a_network_in_openvinos_own_format(tmp_path: Path) -> None:
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


def test_the_weights_lie_beside_the_copy(tmp_path: Path) -> None:
    """So that no session and no model of it holds them."""
    weights = np.arange(4096, dtype=np.float32)
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15]>
            g (float[4096] x) => (float[4096] z) { y = Mul(x, w)  z = Pow(y, w) }"""
    )
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


def test_which_runtimes_read_which_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfulp.benchmark.in_runtimes.has_module", lambda name: True)
    assert runtimes_of(Path("a.onnx")) == ("onnxruntime", "openvino")
    assert runtimes_of(Path("a.XML")) == ("openvino",)


def test_special_values_count_as_equal_where_they_are(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(MIXED), path)
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -2.0], np.float32)
    with network(path, {"x": x, "y": x[::-1].copy()}) as found:
        (row,) = compare(found, ["onnxruntime"], seconds=0)
    assert row.difference is not None
    assert row.difference.misrounded == 0
