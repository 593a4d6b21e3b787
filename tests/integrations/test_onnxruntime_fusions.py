"""ONNX Runtime's fusions kept: what it fuses is its own, every other power and PReLU ours."""

import warnings
from copy import deepcopy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from tests.golden import models
from tests.models.onnx_models import parsed

import halfulp as hu
from halfulp.errors import HalfulpWarning
from halfulp.integrations.fusions import fused_by_onnxruntime

ort: Any = pytest.importorskip("onnxruntime")
plugin: Any = pytest.importorskip("halfulp.integrations.onnxruntime")

# A LayerNorm, a power of it, a constant power, a PReLU.
MODEL = parsed("""17:
    g (float[N, 8] x, float[8] slope) => (float[N, 8] normal, float[N, 8] z, float[8] c)
    <float two = {2.0}, float eps = {0.00001}, float third = {0.333},
     float[8] scale = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] bias = {9, 8, 7, 6, 5, 4, 3, 2}> {
        mean = ReduceMean <axes = [-1]> (x)
        centred = Sub (x, mean)
        square = Pow (centred, two)
        variance = ReduceMean <axes = [-1]> (square)
        shifted = Add (variance, eps)
        deviation = Sqrt (shifted)
        quotient = Div (centred, deviation)
        product = Mul (quotient, scale)
        normal = Add (product, bias)
        power = Pow (normal, third)
        z = PRelu (power, slope)
        c = Pow (scale, third)
    }""")
FEEDS = {
    "x": np.random.default_rng(3).standard_normal((5, 8), np.float32),
    "slope": np.linspace(-1, 1, 8, dtype=np.float32),
}


def kinds(model: onnx.ModelProto) -> list[str]:
    return sorted(node.op_type for node in model.graph.node)


def check(outputs: list[np.ndarray]) -> None:
    normal, z, c = outputs
    power = hu.pow(normal, np.float32(0.333))
    assert z.tobytes() == hu.prelu(power, FEEDS["slope"]).tobytes()
    assert c.tobytes() == hu.pow(np.arange(1, 9, dtype=np.float32), np.float32(0.333)).tobytes()


def test_what_is_fused_and_what_is_ours(monkeypatch):
    before = MODEL.SerializeToString(deterministic=True)
    assert "LayerNormalization" not in kinds(plugin.patch(MODEL))
    assert MODEL.SerializeToString(deterministic=True) == before
    check(plugin.session(MODEL, keep_fusions=True).run(None, FEEDS))
    told = r"the norms around #2 \(Pow\) run node by node.*keep_fusions=True"
    with pytest.warns(HalfulpWarning, match=told) as warned:
        check(plugin.session(MODEL).run(None, FEEDS))
    assert len(warned) == 1
    assert Path(warned[0].filename) == Path(__file__)
    for version in (ort.__version__, "1.23.2"):  # the latter runs a patched copy
        monkeypatch.setattr(ort, "__version__", version)
        check(list(hu.run(MODEL, FEEDS, engine="onnxruntime").values()))  # without a warning


@pytest.mark.parametrize("keep_fusions", [False, True])
def test_a_norm_is_one_operator_where_fusions_are_kept(keep_fusions, tmp_path):
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 24):
        pytest.skip("this onnxruntime takes no execution provider")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HalfulpWarning)
        check(plugin.session(MODEL, options, keep_fusions=keep_fusions).run(None, FEEDS))
    assert ("LayerNormalization" in kinds(onnx.load(tmp_path / "fused.onnx"))) == keep_fusions


@pytest.mark.skipif(not hasattr(ort, "get_ep_devices"), reason="no execution providers")
def test_models_without_a_power_to_fuse_are_not_read_again(monkeypatch):
    power = parsed("15: g (float[N] x) => (float[N] z) { p = Pow(x, x)  z = Abs(p) }").SerializeToString()
    by_provider = {"providers": [plugin.provider(), "CPUExecutionProvider"]}
    with monkeypatch.context() as patch:
        patch.setattr(plugin, "fused_by_onnxruntime", pytest.fail)
        plugin.session(power)
        plugin.session(onnx.ModelProto.FromString(power))
        ort.InferenceSession(power, **by_provider)
    monkeypatch.setattr(plugin, "_norms", pytest.fail)
    norm = MODEL.SerializeToString()
    ort.InferenceSession(norm, ort.SessionOptions(), ["CPUExecutionProvider"])
    ort.InferenceSession(norm, **by_provider, disabled_optimizers=["LayerNormFusionL1"])


