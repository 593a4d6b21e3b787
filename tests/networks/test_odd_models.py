"""Models that other tools, newer or older ones, write: each verb answers, and none with a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

from halfulp.cli import app

ort: Any = pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

TEXTS = {
    "a function in a function": """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = local.outer(x) }
        <domain: "local", opset_import: ["": 20, "local": 1]>
        outer (x) => (y) { a = local.inner(x)  y = Relu(a) }
        <domain: "local", opset_import: ["": 20]>
        inner (x) => (y) { c = Constant<value_float=2.0>()  y = Pow(x, c) }""",
    "a function with an attribute": """<ir_version: 10, opset_import: ["": 20, "local": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { y = local.power<e: float = 2.5>(x) }
        <domain: "local", opset_import: ["": 20]>
        power <e: float> (x) => (y) { a = Abs(x)  c = Constant<value_float: float = @e>()  y = Pow(a, c) }""",
    "a loop": """<ir_version: 8, opset_import: ["": 16]>
        g (int64 n, float[4] x) => (float[4] y, float[M, 4] all) {
            t = Constant<value: tensor = bool {1}>()
            y, all = Loop(n, t, x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] o, float[4] z) {
                d = Identity(c)  e = Constant<value_float=1.5>()  a = Abs(s)  o = Pow(a, e)  z = PRelu(s, e) }>
        }""",
    "a scan": """<ir_version: 8, opset_import: ["": 16]>
        g (float[4] s0, float[N, 4] xs) => (float[4] s, float[N, 4] ys) {
            s, ys = Scan<num_scan_inputs=1, body = b (float[4] a, float[4] x) => (float[4] o, float[4] z) {
                o = Add(a, x)  z = PRelu(o, a) }>(s0, xs)
        }""",
    "a sequence": """<ir_version: 8, opset_import: ["": 16]>
        g (float[4, 2] x) => (seq(float[2, 2]) parts, float[2, 2] y) {
            sizes = Constant<value_ints=[2, 2]>()  parts = SplitToSequence<axis=0>(x, sizes)
            i = Constant<value_int=0>()  a = SequenceAt(parts, i)  y = Pow(a, a) }""",
    "an optional": """<ir_version: 8, opset_import: ["": 16]>
        g (float[2] x) => (optional(float[2]) y) { a = Pow(x, x)  y = Optional(a) }""",
    "quantised around ours": """<ir_version: 8, opset_import: ["": 16]>
        g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y)
        <float s = {0.02}, uint8 z = {128}, float[4, 1, 1] slope = {0.1, 0.2, 0.3, 0.25}>
        { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  p = PRelu(d, slope)
          r = QuantizeLinear(p, s, z)  y = DequantizeLinear(r, s, z) }""",
    "an operator of ONNX Runtime": """<ir_version: 8, opset_import: ["": 15, "com.microsoft": 1]>
        g (float[N] x) => (float[N] y) { a = com.microsoft.Gelu(x)  y = PRelu(a, a) }""",
    "an operator of ONNX-ML": """<ir_version: 8, opset_import: ["": 15, "ai.onnx.ml": 3]>
        g (float[N, 3] x) => (float[N, 3] y)
        { a = ai.onnx.ml.Scaler<offset=[0.5], scale=[2.0]>(x)  y = PRelu(a, a) }""",
    "an operator of nobody": """<ir_version: 8, opset_import: ["": 15, "x.y": 3]>
        g (float[N] x) => (float[N] y) { a = x.y.Foo(x)  y = PRelu(a, a) }""",
    "an input with a default": """<ir_version: 3, opset_import: ["": 7]>
        g (float[2] x, float[1] e) => (float[2] y) <float[1] e = {2.5}> { y = Pow(x, e) }""",
    "text": """<ir_version: 8, opset_import: ["": 15]>
        g (string[N] s, float[2] x) => (string[N] t, float[2] y) { t = Identity(s)  y = Pow(x, x) }""",
    "no elements": """<ir_version: 8, opset_import: ["": 15]>
        g (float[0, 3] x, float[3] s) => (float[0, 3] y) { y = PRelu(x, s) }""",
    "the newest opset": f"""<ir_version: 10, opset_import: ["": {onnx.defs.onnx_opset_version()}]>
        g (float[N] x) => (float[N] y) {{ y = Pow(x, x) }}""",
    "an opset to come": """<ir_version: 10, opset_import: ["": 99]>
        g (float[N] x) => (float[N] y) { y = Pow(x, x) }""",
}


def _network(kind: str) -> ModelProto:
    """Return a convolution, a PRelu and a square in another type than float32."""
    model = parsed(f"""18: g ({kind}[N, 3, H, W] x) => ({kind}[N, 2, P, Q] y)
        {{ c = Conv(x, w)  p = PRelu(c, slope)  y = Pow(p, e) }}""")
    number = getattr(TensorProto, kind.upper())
    dtype = helper.tensor_dtype_to_np_dtype(number)
    for name, values in (("w", np.full((2, 3, 1, 1), 0.5)), ("slope", np.full((2, 1, 1), 0.25)), ("e", 2.0)):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, dtype), name))
    return model


def _sparse() -> ModelProto:
    model = parsed("15: g (float[3] x) => (float[3] y) { y = Pow(x, e) }")
    values = helper.make_tensor("e", TensorProto.FLOAT, [1], [2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [1], [1])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    return model


def _int4() -> ModelProto:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { c = Cast<to=1>(e)  y = Pow(x, c) }'
    )
    model.graph.initializer.append(helper.make_tensor("e", TensorProto.INT4, [1], [3]))
    return model


MODELS: dict[str, Callable[[], ModelProto]] = {
    **{name: (lambda text=text: parser.parse_model(text)) for name, text in TEXTS.items()},
    **{
        f"{kind} throughout": (lambda kind=kind: _network(kind)) for kind in ("float16", "bfloat16", "double")
    },
    "a sparse initializer": _sparse,
    "four bits": _int4,
}

VERBS = {
    "run": ["run", "m.onnx"],
    "audit": ["audit", "m.onnx"],
    "older": ["convert", "m.onnx", "o.onnx", "--opset", "11", "--verify"],
    "newer": ["convert", "m.onnx", "o.onnx", "--opset", "22", "--verify"],
    "target": ["convert", "m.onnx", "o.onnx", "--target", "onnxruntime", "--verify"],
    "IR": ["convert", "m.onnx", "o.xml", "--verify"],
    "bench": ["bench", "m.onnx", "--seconds", "0", "--threads", "1"],
}

REFUSED = {
    ("a function with an attribute", "older"): "no exact form in opset 11",
    ("a sequence", "IR"): "No conversion rule found",
    ("an optional", "older"): "does not convert Optional to opset 14",
    ("an optional", "IR"): "No conversion rule found",
    ("an operator of ONNX-ML", "IR"): "No conversion rule found",
    ("an operator of nobody", "run"): "the onnx package does not evaluate x.y.Foo",
    ("an operator of nobody", "older"): "not verified: ",
    ("an operator of nobody", "newer"): "not verified: ",
    ("an operator of nobody", "target"): "the type of its input 'a' is not known",
    ("an operator of nobody", "IR"): "the type of its input 'a' is not known",
    ("an operator of nobody", "bench"): "the onnx package does not evaluate x.y.Foo-3",
    ("text", "IR"): "no type for string",
    ("a sparse initializer", "IR"): "OpenVINO's reader refuses it",
    **{
        ("no elements", verb): "not verified: the outputs verify nothing"
        for verb in ("older", "newer", "target", "IR")
    },
    **{("an opset to come", verb): "unknown opset of 'ai.onnx'" for verb in VERBS},
    ("bfloat16 throughout", "older"): "Pow has no bfloat16 before opset 13",
}
"""What can't be done, and words that say why."""


