"""Data that leave an element type: a norm in float16 that answers zeros, found, listed for tools, and mended."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
from halfulp.auditing.data import JUDGED, NodeData, limits
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
    (data,) = found.nodes.values()
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

    towards_zero = -1 if exponent < 0 else 1
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


def test_safe_data_find_nothing():
    assert seen(norm(), {"x": large()["x"] / np.float16(40)})[1] == []
    assert seen(norm("float32"), {"x": large("float32")["x"] / 40})[1] == []


@pytest.mark.filterwarnings("error")
def test_data_beyond_float16_give_no_warnings():
    seen(norm("float32", inverse=True), {"x": large("float32")["x"] * 1000})


def test_a_network_of_float32_is_warned_of_float16():
    data, findings = seen(norm("float32"), large("float32"))
    assert data.lost == 0
    (finding,) = findings
    assert "overflows in float16" in finding
    assert set(data.in_types) == {"float16", "bfloat16"}


def test_without_data_there_is_a_notice_and_no_finding():
    report = hu.audit(norm(), targets=())
    (node,) = report.models[0].nodes
    assert node.notices == (
        "x^2 overflows in float16 for |x| > 255.9; give data with --input to see whether yours does",
    )
    assert not report.findings
    assert not report.models[0].norms
    assert "x^2 overflows" in " ".join(str(report).split())
    assert not hu.audit(norm("float32"), targets=()).models[0].nodes[0].notices
    assert not hu.audit(norm(), targets=(), inputs={"x": large()["x"][:1] / 100}).models[0].nodes[0].notices


def test_a_network_without_operators_of_onnx():
    pytest.importorskip("onnxruntime")
    model = parsed("""<ir_version: 8, opset_import: ["com.microsoft": 1]>
        g (float16[2] x, float16[2] w) => (float16[2] y) { y = com.microsoft.BiasGelu(x, w) }""")
    data = (
        hu.audit(model, targets=(), inputs={"x": np.float16([60000, 1]), "w": np.float16([60000, 1])})
        .models[0]
        .data
    )
    ((name, lost),) = [(each.label, each.in_types["float16"].overflow) for each in data.others]
    assert (name, lost) == ("#0 (BiasGelu)", 1)


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
    return parsed(f"""<ir_version: 8, opset_import: ["": 17, "own": 1]>
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


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"net", b"n\xfft", "a name is not UTF-8"),
        (b"\x08\x01\x10\n", b"\x08\x01\x10\0", "has an unknown element type"),
    ],
)
def test_a_hostile_file_is_refused_before_its_data_are_made(old, new, text):
    model = parsed("15: net (float16[N] x) => (float16[N] y) <float16[1] e = {2}> { y = Pow (x, e) }")
    with pytest.raises(hu.ModelError, match=text):
        hu.audit(model.SerializeToString().replace(old, new, 1), samples=1)


def test_a_run_says_what_it_did_not_look_at(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.array([1, 2], np.float16), "b": np.array(True)}
    told = "not every Pow and PRelu in bodies and functions was looked at"

    def printed(model: onnx.ModelProto) -> str:
        arguments = ["run", *files(tmp_path, model, inputs), "--engine", "onnxruntime"]
        return " ".join(CliRunner().invoke(app, arguments).output.split())

    assert told not in printed(in_a_branch())
    assert told not in printed(in_a_branch("own.F"))
    monkeypatch.setattr("halfulp.auditing.data._SMALL", 0)
    assert told in printed(in_a_branch())


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


