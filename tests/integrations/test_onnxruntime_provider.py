"""The execution provider: models as they are, with the bits of hu.pow and hu.prelu, in any session."""

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from tests.house.builds import tool
from tests.integrations.test_onnxruntime import (
    OTHERS,
    RULES,
    assert_same_bits,
    node_model,
    opened,
    takes_providers,
)
from tests.models.onnx_models import external, parsed

import halfulp as hu
from halfulp.errors import UnsupportedError
from halfulp.integrations import onnxruntime as plugin
from halfulp.operators import powers_of

ort: Any = pytest.importorskip("onnxruntime")

POW = """<ir_version: 8, opset_import: ["": 15]>
    g (float[N] x, float[N] y) => (float[N] z) { named = Pow(x, y)  z = Abs(named) }"""
X = np.random.default_rng(7).uniform(0.01, 10, 100_000).astype(np.float32)
FEEDS = {"x": X, "y": X[::-1].copy()}
POWERS = hu.pow(FEEDS["x"], FEEDS["y"])


def optimized(model: ModelProto, path: Path, **choices: Any) -> list[str]:
    """Return the operators that are left."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(path)
    opened(model, options, **choices)
    return [node.op_type for node in onnx.load(path).graph.node]


@takes_providers
def test_a_broadcast_of_two_is_refused():
    x = np.zeros(3, np.float32)
    model = node_model(RULES[0], x, x, broadcast=2)
    with pytest.raises(
        Exception, match=r"broadcast has a value .* \(onnx.Pow-1.C5\)\n  expected: 0 or 1\n  got: 2"
    ):
        opened(model)


@takes_providers
def test_by_name_and_by_devices(monkeypatch):
    model = parser.parse_model(POW).SerializeToString()
    name = plugin.provider(ort.SessionOptions())
    options = ort.SessionOptions()
    if not ort.__version__.startswith("1.24."):
        by_name = ort.InferenceSession(model, providers=[plugin.provider(), "CPUExecutionProvider"])
        assert by_name.get_providers() == [name, "CPUExecutionProvider"]
        assert_same_bits(by_name.run(None, FEEDS)[0], POWERS)
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name]
    options.add_provider_for_devices(devices, {"operators": "Pow"})
    session = ort.InferenceSession(model, options)
    assert session.get_providers() == [name, "CPUExecutionProvider"]
    assert_same_bits(session.run(None, FEEDS)[0], POWERS)
    monkeypatch.setattr(ort, "__version__", "1.24.4")
    with pytest.raises(UnsupportedError, match="would ignore the provider's name"):
        plugin.provider()


@takes_providers
def test_several_sessions_and_threads():
    sessions = [opened(parser.parse_model(POW)) for _ in range(3)]
    with ThreadPoolExecutor(4) as callers:
        for (got,) in callers.map(lambda i: sessions[i % 3].run(None, FEEDS), range(24)):
            assert_same_bits(got, POWERS)


@takes_providers
def test_bound_memory_is_read_and_written_in_place():
    session = opened(parser.parse_model(POW.replace("named = Pow(x, y)  z = Abs(named)", "z = Pow(x, y)")))
    binding = session.io_binding()
    for name, value in FEEDS.items():
        binding.bind_cpu_input(name, value)
    result = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(X))
    binding.bind_ortvalue_output("z", result)
    session.run_with_iobinding(binding)
    assert_same_bits(result.numpy(), POWERS)


@takes_providers
def test_profiles_name_the_nodes_and_nothing_is_copied(tmp_path):
    model = parser.parse_model(POW)
    model.graph.node[0].name = "the power"
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = opened(model, options)
    session.run(None, FEEDS)
    events = json.loads(Path(session.end_profiling()).read_text())
    ran = {event["name"]: event["args"] for event in events if event.get("cat") == "Node"}
    assert ran["the power_kernel_time"]["provider"] == "HalfulpExecutionProvider"
    assert {told["op_name"] for told in ran.values() if "op_name" in told} == {"Pow", "Abs"}


@takes_providers
def test_choices(tmp_path):
    folded = parsed("""17:
        g (float[3] x) => (float[3] z) <float[3] k = {1.1, 2.3, 3.7}, float[3] e = {1.7, 2.9, 3.3}>
        { p = Pow(k, e)  z = Add(x, p) }""")
    assert optimized(folded, tmp_path / "o.onnx") == ["Add"]
    assert optimized(folded, tmp_path / "o.onnx", fusions="exact") == ["Pow", "Add"]
    options = ort.SessionOptions()
    options.add_session_config_entry("optimization.disable_specified_optimizers", "GeluFusion")
    plugin.provider(options, fusions="exact")
    entry = options.get_session_config_entry("optimization.disable_specified_optimizers")
    assert entry == "ConstantFolding;GeluFusion;LayerNormFusionL1"
    plain = ort.InferenceSession(
        parser.parse_model(POW).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    without = opened(parser.parse_model(POW), operators=["PRelu"])
    assert_same_bits(without.run(None, FEEDS)[0], plain.run(None, FEEDS)[0])
    for choice in ({"operators": ["Sqrt"]}, {"operators": []}, {"fusions": "all"}):
        with pytest.raises(ValueError, match="operators are Pow and PRelu, fusions keep or exact"):
            plugin.provider(ort.SessionOptions(), **choice)
    for choice in ({"fusions": "exact"}, {"operators": ["Pow"]}):
        with pytest.raises(ValueError, match="needs session_options"):
            plugin.provider(**choice)
    wrong = ort.SessionOptions()
    devices = [
        device for device in ort.get_ep_devices() if device.ep_name == plugin.provider(ort.SessionOptions())
    ]
    wrong.add_provider_for_devices(devices, {"operators": "Sqrt"})
    with pytest.raises(Exception, match="option operators is Pow, PRelu or Pow,PRelu; got Sqrt"):
        ort.InferenceSession(parser.parse_model(POW).SerializeToString(), wrong, enable_fallback=0)


@takes_providers
def test_a_path_with_two_gib_of_external_data(tmp_path):
    """The file has holes, and ONNX Runtime maps it, so that neither disk nor memory holds that much."""
    count = (1 << 31) // 4 + 2
    with (tmp_path / "w").open("wb") as file:
        file.truncate(4 * count - 8)
        file.seek(0, 2)
        file.write(np.float32([2.5, 0.3]).tobytes())
    model = parsed("15: g (float[N] x, int64[N] i) => (float[N] z) { e = Gather(w, i) z = Pow(x, e) }")
    model.graph.initializer.add(name="w", data_type=1, dims=[count])
    onnx.save(external(model, "w"), tmp_path / "m.onnx")
    session = plugin.session(tmp_path / "m.onnx")
    x = np.float32([3, 7])
    got = session.run(None, {"x": x, "i": np.array([count - 2, count - 1])})[0]
    assert_same_bits(got, hu.pow(x, np.float32([2.5, 0.3])))


def ran(model: ModelProto, path: Path, **asked: Any) -> tuple[Any, set[str], list[str]]:
    """Return a session, and the domains and operators of the nodes that it has."""
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(path), 4
    session = plugin.session(model, options, **asked)
    nodes = onnx.load(path).graph.node
    return session, {node.domain for node in nodes}, [node.op_type for node in nodes]


@takes_providers
@pytest.mark.parametrize("kind", ["path", "bytes", "message"])
def test_a_session_runs_the_model_as_it_is(kind, tmp_path):
    model = parser.parse_model(POW)
    onnx.save(model, tmp_path / "m.onnx")
    data = model.SerializeToString()
    source = {"path": tmp_path / "m.onnx", "bytes": data, "message": model}[kind]
    for providers in (None, ["CPUExecutionProvider"]):
        session = plugin.session(source, providers=providers)
        assert session.get_providers() == ["HalfulpExecutionProvider", "CPUExecutionProvider"]
        assert_same_bits(session.run(None, FEEDS)[0], POWERS)


@takes_providers
def test_a_session_patches_where_the_provider_is_not_for(tmp_path, monkeypatch):
    model, patched = parser.parse_model(POW), ["Pow_float32", "Abs"]
    session, _, operators = ran(model, tmp_path / "o.onnx", providers=OTHERS)
    assert operators == patched
    assert_same_bits(session.run(None, FEEDS)[0], POWERS)
    assert "HalfulpExecutionProvider" not in plugin.session(plugin.patch(model)).get_providers()
    monkeypatch.setattr(ort, "__version__", "1.23.2")
    session, _, operators = ran(model, tmp_path / "o.onnx")
    assert operators == patched
    assert_same_bits(session.run(None, FEEDS)[0], POWERS)


FOLDED = """<ir_version: 8, opset_import: ["": 17, "own": 1]>
    g (float[3] x, bool b) => (float[3] z) <float[3] k = {1.1, 2.3, 3.7}> { BODY }
    <domain: "own", opset_import: ["": 17]> power (x) => (y) { y = Pow(x, x) }"""


@takes_providers
@pytest.mark.parametrize(
    ("body", "folds"),
    [
        ("p = Abs(k)  q = Pow(x, p)  z = Add(q, q)", True),
        ("p = Abs(k)  q = Pow(x, p)  z = Add(q, p)", None),
        ("p = Abs(k)  q = Pow(p, p)  r = Abs(k)  z = Add(q, r)", False),
        ("p = Abs(k)  z = If(b) <then_branch = BRANCH { a = Pow(k, p) }, else_branch = BRANCH { a = Neg(p) }>", False),
        ("p = Abs(k)  q = own.power(p)  z = Add(q, p)", False),
        ("s = Shape(x)  p = Cast<to = 1>(s)  q = Pow(p, k)  r = Abs(k)  z = Add(q, r)", False),
    ],
)  # fmt: skip
def test_only_powers_of_constants_keep_a_session_from_folding(body, folds, tmp_path):
    model = parser.parse_model(FOLDED.replace("BODY", body).replace("BRANCH", "t () => (a)"))
    asked = {"disabled_optimizers": ["ConstantFolding"]} if folds is None else {}
    session, domains, operators = ran(model, tmp_path / "o.onnx", **asked)
    assert domains == {""}
    assert ("Abs" not in operators) == bool(folds)
    feeds = {"x": np.float32([1.1, 2.3, 3.7]), "b": np.array(True)}
    feeds = {value.name: feeds[value.name] for value in session.get_inputs()}
    assert_same_bits(session.run(None, feeds)[0], hu.run(model, feeds, engine="halfulp")["z"])


def test_a_power_of_constants_is_found_in_bytes():
    """Without a parser: whatever the bytes are, there is an answer or a ValueError."""
    data = parser.parse_model(FOLDED.replace("BODY", "p = Abs(k)  z = Pow(x, p)")).SerializeToString()
    assert powers_of(data) == (False, False)
    assert powers_of(data.replace(b"Abs", b"Pow")) == (True, False)
    norm = parser.parse_model(FOLDED.replace("BODY", "p = Sqrt(k)  z = Pow(x, p)"))
    assert powers_of(norm.SerializeToString()) == (False, True)
    assert powers_of(plugin.patch(parser.parse_model(POW)).SerializeToString()) is None
    left_out = parser.parse_model(
        FOLDED.replace("BODY", 'v, "" = own.Any(x)  p = Clip(k, "", k)  z = Pow(k, p)')
    )
    assert powers_of(left_out.SerializeToString()) == (True, False)
    inner = "t () => (a) <float[3] x = {1.0, 2.0, 3.0}> { a = Pow(k, x) }"  # this x is a constant
    outer = """<domain: "own", opset_import: ["": 17, "own": 1]> outer (x) => (y) { y = own.power(x) }"""
    by_function = parser.parse_model(FOLDED.replace("BODY", "z = own.outer(x)") + outer)
    assert powers_of(by_function.SerializeToString()) == (True, False)
    hidden = parser.parse_model(FOLDED.replace("BODY", f"z = If(b) <then_branch = {inner}>"))
    assert powers_of(hidden.SerializeToString()) == (True, False)
    for size in range(len(data)):
        with contextlib.suppress(ValueError):
            powers_of(data[:size])
    for broken in (b"\xff" * 20, b"\x0b", b"\x3a\x05a"):
        with pytest.raises(ValueError, match="protobuf message"):
            powers_of(broken)
    graph = b""
    for _ in range(100):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # a graph in an attribute, in a node, in a graph
            graph = tag + bytes([len(graph) % 128 + 128, len(graph) // 128]) + graph
    with pytest.raises(ValueError, match="graphs within graphs are too deep"):
        powers_of(b"\x3a" + bytes([len(graph) % 128 + 128, len(graph) // 128]) + graph)


@takes_providers
def test_a_clause_that_known_shapes_break_is_an_error_at_the_start():
    text = """<ir_version: 8, opset_import: ["": 16]>
        g (float[2, 3] x, float[5] s) => (float[2, 3] z) { a = Abs(x)  z = PRelu(a, s) }"""
    opened(parser.parse_model(text.replace("[2, 3]", "[2, N]")))
    said = r"slope must be uni.* \(onnx.PRelu-16.C2\)\n  X: float32\[2, 3\] .*\n  run: halfulp repair in.onnx"
    with pytest.raises(Exception, match=said):
        opened(parser.parse_model(text))


@takes_providers
def test_one_set_of_options_takes_the_provider_once(tmp_path):
    model = parser.parse_model(POW)
    options = ort.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 4, str(tmp_path / "o.onnx")
    for operators in (["PRelu"], ["PRelu"], ["Pow", "PRelu"]):
        plugin.provider(options, operators=operators)
    start = ort.InferenceSession.__init__
    for session in (plugin.session(model, options), plugin.session(model, options)):
        assert session.get_providers()[0] == "HalfulpExecutionProvider"
        assert [node.op_type for node in onnx.load(tmp_path / "o.onnx").graph.node] == ["Pow", "Abs"]
        assert_same_bits(session.run(None, FEEDS)[0], POWERS)
    assert ort.InferenceSession.__init__ is start


@takes_providers
def test_it_unregisters_and_registers_again():
    program = (
        "import sys, onnxruntime as ort; from halfulp.integrations import onnxruntime as hort\n"
        "model = sys.stdin.buffer.read()\n"
        "for _ in range(3):\n"
        "    options = ort.SessionOptions()\n"
        "    hort.provider(options)\n"
        "    session = ort.InferenceSession(model, options)\n"
        "    del session, options\n"
        "    ort.unregister_execution_provider_library('halfulp')\n"
        "    assert 'HalfulpExecutionProvider' not in [d.ep_name for d in ort.get_ep_devices()]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=parser.parse_model(POW).SerializeToString(),
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()


@takes_providers
@pytest.mark.parametrize("compiler", [["gcc", "-std=c11"], ["g++", "-std=c++11", "-x", "c++"]])
def test_programs_in_c_and_cpp(compiler, tmp_path):
    model = POW.replace("named = Pow(x, y)  z = Abs(named)", "z = Pow(x, y)")
    onnx.save(parser.parse_model(model), tmp_path / "m.onnx")
    library = next(Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*"), None)
    if library is None:
        pytest.skip("this wheel of ONNX Runtime has no library for other programs")
    (tmp_path / "libonnxruntime.so.1").symlink_to(library)  # as the library calls itself
    name, *options = compiler
    source = Path(__file__).with_name("provider_in_c.c")
    linked = ["-x", "none", library, f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([tool(name), *options, "-Wall", source, *linked, "-o", tmp_path / "p"], check=True)
    ran = [tmp_path / "p", tmp_path / "m.onnx", plugin.library()]
    assert (
        subprocess.run(ran, capture_output=True, text=True, check=True).stdout
        == "0.00316227786 5.65685415 0.333333343\n"
    )


def test_an_onnxruntime_that_is_too_old_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(ort, "__version__", "1.23.2")
    with pytest.raises(UnsupportedError, match="takes no execution provider with kernels"):
        plugin.provider()


def test_a_misspelt_keyword_is_refused():
    for name, meant in (("keep_fusion", "keep_fusions"), ("provider_option", "provider_options")):
        with pytest.raises(TypeError, match=f"no argument '{name}'; did you mean {meant}"):
            plugin.session(parser.parse_model(POW), **{name: True})
