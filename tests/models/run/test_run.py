"""Running models: which version of an operator runs, wherever it stands, and what a run refuses."""

import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed, run, run_with_report, single

import halfulp as hu
from halfulp.errors import ModelError
from halfulp.models.onnx import load
from halfulp.models.run.api import Evaluation

NEWEST = onnx.defs.onnx_opset_version()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_foreign_operators_beside_ours():
    model = parsed("15: g (float[N] x) => (float[N] z) { y = Abs (x) p = Pow (y, y) z = Sqrt (p) }")
    x = np.array([-2, 3], np.float32)
    out, report = run_with_report(model, {"x": x})
    assert same_bits(out["z"], np.sqrt(hu.pow(abs(x), abs(x))))
    assert [(row.label, row.engine) for row in report.nodes] == [
        ("#0 (Abs)", "onnx reference"),
        ("#1 (Pow)", "halfulp"),
        ("#2 (Sqrt)", "onnx reference"),
    ]
    assert report.share == report.nodes[1].seconds / report.seconds < 1
    assert report.nodes[1].inputs == ("float32[2]", "float32[2]")


def test_a_function_with_the_body_of_prelu():
    body = hu.op("onnx.PRelu-16").function_body()
    model = parsed("""<ir_version: 10, opset_import: ["": 16, "own": 1]>
        g (float16[N] x, float16[1] s) => (float16[N] y) { y = own.PRelu (x, s) }""")
    body.domain = "own"
    model.functions.append(body)
    x = np.array([-1.1, -0.0, 0, np.nan, 5, -np.inf], np.float16)
    s = np.array([0.3], np.float16)
    out, report = run_with_report(model, {"x": x, "s": s})
    assert same_bits(out["y"], hu.prelu(x, s))
    assert report.nodes[-1].engine == "halfulp"


@pytest.mark.parametrize(("node", "since"), [("Gelu(x)", 20), ("RMSNormalization(x, x)", 23)])
def test_an_operator_before_its_opset(node, since):
    """A tool wrote it; ONNX Runtime refuses it as well."""
    text = f"g (float[4] x) => (float[4] y) {{ e = {node}  y = Pow(e, e) }}"
    x = {"x": np.array([1, 2, 3, 0.5], np.float32)}
    old, new = (run(load(parsed(f"{n}: {text}"), keep_unknown=True), x)["y"] for n in (17, since))
    assert same_bits(old, new)


def test_an_output_is_nobody_elses_memory():
    model = load(
        parsed("""15:
            g (float[N] x) => (float[N] a, float[N] b, float[1] w, float c, float[1] r) <float[1] w = {1}> {
            a = Identity (x)  b = Identity (x)
            c = Constant <value = float {1}> ()  one = Constant <value_ints = [1]> ()
            r = Reshape (c, one)
        }""")
    )
    x = np.zeros(3, np.float32)
    for _ in range(2):
        out = run(model, {"x": x})
        np.testing.assert_array_equal(x, 0)
        assert [value.ravel()[0] for value in out.values()] == [0, 0, 1, 1, 1]
        for value in out.values():
            value += 1
        np.testing.assert_array_equal(out["a"], 1)


@pytest.mark.parametrize(
    ("kind", "last", "most"),
    [
        pytest.param("float32", "Pow", 40, id="node by node, two values at a time"),
        pytest.param("float16", "Abs", 90, id="in ONNX Runtime, which looks for lost results in another run"),
    ],
)
def test_values_are_dropped_after_their_last_reader(kind, last, most, python):
    """A chain of 20 powers of 8 MiB."""
    if last == "Abs":
        pytest.importorskip("onnxruntime")
    script = f"""
import numpy as np
import onnx
from onnx import helper
import halfulp as hu
nodes = [helper.make_node("Pow", [f"v{{i}}", "e"], [f"v{{i + 1}}"]) for i in range(20)]
nodes.append(helper.make_node("{last}", ["v20", "e"][: {1 + (last == "Pow")}], ["v21"]))
x = np.ones((8 << 20) // np.{kind}().itemsize, np.{kind})
info = lambda name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None])
graph = helper.make_graph(nodes, "g", [info("v0"), info("e")], [info("v21")])
model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
small = x[:1].copy()
hu.run(model, {{"v0": small, "e": small}})
def peak():  # ru_maxrss would start at the peak of pytest's process
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
hu.run(model, {{"v0": x, "e": small}})
print((peak() - before) >> 10)
"""
    assert int(python(script)) < most


def test_inputs_are_not_kept():
    x = np.zeros(3, np.float32)
    model = single("Pow", 15, {"x": ("float32", [3]), "y": ("float32", [3])})
    run(model, {"x": x, "y": x})
    gone = weakref.ref(x)
    del x
    assert gone() is None


