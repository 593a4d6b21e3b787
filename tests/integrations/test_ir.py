"""OpenVINO's IR: read by OpenVINO, with Power, PReLU and plumbing by halfulp; broken and hostile files."""

import os
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.integrations.ir_models import SMALL, saved, written
from tests.models.bounded import little_memory
from tests.oracle.grids import pow_grid, prelu_grid

import halfulp as hu
from halfulp.integrations import ir
from halfulp.models.graph import Node
from halfulp.models.run.api import LAYERS, foreign
from halfulp.running import evaluate

ov: Any = pytest.importorskip("openvino")
op: Any = pytest.importorskip("openvino.opset1")
operators: Any = pytest.importorskip("halfulp.integrations.openvino")

X = np.array([[3, -2, 4], [0, 1, 9]], np.float32)
Y = np.array([[3, 4, 2], [0, 1, 3]], np.float32)
DIMS = "<dim>-1</dim><dim>3</dim>"


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


# --- reading and running -------------------------------------------------------------------------


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files without a process of their own, which takes a second."""
    monkeypatch.setattr(ir, "_try_to_read", lambda path, file: None)


TRUSTED = pytest.mark.usefixtures("trusted")


def test_names(tmp_path):
    path = written(tmp_path)
    for name in ("x", "input", "data"):  # two tensor names, and the Parameter's
        outputs = hu.run(path, {name: X})
        assert list(outputs) == ["y"]
        for other in ("y", "result", "power"):
            same(outputs[other], Y)
        with pytest.raises(KeyError):
            outputs["exponent"]
    model = ir.load(path)
    with pytest.raises(hu.ModelError, match="input 'input' is given twice"):
        evaluate(model, {"x": X, "data": X})
    with pytest.raises(hu.ModelError, match="no input 'z'; there are input"):
        evaluate(model, {"z": X})
    for bad in (X.astype(np.float64), X[:, :2], X[0]):
        with pytest.raises(hu.ModelError, match="input 'input' contradicts"):
            evaluate(model, {"x": bad})


@TRUSTED
def test_a_dynamic_rank_and_ranges(tmp_path):
    text = SMALL.replace(DIMS, "")
    model = ir.load(written(tmp_path, text.replace('shape="?,3"', 'shape="..."')))
    assert model.graph.inputs[0].shape is None
    same(evaluate(model, {"x": X[None]}).outputs["y"], Y[None])
    model = ir.load(written(tmp_path, SMALL.replace('shape="?,3"', 'shape="1..10,3"')))
    same(evaluate(model, {"x": X}).outputs["y"], Y)
    for rows in (0, 11):
        message = r"input 'input' has a dim that is out of range\n  expected: \[1\.\.10,3\]"
        with pytest.raises(hu.ModelError, match=message):
            evaluate(model, {"x": np.ones((rows, 3), np.float32)})


@TRUSTED
def test_results_of_one_value_and_of_an_input(tmp_path):
    x = op.parameter([2, 3], np.float32, name="x")
    outputs = hu.run(saved(tmp_path, [op.result(x, name="a"), op.result(x, name="b")], [x]), {"x": X})
    for name in ("x", "a", "b"):
        same(outputs[name], X)
    assert not np.shares_memory(outputs["x"], X)


def test_names_and_versions_of_layers():
    """Two layers may have the same name, and one layer several outputs."""

    x = typed("x", "f32", 4)
    halves = op.split(x, op.constant(np.array(0)), 2, name="halves")
    power = op.power(halves.output(1), halves.output(0), name="same")
    positive = op.abs(op.negative(power, name="same"), name="same").output(0)
    last = operators.HalfulpPower([positive, positive], operands="f32,f32", auto_broadcast="numpy")
    others = [ov.opset13.constant(ov.Tensor(["no", "number"])), op.constant(np.array([True, False]))]
    network = ov.Model([last, *others], [x])
    ir._check_sizes(network, "", "")
    graph = ir.graph_of(network)
    assert True in [array.tolist() == [True, False] for array in graph.constants.values()]
    nodes = {node.type: node for node in graph.nodes if node.type != "Constant"}
    assert nodes["Split"].outputs == nodes["Power"].inputs[::-1] == ("halves", "halves.1")
    assert nodes["Power"].outputs != nodes["Negative"].outputs != nodes["Abs"].outputs
    assert nodes["HalfulpPower"].inputs == 2 * nodes["Abs"].outputs
    for name, *found in (("HalfulpPower", "extension", "0", 0), ("Power", "", "1", 1)):
        assert found == [nodes[name].domain, nodes[name].version, nodes[name].opset]


@TRUSTED
def test_layers_beside_the_powers(tmp_path):
    """halfulp evaluates each of its layers as OpenVINO does."""
    x = op.parameter([-1, 3], np.float32, name="x")
    x.output(0).set_names({"x", "x, too"})
    power = op.power(x, op.constant(np.array([1, 2, 3], np.float32)), name="pow")
    half = op.convert(op.prelu(power, op.constant(np.array([0.5, 2, 4], np.float32))), "f16")
    product = op.multiply(half, op.constant(np.array(2, np.float16)))
    total = op.add(product, op.constant(np.array([2], np.float16)))
    shaped = op.reshape(total, op.constant(np.array([0, -1, 1], np.int64)), True)
    wide = op.unsqueeze(shaped, op.constant(np.array([0, -1], np.int64)))
    less = op.less(wide, op.constant(np.array(0, np.float16)))
    chosen = op.select(less, wide, op.constant(np.array(1, np.float16)))
    chosen.output(0).set_names({"chosen"})
    path = saved(tmp_path, [op.result(chosen, name="first"), op.result(less, name="second")], [x])
    values = np.array([[-3, 2, -2], [4, -1, 0]], np.float32)
    model = ir.load(path)
    assert foreign(model.graph.nodes) == []
    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = [np.array(value) for value in compiled([values]).values()]
    for name, first, second in (("x", "chosen", "second"), ("x, too", "first", "second")):
        found = evaluate(model, {name: values}, with_report=True)
        assert {row.engine for row in found.report.nodes} == {"halfulp"}
        outputs = found.outputs
        same(outputs[first], expected[0])
        same(outputs[second], expected[1])


@TRUSTED
def test_sums_of_other_broadcasting(tmp_path):
    x, y = (op.parameter([-1, 1], np.float32, name=name) for name in "xy")
    model = ir.load(saved(tmp_path, [op.add(x, y, "none", name="sum")], [x, y]))
    feeds = {"x": X[:, :1], "y": X[:, :1]}
    same(evaluate(model, feeds).outputs["sum"], 2 * X[:, :1])
    with pytest.raises(
        hu.ModelError, match=r"(?s)the inputs of Add can't be broadcast.* and float32\[1, 1\]"
    ):
        evaluate(model, feeds | {"y": X[:1, :1]})
    model = ir.load(saved(tmp_path, [op.add(x, op.power(x, y), "pdpd", name="sum")], [x, y]))
    assert foreign(model.graph.nodes) == ["'sum' (Add)"]


def test_scales_become_integers():
    scales = np.array([4, 2.0**40, 2.0**70], np.float32).astype(ml_dtypes.float8_e8m0fnu)
    node = Node("", "openvino", "", "Convert", "1", 1, (), (), {"destination_type": "int8"})
    assert LAYERS["Convert"](node, scales).tolist() == [4, 0, -1]


@TRUSTED
def test_a_broadcast_that_no_memory_holds(tmp_path):
    text = SMALL.replace('shape="?,3"', 'shape="?,1,1,1,1"').replace(DIMS, "")
    model = ir.load(written(tmp_path, text))
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 45, 1, 1, 1, 1), (0, 0, 0, 0, 0))
    with pytest.raises(hu.ModelError, match=r"'power' \(Power\): its output would not fit"):
        evaluate(model, {"x": x})


def typed(name: str, kind: str, *shape: int) -> Any:
    return op.parameter(list(shape), getattr(ov.Type, kind), name=name)


@TRUSTED
@pytest.mark.parametrize("kind", list(operators.ROWS))
def test_every_type(kind, tmp_path):
    """The bits of hu.pow and hu.prelu, and a constant."""
    row = operators.ROWS[kind]
    grid = pow_grid(row.name, row.name, np.random.default_rng(6))
    x, y = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
    held = np.array([1, 2, 1]).astype(row.dtype)
    a, b = typed("x", kind, -1), typed("y", kind, -1)
    results = [
        op.power(a, b, name="power"),
        op.convert(ov.opset13.constant(operators.tensor_of(held)), "f32"),
    ]
    feeds, parameters = {"x": x, "y": y}, [a, b]
    if row.kind == "float":
        grid = prelu_grid(row.name, np.random.default_rng(7))
        base, slope = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
        parameters += [typed("base", kind, 1, base.size), typed("slope", kind, base.size)]
        feeds |= {"base": base[None], "slope": slope}
        results.append(op.prelu(*parameters[2:]))
    power, converted, *rest = hu.run(saved(tmp_path, results, parameters), feeds).values()
    same(power, hu.pow(x, y))
    same(converted, held.astype(np.float32))
    for output in rest:
        same(output, hu.prelu(base[None], slope))


def test_without_openvino_a_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openvino", None)
    with pytest.raises(hu.UnsupportedError, match=r"pip install 'halfulp\[openvino\]'"):
        hu.run(written(tmp_path), {"x": X})


# --- broken and hostile files ---------------------------------------------------------------------


ENTITIES = '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def test_entities_are_not_expanded(tmp_path):
    declaration = '<?xml version="1.0"?>'
    same(hu.run(written(tmp_path, SMALL.replace(declaration, declaration + ENTITIES)), {"x": X})["y"], Y)


def test_weights_that_are_missing_or_no_file(tmp_path):
    path = written(tmp_path)
    weights = path.with_suffix(".bin")
    weights.unlink()
    with pytest.raises(hu.ModelError, match=r"net\.xml: fails in openvino: .*bin file"):
        ir.load(path)
    weights.mkdir()
    with pytest.raises(hu.HalfulpError, match="not a plain file"):
        ir.load(path)
    weights.rmdir()
    os.mkfifo(weights)  # to open it would wait for a writer
    with pytest.raises(hu.HalfulpError, match="not a plain file"):
        ir.load(path)
    with pytest.raises(hu.ModelError, match=r"<bytes>: fails in openvino: .*bin file"):
        ir.load(SMALL.encode())
    for other, words in ((tmp_path / "none.xml", "No such file"), ("/dev/zero", "not a plain file")):
        with pytest.raises(hu.ModelError, match=words):
            ir.load(Path(other))


def test_a_file_that_takes_too_long_or_too_much(tmp_path, monkeypatch):
    path = written(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ir, "_SECONDS", 0.01)
        with pytest.raises(hu.ModelError, match=r"net\.xml: openvino takes more than 0 s to read it"):
            ir.load(path)
    # Threads of a process without memory may wait for each other for ever, or end it.
    monkeypatch.setattr(ir, "_MEMORY", 1 << 20)
    monkeypatch.setattr(ir, "_SECONDS", 1)
    with pytest.raises(hu.ModelError, match=r"net\.xml: (fails in openvino|openvino (takes more|crashes))"):
        ir.load(written(tmp_path, SMALL.replace("<rt_info />", "<a/>" * 200_000)))


def test_what_the_process_that_reads_first_says(tmp_path, monkeypatch):
    """It may lack the memory that this process has."""
    for code, words in (
        ("raise ValueError('no\\x07')", r"openvino can't read the file: ValueError: no\?"),
        ("print('std::bad_alloc')", r"fails in openvino: std::bad_alloc"),
    ):
        monkeypatch.setattr(ir, "_CODE", code)
        with pytest.raises(hu.ModelError, match=rf"net\.xml: {words}$"):
            ir.load(written(tmp_path))


def nested(depth: int) -> Any:
    x = typed("x", "f32", 1)
    if not depth:
        return ov.Model([x], [x])
    choice, bodies = ov.opset13.if_op(op.constant(np.array(True))), (nested(depth - 1), nested(0))
    choice.set_friendly_name("choice")
    choice.set_then_body(bodies[0])
    choice.set_else_body(bodies[1])
    choice.set_input(x.output(0), *(body.get_parameters()[0] for body in bodies))
    return ov.Model([choice.set_output(*(body.get_results()[0] for body in bodies))], [x])


def test_bodies_within_bodies():
    places = [where for where, _ in ir.graphs(nested(16))]
    assert (len(places), places[0], places[-1]) == (33, "", "'choice' (If).else_body.")
    assert places[16] == 16 * "'choice' (If).then_body."
    with pytest.raises(hu.HalfulpError, match=r"its bodies nest too deep\n  expected: at most 16"):
        list(ir.graphs(nested(17)))


def test_packed_constants_that_overlap_are_not_unpacked(tmp_path):
    layer = (
        '<layer id="{0}" name="c{0}" type="Const" version="opset1"><data element_type="i4" shape="262144" '
        'offset="{0}" size="131072"/><output><port id="0" precision="I4"><dim>262144</dim></port></output></layer>'
    )
    result = '<layer id="{}" name="r{}" type="Result" version="opset1"><input><port id="0"/></input></layer>'
    edge = '<edge from-layer="{}" from-port="0" to-layer="{}" to-port="0"/>'
    layers = [*map(layer.format, range(100)), *(result.format(100 + i, i) for i in range(100))]
    edges = [edge.format(i, 100 + i) for i in range(100)]
    text = (
        f'<net name="n" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(edges)}</edges></net>'
    )
    path = written(tmp_path, text, bytes(1 << 18))
    with little_memory():
        ir.load(path)


PARTS = """0 2 -1 ? 1..4 ... 4,4 9999999999999999999 x f16 FP16 i64 pdpd none opset6 opset9
    Add PReLU Result Const Parameter Reshape Select ReadValue If"""


@pytest.mark.parametrize("rounds", [3, pytest.param(2000, marks=pytest.mark.exhaustive)])
def test_mutated_attributes_give_our_errors_or_a_model(rounds, tmp_path):
    rng = random.Random(4)
    for _ in range(rounds):
        parts = SMALL.split('"')  # the odd ones are the attributes' values
        for _ in range(rng.randint(1, 3)):
            parts[(2 * rng.randrange(200) + 1) % (len(parts) - 1)] = rng.choice(["", *PARTS.split()])
        try:
            model = ir.load(written(tmp_path, '"'.join(parts)))
            evaluate(model, {value.name: np.ones((2, 3), np.float32) for value in model.graph.inputs})
        except hu.HalfulpError as error:
            assert str(error).splitlines()[0].isprintable()  # noqa: PT017