@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize(
    ("number", "body", "first", "region"),
    [
        (1, "s = MatMul(x, k) e = Exp(s) u = ReduceSum(e, a) y = Div(e, u)", "e", ""),
        (4, "s = MatMul(x, k) e = Exp(s) u = ReduceSum(e, a) y = Div(e, u)", "e", "e u y"),
        (200, "s = MatMul(x, k) t = Mul(s, hundred) y = Softmax(t)", "t", "t y"),
        (10, "s = Mul(x, hundred) t = Mul(s, hundred) n = Shape(t) u = Neg(t) y = Tanh(u)", "t", "t n u y"),
        (1, "c = Mul(hundred, hundred) d = Mul(c, hundred) y = Min(x, d)", "", ""),
        (1, "i=Constant<value_int=70000>() n=Cast<to=7>(x) q=Add(n, i) f = CastLike(q, x) y = Sin(f)", "f", "f y"),
        (10, "p = Mul(x, hundred) s = Mul(p, hundred) t, z = Split<axis=1>(s) u=Neg(z) y = Tanh(u)", "s", "s t u y"),
    ],
)  # fmt: skip
def test_any_node_that_leaves_float16(number, body, first, region, kind):
    """The first node of a chain is named, with the others up to those whose results fit again."""
    type = kind.removesuffix("32")
    model = parsed(f"""17: g ({type}[2, 4] x) => ({type}[R, C] y)
        <int64[1] a = {{-1}}, float hundred = {{100}}, float[4, 4] k = {{{", ".join(["1"] * 16)}}}> {{ {body} }}""")
    for tensor in list(model.graph.initializer)[1:]:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), tensor.name))
    for node in model.graph.node:
        node.name = node.output[0]
    inputs = {"x": np.full((2, 4), number).astype(kind)}
    report = hu.audit(model, targets=(), inputs=[{"x": np.ones((2, 4), kind)}, inputs])
    if not region:
        assert "data (2 samples): 0 nodes leave float16" in str(report)
        assert not report.findings
        return
    (finding,) = report.findings
    assert (finding.kind, str(finding.node).split()[0]) == ("range", f"'{first}'")
    assert "data (2 samples): 1 node leaves float16" in str(report)
    assert json.dumps(region.split()) in report.blocklist("json")
    if kind == "float16":
        nodes = ",".join(region.split())
        assert finding.to_do == f'hu.convert(model, float32="{nodes}")'
        changed = hu.convert(model, float32=nodes).model
        assert not hu.audit(changed, targets=(), inputs=inputs).findings
        assert np.isfinite(np.asarray(hu.run(changed, inputs)["y"])).all()


@pytest.mark.parametrize(("kind", "epsilon"), [("float16", 1e-12), ("float32", 1e-12), ("float32", 1e-5)])
def test_an_epsilon_that_float16_does_not_hold(kind, epsilon, tmp_path):
    model = norm(kind)
    next(each for each in model.graph.initializer if each.name == "epsilon").CopyFrom(
        numpy_helper.from_array(np.array(epsilon).astype(kind), "epsilon")
    )
    x = np.ones((2, 64), kind)
    x[0] = large()["x"][0] / 100
    report = hu.audit(model, targets=(), inputs={"x": x})
    if epsilon == 1e-5:
        assert not report.findings
        return
    (finding,) = report.findings
    assert finding.node == "'/norm/shifted' (Add)"
    assert (
        finding.text
        == "1 of 2 mean squares are 0 in float16, with the norm's epsilon added: the norm divides by 0"
    )
    if kind == "float16":
        changes = [str(change) for change in hu.convert(model, float32="norms").changes]
        assert changes[0].startswith(
            "'/norm/shifted' (Add): its epsilon is 0, to which a converter rounded it"
        )
        assert not any("epsilon" in str(change) for change in hu.convert(norm(), float32="norms").changes)
    wanted = (
        "set the norm's epsilon to that of the original network" if kind == "float16" else "--blocklist TOOL"
    )
    assert finding.to_do is not None
    assert wanted in finding.to_do
    assert "/norm/square" in report.blocklist("json")


def test_inputs_are_checked():
    with pytest.raises(hu.ModelError, match="has no input 'y'"):
        hu.audit(norm(), targets=(), inputs={"y": large()["x"]})
    with pytest.raises(hu.HalfulpError, match="no value is given for its input 'x'"):
        hu.audit(norm(), targets=(), inputs={})


