"""ONNX between opsets: Pow and PRelu in every version, whole models, what must survive, what is refused."""

import cProfile
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.models.onnx_models import external, parsed, single

import halfulp as hu
from halfulp.conversion import Conversion

NEWEST = onnx.defs.onnx_opset_version()
EVERY = [1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 18, 21, NEWEST]


def converted(model: onnx.ModelProto, opset: int, dims: dict[str, int] | None = None) -> Conversion:
    """Convert a model, and see that the result passes the checker and computes the same bits."""
    before = model.SerializeToString(deterministic=True)
    conversion = hu.convert(model, opset=opset, verify=True, dims=dims)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(conversion.model, full_check=True)
    assert [entry.version for entry in conversion.model.opset_import if not entry.domain] == [opset]
    assert conversion.verification.same, conversion.verification
    return conversion


def test_prelu_in_bfloat16_through_float64():
    model = single(
        "PRelu", 16, {"x": ("bfloat16", [2, 300]), "s": ("bfloat16", [300])}, ("bfloat16", [2, 300])
    )
    after = converted(model, 13).model
    # In float32 this product, just above half of the smallest bfloat16, would round to that half first.
    x = np.full((2, 300), -(2.0**-100) * (1 + 2.0**-7), ml_dtypes.bfloat16)
    slope = np.full(300, 2.0**-34, ml_dtypes.bfloat16)
    assert hu.run(after, {"x": x, "s": slope})["out"][0, 0] == -(2.0**-133)
    with pytest.raises(hu.HalfulpError, match=r"Cast takes no tensor\(bfloat16\) in opset 12"):
        hu.convert(model, opset=12)


def test_a_body_does_not_narrow_numbers_that_float32_does_not_hold():
    source = parsed(
        '<ir_version: 8, opset_import: ["": 18]> g (double[1, 2] x) => (double[1, 1] y) { y = ReduceL2 (x) }'
    )
    found = hu.convert(source, expand="ReduceL2").model
    assert [node.op_type for node in found.graph.node] == ["Mul", "ReduceSum", "Sqrt"]
    x = np.array([[1, 1e-9]])
    assert ReferenceEvaluator(found).run(None, {"x": x + 1e-12})[0] == np.sqrt(((x + 1e-12) ** 2).sum())
    source = parsed(
        '<ir_version: 8, opset_import: ["": 15]> g (int64 a, int64 b, int64 c) => (int64[N] y) { y = Range (a, b, c) }'
    )
    feeds = {"a": np.array(0), "b": np.array((1 << 24) + 1), "c": np.array(1 << 21)}
    found = hu.convert(source, expand="Range").model
    assert ReferenceEvaluator(found).run(None, feeds)[0].ravel().tolist() == [n << 21 for n in range(9)]


# --- whole models ---------------------------------------------------------------------------------

NETWORK = """<ir_version: 8, opset_import: ["": 15, "other": 3], producer_name: "maker", domain: "d",
    model_version: 7, doc_string: "about it">
    net (float[N, 4] x, float[4] s, bool c) => (float[N, 4] z) <float[4] w = {1, 2, 0.5, -1}> {
        a = Abs (x)
        p = Pow (a, w)
        q = PRelu (p, s)
        r = If (c) <
            then_branch = yes () => (float[N, 4] y) { k = Pow (q, s)  y = Relu (k) },
            else_branch = no () => (float[N, 4] n) { n = Mul (q, w) }>
        z = Softmax (r)
    }"""


@pytest.mark.parametrize("opset", [11, 12, 13, 14, 16, 19, 21, NEWEST])
def test_a_network_with_branches(opset):
    model = parsed(NETWORK)
    for number, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node{number}", f"doc{number}"
        node.metadata_props.add(key="k", value=str(number))
    model.metadata_props.add(key="owner", value="me")
    after = converted(model, opset).model
    assert (after.producer_name, after.domain, after.model_version, after.doc_string) == (
        "maker",
        "d",
        7,
        "about it",
    )
    assert after.metadata_props[0].value == "me"
    assert {entry.domain: entry.version for entry in after.opset_import} == {"": opset, "other": 3}
    assert [info.name for info in after.graph.input] == ["x", "s", "c"]
    named = {node.name: node for node in after.graph.node if node.name}
    assert [named[f"node{i}"].op_type for i in range(5)] == ["Abs", "Pow", "PRelu", "If", "Softmax"]
    assert [named[f"node{i}"].doc_string for i in range(5)] == [f"doc{i}" for i in range(5)]
    assert [named[f"node{i}"].metadata_props[0].value for i in range(5)] == list("01234")