# What is refused, and a third of the others, bench of one model; make exhaustive takes all.
QUICK = {*REFUSED, ("a loop", "bench")}
EACH = [
    pytest.param(
        name,
        verb,
        marks=[]
        if (name, verb) in QUICK or ((i + j) % 3 == 0 and verb != "bench")
        else [pytest.mark.exhaustive],
    )
    for i, name in enumerate(MODELS)
    for j, verb in enumerate(VERBS)
]


@pytest.mark.parametrize(("name", "verb"), EACH)
def test_a_verb_answers(name, verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    onnx.save(MODELS[name](), "m.onnx")
    result = CliRunner().invoke(app, VERBS[verb])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    why = REFUSED.get((name, verb))
    if why is not None:
        assert result.exit_code in (1, 2)
        assert why in result.output
    else:
        assert result.exit_code == 0 or (verb == "audit" and result.exit_code == 1), result.output
        assert "not verified" not in result.output


def test_external_data_of_more_than_2_gigabytes(tmp_path, monkeypatch):
    """Only its size is that: nothing of a file that is all holes lies on the disk."""
    monkeypatch.chdir(tmp_path)
    rows, columns = 16, 40_000_000
    model = parsed(f"""15: g (float[1, {rows}] x) => (float[1, 3] y)
        {{ m = MatMul(x, w)  p = PRelu(m, m)  b = Constant<value_ints=[0]>()  e = Constant<value_ints=[3]>()
           a = Constant<value_ints=[1]>()  y = Slice(p, b, e, a) }}""")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, columns])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(4 * rows * columns))):
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)
    onnx.save(model, "m.onnx")
    with Path("w.bin").open("wb") as file:
        file.truncate(4 * rows * columns)
    for words in (["audit", "m.onnx"], ["convert", "m.onnx", "o.onnx", "--opset", "21"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0 or (words[0] == "audit" and result.exit_code == 1), result.output
