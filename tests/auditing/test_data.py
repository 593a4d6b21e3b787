"""Data that leave an element type: a norm in float16 that answers zeros, found, listed for tools, and mended."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
from halfulp.auditing.data import JUDGED, Network, NodeData, limits
from halfulp.cli import app
from halfulp.conversion.float32 import widened
from halfulp.errors import printable
from halfulp.models.onnx import Onnx
from halfulp.models.run.inputs import dtype_named

RNG = np.random.default_rng(7)


def norm(kind: str = "float16", *, named: bool = True, inverse: bool = False) -> onnx.ModelProto:
    """Return a LayerNorm written out, or with ``inverse`` an RMSNorm by a reciprocal root."""
    type, axes = kind.removesuffix("32"), "<axes = [-1]>"
    base = "x" if inverse else "centred"
    before = "" if inverse else f"mean = ReduceMean{axes}(x) centred = Sub(x, mean)"
    after = (
        "inverse = Reciprocal(root) normal = Mul(x, inverse)" if inverse else "normal = Div(centred, root)"
    )
    model = parsed(f"""17: norm ({type}[N, 64] x) => ({type}[N, 64] z) {{ {before}
        square = Pow({base}, two) variance = ReduceMean{axes}(square) shifted = Add(variance, epsilon)
        root = Sqrt(shifted) {after} z = Mul(normal, scale) }}""")
    for node in model.graph.node:
        node.name = f"/norm/{node.output[0]}" if named else ""
    constants = {"two": 2.0, "epsilon": 1e-5, "scale": np.linspace(0.5, 2, 64)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(value).astype(kind), name) for name, value in constants.items()
    )
    return model


def large(kind: str = "float16") -> dict[str, Any]:
    return {"x": (400 * RNG.standard_normal((4, 64))).astype(kind)}


def only(report: hu.AuditReport) -> NodeData:
    found = report.models[0].data
    (data,) = found.nodes
    return data


def seen(model: onnx.ModelProto, inputs: Any) -> tuple[NodeData, list[str]]:
    """Return the data of a model's one power, and the findings about ranges."""
    report = hu.audit(model, targets=(), inputs=inputs)
    return only(report), [str(finding) for finding in report.findings if finding.kind == "range"]


# --- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", JUDGED)
@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, -2, 5])
def test_limits_are_the_last_numbers(exponent, type):
    """On each side of a limit is a neighbour in the type; the powers of both say that it is one."""
    found, dtype = limits(exponent, type), dtype_named(type)
    words = np.dtype(f"u{dtype.itemsize}")

    def power(magnitude: float, step: int) -> float:
        bits = np.array([magnitude]).astype(dtype).view(words)
        return float(
            hu.pow(
                (bits.astype(np.int64) + step).astype(words).view(dtype), np.array(exponent).astype(dtype)
            )[0]
        )

    least, greatest = power(0.0, 1), power(np.inf, -1)
    towards_zero = -1 if exponent < 0 else 1
    near, far = (greatest, least)[::towards_zero]
    assert (found.overflow is None) == np.isfinite(near)
    assert (found.zero is None) == (far != 0)
    if found.overflow is not None:
        assert np.isfinite(power(found.overflow, 0))
        assert not np.isfinite(power(found.overflow, towards_zero))
    if found.zero is not None:
        assert power(found.zero, 0) != 0
        assert power(found.zero, -towards_zero) == 0


# --- findings --------------------------------------------------------------------------------------


@pytest.mark.newer
@pytest.mark.parametrize("inverse", [False, True])
def test_a_norm_that_answers_zeros(inverse):
    model, inputs = norm(inverse=inverse), large()
    with pytest.warns(RuntimeWarning, match="results are infinite"):
        assert not np.asarray(hu.run(model, inputs)["z"]).any()
    data, findings = seen(model, inputs)
    centred = inputs["x"].astype(np.float64)
    if not inverse:
        centred = centred - centred.mean(-1, keepdims=True)
    beyond = int((np.abs(centred) > 255.95).sum())
    assert abs(data.lost - beyond) <= 2  # those next to the threshold, by the rounding of the mean
    assert data.in_types["float16"].overflow == data.lost
    (finding,) = findings
    assert "x^2 overflows in float16 for |x| > 255.9" in finding
    assert "the infinities become finite in " in finding
    assert data.absorbed == (("'/norm/inverse' (Reciprocal)",) if inverse else ("'/norm/normal' (Div)",))
    assert data.margin("float16") == pytest.approx(255.875 / np.abs(centred).max(), rel=2e-3)