def test_external_data_stays_external(tmp_path):
    data = np.array([1, 2, 3], np.float32)
    model = parsed(
        """<ir_version: 8, opset_import: ["": 6]>
        g (float[N, 3, 4] x) => (float[N, 3, 4] z) { z = PRelu (x, w) }""".replace(
            "PRelu (x, w)", "PRelu (x, x)"
        )
    )
    model.graph.node[0].input[1] = "w"
    model.graph.initializer.append(numpy_helper.from_array(data, "w"))
    external(model, "w.bin", offset=16, length=12)
    folder, other = tmp_path / "a", tmp_path / "b"
    folder.mkdir()
    other.mkdir()
    (folder / "w.bin").write_bytes(bytes(16) + data.tobytes())
    onnx.save(model, folder / "net.onnx")
    hu.convert(folder / "net.onnx", other / "new.onnx", opset=13, verify=True)
    after = onnx.load(other / "new.onnx", load_external_data=False)
    (tensor,) = after.graph.initializer
    assert (list(tensor.dims), tensor.data_location) == ([3, 1], onnx.TensorProto.EXTERNAL)
    x = -np.ones((2, 3, 4), np.float32)
    assert np.array_equal(hu.run(other / "new.onnx", {"x": x})["z"][0, :, 0], -data)
    hu.convert(folder / "net.onnx", other / "new.onnx", opset=13)
    (other / "w.bin").write_bytes(bytes(28))
    with pytest.raises(hu.HalfulpError, match="holds other data"):
        hu.convert(folder / "net.onnx", other / "third.onnx", opset=13)
    assert sorted(path.name for path in other.iterdir()) == ["new.onnx", "w.bin"]


# --- made up --------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Return a model of a few nodes in one of the opsets, legacy broadcasting included."""
    opset = draw(st.sampled_from([1, 6, 7, 9, 12, 13, 15, 16, NEWEST]))
    rank = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 4)) for _ in range(rank)]
    declared: list[int | str] = [draw(st.sampled_from([dim, f"D{axis}"])) for axis, dim in enumerate(shape)]
    declared = [dim if isinstance(dim, int) else 3 for dim in declared] if draw(st.booleans()) else declared
    inputs = [helper.make_tensor_value_info("v0", 1, declared)]
    initializers, nodes = [], []
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    for number in range(draw(st.integers(1, 4))):
        x, out = f"v{number}", f"v{number + 1}"
        operator = draw(st.sampled_from(["Pow", "PRelu", "Add", "Relu", "Pow", "PRelu"]))
        if operator == "Relu":
            nodes.append(helper.make_node("Relu", [x], [out]))
            continue
        if any(isinstance(dim, str) for dim in declared):
            other: list[int] = [1]
        elif operator == "PRelu" and opset < 7:
            other = [shape_of(declared)[1]] if rank > 1 and draw(st.booleans()) else [1]
        elif opset < 7:
            start = draw(st.integers(0, rank - 1))
            other = shape_of(declared)[start : draw(st.integers(start + 1, rank))]
        else:
            other = [draw(st.sampled_from([1, dim])) for dim in shape_of(declared)][
                draw(st.integers(0, rank)) :
            ]
        attributes = {}
        if opset < 7 and operator != "PRelu" and other != list(declared):
            attributes = {"broadcast": 1}
            if len(other) > 0 and set(other) != {1}:
                attributes["axis"] = start
                if 1 in other:
                    other = list(declared)[start : start + len(other)]
        name = f"w{number}"
        if draw(st.booleans()):
            initializers.append(numpy_helper.from_array(rng.standard_normal(other).astype(np.float32), name))
        else:
            inputs.append(helper.make_tensor_value_info(name, 1, other))
        nodes.append(helper.make_node(operator, [x, name], [out], **attributes))
    result = helper.make_tensor_value_info(nodes[-1].output[0], 1, [None] * rank)
    graph = helper.make_graph(nodes, "g", inputs, [result], initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def shape_of(declared: list[Any]) -> list[int]:
    """Return the dims, all numbers."""
    return [int(dim) for dim in declared]


@settings(max_examples=30)
@given(graphs(), st.sampled_from(EVERY))
def test_graphs_there_and_back(model, opset):
    there = converted(model, opset).model
    back = hu.convert(there, opset=model.opset_import[0].version).model
    feeds = {info.name: None for info in model.graph.input}
    from halfulp.models.onnx import load
    from halfulp.models.run.inputs import Fit

    feeds = Fit().inputs(load(model), seed=1)
    (expected,), (got,) = hu.run(model, feeds).values(), hu.run(back, feeds).values()
    assert expected.tobytes() == got.tobytes()


@pytest.mark.parametrize("shape", ["a chain", "side by side"])
@pytest.mark.parametrize("opset", [11, 18])
def test_twice_the_nodes_are_twice_the_work(opset, shape):
    """Calls of functions are counted, because times depend on the machine."""

    def calls(count: int) -> int:
        nodes, kinds = [], ("Pow", "Mul", "Relu", "PRelu", "Softmax")
        for i in range(count):
            kind, source = kinds[i % 5], f"t{i - 1}" if i and shape == "a chain" else "x"
            operands = [source] if kind in ("Relu", "Softmax") else [source, f"w{i}"]
            nodes.append(helper.make_node(kind, operands, [f"t{i}"]))
        weights = [numpy_helper.from_array(np.ones(3, np.float32), f"w{i}") for i in range(count)]
        ends = [f"t{count - 1}"] if shape == "a chain" else [f"t{i}" for i in range(count)]
        x, *outputs = (
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 3]) for name in ("x", *ends)
        )
        graph = helper.make_graph(nodes, "g", [x], outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
        profile = cProfile.Profile()
        profile.runcall(hu.convert, model, opset=opset)
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)  # what is read once: schemas, and the conversions of the onnx package
    assert calls(200) < 2.2 * calls(100)
