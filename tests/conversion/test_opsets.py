"""ONNX between opsets: Pow and PRelu in every version, whole models, what must survive, what is refused."""

from __future__ import annotations

import cProfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tests.models.onnx_models import external, parsed, single, with_initializer

import halfulp as hu
from halfulp.conversion import Conversion
from halfulp.conversion.opset import says_the_same
from halfulp.conversion.steps import STEPS
from halfulp.models.onnx.checks import schema_in_force

NEWEST = onnx.defs.onnx_opset_version()
EVERY = [1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 18, 21, NEWEST]


def converted(model: onnx.ModelProto, opset: int, dims: dict[str, int] | None = None) -> Conversion:
    """Convert a model, and see that the result passes the checker and computes the same bits."""
    before = model.SerializeToString(deterministic=True)
    conversion = hu.convert(model, opset=opset, verify=True, dims=dims)
    assert model.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(conversion.model, full_check=True)
    assert [entry.version for entry in conversion.model.opset_import if not entry.domain] == [opset]
    assert conversion.verification is not None
    assert conversion.verification.same, conversion.verification
    return conversion


def operators(model: onnx.ModelProto) -> list[str]:
    """Return the operators of a model but for constants."""
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


def refused(model: onnx.ModelProto, opset: int, *words: str) -> None:
    """See that a conversion is refused, in these words."""
    with pytest.raises(hu.HalfulpError) as error:
        hu.convert(model, opset=opset)
    for word in words:
        assert word in str(error.value)


def pow1(x: list[Any], y: list[Any], **attributes: int) -> onnx.ModelProto:
    """Return X ** Y in opset 6."""
    return single("Pow", 6, {"x": ("float32", x), "y": ("float32", y)}, ("float32", x), **attributes)


# --- Pow-1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 12, 13, NEWEST])
@pytest.mark.parametrize(
    ("x", "y", "attributes", "operands"),
    [
        ([2, 3, 4, 5], [2, 3, 4, 5], {}, ["Pow"]),
        ([2, 3, 4, 5], [], {"broadcast": 1}, ["Pow"]),
        ([2, 3, 4, 5], [5], {"broadcast": 1}, ["Pow"]),
        ([2, 3, 4, 5], [4, 5], {"broadcast": 1, "axis": 2}, ["Pow"]),
        ([2, 3, 4, 5], [3, 4], {"broadcast": 1, "axis": 1}, ["Unsqueeze", "Pow"]),
        ([2, 3, 4, 5], [3, 4], {"broadcast": 1, "axis": -3}, ["Unsqueeze", "Pow"]),
        ([3, 3, 3], [3], {"broadcast": 1, "axis": 0}, ["Unsqueeze", "Pow"]),
        ([3, 3, 3], [3], {"broadcast": 1, "axis": 2}, ["Pow"]),
        (["N", "C", "H"], ["C"], {"broadcast": 1, "axis": 1}, ["Unsqueeze", "Pow"]),
        ([None, None, None], [None], {"broadcast": 1, "axis": 0}, ["Unsqueeze", "Pow"]),
        ([2, 3], [2, 3], {"axis": 1}, ["Pow"]),
    ],
)
def test_axis_and_broadcast_become_shapes(
    x: list[Any], y: list[Any], attributes: dict[str, int], operands: list[str], opset: int
) -> None:
    conversion = converted(pow1(x, y, **attributes), opset, {"x[0]": 3} if x[0] is None else None)
    assert operators(conversion.model) == operands
    assert not conversion.model.graph.node[-1].attribute