def test_a_sequence_is_fed_as_a_list_and_a_loop_counts_its_calls(monkeypatch):
    made, make = [], Evaluation._operator
    monkeypatch.setattr(Evaluation, "_operator", lambda *given: made.append(given[1].type) or make(*given))
    model = parsed("""15: g (seq(float[N]) x, int64 n) => (float[N] y) {
        v = SequenceAt (x, n)
        y = Loop (n, , v) <body = b (int64 i, bool go, float[N] v0) => (bool on, float[N] w) {
            on = Identity (go)  w = Pow (v0, v0) }> }""")
    out, report = run_with_report(model, {"x": [np.ones(2, np.float32)] * 2 + [np.float32([2, 1])], "n": 2})
    assert out["y"].tolist() == [256, 1]
    calls = {row.operator.partition("-")[0]: row.calls for row in report.nodes}
    assert made == ["SequenceAt", "Identity"]
    assert calls == {"onnx.SequenceAt": 1, "onnx.Identity": 2, "onnx.Pow": 2, "onnx.Loop": 1}
    with pytest.raises(ModelError, match=r"(?s)input 'x' contradicts .*\n  got: float32\[2\]"):
        run(model, {"x": np.ones(2, np.float32), "n": 1})


# --- what contradicts the model's declaration ---------------------------------------------------

POW = single("Pow", 15, {"x": ("float32", ["N", 2]), "y": ("float32", ["N", 1])})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": [[1, 2], [3]], "y": [[1]]}, "input 'x': not an array: setting an array"),
        (
            {"x": np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "y": [[1]]},
            r"input 'x': a masked array: its mask would be lost; pass x\.filled",
        ),
        ({"x": None, "y": [[1]]}, r"(?s)input 'x' contradicts .*\n  got: absent"),
    ],
)
def test_inputs_that_contradict_the_model(inputs, words):
    with pytest.raises(ModelError, match=words):
        run(POW, inputs)


def test_python_numbers_take_the_declared_type():
    out = run(POW, {"x": [[2, 3]], "y": [[0.5]]})["out"]
    assert same_bits(out, hu.pow(np.array([[2, 3]], np.float32), np.array([[0.5]], np.float32)))
    whole = single("Pow", 15, {"x": ("int32", []), "y": ("int8", [])}, ("int32", []))
    assert run(whole, {"x": 3, "y": 4})["out"] == 81
    with pytest.raises(ModelError, match="numbers fed as input 'y' don't fit"):
        run(whole, {"x": 3, "y": 400})
    with pytest.raises(ModelError, match="numbers fed as input 'x' don't fit"):
        run(whole, {"x": 3.5, "y": 4})


@pytest.mark.parametrize(
    ("kind", "number"),
    [("int64", 2**63), ("int64", 2.0**63), ("uint64", -1), ("uint64", 2.0**64), ("uint8", -1), ("bool", 2)],
)
def test_python_numbers_that_only_seem_to_fit(kind, number):
    """Converted, they are other numbers; NumPy's comparison converts one more time, and finds them equal."""
    copy = single("Identity", 16, {"x": (kind, [])}, (kind, []))
    with pytest.raises(ModelError, match="numbers fed as input 'x' don't fit"):
        run(copy, {"x": number})


def test_a_python_number_beyond_a_float_type_is_infinite():
    copy = single("Identity", 16, {"x": ("float16", [])}, ("float16", []))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(copy, {"x": 70000})["out"] == np.inf


@pytest.mark.parametrize(("kind", "fed"), [("float32", [1j]), ("object", [1.5]), ("float32", ["1"])])
def test_numbers_of_another_kind_are_not_converted(kind, fed):
    copy = single("Identity", 16, {"x": (kind, ["N"])}, (kind, ["N"]))
    with pytest.raises(ModelError, match=r"input 'x' (contradicts|is fed Python objects)"):
        run(copy, {"x": fed})


@pytest.mark.parametrize("fed", [[None], [2**64], [object()]])
def test_objects_are_no_numbers(fed):
    copy = single("Identity", 16, {"x": ("int64", ["N"])}, ("int64", ["N"]))
    with pytest.raises(ModelError, match="input 'x' is fed Python objects"):
        run(copy, {"x": fed})


def test_a_kernel_that_onnx_runtime_lacks_comes_with_the_command_that_helps(tmp_path):
    pytest.importorskip("onnxruntime")
    file, converted = tmp_path / "net.onnx", tmp_path / "converted.onnx"
    onnx.save(parsed("15: g (bfloat16[2] x) => (bfloat16[2] y) { y = Tanh (x) }"), file)
    x = np.ones(2, ml_dtypes.bfloat16)
    with pytest.raises(
        hu.UnsupportedError, match=r"bfloat16 has few kernels: halfulp convert .* --float32 all"
    ):
        hu.run(file, {"x": x}, engine="onnxruntime")
    hu.convert(file, converted, float32="all")
    assert hu.run(converted, {"x": x}, engine="onnxruntime")["y"].dtype == x.dtype