@pytest.mark.parametrize("engine", ["halfulp", "onnxruntime"])
def test_a_run_says_what_is_lost(engine, tmp_path):
    if engine == "onnxruntime":
        pytest.importorskip("onnxruntime")
    arguments = files(tmp_path, norm(), large())
    printed = CliRunner().invoke(app, ["run", *arguments, "--engine", engine])
    assert printed.exit_code == 0
    assert "'/norm/square' (Pow): " in printed.output
    assert "results are infinite or NaN though the operands are finite" in printed.output
    assert f"halfulp audit {arguments[0]} -i {arguments[2]} says" in printed.output
    with pytest.warns(RuntimeWarning, match="'/norm/square'") as told:
        hu.run(arguments[0], dict(np.load(arguments[2])), engine=engine)
    assert len(told) == 1


def in_a_branch(function: str = "") -> onnx.ModelProto:
    return parsed(f"""<ir_version: 8, opset_import: ["": 17, "own": 1, "com.microsoft": 1]>
        g (float16[N] x, bool b) => (float16[N] z) {{ s = Sin(x)
            t = If (b) <then_branch = t () => (float16[N] p) {{
                two = Constant<value_float=2.>() e = Cast<to=10>(two) p = Pow(x, e) }},
                else_branch = f () => (float16[N] q) {{ q = Identity(x) }}>
            z = {function or "Identity"}(t) }}
        <domain: "own", opset_import: ["": 17]> F (x) => (y) {{ y = Pow(x, x) }}""")


def test_a_run_looks_into_bodies():
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.array([300, 2], np.float16), "b": np.array(True)}
    with pytest.warns(RuntimeWarning, match=r"then_branch.*\(Pow\): 1 of 2 results are infinite"):
        hu.run(in_a_branch(), inputs, engine="onnxruntime")


def test_a_run_looks_into_functions():
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.array([300, 2], np.float16), "b": np.array(False)}
    with pytest.warns(RuntimeWarning, match=r"#2 \(Pow\): 1 of 2 results are infinite"):
        hu.run(in_a_branch("own.F"), inputs, engine="onnxruntime")


def test_a_run_says_what_it_did_not_look_at(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.array([1, 2], np.float16), "b": np.array(True)}
    told = "not every Pow and PRelu in bodies and functions was looked at"

    def printed(model: onnx.ModelProto) -> str:
        arguments = ["run", *files(tmp_path, model, inputs), "--engine", "onnxruntime"]
        return " ".join(CliRunner().invoke(app, arguments).output.split())

    assert told not in printed(in_a_branch())
    assert told not in printed(in_a_branch("own.F"))
    assert told in printed(in_a_branch("com.microsoft.FastGelu"))  # only ONNX Runtime has it
    monkeypatch.setattr("halfulp.auditing.data._SMALL", 0)
    assert told in printed(in_a_branch())
    inputs = large()
    assert told not in printed(norm())
    inputs = {"x": np.full((1, 64), 1e30, np.float32)}
    assert "results are infinite or NaN" not in printed(norm("float32", inverse=True))