def test_a_constant_exponent_is_stored_in_its_new_shape() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["": 6]>
        g (float[N, 3, 4] x) => (float[N, 3, 4] z) <float[3] w = {1, 2, 3}> { z = Pow<axis=1, broadcast=1>(x, w) }""")
    after = converted(model, 13).model
    assert operators(after) == ["Pow"]
    assert [list(tensor.dims) for tensor in after.graph.initializer] == [[3, 1]]


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Less", "Greater"])
def test_the_other_operators_with_axis(operator: str) -> None:
    kind = "bool" if operator in ("Less", "Greater") else "float32"
    model = single(
        operator,
        6,
        {"x": ("float32", [3, 3, 3]), "y": ("float32", [3])},
        (kind, [3, 3, 3]),
        axis=1,
        broadcast=1,
    )
    assert operators(converted(model, 9).model) == ["Unsqueeze", operator]


def test_axis_needs_the_ranks() -> None:
    model = single("Pow", 6, {"x": ("float32", None), "y": ("float32", ["C"])}, axis=1, broadcast=1)
    refused(model, 7, "<ModelProto>: node 'node' (Pow): no exact form in opset 7", "ranks")


def test_a_breach_of_the_old_version_is_said_with_its_clause() -> None:
    refused(pow1([2, 3], [2], broadcast=1), 7, "<ModelProto>: node 'node' (Pow): ", "(onnx.Pow-1.C2)")


# --- PRelu-1 and 6 --------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 9, 15, NEWEST])
@pytest.mark.parametrize("old", [1, 6])
@pytest.mark.parametrize(
    ("x", "slope", "operands"),
    [
        ([2, 3, 4, 5], [3], ["Unsqueeze", "PRelu"]),
        (["N", 3, "H", "W"], [3], ["Unsqueeze", "PRelu"]),
        (["N", 3], [3], ["PRelu"]),
        ([2, 3, 4, 5], [1], ["PRelu"]),
        ([4], [1], ["PRelu"]),
        ([4], [1, 1, 1], ["Squeeze", "PRelu"]),
        ([2, 3, 4], [3, 1], ["PRelu"]),
    ],
)
def test_a_slope_per_channel(
    x: list[Any], slope: list[int], operands: list[str], old: int, opset: int
) -> None:
    attributes = {"consumed_inputs": [0, 0]} if old == 1 else {}
    inputs = {"x": ("float32", x), "s": ("float32", slope)}
    after = converted(single("PRelu", old, inputs, ("float32", x), **attributes), opset).model
    assert operators(after) == operands
    assert not after.graph.node[-1].attribute


# --- down -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [6, 5, 1])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([2, 3], [2, 3]),
        ([2, 3, 4], []),
        ([2, 3, 4], [4]),
        ([2, 3, 4], [3, 1]),
        ([2, 3, 4], [2, 1, 1]),
        ([2, 3, 4], [2, 1, 4]),
        ([3, 1], [2, 3, 4]),
        ([], [2, 2]),
        ([1], [1, 1]),
        ([2, 1, 4], [3, 1]),
        (["N", 3, "M"], ["N", 3, "M"]),
        (["N", 3, "M"], ["N", 1, 1]),
    ],
)
def test_broadcasting_becomes_axis(x: list[Any], y: list[Any], opset: int) -> None:
    rank = max(len(x), len(y))
    model = single("Pow", 11, {"x": ("float32", x), "y": ("float32", y)}, ("float32", [None] * rank))
    converted(model, opset)


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        (["N", 3], ["M", 3], "whether a dim of X and one of Y are equal"),
        ([None, 3], [None, 3], "whether a dim of X and one of Y are equal"),
        ([1, 3], ["N", 3], "not known until it runs"),
        ([1, 3], [1000, 3], "repeated 1000 times"),
        (None, [2], "the ranks of X and Y"),
    ],
)
def test_broadcasting_that_opset_6_has_no_form_for(x: list[Any], y: list[Any], why: str) -> None:
    model = single("Pow", 11, {"x": ("float32", x), "y": ("float32", y)}, ("float32", None))
    refused(model, 6, "no exact form in opset 6", "'node' (Pow)", why)


@pytest.mark.parametrize("opset", [6, 1])
@pytest.mark.parametrize(
    ("x", "slope", "operands"),
    [
        ([2, 3, 4], [3, 1], ["Squeeze", "PRelu"]),
        ([2, 3, 4], [1, 3, 1], ["Squeeze", "PRelu"]),
        (["N", 3, "H", "W"], [3, 1, 1], ["Squeeze", "PRelu"]),
        ([2, 3], [3], ["PRelu"]),
        ([2, 3, 4], [4], ["Transpose", "PRelu", "Transpose"]),
        ([3, 3, 3], [3], ["Transpose", "PRelu", "Transpose"]),
        ([2, 3, 4], [2, 1, 1], ["Squeeze", "Transpose", "PRelu", "Transpose"]),
        ([4], [4], ["Unsqueeze", "PRelu", "Squeeze"]),
        ([2, 3, 4], [1], ["PRelu"]),
        ([2, 3, 4], [], ["PRelu"]),
        ([], [], ["PRelu"]),
        ([2, 3, 4], [3, 4], ["PRelu"]),
    ],
)
def test_a_slope_becomes_one_per_channel(
    x: list[Any], slope: list[int], operands: list[str], opset: int
) -> None:
    model = single("PRelu", 7, {"x": ("float32", x), "s": ("float32", slope)}, ("float32", x))
    conversion = converted(model, opset)
    assert operators(conversion.model) == operands
    open_in_the_document = [change for change in conversion.changes if change.differs]
    assert bool(open_in_the_document) == (slope == [3, 4])


@pytest.mark.parametrize("opset", [8, 7, 6])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64"])
def test_an_integer_prelu_becomes_sums_and_products(kind: str, opset: int) -> None:
    model = single("PRelu", 16, {"x": (kind, [2, 3, 4]), "s": (kind, [3, 1])}, (kind, [2, 3, 4]))
    converted(model, opset)


def test_prelu_in_bfloat16_through_float64() -> None:
    model = single(
        "PRelu", 16, {"x": ("bfloat16", [2, 300]), "s": ("bfloat16", [300])}, ("bfloat16", [2, 300])
    )
    after = converted(model, 13).model
    assert operators(after) == ["Cast", "Cast", "PRelu", "Cast"]
    # In float32 this product, just above half of the smallest bfloat16, would round to that half first.
    x = np.full((2, 300), -(2.0**-100) * (1 + 2.0**-7), ml_dtypes.bfloat16)
    slope = np.full(300, 2.0**-34, ml_dtypes.bfloat16)
    assert hu.run(after, {"x": x, "s": slope})["out"][0, 0] == -(2.0**-133)
    refused(model, 12, "Cast takes no tensor(bfloat16) in opset 12")


def test_an_exponent_in_bfloat16_becomes_float32() -> None:
    model = single("Pow", 15, {"x": ("float16", [50]), "y": ("bfloat16", [50])}, ("float16", [50]))
    assert operators(converted(model, 13).model) == ["Cast", "Pow"]


@pytest.mark.parametrize(
    ("x", "y", "exact"),
    [
        ("float32", "int8", True),
        ("float32", "float16", True),
        ("float64", "float32", True),
        ("float32", "int32", False),
        ("float32", "float64", False),
        ("int32", "int32", False),
        ("int64", "float32", False),
    ],
)
def test_before_opset_12_the_exponent_has_the_bases_type(x: str, y: str, exact: bool) -> None:
    model = single("Pow", 12, {"x": (x, [50]), "y": (y, [50])}, (x, [50]))
    if exact:
        assert operators(converted(model, 7).model) == ["Cast", "Pow"]
    else:
        refused(model, 11, "'node' (Pow): no exact form in opset 11")


@pytest.mark.parametrize(
    ("base", "exponent", "operands"),
    [
        ("float32", np.array([2, 3, -4], np.int64), ["Pow"]),
        ("float32", np.array([0.5, np.nan, np.inf], np.float64), ["Pow"]),
        ("int32", np.array(1, np.int64), ["Identity"]),
        ("int32", np.array(2, np.int32), ["Mul"]),
        ("int64", np.array([11], np.int8), ["Mul"] * 5),
        ("float32", np.array([2**24 + 1], np.int32), None),
        ("float32", np.array([0.1], np.float64), None),
        ("float64", np.array([2**63 - 1], np.int64), None),
        ("int32", np.array([2, 3, 2], np.int32), None),
        ("int32", np.array(2, np.float32), None),
        ("int32", np.array(-1, np.int32), None),
    ],
)
def test_a_constant_exponent_before_opset_12(
    base: str, exponent: np.ndarray[Any, Any], operands: list[str] | None
) -> None:
    model = with_initializer(exponent)
    model.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(base)), [3])
    )
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("out", model.graph.input[0].type.tensor_type.elem_type, [3])
    )
    model.opset_import[0].version = 12
    if operands is None:
        refused(model, 11, "no exact form in opset 11")
    else:
        assert operators(converted(model, 11).model) == operands


def test_bfloat16_has_no_form_before_opset_13() -> None:
    refused(
        single("Pow", 13, {"x": ("bfloat16", [2]), "y": ("float32", [2])}, ("bfloat16", [2])),
        12,
        "Pow has no bfloat16 before opset 13",
    )


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
def test_a_network_with_branches(opset: int) -> None:
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


FUNCTIONS = """<ir_version: 9, opset_import: ["": 15, "mine": 1]>
    net (float[2, 3, 4] x, int8[3, 1] y) => (float[2, 3, 4] z) { a = mine.outer (x, y)  z = mine.outer (a, y) }
    <domain: "mine", opset_import: ["": 15, "mine": 1], doc_string: "twice">
    outer (b, e) => (r) { t = mine.power (b, e)  r = Relu (t) }
    <domain: "mine", opset_import: ["": 15]>
    power (b, e) => (r) { r = Pow (b, e) }"""


@pytest.mark.parametrize("opset", [11, 7, 6, 18])
def test_functions_are_converted_by_the_types_of_their_calls(opset: int) -> None:
    after = converted(parsed(FUNCTIONS), opset).model
    assert [function.name for function in after.functions] == ["outer", "power"]
    assert after.functions[0].doc_string == "twice"
    assert [entry.version for entry in after.functions[1].opset_import] == [opset]
    assert after.functions[1].node[-1].op_type == "Pow"


def test_a_function_whose_calls_disagree() -> None:
    model = parsed(
        FUNCTIONS.replace("z = mine.outer (a, y)", "q = Cast<to = 1>(y) r = mine.outer (a, q) z = Relu(r)")
    )
    refused(model, 11, "node power.#0 (Pow): no exact form in opset 14", "type", "not known")


def test_external_data_stays_external(tmp_path: Path) -> None:
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
    (other / "w.bin").write_bytes(bytes(28))
    with pytest.raises(hu.HalfulpError, match="holds other data"):
        hu.convert(folder / "net.onnx", other / "third.onnx", opset=13)
    assert sorted(path.name for path in other.iterdir()) == ["new.onnx", "w.bin"]


def test_an_operator_that_the_onnx_package_does_not_convert() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["": 11]>
        g (int64[N] x, int64 d, float[2] v) => (float[N, D] z) { y = OneHot (x, d, v) z = Pow (y, y) }""")
    refused(
        model, 10, "node #0 (OneHot): no exact form in opset 10: the onnx package does not convert OneHot"
    )


