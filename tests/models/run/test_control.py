"""If and Loop around our operators."""

import numpy as np
import pytest
from tests.models.onnx_models import parsed, run, run_with_report

import halfulp as hu
from halfulp.errors import ModelError

LOOP = """<ir_version: 8, opset_import: ["": 15]>
    g (int64 m, bool c, float[N] x) => (float[N] last, float[K, N] all) {
        last, all = Loop (m, c, x) <body = b (int64 i, bool go, float[N] v) => (bool on, float[N] w, float[2] each) {
            on = Identity (go)
            w = Pow (v, x)
            each = PRelu (w, x)
        }>
    }"""


def test_loop():
    x = np.array([1.5, -0.5], np.float32)
    out, report = run_with_report(parsed(LOOP), {"m": np.array(3), "c": np.array(True), "x": x})
    want, rows = x, []
    for _ in range(3):
        want = hu.pow(want, x)
        rows.append(hu.prelu(want, x))
    np.testing.assert_array_equal(out["last"], want)
    np.testing.assert_array_equal(out["all"], np.stack(rows))
    calls = {row.operator: row.calls for row in report.nodes}
    assert calls == {"onnx.Identity-14": 3, "onnx.Pow-15": 3, "onnx.PRelu-9": 3, "onnx.Loop-13": 1}


def test_a_loop_that_does_not_run():
    x = np.array([1.5, -0.5], np.float32)
    for m, c in ((0, True), (3, False), (-1, True)):
        out = run(parsed(LOOP), {"m": np.array(m), "c": np.array(c), "x": x})
        np.testing.assert_array_equal(out["last"], x)
        assert out["all"].shape == (0, 2)
        assert out["all"].dtype == np.float32


def test_a_loop_until_a_condition():
    model = parsed("""16: g (float x, float limit) => (float last) {
            last = Loop (, , x) <body = b (int64 i, bool go, float v) => (bool on, float w) {
                w = Mul (v, x)
                on = Less (w, limit)
            }>
        }""")
    assert run(model, {"x": 3.0, "limit": 100.0})["last"] == 243


def test_what_does_not_fit_together():
    proto = parsed(LOOP)
    del proto.graph.node[0].attribute[0].g.input[2]
    proto.graph.node[0].attribute[0].g.node[1].input[0] = "x"
    feeds = {"m": np.array(3), "c": np.array(True), "x": np.ones(2, np.float32)}
    with pytest.raises(ModelError, match=r"#0 \(Loop\): the body's inputs and outputs don't match"):
        run(proto, feeds)
    model = parsed("""15: g (bool[N] c, float x) => (float y) {
        y = If (c) <then_branch = t () => (float a) { a = Identity (x) },
                    else_branch = e () => (float b) { b = Identity (x) }> }""")
    with pytest.raises(ModelError, match="a single element as condition"):
        run(model, {"c": np.array([True, False]), "x": 1.0})
