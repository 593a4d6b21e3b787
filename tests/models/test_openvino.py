"""OpenVINO IR: read, run and written, alone and beside OpenVINO itself."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.models.openvino_models import (
    NUMPY,
    SMALL,
    WEIGHTS,
    graph,
    graphs,
    node,
    reread,
)

import halfulp as hu
from halfulp.models import load as load_any
from halfulp.models.graph import Model, Value, natural
from halfulp.models.openvino import load, save
from halfulp.models.openvino.operators import OPENVINO_TYPES
from halfulp.models.openvino.reader import allows, parse_shape, split_names
from halfulp.types import TYPES

X = np.array([[3, -2, 4], [0, 1, 9]], np.float32)
Y = np.array([[3, 4, 2], [0, 1, 3]], np.float32)
QUICK = settings(
    max_examples=40,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="session")
def ov() -> ModuleType:
    return pytest.importorskip("openvino")


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


# --- reading and running -------------------------------------------------------------------------


def test_names(tmp_path: Path) -> None:
    (tmp_path / "small.xml").write_text(SMALL)
    (tmp_path / "small.bin").write_bytes(WEIGHTS)
    for name in ("x", "input", "data"):  # two tensor names, and the Parameter's
        outputs = hu.run(tmp_path / "small.xml", {name: X})
        assert list(outputs) == ["y"]
        for other in ("y", "result", "power"):
            same(outputs[other], Y)
        with pytest.raises(KeyError):
            outputs["exponent"]
    with pytest.raises(hu.ModelError, match="input 'x' is given twice"):
        hu.run(tmp_path / "small.xml", {"x": X, "data": X})
    with pytest.raises(hu.ModelError, match="no input 'z'\n  expected: 'x'"):
        hu.run(tmp_path / "small.xml", {"z": X})


def test_bytes_and_their_weights() -> None:
    model = load(SMALL.encode(), weights=WEIGHTS)
    same(hu.run(model, {"x": X})["y"], Y)
    with pytest.raises(
        hu.ModelError, match="has no layer of the type Result"
    ):  # it is seen what these bytes are
        load_any(b"\n <net name='n' version='10'><layers/></net>")


def test_version_10_is_read() -> None:
    text = (
        SMALL.replace('version="11"', 'version="10"')
        .replace(' output_names="y"', "")
        .replace(' names="y"', "")
    )
    same(hu.run(load(text.encode(), weights=WEIGHTS), {"data": X})["result"], Y)


def test_what_a_feed_contradicts() -> None:
    model = load(SMALL.encode(), weights=WEIGHTS)
    for bad in (X.astype(np.float64), X[:, :2], X[0]):
        with pytest.raises(hu.ModelError, match="input 'x' contradicts"):
            hu.run(model, {"x": bad})


@pytest.mark.parametrize("spelled", ["PReLU", "Prelu"])
def test_both_spellings_of_prelu(spelled: str) -> None:
    text = SMALL.replace('type="Power"', f'type="{spelled}"').replace('<data auto_broadcast="numpy" />', "")
    model = load(text.encode(), weights=WEIGHTS)
    assert model.graph.nodes[0].operator == "openvino.PReLU-1"
    same(hu.run(model, {"x": -X[:1]})["y"], np.array([[-3, 2, -2]], np.float32))


def test_auto_broadcast() -> None:
    for value in ("none", "explicit"):
        text = SMALL.replace('auto_broadcast="numpy"', f'auto_broadcast="{value}"')
        with pytest.raises(hu.ModelError, match=r"openvino\.Power-1\.C3: a and b must have the same shape"):
            load(text.encode(), weights=WEIGHTS)
        text = text.replace('shape="?,3"', 'shape="3"').replace("<dim>-1</dim>", "")
        same(hu.run(load(text.encode(), weights=WEIGHTS), {"x": X[0]})["y"], Y[0])
    text = SMALL.replace('auto_broadcast="numpy"', 'auto_broadcast="pdpd"')
    with pytest.raises(hu.UnsupportedError, match=r"n.xml, layer 'power' \(Power\): auto_broadcast=pdpd"):
        load(text.encode(), weights=WEIGHTS, file="n.xml")


def test_a_dynamic_rank_and_ranges(tmp_path: Path) -> None:
    text = SMALL.replace("<dim>-1</dim><dim>3</dim>", "")
    model = load(text.replace('shape="?,3"', 'shape="..."').encode(), weights=WEIGHTS)
    assert model.graph.inputs[0].shape is None
    same(hu.run(model, {"x": X[None]})["y"], Y[None])
    text = SMALL.replace('shape="?,3"', 'shape="1..10,3"')
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "a.bin").write_bytes(WEIGHTS)
    save(load(tmp_path / "a.xml"), tmp_path / "b.xml")
    assert 'shape="1..10,3"' in (tmp_path / "b.xml").read_text()
    same(hu.run(tmp_path / "b.xml", {"x": X})["y"], Y)
    for rows in (0, 11):
        with pytest.raises(
            hu.ModelError, match=r"input 'x' has a dim that is out of range\n  expected: \[1\.\.10,3\]"
        ):
            hu.run(tmp_path / "b.xml", {"x": np.ones((rows, 3), np.float32)})


def test_layers_that_are_not_ours_are_named(tmp_path: Path) -> None:
    text = SMALL.replace('type="Power"', 'type="Divide"')
    model = load(text.encode(), weights=WEIGHTS, file="net.xml")
    for refuse in (lambda: hu.run(model, {"x": X}), lambda: save(model, tmp_path / "a.xml")):
        with pytest.raises(hu.UnsupportedError, match=r"'power' \(Divide\)"):
            refuse()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(OPENVINO_TYPES))
def test_every_type(name: str, tmp_path: Path) -> None:
    """A constant of every type, and a conversion to and from it."""
    dtype = np.dtype(bool) if name == "bool" else TYPES[name].dtype
    values = np.array([0, 1, 2, 4, 1], np.float32) if name != "float8_e8m0fnu" else np.array([1, 2, 4, 8, 1])
    held = values.astype(dtype)
    nodes = [
        node("Convert", ["x"], "there", destination_type=name),
        node("Select", ["yes", "there", "c"], "chosen", **NUMPY),
        node("Convert", ["chosen"], "back", destination_type="float32"),
    ]
    yes = np.array([True, False, True, False, False])
    made = graph(nodes, [Value("x", "float32", (5,))], ["chosen", "back"], {"c": held, "yes": yes})
    model = reread(made, tmp_path)
    same(np.asarray(model.graph.constants["c"]), held)
    outputs = hu.run(model, {"x": values.astype(np.float32)})
    same(outputs["chosen"], held)
    same(outputs["back"], held.astype(np.float32))


@pytest.mark.parametrize("name", [row.name for row in TYPES.values() if row.openvino is None])
def test_types_that_openvino_lacks_are_named(name: str, tmp_path: Path) -> None:
    made = graph([], [Value("x", name, (2,))], ["x"])
    with pytest.raises(hu.UnsupportedError, match=f"OpenVINO has no type {name}, which 'x' has"):
        save(made, tmp_path / "a.xml")


# --- round trips ----------------------------------------------------------------------------------


@QUICK
@given(graphs(("float32", "float16", "float64")))
def test_round_trips_change_nothing(tmp_path: Path, made: tuple[Any, dict[str, np.ndarray]]) -> None:
    first, feeds = made
    expected = hu.run(Model("<graph>", first), feeds)
    once = reread(first, tmp_path)
    texts = [(tmp_path / "g.xml").read_bytes(), (tmp_path / "g.bin").read_bytes()]
    twice = reread(once, tmp_path)
    assert [(tmp_path / "g.xml").read_bytes(), (tmp_path / "g.bin").read_bytes()] == texts
    for model in (once, twice):
        outputs = hu.run(model, feeds)
        assert list(outputs) == list(expected)
        for name, value in expected.items():
            same(outputs[name], value)


def test_an_xml_is_never_beside_the_bin_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xml, weights = tmp_path / "m.xml", tmp_path / "m.bin"
    first, second = (
        graph([node("Power", ["x", "e"], "y", **NUMPY)], [Value("x", "float32", (3,))], ["y"], {"e": e})
        for e in (np.array([2, 3, 4], np.float32), np.array([5, 6, 7], np.float32))
    )
    save(first, xml)
    xml.chmod(0o640)
    old = weights.read_bytes()
    replace = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target.suffix == ".xml":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save(second, xml)
    assert weights.read_bytes() != old
    assert [path.name for path in tmp_path.iterdir()] == ["m.bin"]
    save(first, xml)
    xml.chmod(0o640)
    save(second, xml)
    assert stat.S_IMODE(xml.stat().st_mode) == 0o640
    same(hu.run(xml, {"x": X[0]})["y"], hu.pow(X[0], np.array([5, 6, 7], np.float32)))


def test_names_that_xml_must_escape(tmp_path: Path) -> None:
    names = ['<a & "b">', "c, d", "\t é 漢", "x\\y"]
    nodes = [
        node("Add", [names[0], names[1]], names[2], **NUMPY),
        node("Add", [names[2], "e"], names[3], **NUMPY),
    ]
    inputs = [Value(name, "float32", (3,)) for name in names[:2]]
    model = reread(graph(nodes, inputs, names[2:], {"e": X[0]}), tmp_path)
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == names
    for bad, words in (
        ("a\0", "XML can't hold a character"),
        ("\ud800", "XML can't hold a character"),
        ("ends in \\", "ends in a backslash"),
    ):
        with pytest.raises(hu.HalfulpError, match=words):
            save(graph([], [Value(bad, "float32", (3,))], [bad]), tmp_path / "bad.xml")
    assert not list(tmp_path.glob("bad*"))
    assert not list(tmp_path.glob(".bad*"))


def test_results_of_one_value_and_of_an_input(tmp_path: Path) -> None:
    made = graph([], [Value("x", "float32", (2, 3))], ["x", "x"])
    outputs = hu.run(reread(made, tmp_path), {"x": X})
    same(outputs["x"], X)
    assert not np.shares_memory(outputs["x"], X)


# --- beside OpenVINO ------------------------------------------------------------------------------


def all_operators(ov: ModuleType) -> Any:
    """Return a model of all our operators, as OpenVINO makes it."""
    import openvino.opset1 as op

    x = op.parameter([-1, 3], ov.Type.f32, name="Parameter_x")
    x.output(0).set_names({"x", "x, too"})
    power = op.power(x, op.constant(np.array([1, 2, 3], np.float32), name="exponent"), name="pow")
    prelu = op.prelu(power, op.constant(np.array([0.5, 2, 4], np.float32)))
    half = op.convert(prelu, "f16")
    product = op.multiply(half, op.constant(np.array(2, np.float16)))
    total = op.add(product, op.constant(np.array([2], np.float16)))
    shaped = op.reshape(total, op.constant(np.array([0, -1, 1], np.int64)), True)
    wide = op.unsqueeze(shaped, op.constant(np.array([0, -1], np.int64)))
    less = op.less(wide, op.constant(np.array(0, np.float16)))
    chosen = op.select(less, wide, op.constant(np.array(1, np.float16)))
    chosen.output(0).set_names({"chosen"})
    return ov.Model([op.result(chosen, name="first"), op.result(less, name="second")], [x], "net")


def compiled(ov: ModuleType, model: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return OpenVINO's outputs, computed in the types that the model says."""
    run = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.array(value) for value in run(feeds).values()]