def test_what_is_added_to_the_arguments_of_a_session():
    class Session:
        def __init__(self, path_or_bytes: Any, *rest: Any, **given: Any) -> None:
            self.given = given

    module = SimpleNamespace(InferenceSession=Session)
    plugin._guard(module)
    ours, theirs = "HalfulpExecutionProvider", "CPUExecutionProvider"
    with_provider = ort.SessionOptions()
    plugin.provider(with_provider)
    for options, providers, disabled, expected in (
        (None, None, None, {}),
        (ort.SessionOptions(), [theirs], ["A"], {"A"}),
        (with_provider, None, None, {"LayerNormFusionL1"}),
        (None, [ours, theirs], ["A"], {"A", "LayerNormFusionL1"}),
        (None, [(theirs, {}), (ours, {})], (), {"LayerNormFusionL1"}),
    ):
        given = {} if disabled is None else {"disabled_optimizers": disabled}
        session = module.InferenceSession(PARTS[0].SerializeToString(), options, providers, **given)
        assert {*session.given.get("disabled_optimizers", ())} == {*expected}


HALVES = parser.parse_model(
    """<ir_version: 8, opset_import: ["": 16, "local": 1]>
    g (float16[N, 8] x, float16[N, 8] y, bool b)
        => (float16[N, 8] normal, float16[N, 8] d, float16[N, 8] p, float16[N, 8] q, float16[N, 8] r, float16[N, 8] f,
            float16[N, 8] a, float16[N, 1] m)
    <float16[8] scale = {15360, 15360, 15360, 15360, 15872, 15872, 15872, 15872}> {
        one = Constant <value_float = 1.5> ()
        half = Cast <to = 10> (one)
        two = Constant <value = float16 {16384}> ()
        epsilon = Constant <value = float16 {5145}> ()
        mean = ReduceMean <axes = [-1]> (x)  c = Sub (x, mean)
        square = Pow (c, two)  v = ReduceMean <axes = [-1]> (square)  w = Add (v, epsilon)  sd = Sqrt (w)
        n = Div (c, sd)  h = Mul (n, scale)  normal = Add (h, scale)
        d = Sub (normal, y)
        p = Pow (d, two)  same = Pow (d, two)  z = Mul (p, same)  m = ReduceMean <axes = [-1]> (z)
        q = PRelu (d, half)
        r, a = If (b) <then_branch = t () => (o, i) { i = Mul (d, half)  o = Pow (i, two) },
                       else_branch = u () => (k, l) { k = Identity (d)  l = Identity (d) }>
        f = local.cube (d)
    }
    <domain: "local", opset_import: ["": 16]> cube (x) => (y) {
        one = Constant <value_float = 3.0>()  three = CastLike (one, x)  h = Neg (x)  y = Pow (h, three) }"""
)


@pytest.mark.filterwarnings("ignore:the norms around")
def test_halves_are_computed_of_their_own_operands():
    rng = np.random.default_rng(5)
    feeds = {name: rng.standard_normal((50, 8)).astype(np.float16) for name in "xy"} | {"b": np.array(True)}
    for session in (plugin.session(HALVES, keep_fusions=True), plugin.session(HALVES)):
        _, d, p, q, r, f, a, _ = session.run(None, feeds)
        two = np.float16(2)
        assert p.tobytes() == hu.pow(d, two).tobytes()
        assert q.tobytes() == hu.prelu(d, np.float16([1.5])).tobytes()
        assert r.tobytes() == hu.pow(a, two).tobytes()
        assert f.tobytes() == hu.pow(-d, np.float16(3)).tobytes()


def in_doubles(model: onnx.ModelProto) -> ReferenceEvaluator:
    model = deepcopy(model)
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(float), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for each in (a for node in model.graph.node for a in node.attribute if a.name == "to"):
        each.i = onnx.TensorProto.DOUBLE
    return ReferenceEvaluator(model)


PARTS = models(Path(__file__).with_name("golden") / "norms.txt")