def test_made_up_samples():
    report = hu.audit(norm(), targets=(), samples=3)
    assert only(report).base.elements == 3 * 1 * 64
    assert not report.findings


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


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("inverse", [False, True])
def test_the_command_that_is_printed(tmp_path, inverse, named):
    inputs = large()
    arguments = files(tmp_path, norm(named=named, inverse=inverse), inputs)
    audit = CliRunner().invoke(app, ["audit", *arguments, "--json", str(tmp_path / "report.json")])
    assert audit.exit_code == 1
    (finding,) = [
        each
        for each in json.loads((tmp_path / "report.json").read_text())["findings"]
        if each["kind"] == "range"
    ]
    printed, _, other = finding["to_do"].partition(": ")
    command = shlex.split(printed)
    assert command[0] == "halfulp"
    out = tmp_path / "converted.onnx"
    # LayerNormalization is in opset 17, and RMSNormalization in 23.
    assert other.startswith("or --fuse norms in its place") == (not inverse)
    if not inverse:
        fused = hu.convert(arguments[0], out, fuse="norms").model
        assert [node.op_type for node in fused.graph.node] == ["LayerNormalization"]
        assert not hu.audit(out, targets=(), inputs=inputs).findings
    command[command.index("converted.onnx")] = str(out)
    convert = CliRunner().invoke(app, [*command[1:], "--verify", *arguments[1:]])
    assert (convert.exit_code, "compared with float32 everywhere" in convert.output) == (0, True)
    onnx.checker.check_model(onnx.load(out), full_check=True)
    right = np.asarray(hu.run(norm("float32", inverse=inverse), {"x": inputs["x"].astype(np.float32)})["z"])
    got = np.asarray(hu.run(out, inputs)["z"]).astype(np.float64)
    unit = np.spacing(np.abs(right).astype(np.float16)).astype(np.float64)
    assert np.abs(got - right).max() <= 4 * unit.max()
    again = hu.audit(out, targets=(), inputs=inputs)
    assert not again.findings


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


@pytest.mark.parametrize("node", ["Pow(x, three)", "ReduceSum(x)"])
def test_results_beyond_float16_that_are_outputs(tmp_path, node):
    """Tools keep the outputs of a float32 network in float32; those of a float16 network have no other type."""
    printed = []
    for kind in ("float", "float16"):
        model = parsed(f"""13: g ({kind}[N] x) => ({kind}[M] y) {{
                three = Constant<value = {kind} {{{3 if kind == "float" else 0x4200}}}> ()
                y = {node}
            }}""")
        model.graph.node[1].name = "beyond"
        x = np.full(1000, 100, np.float32 if kind == "float" else np.float16)
        arguments = files(tmp_path, model, {"x": x})
        printed.append(CliRunner().invoke(app, ["audit", *arguments, "--blocklist", "trtexec"]).output)
    assert "beyond:fp32" in printed[0]
    assert "node 'beyond'" in printed[1]
    assert "nothing of float16 holds its results" in " ".join(printed[1].split())


def test_the_list_as_json():
    report = hu.audit(norm("float32"), targets=(), inputs=large("float32"))
    names = json.loads(report.blocklist("json"))
    assert names[:3] == ["/norm/mean", "/norm/centred", "/norm/square"]
    assert {*names} < {node.name for node in norm().graph.node}
    small = hu.audit(norm("float32"), targets=(), inputs={"x": np.ones((1, 64), np.float32)})
    assert json.loads(small.blocklist("json")) == []
    for tool in ("trtexec", "polygraphy"):
        assert small.blocklist(tool).startswith("# Nothing to do: ")


@pytest.mark.parametrize(("name", "tools"), [("a,b", ["trtexec"]), ("a\x1b[2J", ["trtexec", "polygraphy"])])
def test_names_that_a_tool_does_not_take(name, tools):
    model = norm("float32")
    model.graph.node[2].name = name
    report = hu.audit(model, targets=(), inputs=large("float32"))
    for tool in tools:
        with pytest.raises(
            hu.HalfulpError, match=f"{tool} takes no layer's name with a comma or such a sign"
        ):
            report.blocklist(tool)
    assert json.loads(report.blocklist("json"))[2] == name


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


def test_nodes_of_functions(tmp_path):
    model = parsed(
        """<ir_version: 8, opset_import: ["": 17, "my": 1]>
        g (float16[N, 4] x) => (float16[N, 4] z) { a = my.norm(x)  z = my.norm(a) }
        <domain: "my", opset_import: ["": 17]>
        norm (x) => (z) { two = Constant<value = float16 {16384}>()  [square] q = Pow(x, two)
                          m = ReduceMean<axes = [-1]>(q)  s = Sqrt(m)  z = Div(x, s) }"""
    )
    onnx.save(model, tmp_path / "m.onnx")
    x = np.array([[300, -400, 500, 600]], np.float16)
    (found,) = hu.audit(tmp_path / "m.onnx", targets=(), inputs={"x": x}).findings
    assert found.text.startswith("x^2 overflows in float16 for |x| > 255.9; 4 of 4 do")
    name = found.node.partition("'")[2].partition("'")[0]
    for what in (name, "norms"):
        said = hu.convert(tmp_path / "m.onnx", float32=what).changes
        assert any("square' (Pow)" in str(change) for change in said)


