"""``hu.repair``: each broken node gets its one meaning. The models that commands repair are in golden/repair.txt."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from tests.golden import parsed

import halfulp as hu
from halfulp.conversion.repair import Repair
from halfulp.errors import HalfulpError

IMAGE = "g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y)"
SLOPE = "<float[3] s = {0.5, -2, 3}>"
PLACED = "gets the shape [3, 1, 1]: per channel of X, [1, 3, 4, 5]"
CHANNEL = "<float[3, 1, 1] s = {0.5, -2, 3}>"


def model(body: str, opset: int = 9, ir_version: int = 8) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "f" : 1]> {body}')


def said(found: Repair) -> list[str]:
    return [str(change) for change in found.changes]


def left(found: Repair) -> list[str]:
    return [str(each) for each in found.left]


def inputs_of(proto: onnx.ModelProto) -> dict[str, Any]:
    """Return made-up inputs, a NaN, zeros and an infinity among them."""
    rng = np.random.default_rng(0)
    held = {tensor.name for tensor in proto.graph.initializer}
    made = {}
    for info in proto.graph.input:
        tensor = info.type.tensor_type
        if info.name not in held:
            array = rng.normal(size=[dim.dim_value for dim in tensor.shape.dim]) * 2
            array.reshape(-1)[:4] = [np.nan, -0.0, np.inf, -1.0][: array.size]
            made[info.name] = array.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return made


def assert_same(repaired: onnx.ModelProto, right: onnx.ModelProto) -> None:
    inputs = inputs_of(right)
    for name, value in hu.run(right, inputs).items():
        np.testing.assert_array_equal(
            hu.run(repaired, inputs)[name].view(np.uint8), value.view(np.uint8), name
        )


def test_a_base_in_bool_has_no_power():
    found = hu.repair(model("g (bool[3] x, bool[3] e) => (bool[3] y) { y = Pow(x, e) }", opset=13))
    assert left(found) == ["#0 (Pow): no version of Pow takes bool with bool"]


def test_a_type_that_no_version_takes_goes_through_a_wider_one():
    found = hu.repair(model("g (uint8[3] x, int64 e) => (uint8[3] y) { y = Pow(x, e) }", opset=13))
    assert said(found) == [
        "#0 (Pow): X is cast from uint8 to int32, and the result back: Pow takes no uint8 in opset 13"
    ]
    x, e = np.array([2, 3, 17], np.uint8), np.array(5, np.int64)
    assert hu.run(found.model, {"x": x, "e": e})["y"].tolist() == [value**5 % 256 for value in (2, 3, 17)]


def test_an_input_with_a_default_keeps_its_name():
    body = (
        "g (float[1, 3, 4, 5] x, float[3] s, float[3] t) => (float[1, 3, 4, 5] y)"
        " <float[3] s = {0.5, -2, 3}, float[3] t = {1, 2, 3}> { p = PRelu(x, s)  q = PRelu(p, t)  y = PRelu(q, t) }"
    )
    found = hu.repair(model(body, opset=8, ir_version=4))
    assert found.valid
    assert [
        [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in found.model.graph.input
    ] == [[1, 3, 4, 5], [3, 1, 1], [3]]
    given = {
        "x": inputs_of(found.model)["x"],
        "s": np.float32([[[9]], [[8]], [[7]]]),
        "t": np.float32([4, 5, 6]),
    }
    right = model(body.replace("float[3]", "float[3, 1, 1]"), opset=8, ir_version=4)
    expected = hu.run(right, {**given, "t": given["t"].reshape(3, 1, 1)})["y"]
    np.testing.assert_array_equal(hu.run(found.model, given)["y"], expected)


# --- what has several meanings, or none -----------------------------------------------------------


SQUARE = "g (float[1, 3, 4, 3] x) => (float[1, 3, 4, 3] y)"


def test_one_certain_slope_decides_for_the_doubtful_ones():
    turn = "Transpose<perm = [0, 1, 3, 2]>"
    body = f"{SQUARE} {SLOPE} {{ p = PRelu(x, s)  t = {turn}(p)  q = PRelu(t, s)  y = {turn}(q) }}"
    found = hu.repair(model(body))
    assert [line.partition(":")[0] for line in said(found)] == ["#2 (PRelu)", "#0 (PRelu)"]
    assert found.left == ()
    right = body.replace("float[3] s", "float[3, 1, 1] s")
    assert_same(found.model, model(right))


def test_a_choice_takes_one_of_several_dims():
    body = (
        "g (float[1, 2, 3, 3, 5] x) => (float[1, 2, 3, 3, 5] y) <float[3] s = {1, 2, 3}> { y = PRelu(x, s) }"
    )
    found = hu.repair(model(body), slopes={"#0 (PRelu)": 2})
    assert said(found) == [
        "#0 (PRelu): the slope of shape [3] gets the shape [3, 1, 1]: along dim 2 of X, [1, 2, 3, 3, 5]"
    ]
    assert found.valid
    for wrong in ("height", 1.5, True, None):
        with pytest.raises(HalfulpError, match="no such dim for slopes"):
            hu.repair(model(body), slopes={"#0 (PRelu)": wrong})
    with pytest.raises(HalfulpError, match="the size of dim 'N' must be an integer"):
        hu.repair(model(body), verify=True, dims={"N": 1.5})


# --- files ----------------------------------------------------------------------------------------


def test_a_valid_file_is_written_byte_for_byte(tmp_path):
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    # Fields in another order than protobuf would write them.
    data = model(f"{IMAGE} {CHANNEL} {{ y = PRelu(x, s) }}").SerializeToString()
    source.write_bytes(onnx.ModelProto(producer_name="somebody").SerializeToString() + data)
    found = hu.repair(source, output)
    assert (found.changes, found.left) == ((), ())
    assert output.read_bytes() == source.read_bytes()


def test_external_data_stays_external(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    source = model(f"{IMAGE} {SLOPE} {{ y = PRelu(x, s) }}")
    slope = onnx.numpy_helper.to_array(source.graph.initializer[0])
    source.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(slope, "s"))  # as raw bytes
    onnx.save(source, tmp_path / "in/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert hu.repair(tmp_path / "in/m.onnx", tmp_path / "out/m.onnx").valid
    assert (tmp_path / "out/w.bin").read_bytes() == (tmp_path / "in/w.bin").read_bytes()
    assert_same(onnx.load(tmp_path / "out/m.onnx"), model(f"{IMAGE} {CHANNEL} {{ y = PRelu(x, s) }}"))


def test_all_faults_at_once():
    head = "g (float16[1, 3, 4, 5] x) => (float16[1, 3, 4, 5] y)"
    body = (
        f"{head} <float[3] s = {{0.5, -2, 3}}, float e = {{2}}, float16[1, 3, 4, 6] q, int64 i = {{3}}, bool t = {{1}},"
        " float16[1, 3, 4, 5] w, float16[1, 3, 4, 5] k>"
        " { q = Pow<broadcast = 1>(p, e)  p = PRelu<consumed_inputs = [0, 0]>(x, s)  r = Relu(q)  n = Cast<to = 6>(r)"
        " w = Cast<to = 1>(n)  k = Add(w, x)  c = f.act(k, s)  y = If(t)<then_branch = g () => (float16[1, 3, 4, 5] a)"
        " { d = Pow(c, i)  a = PRelu(d, s) }, else_branch = h () => (float16[1, 3, 4, 5] b) { b = Identity(c) }> }"
        ' <domain: "f", opset_import: ["" : 9]> act (u, v) => (z) { z = PRelu(u, v) }'
    )
    right = (
        f"{head} <float16[3, 1, 1] s = {{14336, 49152, 16896}}, float16 e = {{16384}}, float16 i = {{16896}}>"
        " { p = PRelu(x, s)  q = Pow(p, e)  r = Relu(q)  n = Cast<to = 6>(r)  w = Cast<to = 10>(n)  k = Add(w, x)"
        " c = PRelu(k, s)  d = Pow(c, i)  y = PRelu(d, s) }"
    )
    found = hu.repair(model(body))
    assert (found.left, found.valid) == ((), True)
    onnx.checker.check_model(found.model, full_check=True)
    assert_same(found.model, model(right))
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.InferenceSession(found.model.SerializeToString(), providers=["CPUExecutionProvider"])


# --- shapes that the file does not tell -----------------------------------------------------------


WEIGHTS = "<float[3] s = {1, 2, 3}, float[3, 2, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[2, 3, 1, 1] v = {1, 2, 3, 4, 5, 6}>"


# TensorRT's plugins, ONNX Runtime's own LayerNormalization before opset 17, torch's fallback: all in ONNX's own domain.
@pytest.mark.parametrize("own", ["EfficientNMS_TRT", "LayerNormalization<axis = 1>", 'ATen<operator = "f">'])
def test_operators_that_only_a_runtime_knows_are_kept(own, capfd):
    source = model(f"{IMAGE} {SLOPE} {{ p = PRelu(x, s)  y = {own}(p) }}", 13)
    found = hu.repair(source)
    assert said(found) == [f"#0 (PRelu): the slope of shape [3] {PLACED}"]
    assert found.valid
    assert hu.audit(source, targets=()).findings[0].clause == "onnx.PRelu-9.C2"
    older: Any = hu.convert(found.model, opset=12).model
    assert older.graph.node[1] == source.graph.node[1]
    assert capfd.readouterr().out == ""  # the onnx package's checker prints a line about some


# --- casts that contradict what they are declared as ----------------------------------------------


def test_openvino_computes_a_slope_of_one_dim_as_the_repaired_model_does():
    pytest.importorskip("openvino")
    found = hu.repair(model(f"{IMAGE} {SLOPE} {{ y = PRelu(x, s) }}"), verify=True)
    assert found.verification.engine == "openvino"
    assert found.verification.same
    assert "'y' in openvino" in str(found.verification)


def test_openvinos_reading_of_a_broken_model_says_nothing_against_a_repair():
    pytest.importorskip("openvino")
    body = "g (float[2, 3, 3, 5] x) => (float[2, 3, 3, 5] y) <float[3] s = {-1, 2, 5}> { y = PRelu(x, s) }"
    found = hu.repair(model(body), slopes=2, verify=True)
    assert found.verification.same
    assert "OpenVINO reads the broken model otherwise" in str(found.verification)


def test_a_broken_model_that_openvino_reads_and_does_not_run():
    pytest.importorskip("openvino")
    body = (
        "g (float[N, 4, 5, 5] x) => (float[N, 4, 5, 5] y) <float[1, 4] s = {0.5, -2, 3, 4}>"
        " { p = Relu(x)  q = Sin(p)  y = PRelu(q, s) }"
    )
    found = hu.repair(model(body, opset=9), verify=True)
    assert found.verification.same
    assert "no runtime that is installed takes the broken one" in str(found.verification)


@pytest.mark.parametrize(
    "length", ["n = ReduceL2<axes = [1]>(x)", "q = Mul(x, x)  m = ReduceSum(q, a)  n = Pow(m, half)"]
)
def test_the_limit_of_a_normalization_is_not_0(length):
    """As torch exports normalize: a converter to float16 makes a 0 of 1e-12."""
    onnxruntime = pytest.importorskip("onnxruntime")
    body = f"{length}  c = Clip(n, zero)  s = Shape(x)  e = Expand(c, s)  y = Div(x, e)"
    weights = "float16 zero = {0}, float16 half = {14336}, int64[1] a = {1}"
    found = hu.repair(model(f"g (float16[2, 4] x) => (float16[2, 4] y) <{weights}> {{ {body} }}", opset=13))
    assert [change.differs for change in found.changes] == ["what was NaN is 0"]
    session = onnxruntime.InferenceSession(found.model.SerializeToString())
    x = np.array([[0, 0, 0, 0], [3, 0, 4, 0]], np.float16)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.float16([[0] * 4, [0.6, 0, 0.8, 0]]))


@pytest.mark.parametrize(
    ("body", "more", "casts"),
    [
        ("n = Div(c, s)  k = Mul(n, g)  z = Add(k, b)  r = Add(z, x)  y = MatMul(r, w)", "", ["#6 (Mul)"]),
        ("n = Div(c, s)  k = LayerNormalization(n, g, b)  y = Add(x, k)", "", ["#6 (LayerNormalization)"]),
        ("n = Div(c, s)  y = Add(x, n)", "", ["#6 (Add)"]),
        # A network in float32, which returns halves
        ("n = Div(c, s)  k = Mul(n, g)  m = MatMul(k, v)  y = Cast<to = 10>(m)", ", float[4, 4] v", []),
    ],
)
def test_the_result_of_a_norm_in_float32_is_cast_to_the_networks_type(body, more, casts):
    onnxruntime = pytest.importorskip("onnxruntime")
    weights = f"float16[4, 4] w, float16[4] g, float16[4] b, float two = {{2}}, float16 e = {{168}}{more}"
    norm = (
        "c = Cast<to = 1>(x)  q = Pow(c, two)  m0 = ReduceMean<axes = [-1]>(q)  a = Add(m0, e)  s = Sqrt(a)"
    )
    text = f"g (float16[2, 4] x) => (float16[2, 4] y) <{weights}> {{ {norm}  {body} }}"
    found = hu.repair(parsed(f'<ir_version: 8, opset_import: ["": 17]> {text}'))
    assert found.valid
    assert [change.node for change in found.changes if "is cast to float16" in change.what] == casts
    onnx.checker.check_model(found.model, full_check=True)
    onnxruntime.InferenceSession(found.model.SerializeToString())
