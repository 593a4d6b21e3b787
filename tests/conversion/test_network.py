"""ONNX models to OpenVINO's IR: what is written, what is refused, and how far its outputs are away."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper, parser
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.conversion import network
from halfulp.conversion.network import compare_network
from halfulp.conversion.verify import Feed
from halfulp.errors import HalfulpError, ModelError, UnsupportedError
from halfulp.models.onnx import Onnx

ov: Any = pytest.importorskip("openvino")
o: Any = pytest.importorskip("openvino.opset13")
engine: Any = pytest.importorskip("halfulp.integrations.openvino.engine")

TEXT = """<ir_version: 8, opset_import: ["": 15]>
    net (float[N, 3, H, W] x, float[N] t) => (float[N, 4, P, Q] z, float[N] u)
    <float half = {0.5}, float[4, 1, 1] slope = {0.1, -0.2, 0.3, 0.4}> {
        c = Conv (x, w)
        p = PRelu (c, slope)
        a = Abs (p)
        z = Pow (a, half)
        e = Exp (t)
        u = Pow (e, t)
    }"""


def net(text: str = TEXT) -> ModelProto:
    model = parser.parse_model(text)
    weights = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


def kinds(path: Path) -> list[str]:
    return [node.get_type_name() for node in ov.Core().read_model(path).get_ordered_ops()]


def test_a_network_becomes_an_ir(tmp_path):
    conversion = hu.convert(net(), tmp_path / "net.xml", verify=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.bin", "net.xml"]
    assert {"Convolution", "PRelu", "Power"} <= set(kinds(tmp_path / "net.xml"))
    found = conversion.verification
    assert found.same, found
    assert [note.split(" in ")[0] for note in found.notes] == ["output 'z'", "output 'u'"]
    assert "with halfulp's operators" in str(found)
    assert found.dims.startswith("dims made up: N=")


@pytest.mark.newer
def test_subgraphs_functions_and_external_data(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 15, "own": 1]>
        net (float[N, 3] x, bool c) => (float[N, 3] z) <float two = {2.0}> {
            s = own.f (x)
            z = If (c) <then_branch = a () => (float[N, 3] t) { t = Pow (s, two) },
                        else_branch = b () => (float[N, 3] e) { g = Sigmoid (s)  e = Mul (g, w) }>
        }
        <domain: "own", opset_import: ["": 15]>
        f (x) => (y) { k = Constant <value_float = 0.25> ()  y = PRelu (x, k) }"""
    model = parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.arange(3, dtype=np.float32), "w"))
    (tmp_path / "in").mkdir()
    onnx.save(
        model, tmp_path / "in/net.onnx", save_as_external_data=True, location="net.data", size_threshold=0
    )
    conversion = hu.convert(tmp_path / "in/net.onnx", tmp_path / "net.xml", verify=True, dims={"N": 5})
    assert "its functions are inlined" in "\n".join(map(str, conversion.changes))
    assert conversion.verification.same, conversion.verification
    assert kinds(tmp_path / "net.xml").count("PRelu") == 1


def altered(change: Callable[[dict[str, Any]], None]) -> Callable[[Onnx], Any]:
    """Return a reader as OpenVINO's, but for a change to the nodes, which are handed over by their names."""
    real = network.as_read

    def read(model: Onnx) -> Any:
        made = real(model)
        change({node.get_friendly_name(): node for node in made.model.get_ordered_ops()})
        made.model.validate_nodes_and_infer_types()
        return made

    return read


def swap(nodes: dict[str, Any]) -> None:
    x, y = nodes["u"].input_values()
    nodes["u"].input(0).replace_source_output(y)
    nodes["u"].input(1).replace_source_output(x)


def round_constant(nodes: dict[str, Any]) -> None:
    nodes["z"].input(1).replace_source_output(o.constant(np.float32(0.50000006)).output(0))