def test_nodes_of_subgraphs():
    model = parsed("""17: g (bool c, float16[N, 4] x) => (float16[N, 4] z) {
            z = If (c) <then_branch = a () => (float16[N, 4] p) {
                t = Constant<value_float=2.>() u = Cast<to=10>(t) s = Pow(x, u) m = ReduceMean<axes=[-1]>(s)
                r = Sqrt(m) p = Div(x, r) }, else_branch = b () => (float16[N, 4] q) { q = Identity(x) }> }""")
    converted = hu.convert(model, float32="norms")
    x = np.array([[300, 400, 500, 600]], np.float16)
    got = np.asarray(hu.run(converted.model, {"c": np.array(True), "x": x})["z"])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(got[0], (wide / np.sqrt((wide**2).mean()))[0], rtol=2e-3)
    report = hu.audit(model, targets=(), inputs={"c": np.array(True), "x": x})
    (finding,) = report.findings
    assert finding.node == "#0 (If).then_branch.#2 (Pow)"
    assert "255.9; 4 of 4 do" in finding.text
    assert "become finite in #0 (If).then_branch.#5 (Div)" in finding.text
    assert finding.to_do == 'hu.convert(model, float32="norms")'
    away = hu.audit(model, targets=(), inputs={"c": np.array(False), "x": x})
    assert not away.findings
    assert "1 node not looked at: in functions, or in branches" in " ".join(str(away).split())


# The nodes of float16 networks whose squares, or cubes, overflow; and those of them that compute in float32.
NORMS = {
    # ConvNeXt V2, as both exporters of torch write it; its epsilon is added to the mean of the lengths
    "a global response normalisation": (
        "l = ReduceL2<axes=[-1]>(x) m = ReduceMean<axes=[1]>(l) a = Add(m, e) n = Div(l, a) y = Mul(x, n)",
        "ReduceL2 ReduceMean Add Div Mul",
    ),
    "E[x^2] - E[x]^2": (
        (
            "q = Mul(x, x) s = ReduceMean<axes=[-1]>(q) m = ReduceMean<axes=[-1]>(x) p = Mul(m, m) v = Sub(s, p)"
            " a = Add(v, e) r = Sqrt(a) c = Sub(x, m) y = Div(c, r)"
        ),
        "Mul ReduceMean ReduceMean Mul Sub Add Sqrt Div",
    ),
    "one operator": ("y = LpNormalization(x)", "LpNormalization"),
    "LRN": ("u = Unsqueeze(x, last) v = LRN<size=3, alpha=1.0>(u) y = Squeeze(v, last)", "LRN"),
    # torch's LRN, as the newer exporter writes it
    "LRN of a pool": (
        (
            "q = Mul(x, x) u = Unsqueeze(q, first) p = AveragePool<kernel_shape=[3, 1], pads=[1, 0, 1, 0]>(u)"
            " t = Squeeze(p, first) a = Add(t, one) r = Pow(a, beta) y = Div(x, r)"
        ),
        "Mul Unsqueeze AveragePool Squeeze Add Pow Div",
    ),
    # torch computes 1 / p of the parameter p
    "a generalised mean": (
        "c = Clip(x, one) q = Pow(c, three) a = GlobalAveragePool(q) r = Reciprocal(three) y = Pow(a, r)",
        "Pow GlobalAveragePool Pow",
    ),
    # ECAPA-TDNN's statistics: a deviation that nothing is divided by
    "a weighted deviation": (
        (
            "m = ReduceMean<axes=[-1]>(x) c = Sub(x, m) q = Mul(c, c) p = Mul(q, w) s = ReduceSum(p, last)"
            " k = Clip(s, e) r = Sqrt(k) y = Concat<axis=-1>(m, r)"
        ),
        "ReduceMean Sub Mul Mul ReduceSum Clip Sqrt",
    ),
    "a spectrum's magnitude": ("p = Mul(x, x) q = Mul(w, w) s = Add(p, q) y = Sqrt(s)", "Mul Mul Add Sqrt"),
    "a cosine": (
        (
            "k = ReduceL2<axes=[-1]>(x) l = ReduceL2<axes=[-1]>(w) p = Mul(k, l) a = Max(p, e) q = Mul(x, w)"
            " d = ReduceSum(q, last) c = Cast<to=10>(d) y = Div(c, a)"
        ),
        "ReduceL2 ReduceL2 Mul Max Mul ReduceSum Cast Div",
    ),
}


