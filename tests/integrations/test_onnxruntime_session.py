"""Our operators within ONNX Runtime's sessions: its memory, threads and environment; the library's life and age."""

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from tests.models.onnx_models import parsed

import halfulp as hu

ort: Any = pytest.importorskip("onnxruntime")
plugin: Any = pytest.importorskip("halfulp.integrations.onnxruntime")


def model(body: str, operands: str = "float[N] x, float[N] y", result: str = "float[M] z") -> ModelProto:
    return parsed(f"16: g ({operands}) => ({result}) {{ {body} }}")


POW = model("z = Pow(x, y)")


def operands(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    return {
        "x": rng.uniform(0.01, 10, size).astype(np.float32),
        "y": rng.uniform(-4, 4, size).astype(np.float32),
    }


def test_one_set_of_options_for_many_sessions():
    options = ort.SessionOptions()
    plugin.register(options)
    plugin.register(options)
    feeds = operands(100)
    first, second = plugin.session(POW, options), plugin.session(model("z = PRelu(x, y)"), options)
    np.testing.assert_array_equal(first.run(None, feeds)[0], hu.pow(feeds["x"], feeds["y"]))
    np.testing.assert_array_equal(second.run(None, feeds)[0], hu.prelu(feeds["x"], feeds["y"]))


def test_a_patched_model_needs_no_session_of_ours():
    """A program in another language does this: register the library, load the model."""
    options = ort.SessionOptions()
    options.register_custom_ops_library(plugin.library())
    session = ort.InferenceSession(plugin.patch(POW).SerializeToString(), options)
    feeds = operands(100)
    np.testing.assert_array_equal(session.run(None, feeds)[0], hu.pow(feeds["x"], feeds["y"]))


def test_patching_leaves_the_given_model_and_a_patched_one_as_they_are():
    before = POW.SerializeToString(deterministic=True)
    patched = plugin.patch(POW)
    assert POW.SerializeToString(deterministic=True) == before
    assert plugin.patch(patched) == patched


THREADS = """
import os, sys
import numpy as np, onnxruntime as ort
from onnx import parser
import halfulp as hu
from halfulp.integrations import onnxruntime as plugin

text = '<ir_version: 8, opset_import: ["": 16]> g (float[N] x, float[N] y) => (float[N] z) { z = Pow(x, y) }'
options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
session = plugin.session(parser.parse_model(text), options)
x = np.linspace(0.1, 9, 1_000_000, dtype=np.float32)
got = session.run(None, {"x": x, "y": x})[0]
print(len(os.listdir("/proc/self/task")) - before, got.tobytes() == hu.pow(x, x).tobytes())
"""


@pytest.mark.parametrize("threads", [1, 3])
def test_the_sessions_own_threads(threads, python):
    """The session's number of threads counts, whatever HALFULP_NUM_THREADS says, and the bits are the same."""
    # In a process of its own: threads of other tests' sessions may end at any time.
    assert python(THREADS, threads).split() == [str(threads - 1), "True"]


def test_many_threads_of_callers():
    session = plugin.session(model("a = Pow(x, y) z = PRelu(a, y)"))
    sizes = [1, 1000, 20_000, 100_000] * 8

    def call(size: int) -> bool:
        feeds = operands(size)
        expected = hu.prelu(hu.pow(feeds["x"], feeds["y"]), feeds["y"])
        return all(np.array_equal(session.run(None, feeds)[0], expected) for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, sizes))


FLUSHED = """
import numpy as np, onnxruntime as ort
import halfulp as hu
from onnx import parser
from halfulp.integrations import onnxruntime as plugin

x, y = np.float32([2, 1e-40, 2**-74] * 40_000), np.float32([-140, 1, 2] * 40_000)
expected = hu.pow(x, y).view("u4")
assert (expected != 0).all()
text = '<ir_version: 8, opset_import: ["": 16]> g (float[N] x, float[N] y) => (float[N] z) { z = Pow(x, y) }'
options = ort.SessionOptions()
options.add_session_config_entry("session.set_denormal_as_zero", "1")
session = plugin.session(parser.parse_model(text), options)
print((x[1] * np.float32(1)).tobytes() == bytes(4))  # this thread's, too
print(np.array_equal(session.run(None, {"x": x, "y": y})[0].view("u4"), expected))
"""