def test_constants_of_numbers_become_tensors() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["": 13]>
        g (float[N] x) => (float[N] z) { two = Constant<value_float = 2.0>()  z = Pow (x, two) }""")
    after = converted(model, 9).model
    assert [attribute.name for attribute in after.graph.node[0].attribute] == ["value"]


def test_a_model_of_the_first_ir_version() -> None:
    model = single(
        "PRelu", 1, {"x": ("float32", [2, 3, 4]), "s": ("float32", [3])}, ("float32", [2, 3, 4]), ir_version=1
    )
    del model.opset_import[:]
    after = converted(model, 9).model
    assert after.ir_version >= 3


def test_what_does_not_exist() -> None:
    for opset in (0, NEWEST + 1, -1):
        refused(pow1([2], [2]), opset, "no such opset", f"1 to {NEWEST}")


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
def test_graphs_there_and_back(model: onnx.ModelProto, opset: int) -> None:
    there = converted(model, opset).model
    back = hu.convert(there, opset=model.opset_import[0].version).model
    feeds = {info.name: None for info in model.graph.input}
    from halfulp.models.onnx import load
    from halfulp.models.run.fitting import Fit

    feeds = Fit().inputs(load(model), seed=1)
    (expected,), (got,) = hu.run(model, feeds).values(), hu.run(back, feeds).values()
    assert expected.tobytes() == got.tobytes()


@pytest.mark.parametrize("shape", ["a chain", "side by side"])
@pytest.mark.parametrize("opset", [11, 18])
def test_twice_the_nodes_are_twice_the_work(opset: int, shape: str) -> None:
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


def test_an_operator_that_stays_loses_no_attribute_on_the_way_up() -> None:
    """A step to a newer opset does not visit the nodes of an operator whose document says the same in both, unless it
    has a way of its own."""
    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    stay = [
        (name, old)
        for name in names
        for old in range(1, 23)
        if (name, old, old + 1) not in STEPS and says_the_same(name, old, old + 1)
    ]
    assert ("Relu", 13) in stay
    for name, old in stay:
        before, after = (schema_in_force("", name, opset) for opset in (old, old + 1))
        assert before is not None
        assert after is not None
        assert set(before.attributes) <= set(after.attributes), (name, old)