def written_out(body: str) -> onnx.ModelProto:
    return parsed(f"""17:
        g (float16[1, 4, 32] x, float16[1, 4, 32] w) => (float16[a, b, c] y) <float16 e = {{100}},
        float16 half = {{14336}}, float16 beta = {{14848}}, float16 one = {{15360}}, float16 two = {{16384}},
        float16 three = {{16896}}, int64[1] last = {{-1}}, int64[1] first = {{1}}> {{ {body} }}""")


@pytest.mark.parametrize("form", NORMS)
def test_other_forms_of_norms(form):
    body, expected = NORMS[form]
    model = written_out(body)
    inputs = {
        "x": (1000 + 600 * RNG.standard_normal((1, 4, 32))).astype(np.float16),
        "w": np.full((1, 4, 32), 0.125, np.float16),
    }
    conversion = hu.convert(model, float32="norms", inputs=inputs, verify=True)
    assert conversion.verification.same
    onnx.checker.check_model(conversion.model, full_check=True)
    changed = [change.node.partition("(")[2].rstrip(")") for change in conversion.changes]
    assert changed == expected.split()
    wide = {name: value.astype(np.float32) for name, value in inputs.items()}
    right = np.asarray(hu.run(widened(Onnx(model, "m")).proto, wide)["y"])
    got = np.asarray(hu.run(conversion.model, inputs)["y"]).astype(np.float32)
    assert np.abs(got - right).max() <= 3 * np.spacing(np.abs(right).max().astype(np.float16))
    has_power = any(f"q = Pow({name}" in body for name in "bc")
    report = str(hu.audit(model, targets=()))
    assert ("notice: 1 norm in float16, without a Pow as square" in report) == (not has_power)
    if expected not in ("LpNormalization", "LRN"):  # whose squares no value shows
        found = hu.audit(model, targets=(), inputs=inputs).findings
        assert {finding.to_do for finding in found} == {'hu.convert(model, float32="norms")'}


# --- convert --fuse --------------------------------------------------------------------------------


# What makes of a LayerNorm another one, or none, and the operators that it becomes.
WRITTEN_OUT = """m = ReduceMean(x, a)  d = Sub(x, m)  q = Pow(d, two)  v = ReduceMean(q, a)  w = Add(v, eps)
    r = Sqrt(w)  n = Div(d, r)  s = Mul(n, gain)  y = Add(s, shift)"""