def test_subnormals_where_the_session_flushes_them(python):
    assert python(FLUSHED).split() == ["True", "True"]


@pytest.mark.parametrize("operator", ["Pow", "Add"])
def test_functions_that_double_are_refused(operator, tmp_path):
    texts = [f"f0 (a) => (b) {{ b = {operator}(a, a) }}"]
    texts += [f"f{n} (a) => (c) {{ b = l.f{n - 1}(a)  c = l.f{n - 1}(b) }}" for n in range(1, 33)]
    functions = "".join(f'<domain: "l", opset_import: ["": 16, "l": 1]> {text}' for text in texts)
    graph = "g (float[N] x) => (float[N] z) { z = l.f32(x) }"
    doubling = parser.parse_model(f'<ir_version: 8, opset_import: ["": 16, "l": 1]> {graph} {functions}')
    onnx.save(doubling, tmp_path / "m.onnx")
    assert plugin._has_functions(doubling.SerializeToString())
    tag = b"\xca\x01"  # of functions, within fields of 8 and 4 bytes, a number and a text
    assert not plugin._has_functions(b"\x09" + 4 * tag + b"\x0d" + 2 * tag + b"\x12\x02" + tag + b"\x08\x08")
    for source in (doubling, tmp_path / "m.onnx"):
        with pytest.raises(hu.ModelError, match=r"(?s)expand to too many nodes.*got: 12884901887"):
            plugin.session(source)


PEAK = """
import sys, numpy as np, onnxruntime as ort
from onnx import parser
from halfulp.integrations import onnxruntime as plugin

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024

rows = 1 << 22  # 16 MiB of float32
body = " ".join(f"t{i + 1} = Pow(t{i}, e) " for i in range(8))
text = f'<ir_version: 8, opset_import: ["": 16]> g (float[{sys.argv[1]}] x) => (float[{sys.argv[1]}] t8)'
text += " { e = Constant<value_floats = [1.01]>() t0 = Neg(x) " + body + "}"
options = ort.SessionOptions()
options.enable_cpu_mem_arena = False  # which would hide what is asked for
session = plugin.session(parser.parse_model(text), options)
x = -np.ones(rows, np.float32)
session.run(None, {"x": x[:1 << 16] if sys.argv[1] == "N" else x})
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
result = session.run(None, {"x": x})
print((status("VmHWM") - before) / x.nbytes)
"""


def test_no_tensor_is_copied(python):
    """Eight powers in a row take the memory of two tensors, the result's included; the shape may be symbolic."""
    for dim in (str(1 << 22), "N"):
        assert float(python(PEAK, dim)) < 2.2, dim


def test_arrays_of_small_types_are_not_copied_on_their_way_out():
    operands = "bfloat16[N] x, bfloat16[N] y, bool[N] b"
    session = plugin.session(model("z = PRelu(x, y)  c = Not(b)", operands, "bfloat16[N] z, bool[N] c"))
    x = np.array([-1.5, 2], ml_dtypes.bfloat16)
    got, negated = plugin.run(session, {"x": x, "y": x, "b": [True, False]}).values()
    assert negated.tolist() == [False, True]
    del session
    gc.collect()
    np.testing.assert_array_equal(got, hu.prelu(x, x))
    assert got.base is not None


def test_arrays_of_small_types_keep_their_rank():
    source = model("z = PRelu(x, x)", "bfloat16 x", "bfloat16 z")
    for value in (*source.graph.input, *source.graph.output):
        value.type.tensor_type.ClearField("shape")
    session = plugin.session(source)
    for x in (
        np.array(-3, ml_dtypes.bfloat16),
        ml_dtypes.bfloat16(-3),
        np.ones((2, 3), ml_dtypes.bfloat16).T,
    ):
        got = plugin.run(session, {"x": x})["z"]
        assert got.shape == x.shape
        np.testing.assert_array_equal(got, hu.prelu(np.asarray(x), np.asarray(x)))