def test_a_file_that_openvino_wrote(ov: ModuleType, tmp_path: Path) -> None:
    made = all_operators(ov)
    ov.save_model(made, tmp_path / "a.xml", compress_to_fp16=False)
    x = np.array([[-3, 2, -2], [4, -1, 0]], np.float32)
    for name, first, second in (("x", "chosen", "second"), ("Parameter_x", "first", "second")):
        outputs = hu.run(tmp_path / "a.xml", {name: x})
        expected = compiled(ov, made, {"x": x})
        same(outputs[first], expected[0])
        same(outputs[second], expected[1])
    # Written again it is the same file, byte for byte.
    save(load(tmp_path / "a.xml"), tmp_path / "b.xml")
    assert (tmp_path / "b.xml").read_text() == (tmp_path / "a.xml").read_text()
    assert (tmp_path / "b.bin").read_bytes() == (tmp_path / "a.bin").read_bytes()


def test_a_whole_model_that_openvino_exported(ov: ModuleType, tmp_path: Path) -> None:
    from onnx import parser
    from onnx import save as save_onnx

    text = """<ir_version: 8, opset_import: ["": 15]> g (float[N, 3, "M"] x) => (float[N, 3, "M"] z)
        <float[3, 1] s = {1, 2, 3}> { y = PRelu(x, s)  w = Exp(y)  v = Sqrt(w)  z = Pow(v, y) }"""
    save_onnx(parser.parse_model(text), str(tmp_path / "m.onnx"))
    ov.save_model(ov.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    model = load(tmp_path / "m.xml")
    ours = [n.operator for n in model.graph.nodes if n.type not in ("Exp", "Sqrt")]
    assert ours == ["openvino.Convert-1", "openvino.PReLU-1", "openvino.Power-1"]
    assert [value.name for value in model.graph.outputs] == ["z"]
    feeds = {"x": np.array([[[-1], [0], [2]]], np.float32)}
    with pytest.raises(hu.UnsupportedError) as caught:
        hu.run(model, feeds, engine="halfulp")
    assert re.search(r"got: '\w*' \(Exp\), '\w*' \(Sqrt\)$", str(caught.value))
    np.testing.assert_allclose(hu.run(model, feeds)["z"], [[[np.exp(0.5)], [1], [np.exp(2)]]], rtol=1e-5)


@pytest.mark.parametrize("name", sorted(OPENVINO_TYPES))
def test_openvino_reads_every_type(ov: ModuleType, name: str, tmp_path: Path) -> None:
    dtype = np.dtype(bool) if name == "bool" else TYPES[name].dtype
    held = np.array([1, 2, 4]).astype(dtype)
    made = graph(
        [node("Select", ["yes", "x", "c"], "y", **NUMPY)],
        [Value("x", name, (3,)), Value("yes", "bool", (None,))],
        ["y"],
        {"c": held},
    )
    save(made, tmp_path / "a.xml")
    model = ov.Core().read_model(tmp_path / "a.xml")
    kinds = [port.get_element_type() for port in (*model.inputs, *model.outputs)]
    assert kinds == [getattr(ov.Type, OPENVINO_TYPES[kind]) for kind in (name, "bool", name)]
    # OpenVINO's own file of that model holds the same constant.
    ov.serialize(model, tmp_path / "b.xml")
    same(np.asarray(load(tmp_path / "b.xml").graph.constants["c"]), held)
    constant = next(n for n in model.get_ops() if n.get_type_name() == "Constant")
    assert constant.get_friendly_name() == "c"


@QUICK
@given(graphs())
def test_openvino_reads_what_we_write(
    ov: ModuleType, tmp_path: Path, made: tuple[Any, dict[str, Any]]
) -> None:
    first, feeds = made
    ours = hu.run(reread(first, tmp_path), feeds)
    model = ov.Core().read_model(tmp_path / "g.xml")
    assert [port.any_name for port in model.inputs] == [value.name for value in first.inputs]
    assert [port.any_name for port in model.outputs] == list(ours)
    for value, theirs in zip(ours.values(), compiled(ov, model, feeds), strict=True):
        np.testing.assert_array_equal(value, theirs)
    # What OpenVINO makes of our file comes back as the same file.
    ov.serialize(model, tmp_path / "theirs.xml")
    again = hu.run(tmp_path / "theirs.xml", feeds)
    for name, value in ours.items():
        same(again[name], value)
    save(load(tmp_path / "theirs.xml"), tmp_path / "back.xml")
    assert (tmp_path / "back.xml").read_bytes() == (tmp_path / "theirs.xml").read_bytes()


def test_edges_come_back_in_the_order_of_the_file(tmp_path: Path) -> None:
    first, second = re.findall(r"<edge [^>]*/>", SMALL)[:2]
    text = SMALL.replace(first, "SECOND").replace(second, first).replace("SECOND", second)
    save(load(text.encode(), weights=WEIGHTS), tmp_path / "net.xml")
    found = re.findall(r'from-layer="(\d+)"', (tmp_path / "net.xml").read_text())
    assert found == re.findall(r'from-layer="(\d+)"', text) != re.findall(r'from-layer="(\d+)"', SMALL)


# --- texts of a file ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("?,3, 1..10", (None, 3, None)), ("", ()), ("...", None), ("-1,4..4,0", (None, 4, 0))],
)
def test_shapes_as_files_spell_them(text: str, expected: tuple[int | None, ...] | None) -> None:
    assert parse_shape(text) == expected


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("?,1..10", (3, 10), True),
        ("?,1..10", (3, 11), False),
        ("..", (3,), True),
        ("3", (3, 3), False),
        ("...", (3, 3), True),
    ],
)
def test_ranges_of_dims(text: str, shape: tuple[int, ...], expected: bool) -> None:
    assert allows(text, shape) is expected


def test_numbers_and_names() -> None:
    assert [natural(text) for text in ("12", "-1", "1_0", "9" * 5000)] == [12, None, None, None]
    assert split_names(r"x,x\, y") == ("x", "x, y")
