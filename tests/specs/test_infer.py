"""Shape inference and plans: against NumPy, each other, and every way to fill in unknown dims."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfulp.errors import HalfulpError, SpecError
from halfulp.specs import OpVersion, TensorType, find, ids
from halfulp.specs.model import Plan
from halfulp.types import Shape

Static = tuple[int, ...]

dims = st.integers(0, 4)
shapes = st.lists(dims, max_size=4).map(tuple)
operators = st.sampled_from([find(id) for id in ids() if len(find(id).inputs) == 2])


def type_of(op: OpVersion) -> str:
    """Return a type that both inputs may have."""
    return op.type_variables[op.inputs[0].type][0]


@st.composite
def attributes_for(draw: st.DrawFn, op: OpVersion) -> dict[str, Any]:
    if op.id == "onnx.Pow-1":
        axis = draw(st.none() | st.integers(-5, 4))
        return {"broadcast": draw(st.sampled_from([0, 1])), **({} if axis is None else {"axis": axis})}
    if op.id == "openvino.Power-1":
        return {"auto_broadcast": draw(st.sampled_from(["none", "explicit", "numpy"]))}
    return {}


@st.composite
def calls(draw: st.DrawFn) -> tuple[OpVersion, Static, Static, dict[str, Any]]:
    """An operator, two shapes that often fit together, and attributes."""
    op = draw(operators)
    x = draw(shapes)
    cut = draw(st.integers(0, len(x)))
    end = draw(st.integers(cut, len(x)))
    related = [1 if draw(st.integers(0, 4)) == 0 else dim for dim in x[cut:end]]
    y = draw(st.just(tuple(related)) | shapes | st.just(x))
    return op, x, y, draw(attributes_for(op))


def infer(op: OpVersion, x: Shape, y: Shape, attributes: Mapping[str, Any]) -> Shape | str:
    """Return the inferred shape, or "error"."""
    kind = type_of(op)
    try:
        output = op.infer((kind, x), (kind, y), **attributes)
    except SpecError:
        return "error"
    assert output.type == kind
    return output.shape


@settings(max_examples=150)
@given(calls())
def test_plan_agrees_with_infer_and_with_numpy(call):
    op, x, y, attributes = call
    kind = type_of(op)
    expected = infer(op, x, y, attributes)
    if expected == "error":
        with pytest.raises(SpecError):
            op.plan(TensorType(kind, x), TensorType(kind, y), **attributes)
        return
    plan = op.plan(TensorType(kind, x), TensorType(kind, y), **attributes)
    assert plan.output == (kind, expected)
    view = np.empty(y).reshape(plan.y_shape)
    assert np.broadcast_shapes(x, view.shape) == expected
    if op.broadcasting.name == "numpy":
        assert expected == np.broadcast_shapes(x, y)
        assert plan.y_shape == y
    elif attributes.get("auto_broadcast") != "numpy":
        assert expected == x  # every other rule keeps X's shape


@settings(max_examples=100)
@given(shapes, shapes)
def test_numpy_rule_refuses_what_numpy_refuses(x, y):
    try:
        expected: Shape | str = np.broadcast_shapes(x, y)
    except ValueError:
        expected = "error"
    assert infer(find("onnx.Pow-7"), x, y, {}) == expected


# --- which element of Y each element of X meets, by the documents' words ---------------------------


def meets_by_axis(x: Static, y: Static, attributes: Mapping[str, Any]) -> Iterator[tuple[Static, Static]]:
    start = attributes.get("axis", len(x) - len(y)) % max(len(x), 1)
    for index in np.ndindex(x):
        yield index, (0,) * len(y) if np.prod(y) == 1 else index[start : start + len(y)]


@pytest.mark.parametrize(
    ("y", "attributes"),
    [
        ((), {"broadcast": 1}),
        ((1, 1), {"broadcast": 1}),
        ((1, 1), {"broadcast": 1, "axis": 7}),
        ((5,), {"broadcast": 1}),
        ((4, 5), {"broadcast": 1}),
        ((3, 4), {"broadcast": 1, "axis": 1}),
        ((3, 4), {"broadcast": 1, "axis": -3}),
        ((2,), {"broadcast": 1, "axis": 0}),
        ((4,), {"broadcast": 1, "axis": -2}),
        ((2, 3, 4, 5), {"broadcast": 1, "axis": 0}),
        ((2, 3, 4, 5), {"broadcast": 1}),
        ((2, 3, 4, 5), {"broadcast": 0, "axis": 99}),
    ],
)
def test_pow_1_places_y_as_the_document_says(y, attributes):
    x = (2, 3, 4, 5)
    plan = find("onnx.Pow-1").plan(TensorType("float32", x), TensorType("float32", y), **attributes)
    values = np.arange(np.prod(y)).reshape(y)
    placed = np.broadcast_to(values.reshape(plan.y_shape), x)
    where = {} if not attributes["broadcast"] else attributes
    for index, other in meets_by_axis(x, y, where):
        assert placed[index] == values[other]


@pytest.mark.parametrize("id", ["onnx.PRelu-1", "onnx.PRelu-6", "openvino.PReLU-1"])
@pytest.mark.parametrize("x", [(2, 3), (2, 3, 3), (3, 3, 4, 5), (0, 3, 2), (2, 0, 3)])
def test_a_1d_slope_is_per_channel(id, x):
    plan = find(id).plan(TensorType("float32", x), TensorType("float32", x[1:2]))
    placed = np.broadcast_to(np.arange(x[1]).reshape(plan.y_shape), x)
    assert all(placed[index] == index[1] for index in np.ndindex(x))


@pytest.mark.parametrize("id", ["onnx.PRelu-7", "onnx.PRelu-9", "onnx.PRelu-16"])
def test_from_prelu_7_on_a_1d_slope_is_along_the_last_dim(id):
    plan = find(id).plan(TensorType("float32", (2, 3, 3)), TensorType("float32", (3,)))
    assert plan.y_shape == (3,)


# --- unknown dims, against every way to fill them in -----------------------------------------------

PLAIN = ("onnx.Pow-15", "onnx.PRelu-16", "onnx.PRelu-6", "openvino.PReLU-1", "onnx.Pow-1")
ABSTRACT = [
    *((find(id), {}) for id in PLAIN),
    (find("openvino.Power-1"), {"auto_broadcast": "none"}),
    *((find("onnx.Pow-1"), {"broadcast": 1, **axis}) for axis in ({}, {"axis": 0}, {"axis": 1})),
]
SIZES = (0, 1, 2, 3)


def fillings(x: Shape, y: Shape) -> Iterator[tuple[Static, Static, dict[str, int]]]:
    """Every way to give the symbols and unknown dims of two shapes a size, and what the symbols became."""
    assert x is not None
    assert y is not None
    both = (*x, *y)
    symbols = sorted({dim for dim in both if isinstance(dim, str)})
    unknown = sum(dim is None for dim in both)
    for sizes in itertools.product(SIZES, repeat=len(symbols) + unknown):
        named = dict(zip(symbols, sizes, strict=False))
        rest = iter(sizes[len(symbols) :])
        filled = [next(rest) if d is None else named[d] if isinstance(d, str) else d for d in both]
        yield tuple(filled[: len(x)]), tuple(filled[len(x) :]), named


abstract_dims = st.sampled_from([None, None, "M", "N", 0, 1, 2, 3])


@settings(max_examples=100)
@given(
    st.sampled_from(ABSTRACT),
    st.lists(abstract_dims, max_size=3).map(tuple),
    st.lists(abstract_dims, max_size=2).map(tuple),
)
def test_inference_holds_however_unknown_dims_turn_out(call, x, y):
    op, attributes = call
    inferred = infer(op, x, y, attributes)
    outcomes = [(infer(op, fx, fy, attributes), named) for fx, fy, named in fillings(x, y)]
    allowed = [(shape, named) for shape, named in outcomes if shape != "error"]
    if inferred == "error":
        assert allowed == []
        return
    assert isinstance(inferred, tuple)
    for shape, named in allowed:
        assert isinstance(shape, tuple)
        assert len(shape) == len(inferred)
        for dim, size in zip(inferred, shape, strict=True):
            assert dim is None or size == (named[dim] if isinstance(dim, str) else dim)


@settings(max_examples=100)
@given(st.sampled_from(ABSTRACT), st.data())
def test_inference_is_as_precise_as_can_be(call, data):
    op, attributes = call
    unknown = st.sampled_from([None, None, 0, 1, 2, 3])
    x = data.draw(st.lists(unknown, max_size=3).map(tuple), "x")
    y = data.draw(st.lists(unknown, max_size=2).map(tuple), "y")
    inferred = infer(op, x, y, attributes)
    outcomes = [infer(op, fx, fy, attributes) for fx, fy, _ in fillings(x, y)]
    allowed = [shape for shape in outcomes if shape != "error"]
    if not allowed:
        assert inferred == "error"
        return
    assert isinstance(inferred, tuple)
    for n, dim in enumerate(inferred):
        sizes = {shape[n] for shape in allowed if isinstance(shape, tuple)}
        assert dim == (sizes.pop() if len(sizes) == 1 else None)


@pytest.mark.parametrize(
    ("id", "x", "y", "expected"),
    [
        # multidirectional
        ("onnx.Pow-7", ("N", 3), ("N", 1), ("N", 3)),
        ("onnx.Pow-7", ("N",), (5,), (5,)),
        ("onnx.Pow-7", ("N",), ("M",), (None,)),
        ("onnx.Pow-7", (None, 1), (None,), (None, None)),
        ("onnx.Pow-7", None, (2, 3), None),
        # X's shape
        ("onnx.PRelu-9", ("N", "C", None), ("C", 1), ("N", "C", None)),
        ("onnx.PRelu-9", ("N", 3), None, ("N", 3)),
        ("onnx.PRelu-9", (2, None), (3,), (2, 3)),
        ("onnx.PRelu-6", ("N", "C", "L"), ("C",), ("N", "C", "L")),
        ("onnx.Pow-1", None, (2, 3), (2, 3)),
        ("openvino.PReLU-1", ("N", "C", 4), ("C",), ("N", "C", 4)),
        # equal sizes
        ("directml.ELEMENT_WISE_POW-3_0", (None, "N"), ("M", 4), ("M", 4)),
        ("directml.ELEMENT_WISE_POW-3_0", None, (1, 4), (1, 4)),
        ("directml.ACTIVATION_PARAMETERIZED_RELU-1_0", (1, "C", 2, 3), None, (1, "C", 2, 3)),
    ],
)
def test_symbols_and_unknown_dims(id, x, y, expected):
    op = find(id)
    kind = type_of(op)
    assert op.infer((kind, x), (kind, y)) == (kind, expected)


def test_operands_come_in_many_forms():
    op = find("onnx.Pow-15")
    x = np.zeros((2, 3), ">f4")[:, ::-1]
    assert op.infer(x, (np.dtype("int64"), [3])) == ("float32", (2, 3))
    assert op.infer(("float32", (np.int64(2),)), (np.float16, ())) == ("float32", (2,))
    assert op.infer(TensorType("bfloat16", ("N",)), np.uint8(2)) == ("bfloat16", ("N",))


def test_an_operator_of_one_input_keeps_its_shape():
    op = find("directml.ELEMENT_WISE_CONSTANT_POW-3_0")
    assert op.infer(("float16", ("N", None)), Exponent=2) == ("float16", ("N", None))
    plan = op.plan(TensorType("float32", (2, 3)), Exponent=0.1, ScaleBias=(2, 1))
    assert plan == Plan(TensorType("float32", (2, 3)), ())


def test_the_most_elements_that_directml_takes():
    op = find("directml.ELEMENT_WISE_POW-3_0")
    x = TensorType("float32", (2**16 - 1, 2**16 + 1))  # 2^32 - 1 elements
    assert op.plan(x, x).output == x


def test_a_plan_needs_known_dims():
    with pytest.raises(ValueError, match=r"a plan needs known dims, got float32\[N\]"):
        find("onnx.Pow-7").plan(TensorType("float32", ("N",)), TensorType("float32", ("N",)))


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (3, "an operand must be an array or a pair (type, shape)\n  got: 3"),
        (("float32", 3), "a shape must be a sequence of dims, or None\n  got: 3"),
        (("float32", (-1,)), "a dim must be an integer >= 0, a symbol or None\n  got: -1"),
        (("float32", ("",)), "a dim must be an integer >= 0, a symbol or None\n  got: ''"),
    ],
)
def test_what_is_no_operand(operand, text):
    with pytest.raises(HalfulpError) as caught:
        find("onnx.Pow-7").infer(operand, operand)
    assert str(caught.value) == f"{text}"