@pytest.mark.filterwarnings("ignore:.*stays OpenVINO's own")  # it computes doubles in float32
@pytest.mark.parametrize("model", PARTS)
def test_a_part_that_only_resembles_a_norm_keeps_its_function(model):
    data = model.SerializeToString()
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    given = np.random.default_rng(4).standard_normal(dims) * np.arange(1, dims[-2] + 1)[:, None]
    x = given.astype(onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    with np.errstate(invalid="ignore"):
        (right,) = in_doubles(model).run(None, {"x": x.astype(float)})

    def is_right(z: np.ndarray) -> bool:
        atol = 0.01 * np.nanmax(np.abs(right), initial=0)
        return z.shape == right.shape and np.allclose(z, right, rtol=0.01, atol=atol, equal_nan=True)

    by_options = ort.SessionOptions()
    providers = [plugin.provider(), "CPUExecutionProvider"]
    plugin.provider(by_options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HalfulpWarning)
        for session in (
            ort.InferenceSession(data, providers=[(providers[0], {}), providers[1]]),
            ort.InferenceSession(path_or_bytes=data, sess_options=by_options),
            plugin.session(model, keep_fusions=True),
        ):
            assert is_right(session.run(None, {"x": x})[0])
    try:
        plain = {"onnxruntime": ort.InferenceSession(data).run(None, {"x": x})[0]}
    except ort.capi.onnxruntime_pybind11_state.InvalidArgument:  # its norm takes no such scale
        plain = {"onnxruntime": np.empty(0)}
    if find_spec("openvino"):
        ov, replace = import_module("openvino"), import_module("halfulp.integrations.openvino").replace
        network, hints = ov.Core().read_model(data), {"INFERENCE_PRECISION_HINT": "f32"}
        plain["openvino"] = ov.Core().compile_model(network, "CPU", hints)(x)[0]
        assert is_right(ov.Core().compile_model(replace(network), "CPU", hints)(x)[0])
    wrong = {finding.target for finding in hu.audit(model, plain).findings if "a fusion" in finding.text}
    assert wrong == {runtime for runtime, z in plain.items() if not is_right(z)}


@pytest.mark.parametrize("by_provider", [False, True])
def test_what_stays_fused(by_provider, tmp_path):
    """A norm, though its exponent is in another file; whatever it is, in sessions without the provider."""
    external: Any = {"save_as_external_data": True, "size_threshold": 0, "location": "w"}
    onnx.save(MODEL if by_provider else PARTS[0], tmp_path / "m.onnx", **external)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    if by_provider:
        plugin.provider(options)
    ort.InferenceSession(tmp_path / "m.onnx", options)
    assert "LayerNormalization" in kinds(onnx.load(tmp_path / "fused.onnx", load_external_data=False))


def test_dims_that_are_not_known_may_be_lost():
    model = deepcopy(PARTS[5])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    model.graph.node.add(op_type="Pow", input=["x", "x"])  # has no output
    assert fused_by_onnxruntime(model) == {"#2 (Pow)": False}


def test_an_exponent_of_rank_1_gives_a_number_a_dim():
    norm = parsed("""17: g (float x, float[1] gain) => (float[1] z) <float[1] two = {2}, float eps = {0.1}> {
        square = Pow (x, two)  mean = ReduceMean <axes = [-1]> (square)  shifted = Add (mean, eps)
        root = Sqrt (shifted)  quotient = Div (x, root)  z = Mul (quotient, gain) }""")
    assert fused_by_onnxruntime(norm) == {"#0 (Pow)": False}


def test_a_norm_before_a_node_without_outputs():
    model = deepcopy(MODEL)
    del model.graph.node[8:], model.graph.output[:]
    model.graph.node[7].CopyFrom(onnx.helper.make_node("Sink", ["quotient"], [], domain="own"))
    model.graph.output.add(name="mean")
    assert fused_by_onnxruntime(model) == {}


NO_CENTRE = deepcopy(MODEL)
NO_CENTRE.graph.node[1].ClearField("input")


@pytest.mark.parametrize("model", [b"no model", b"", "no such file.onnx", 7, NO_CENTRE.SerializeToString()])
def test_what_is_no_model_is_left_to_onnxruntime(model):
    errors = []
    for providers in (["CPUExecutionProvider"], [plugin.provider(), "CPUExecutionProvider"]):
        with pytest.raises(Exception) as error:
            ort.InferenceSession(model, providers=providers)
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]