RMS = {"m = ReduceMean(x, a)  d = Sub(x, m)": "", "(d": "(x"}
FUSED: dict[str, tuple[dict[str, str], str]] = {
    "as it is": ({}, "LayerNormalization"),
    "a product": ({"Pow(d, two)": "Mul(d, d)"}, "LayerNormalization"),
    "a reciprocal": ({"n = Div(d, r)": "i = Reciprocal(r)  n = Mul(d, i)"}, "LayerNormalization"),
    "a quotient of 1": ({"n = Div(d, r)": "i = Div(one, r)  n = Mul(d, i)"}, "LayerNormalization"),
    "a power as root": ({"r = Sqrt(w)  n = Div(d, r)": "r = Pow(w, root)  n = Mul(d, r)"}, "LayerNormalization"),
    "an axis from the front": ({", a)": ", last)"}, "LayerNormalization"),
    "RMS": (RMS, "RMSNormalization Add"),
    "without a gain": ({"s = Mul(n, gain)  y = Add(s": "y = Add(n"}, "LayerNormalization Add"),
    "a gain of another shape": ({"(n, gain)": "(n, two)"}, "LayerNormalization Mul Add"),
    "a gain that is no constant": ({"(n, gain)": "(n, g)"}, "LayerNormalization Mul Add"),
    "a difference": ({"y = Add(s": "y = Sub(s"}, "LayerNormalization Sub"),
    "another's mean": ({"m = ReduceMean(x": "m = ReduceMean(z"}, "ReduceMean Sub RMSNormalization Add"),
    "an input as mean": ({"Sub(x, m)": "Sub(x, z)"}, "ReduceMean Sub RMSNormalization Add"),
    "the greatest as mean": ({"m = ReduceMean": "m = ReduceMax"}, "ReduceMax Sub RMSNormalization Add"),
    "a mean over other dims": ({"(x, a)": "(x, first)"}, "ReduceMean Sub RMSNormalization Add"),
    "a sum": ({"Sub(x, m)": "Add(x, m)"}, "ReduceMean Add RMSNormalization Add"),
    "a cube": ({"(d, two)": "(d, three)"}, ""),
    "the greatest square": ({"v = ReduceMean": "v = ReduceMax"}, ""),
    "no epsilon": ({"Add(v, eps)": "Mul(v, eps)"}, ""),
    "an epsilon that is no constant": ({"(v, eps)": "(v, v)"}, ""),
    "a quotient of 2": ({"n = Div(d, r)": "i = Div(two, r)  n = Mul(d, i)"}, ""),
    "a power as square": ({"r = Sqrt(w)  n = Div(d, r)": "r = Pow(w, two)  n = Mul(d, r)"}, ""),
    "a root that multiplies": ({"Div(d, r)": "Mul(d, r)"}, ""),
    "a fourth root": ({"r = Sqrt(w)  n = Div(d, r)": "r = Pow(w, quarter)  n = Mul(d, r)"}, ""),
    "a root that is negated": ({"n = Div(d, r)": "i = Neg(r)  n = Div(d, i)"}, ""),
    "a sum of squares": ({"q = Pow(d, two)": "q = ReduceSumSquare(d, a)"}, ""),
    "another root": ({"Sqrt": "Exp"}, ""),
    "another numerator": ({"Div(d": "Div(x"}, ""),
    "over the first dim": ({", a)": ", first)"}, ""),
    "means that lose their dims": ({"ReduceMean": "ReduceMean<keepdims = 0>"}, ""),
    "axes that are no constant": ({"(q, a)": "(q, axes)"}, ""),
    "a value that others read": ({"y = ": "u = Neg(v)  e = Add(u, shift)  y = "}, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", FUSED)
def test_what_is_exactly_a_norm_is_fused(what):
    edits, operators = FUSED[what]
    text = WRITTEN_OUT
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    model = parsed(
        f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[8, 8] x, float[8, 8] z, float[8] g, int64[1] axes) => (float[8, 8] y)
        <float quarter = {{-0.25}}, float one = {{1}}, float two = {{2}}, float three = {{3}}, float root = {{-0.5}},
        float eps = {{0.01}}, int64[1] a = {{-1}}, int64[1] last = {{1}}, int64[1] first = {{0}},
        float[8] gain = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[8] shift = {{8, 7, 6, 5, 4, 3, 2, 1}}>
        {{ {text} }}"""
    )
    before = [node.op_type for node in model.graph.node]
    after = hu.convert(model, fuse="norms").model
    assert [node.op_type for node in after.graph.node] == (operators.split() or before)
    rng = np.random.default_rng(2)
    inputs = {name: rng.normal(size=(8, 8)).astype(np.float32) for name in "xz"}
    inputs |= {"g": np.linspace(1, 2, 8, dtype=np.float32), "axes": np.array([-1])}
    with np.errstate(invalid="ignore"):
        expected, found = (ReferenceEvaluator(each).run(None, inputs)[0] for each in (model, after))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_an_opset_without_the_operator_is_named():
    other_axes = norm()
    next(node for node in other_axes.graph.node if node.output[0] == "mean").attribute[0].ints[0] = 0
    for model in (other_axes, norm(inverse=True)):
        (change,) = hu.convert(model, fuse="norms").changes
        assert change.is_notice
        assert change.what.endswith("; --opset 23 has RMSNormalization")


def test_a_fill_that_a_converter_rounded_to_infinity():
    ort = pytest.importorskip("onnxruntime")
    model = parsed("""13: g (float16[2, 4] x, float16[2, 4] mask) => (float16[2, 4] z)
        <float16 one = {15360}, float16 half = {14336}> {
            i = Sub (one, mask)  b = Mul (i, fill)  y = Mul (x, half)  t = Add (y, b)  z = Softmax <axis = -1> (t) }""")
    model.graph.initializer.append(numpy_helper.from_array(np.float16(-np.inf), "fill"))
    inputs = {"x": np.arange(8, dtype=np.float16).reshape(2, 4), "mask": np.eye(2, 4, dtype=np.float16)}
    repaired = hu.repair(model).model
    before, after = (
        ort.InferenceSession(each.SerializeToString()).run(None, inputs)[0] for each in (model, repaired)
    )
    assert np.isnan(before).all()
    np.testing.assert_array_equal(after, np.eye(2, 4))
    (finding,) = hu.audit(model, ()).findings
    assert (finding.node, finding.to_do) == ("#1 (Mul)", "hu.repair(model)")
    assert not hu.audit(repaired, ()).findings


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