LIFE = """
import gc, numpy as np, onnxruntime as ort
from onnx import parser
from halfulp.integrations import onnxruntime as plugin

text = '<ir_version: 8, opset_import: ["": 16]> g (float[N] x) => (float[N] z) { z = Pow(x, x) }'
model = parser.parse_model(text)
models = model, plugin.patch(model)

def memory():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

sizes = []
for i in range(120):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = plugin.session(models[i % 2], options)
    assert session.run(None, {"x": np.float32([3])})[0] == 27
    del session, options
    gc.collect()
    sizes.append(memory())
print(sizes[-1] - sizes[60])
"""


def test_sessions_that_come_and_go_leak_nothing(python):
    assert int(python(LIFE)) < 1024  # KiB, for 60 sessions


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("RegisterCustomOps", "halfulp needs ONNX Runtime 1.20 or later; this is 1.19.2"),
        (
            "CreateEpFactories",
            "halfulp's execution provider needs ONNX Runtime 1.24 or later; this is 1.19.2",
        ),
    ],
)
def test_an_onnxruntime_that_is_too_old_is_refused_in_words(function, words):
    """The library is handed the tables that version 1.19 would hand it."""
    messages: list[str] = []
    create_status = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda _, message: messages.append(message.decode()) or 1
    )
    api = (ctypes.c_void_p * 1)(ctypes.cast(create_status, ctypes.c_void_p))
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(
        lambda version: ctypes.addressof(api) if version <= 19 else None
    )
    text = ctypes.create_string_buffer(b"1.19.2")
    version = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(text))
    base = (ctypes.c_void_p * 2)(*(ctypes.cast(f, ctypes.c_void_p) for f in (get_api, version)))
    call = getattr(ctypes.CDLL(plugin.library()), function)
    call.restype = ctypes.c_void_p
    of_provider = function == "CreateEpFactories"
    assert call(*([b"halfulp", base, None, None, ctypes.c_size_t(1), None] if of_provider else [None, base]))
    assert messages == [words]


def test_importing_the_integration_loads_no_onnxruntime(python):
    program = "import sys, halfulp.integrations.onnxruntime; print('onnxruntime' in sys.modules)"
    assert python(program).split() == ["False"]


def test_errors_of_onnxruntime_in_words(monkeypatch):
    refusing = SimpleNamespace(
        get_session_config_entry=ort.SessionOptions().get_session_config_entry,
        register_custom_ops_library=Mock(side_effect=RuntimeError("[ONNXRuntimeError] : 1 : FAIL : too old")),
    )
    with pytest.raises(hu.UnsupportedError, match=r"^too old$"):
        plugin.register(refusing)
    for error, words in ((ImportError("lost"), "lost"), (ImportError(), "it was built for another NumPy")):
        monkeypatch.setattr(plugin, "import_module", Mock(side_effect=error))
        with pytest.raises(hu.UnsupportedError, match=f"can't be imported: {words}\n  expected: pip"):
            plugin.installed()


def test_values_that_are_no_arrays_or_stay_as_they_are():
    x = np.float32([1, 2])
    fed: list[Any] = []
    output = SimpleNamespace(name="z", type="tensor(float)")
    plugin.run(
        SimpleNamespace(get_outputs=lambda: [output], run=lambda _, inputs: fed.append(inputs) or [x]),
        {"x": x},
    )
    assert fed[0]["x"] is x
    cast = plugin.session(model("z = Cast <to = 16> (x)", "float[N] x", "bfloat16[N] z"))
    assert plugin.run(cast, {"x": x})["z"].tolist() == [1, 2]
    back = plugin.session(model("z = Cast <to = 1> (x)", "bfloat16[N] x"))
    assert plugin.run(back, {"x": x.astype(ml_dtypes.bfloat16)})["z"].tolist() == [1, 2]
    joined = plugin.session(model("z = ConcatFromSequence <axis = 0> (x)", "seq(float[N]) x"))
    assert plugin.run(joined, {"x": [x, x]})["z"].tolist() == [1, 2, 1, 2]
