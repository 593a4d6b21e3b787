"""ONNX Runtime's fusions kept: what it fuses is its own, every other power and PReLU ours."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
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


@pytest.mark.parametrize(
    ("name", "operator"),
    [("variance", "ReduceMax"), ("shifted", "Mul"), ("deviation", "Exp"), ("quotient", "Sub")],
)
def test_parts_that_only_begin_like_a_norm_are_none(name, operator):
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    (node,) = (each for each in model.graph.node if each.output[0] == name)
    node.op_type = operator
    assert [*fused_by_onnxruntime(MODEL)] == ["#2 (Pow)"]
    assert [*fused_by_onnxruntime(model)] == []


def test_what_is_fused_and_what_is_ours():
    before = MODEL.SerializeToString(deterministic=True)
    assert "LayerNormalization" not in kinds(plugin.patch(MODEL))
    assert MODEL.SerializeToString(deterministic=True) == before
    check(plugin.session(MODEL, keep_fusions=True).run(None, FEEDS))
    told = r"the norms around #2 \(Pow\) run node by node.*keep_fusions=True"
    with pytest.warns(HalfulpWarning, match=told) as warned:
        check(plugin.session(MODEL).run(None, FEEDS))
    assert len(warned) == 1
    assert Path(warned[0].filename) == Path(__file__)
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


def part(
    exponent: float = 2,
    keepdims: int = 1,
    kind: str = "float",
    dims: str = "8, 8",
    opset: int = 17,
    edits: dict[str, str] | None = None,
) -> onnx.ModelProto:
    """Return a LayerNorm written out; one for squares and means that keep their dims only; or what edits make of it."""
    text = f"""mean = ReduceMean <axes = [-1], keepdims = {keepdims}> (x)  d = Sub (x, mean)  p = Pow (d, exponent)
        v = ReduceMean <axes = [-1], keepdims = {keepdims}> (p)  a = Add (v, eps)  s = Sqrt (a)  q = Div (d, s)
        m = Mul (q, gain)  z = Add (m, shift)"""
    for old, new in (edits or {}).items():
        assert old in text
        text = text.replace(old, new)
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g ({kind}[{dims}] x) => ({kind}[{dims}] z) {{ {text} }}'
    )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    held = {"exponent": exponent, "eps": 0.01, "half": 0.5, "gain": np.arange(1, 9), "shift": np.zeros(8)}
    for name, value in held.items():
        if any(name in node.input for node in model.graph.node):
            tensor = onnx.numpy_helper.from_array(np.asarray(value).astype(dtype), name)
            model.graph.initializer.append(tensor)
    return model


WITHOUT_A_CENTRE = {"(d": "(x"}
PARTS: dict[str, dict[str, Any]] = {
    "x^4": {"exponent": 4},
    "x^2.5": {"exponent": 2.5},
    "x^-2 in float16": {"exponent": -2, "kind": "float16"},
    "x^2.5 in float16, before LayerNormalization": {"exponent": 2.5, "kind": "float16", "opset": 16},
    "x^4 in double": {"exponent": 4, "kind": "double"},
    "keepdims=0": {"keepdims": 0},
    "keepdims=0 of the centre": {"edits": {"keepdims = 1> (x)": "keepdims = 0> (x)"}},
    "keepdims=0, rank 3": {"keepdims": 0, "dims": "1, 8, 8"},
    "x^4, keepdims=0": {"exponent": 4, "keepdims": 0},
    "a batch of 1": {"keepdims": 0, "dims": "1, 8"},
    "a norm": {},
    "x^4, without a bias": {"exponent": 4, "edits": {"m = Mul": "z = Mul", "z = Add (m, shift)": ""}},
    "x^4, without a gain": {"exponent": 4, "edits": {"m = Mul (q, gain)": "", "Add (m": "Add (q"}},
    "x^4, a gain that is no weight": {"exponent": 4, "edits": {"Mul (q, gain)": "Mul (q, d)"}},
    "x^4, a bias two nodes later": {"exponent": 4, "edits": {"z = Add (m,": "n = Neg (m)  z = Add (n,"}},
    "x^4, another's mean": {"exponent": 4, "edits": {"mean =": "y = Abs (x)  mean =", "> (x)": "> (y)"}},
    "x^4 over the first dim": {"exponent": 4, "edits": {"-1": "0"}},
    "products, keepdims=0, a power as root": {
        "keepdims": 0,
        "edits": {"Pow (d, exponent)": "Mul (d, d)", "Sqrt (a)": "Pow (a, half)"},
    },
    "keepdims=0, an axis from the front": {"keepdims": 0, "edits": {"-1": "1"}},
    "keepdims=0 of a centre that is not divided": {
        "edits": {"keepdims = 1> (x)": "keepdims = 0> (x)", "Div (d, s)": "Div (x, s)"}
    },
    "no root, keepdims=0": {"keepdims": 0, "edits": {"Sqrt": "Exp"}},
    "no quotient, keepdims=0": {"keepdims": 0, "edits": {"Div": "Sub"}},
    "an RMSNorm": {"edits": WITHOUT_A_CENTRE},
    "an RMSNorm, x^4": {"exponent": 4, "edits": WITHOUT_A_CENTRE},
    "an RMSNorm, keepdims=0": {"keepdims": 0, "edits": WITHOUT_A_CENTRE},
    "an RMSNorm, keepdims=0, a power as root": {
        "keepdims": 0,
        "edits": WITHOUT_A_CENTRE | {"Sqrt (a)": "Pow (a, half)"},
    },
}


@pytest.mark.filterwarnings("ignore:.*stays OpenVINO's own")  # it computes doubles in float32
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_only_resembles_a_norm_keeps_its_function(name):
    model = part(**PARTS[name])
    data = model.SerializeToString()
    dims = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    given = np.random.default_rng(4).standard_normal(dims) * np.arange(1, dims[-2] + 1)[:, None]
    x = given.astype(onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    in_doubles = ReferenceEvaluator(part(**PARTS[name] | {"kind": "double"}))
    with np.errstate(invalid="ignore"):
        (right,) = in_doubles.run(None, {"x": x.astype(float)})

    def is_right(z: np.ndarray) -> bool:
        return np.allclose(
            z, right, rtol=0.01, atol=0.01 * np.nanmax(np.abs(right), initial=0), equal_nan=True
        )

    by_options = ort.SessionOptions()
    providers = [plugin.provider(), "CPUExecutionProvider"]
    plugin.provider(by_options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HalfulpWarning)
        for session in (
            ort.InferenceSession(data, providers=providers),
            ort.InferenceSession(data, ort.SessionOptions(), providers),
            ort.InferenceSession(path_or_bytes=data, sess_options=by_options),
            plugin.session(model, keep_fusions=True),
        ):
            assert is_right(session.run(None, {"x": x})[0])
    plain = {"onnxruntime": ort.InferenceSession(data).run(None, {"x": x})[0]}
    if find_spec("openvino"):
        ov, replace = import_module("openvino"), import_module("halfulp.integrations.openvino").replace
        network, hints = ov.Core().read_model(data), {"INFERENCE_PRECISION_HINT": "f32"}
        plain["openvino"] = ov.Core().compile_model(network, "CPU", hints)(x)[0]
        assert is_right(ov.Core().compile_model(replace(network), "CPU", hints)(x)[0])
    wrong = {finding.target for finding in hu.audit(model, plain).findings if "a fusion" in finding.text}
    assert wrong == {runtime for runtime, z in plain.items() if not is_right(z)}


def test_dims_that_are_not_known_may_be_lost():
    model = part(keepdims=0)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    model.graph.node.add(op_type="Abs", input=["x"])  # has no output
    assert fused_by_onnxruntime(model) == {"#2 (Pow)": False}


@pytest.mark.parametrize("model", [b"no model", b"", "no such file.onnx", 7])
def test_what_is_no_model_is_left_to_onnxruntime(model):
    errors = []
    for providers in (["CPUExecutionProvider"], [plugin.provider(), "CPUExecutionProvider"]):
        with pytest.raises(Exception) as error:
            ort.InferenceSession(model, providers=providers)
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]