def rename(nodes: dict[str, Any]) -> None:
    nodes["z"].output(0).get_tensor().set_names({"gone"})


def decompose(nodes: dict[str, Any]) -> None:
    node = nodes["z"]
    names = node.output(0).get_names()
    root = o.sqrt(node.input_value(0))
    for end in list(node.output(0).get_target_inputs()):
        end.replace_source_output(root.output(0))
    node.output(0).get_tensor().set_names(set())
    root.output(0).get_tensor().set_names(names)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap, "#5 (Pow).*its operand 'e' is t"),
        (round_constant, "#3 (Pow).*its constant 'half' is another"),
        (rename, "#3 (Pow).*its output 'z' is gone"),
        (decompose, "#3 (Pow).*it has become Sqrt"),
    ],
)
def test_what_does_not_come_out_as_it_was_is_refused_by_name(change, words, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "as_read", altered(change))
    words = words.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(UnsupportedError, match=words):
        hu.convert(net(), tmp_path / "net.xml")
    assert not list(tmp_path.iterdir())


def test_what_openvino_does_not_read_is_one_line(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 15]>
        net (float[N, 2, 2] x) => (float[N] y) { d = Det (x)  y = Pow (d, d) }"""
    with pytest.raises(UnsupportedError, match=r"OpenVINO's reader refuses it: .*Det") as caught:
        hu.convert(parser.parse_model(text), tmp_path / "net.xml")
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_both_files_or_none(tmp_path):
    (tmp_path / "net.bin").mkdir()
    with pytest.raises(HalfulpError, match=r"net.bin: can't be written"):
        hu.convert(net(), tmp_path / "net.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_an_output_that_is_far_away_is_a_difference():
    conversion = hu.convert(net(), to="openvino")
    assert isinstance(conversion.model, network.Network)
    other = net(TEXT.replace("Exp (t)", "Abs (t)"))
    found = compare_network(Onnx(other), conversion.model, Feed())
    assert not found.same
    assert [line.split(" in ")[0] for line in found.differences] == ["output 'u'"]
    assert "at most " in found.differences[0]


def test_a_network_that_openvino_runs_only_with_our_operators(monkeypatch):
    conversion, real = hu.convert(net(), to="openvino"), engine.Compiled

    def broken(model: Any, file: str) -> Any:
        if model is conversion.model.model:
            raise ModelError("fails in openvino: a transformation", file=file)
        return real(model, file)

    monkeypatch.setattr(engine, "Compiled", broken)
    found = compare_network(Onnx(net()), conversion.model, Feed())
    assert found.same, found
    assert found.notes[0] == "with OpenVINO's own operators it fails in openvino: a transformation"
    assert all(line.endswith(" with halfulp's operators") for line in found.notes[1:])


def test_a_network_that_openvinos_own_operators_compute_wrongly(monkeypatch):
    conversion, real = hu.convert(net(), to="openvino"), engine.Compiled

    def wrong(model: Any, file: str) -> Any:
        run, is_own = real(model, file), model is conversion.model.model
        return lambda inputs: {name: value + is_own for name, value in run(inputs).items()}

    monkeypatch.setattr(engine, "Compiled", wrong)
    found = compare_network(Onnx(net()), conversion.model, Feed())
    assert not found.same
    assert "with halfulp's operators, at most 1 away" in found.differences[0]


@pytest.mark.parametrize("body", ["y = PRelu (x, s)", "h = Tanh (x)  y = PRelu (h, s)"])
def test_a_prelu_of_a_scalar(body, tmp_path):
    source = parsed(f"16: g (float x, float s) => (float y) {{ {body} }}")
    found = hu.convert(source, tmp_path / "net.xml", verify=True)
    assert any("scalars, get rank 1, and Y loses it" in str(change) for change in found.changes)
    assert found.verification.same, found.verification
    assert "output 'y' in openvino" in str(found.verification)


LOOP = """<ir_version: 8, opset_import: ["" : 16]> g (float[2] x, int64 n) => (float[2] y) <bool c = {1}> {
    y = Loop (n, c, x) <body = b (int64 i, bool ci, float[2] a) => (bool co, float[2] z) {
        co = Identity (ci)  e = Constant <value = float {1.5}> ()  t = Tanh (a)  z = Pow (t, e) }> }"""


def test_a_power_in_the_body_of_a_loop(tmp_path):
    """OpenVINO takes a negative number of turns as endless: it is not tried with one."""
    source = parser.parse_model(LOOP)
    found = hu.convert(source, tmp_path / "net.xml", verify=True)
    assert found.verification.same, found.verification
    body = source.graph.node[0].attribute[0].g
    for info in (*body.input, *body.output):
        info.ClearField("type")
    hu.convert(source, tmp_path / "undeclared.xml")


def test_a_graph_of_our_operators_alone(tmp_path):
    text = "g (int64[N] x, int64[N] e) => (int64[N] y) { y = Pow (x, e) }"
    source = parsed(f"16: {text}")
    found = hu.convert(source, tmp_path / "net.xml", verify=True)
    assert "OpenVINO computes int64 in 32 bits, and saturates" in "\n".join(map(str, found.changes))
    assert kinds(tmp_path / "net.xml").count("Power") == 1
    assert "'y' (Power) stays OpenVINO's own: the CPU plugin computes i64 in i32" in str(found.verification)
    numbers = {"x": np.array([3, 2**31 + 1]), "e": np.array([39, 2])}
    assert hu.run(tmp_path / "net.xml", numbers)["y"].tolist() == [3**39, (2**31 + 1) ** 2]


def test_old_opsets_come_along(tmp_path):
    model = parser.parse_model("""<ir_version: 3, opset_import: ["": 6]>
        g (float[2, 3, 4] x, float[3] y) => (float[2, 3, 4] z) {
            p = PRelu (x, y)  z = Pow<axis=1, broadcast=1>(p, y)
        }""")
    found = hu.convert(model, tmp_path / "net.xml", verify=True).verification
    assert found.same, found


TYPED = ("float16", "float32", "float64", "bfloat16", "int32", "int64")


SHORT_OR_UNSIGNED = ("int8", "uint8", "int16", "uint16", "uint32", "uint64")


@pytest.mark.parametrize(
    ("x", "y"), [*itertools.product(TYPED, TYPED), *zip(TYPED, SHORT_OR_UNSIGNED, strict=True)]
)
def test_every_pair_of_types(x, y, tmp_path):
    model = single("Pow", 15, {"x": (x, [40]), "y": (y, [40])}, (x, [40]))
    conversion = hu.convert(model, tmp_path / "net.xml", verify=True)
    assert kinds(tmp_path / "net.xml").count("Power") == 1
    if not any(change.differs for change in conversion.changes):
        assert conversion.verification.same, conversion.verification


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("kind", ["int32", "uint64"])
def test_an_integer_prelu_becomes_its_body(kind, opset, tmp_path):
    model = single("PRelu", opset, {"x": (kind, [2, 3, 4]), "s": (kind, [3, 1])}, (kind, [2, 3, 4]))
    conversion = hu.convert(model, tmp_path / "net.xml", verify=True)
    assert kinds(tmp_path / "net.xml").count("PRelu") == 0
    assert conversion.verification.same, conversion.verification


@pytest.mark.parametrize(
    ("x", "slope"), [([2, 3, 3], [3]), ([2, 4, 3], [3]), ([3, 3], [3]), ([2, 3, 4], []), ([2, 3, 4], [1])]
)
def test_a_slope_along_the_last_dim_stays_there(x, slope, tmp_path):
    model = single("PRelu", 16, {"x": ("float32", x), "s": ("float32", slope)}, ("float32", x))
    found = hu.convert(model, tmp_path / "net.xml", verify=True).verification
    assert found.same, found