@pytest.mark.newer
def test_weights_are_cast_when_they_are_read():
    """The float32 version of a network shares its file of weights, and the file keeps weights of other types."""
    model = parsed("""17:
        g (float16[N, 32] x) => (float[N, 32] z) { two = Constant<value_float=2.>() e = Cast<to=10>(two)
            m = MatMul(x, w) p = Pow(m, e) c = Cast<to=1>(p) z = MatMul(c, v) }""")
    weights = {"w": RNG.standard_normal((32, 32)).astype(np.float16), "v": np.eye(32, dtype=np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    with Onnx(model, "m").mapped() as light:
        wide = widened(light).proto
        assert [node.op_type for node in wide.graph.node][2:5] == ["Cast", "MatMul", "Pow"]
        assert {tensor.data_location for tensor in wide.graph.initializer} == {onnx.TensorProto.EXTERNAL}
    x = RNG.standard_normal((4, 32)).astype(np.float16)
    data, _ = seen(model, {"x": x})
    exact = x.astype(np.float32) @ weights["w"].astype(np.float32)
    assert data.base.greatest == pytest.approx(np.abs(exact).max(), rel=1e-6)


def test_samples_add_up():
    samples = [large(), {"x": large()["x"][:2]}]
    data, _ = seen(norm(), iter(samples))
    assert data.base.elements == 6 * 64
    assert data.lost == sum(seen(norm(), each)[0].lost for each in samples)


def test_one_session_shows_all_tensors_that_fit_into_memory_together(monkeypatch):
    opened, open_session = [], Network._opened
    monkeypatch.setattr(Network, "_opened", lambda *given: opened.append(given) or open_session(*given))
    samples = [large("float32") for _ in range(2)]
    together = hu.audit(norm("float32"), (), inputs=samples).json()
    assert len(opened) == 2  # one of them tells the sizes
    monkeypatch.setattr("halfulp.auditing.data._GROUP", 1)
    assert hu.audit(norm("float32"), (), inputs=samples).json() == together
    assert len(opened) > 10


def test_inputs_are_checked():
    with pytest.raises(hu.ModelError, match="has no input 'y'"):
        hu.audit(norm(), targets=(), inputs={"y": large()["x"]})
    with pytest.raises(hu.HalfulpError, match="no value is given for its input 'x'"):
        hu.audit(norm(), targets=(), inputs={})


def test_a_broken_model_is_not_run(tmp_path):
    model = parsed("""9:
        g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) <float[3] s = {1, 2, 3}> { y = PRelu(x, s) }""")
    report = hu.audit(model, targets=(), samples=1)
    (found,) = report.findings
    assert (found.kind, found.to_do[:17]) == ("clause", "hu.repair(model):")
    assert report.models[0].data is None
    assert "not looked into: the data, because the model is broken" in str(report)
    with pytest.raises(
        hu.HalfulpError, match=r"no data was looked at, .* node #0 \(PRelu\): .* \(onnx.PRelu-9.C2\)"
    ):
        report.blocklist("json")
    for constant in ("<complex64 s = {2, 1}>", '<string s = {"2"}>'):  # which look like no square
        model = parsed(f"15: g (float[2] x) => (float[2] y) {constant} {{ y = Pow(x, s) }}")
        assert hu.audit(model, targets=()).models[0].nodes[0].breaks
    tensor = model.graph.initializer[0]
    tensor.ClearField("string_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value="../w.bin")
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(hu.ModelError, match=r"net\.onnx: external data leaves the model's folder"):
        hu.audit(tmp_path / "net.onnx", targets=(), samples=1)


# --- the way out -----------------------------------------------------------------------------------


def files(folder: Path, model: onnx.ModelProto, inputs: dict[str, Any]) -> list[str]:
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "x.npz", **inputs)
    return [str(folder / "m.onnx"), "-i", str(folder / "x.npz")]


def test_operators_of_a_runtime_stay(tmp_path):
    pytest.importorskip("onnxruntime")
    model = parsed("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float16[N, 64] x) => (float16[N, 64] z) { h = Neg(x) w = ReduceMax<axes = [0], keepdims = 0>(x)
        [gelu] y = com.microsoft.FastGelu(h) [norm] z = com.microsoft.SkipSimplifiedLayerNormalization(h, y, w) }""")
    arguments = files(tmp_path, model, large())
    out = str(tmp_path / "out.onnx")
    command = ["convert", arguments[0], out, "--float32", "all", "--verify", *arguments[1:]]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.output
    stays = "stays as it is, an operator of com.microsoft"
    assert f"'gelu' (FastGelu): {stays}\n" in printed.output
    assert f"{stays}; ONNX Runtime computes it in float32 inside, with CUDA if" in printed.output
    assert "compared with float32 everywhere" in printed.output
    assert [node.op_type for node in onnx.load(out).graph.node].count("FastGelu") == 1


def test_arguments_of_other_types():
    for given in ({"samples": -1}, {"samples": 1.5}, {"samples": "2"}, {"seed": "x", "samples": 1}):
        with pytest.raises(hu.HalfulpError, match="must be an integer >= 0"):
            hu.audit(norm(), targets=(), **given)
    with pytest.raises(hu.HalfulpError, match="in one text"):
        hu.convert(norm(), float32=["root"])


def test_a_folder_of_samples(tmp_path):
    onnx.save(norm(), tmp_path / "m.onnx")
    (tmp_path / "samples").mkdir()
    for number in range(2):
        np.savez(tmp_path / "samples" / f"{number}.npz", **large())
    printed = CliRunner().invoke(app, ["audit", str(tmp_path / "m.onnx"), "-i", str(tmp_path / "samples")])
    assert "data (2 samples): 1 node looked at, 1 of them overflows in float16" in " ".join(
        printed.output.split()
    )


# --- convert --float32 -----------------------------------------------------------------------------


def test_only_what_is_named(tmp_path):
    converted = hu.convert(norm(), float32="/norm/root,/norm/shifted").model
    casts = [node for node in converted.graph.node if node.op_type == "Cast"]
    assert [node.output[0] for node in casts][-1] == "root"
    assert len(casts) == 2
    with pytest.raises(hu.HalfulpError, match="no node is called '/norm/nothing'"):
        hu.convert(norm(), float32="/norm/nothing")
    (change,) = hu.convert(norm("float32"), float32="norms").changes
    assert change.is_notice
    assert change.what.startswith("none of these nodes computes in float16")


def test_names_with_commas():
    model = norm()
    for node in model.graph.node:
        node.name = node.name.replace("/", ",").removeprefix(",")
    for names in ("norm,root,norm,square", "norm,square,norm,root"):
        told = hu.convert(model, float32=names).changes
        assert [change.node.split("'")[1] for change in told] == ["norm,square", "norm,root"]
    for names, missing in (("norm,root,norm", "norm"), ("root", "root"), (",", ","), ("", "")):
        with pytest.raises(hu.HalfulpError, match=f"no node is called '{missing}'"):
            hu.convert(model, float32=names)


@pytest.mark.parametrize("name", ["a\tb", " a", "a ", "\x1b,b "])
def test_names_as_the_command_of_a_finding_shows_them(name):
    model = norm()
    model.graph.node[3].name = name
    for spelling in (name, printable(name)):
        told = hu.convert(model, float32=f"{spelling},/norm/shifted").changes
        assert any(change.node.startswith(f"'{printable(name)}'") for change in told), told


# The nodes of float16 networks whose squares, or cubes, overflow; and those of them that compute in float32.


# --- convert --fuse --------------------------------------------------------------------------------


# What makes of a LayerNorm another one, or none, and the operators that it becomes.


def test_an_opset_without_the_operator_is_named():
    other_axes = norm()
    next(node for node in other_axes.graph.node if node.output[0] == "mean").attribute[0].ints[0] = 0
    for model in (other_axes, norm(inverse=True)):
        (change,) = hu.convert(model, fuse="norms").changes
        assert change.is_notice
        assert change.what.endswith("; --opset 23 has RMSNormalization")


def test_a_half_in_a_norm_that_onnxruntime_mistakes_is_first_put_in_float32():
    ort = pytest.importorskip("onnxruntime")
    session = pytest.importorskip("halfulp.integrations.onnxruntime").session
    model = parsed("""17: g (float16[8, 16] x) => (float16[8, 16] z)
        <float16 fourth = {17408}, float16 e = {5120}> {
            m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  p = Pow (d, fourth)  v = ReduceMean <axes = [-1]> (p)
            a = Add (v, e)  s = Sqrt (a)  q = Div (d, s)  n = Mul (q, gain)  z = Add (n, shift) }""")
    for name, value in (("gain", 1), ("shift", 0)):
        model.graph.initializer.append(numpy_helper.from_array(np.full(16, value, np.float16), name))
    x = (100 * RNG.standard_normal((8, 16))).astype(np.float16)
    centred = x.astype(float) - x.astype(float).mean(-1, keepdims=True)
    right = centred / np.sqrt((centred**4).mean(-1, keepdims=True))
    (finding,) = hu.audit(model, "onnxruntime").findings
    assert str(finding.to_do).startswith('hu.convert(model, float32="norms"): then halfulp')
    plain = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    exact = session(hu.convert(model, float32="norms").model, providers=None).run(None, {"x": x})[0]
    assert np.abs(plain - right).max() > 1
    assert np.abs(exact - right).max() < 0.001
