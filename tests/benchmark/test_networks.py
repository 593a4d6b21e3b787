"""A network in ONNX Runtime: what runs, how exact its nodes are, what is refused."""

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.models.onnx_models import parsed

from halfulp.benchmark.comparison import Comparison, Contender, compare, document, light, sentences
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
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Return what comparing a model with both kinds of kernels gives."""
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("rows") / "net.onnx"
    onnx.save(parser.parse_model(request.param), path)
    with light(path) as model:
        return compare(model, Fit({"N": 5000}).inputs(model), threads=1, seconds=0)


def ran(found: Contender | str) -> Contender:
    """Return what the network gave; it must not have been refused."""
    assert isinstance(found, Contender), found
    return found


@pytest.mark.parametrize("row", [MIXED], indirect=True)
def test_own_nodes_are_off_and_ours_exact(row):
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


HALVES = """<ir_version: 8, opset_import: ["": 15]>
    g (float16[N] x, float16[N] y) => (float16[N] z) { s = Mul(x, y)  p = Pow(s, y)  z = PRelu(p, y) }"""


@pytest.mark.parametrize("row", [HALVES], indirect=True)
def test_nodes_are_compared_given_the_operands_that_the_model_says(row):
    """ONNX Runtime computes chains of float16 in float32: the operands of these nodes would be others."""
    assert ran(row.own).results.misrounded < 100
    assert ran(row.ours).results.misrounded == 0


@pytest.mark.parametrize("row", [MIXED], indirect=True)
def test_the_profile_tells_our_nodes_from_others(row):
    for found in (row.own, row.ours):
        assert ran(found).nodes.executed == 3
        assert 0 < ran(found).nodes.share < 1
        assert ran(found).nodes.seconds > 0


@pytest.mark.parametrize("row", [INTEGER], indirect=True)
def test_a_refusal_is_told_once_and_ours_still_runs(row):
    assert isinstance(row.own, str)
    assert "Pow(15)" in row.own
    assert ran(row.ours)
    assert row.ratio is None
    assert row.difference is None
    (told,) = sentences(row)
    assert "net.onnx: refused by onnxruntime: Failed to find kernel" in told
    entry = document(row)
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


@pytest.mark.parametrize("row", [OTHERS], indirect=True)
def test_no_count_is_greater_than_the_nodes_of_the_network(row):
    """One branch is not taken, and results in branches are not compared."""
    for found in (row.own, row.ours):
        assert ran(found).nodes.executed <= 3
        assert len(ran(found).exactness) == 2


def test_no_session_holds_the_weights(tmp_path):
    weights = np.arange(4096, dtype=np.float32)
    proto = parsed("15: g (float[4096] x) => (float[4096] z) { y = Mul(x, w) z = Pow(y, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "net.onnx")
    onnx.save(proto, tmp_path / "out.onnx", save_as_external_data=True, location="own.bin", size_threshold=0)
    for name in ("net.onnx", "out.onnx"):
        with light(tmp_path / name) as model:
            assert model.file == str(tmp_path / name)
            assert len(model.proto.SerializeToString()) < 1000
            assert model.graph.constants["w"].tobytes() == weights.tobytes()
