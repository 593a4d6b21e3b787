"""DirectML's descriptions: what the debug layer refuses, sizes, and execution on strided memory."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp as hu
from halfulp.models.directml import (
    DATA_TYPES,
    DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC,
    DML_BUFFER_TENSOR_DESC,
    DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC,
    DML_ELEMENT_WISE_POW_OPERATOR_DESC,
    DML_SCALE_BIAS,
    FEATURE_LEVELS,
    DMLCalcBufferTensorSize,
    OperatorDesc,
    execute,
    overlaps,
    tensors,
    validate,
)

OPERATORS = {desc.type: desc for desc in get_args(OperatorDesc)}


def tensor(*sizes: int, kind: str = "FLOAT32", **fields: Any) -> DML_BUFFER_TENSOR_DESC:
    return DML_BUFFER_TENSOR_DESC(DataType=kind, Sizes=sizes, **fields)


def constant_pow(
    x: Any, out: Any | None = None, **fields: Any
) -> DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC:
    return DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(
        InputTensor=x, OutputTensor=out or x, **{"Exponent": 2, **fields}
    )


def power(x: Any, y: Any, out: Any | None = None) -> DML_ELEMENT_WISE_POW_OPERATOR_DESC:
    return DML_ELEMENT_WISE_POW_OPERATOR_DESC(InputTensor=x, ExponentTensor=y, OutputTensor=out or x)


def prelu(x: Any, slope: Any, out: Any | None = None) -> DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC:
    return DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC(
        InputTensor=x, SlopeTensor=slope, OutputTensor=out or x
    )


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sizes", "strides", "size"),
    [
        ("FLOAT32", (1,), None, 4),
        ("FLOAT32", (1, 1, 2, 3), None, 24),
        ("FLOAT16", (3,), None, 8),  # 6, up to a multiple of 4
        ("INT8", (5,), None, 8),
        ("FLOAT64", (3,), None, 24),
        ("FLOAT32", (2, 3), (0, 1), 12),  # rows repeated
        ("FLOAT32", (2, 3), (4, 1), 28),  # rows padded; nothing behind the last
        ("UINT8", (2, 2), (3, 1), 8),
        ("DML_TENSOR_DATA_TYPE_INT16", (7, 1), (2, 100), 28),
    ],
)
def test_calc_buffer_tensor_size(kind, sizes, strides, size):
    assert DMLCalcBufferTensorSize(kind, len(sizes), sizes, strides) == size
    made = tensor(*sizes, kind=kind, Strides=strides)
    assert (made.TotalTensorSizeInBytes, made.DimensionCount) == (size, len(sizes))
    assert made.DataType == kind.removeprefix("DML_TENSOR_DATA_TYPE_")


@pytest.mark.parametrize(
    ("fields", "clause"),
    [
        ({"DataType": "BFLOAT16"}, "C1"),
        ({"DataType": "UNKNOWN"}, "C1"),
        ({"DimensionCount": 3}, "C2"),
        ({"Sizes": [1] * 9}, "C2"),
        ({"Strides": [1]}, "C2"),
        ({"Sizes": [2, 0]}, "C3"),
        ({"Sizes": [2, -1]}, "C3"),
        ({"Sizes": [2, True]}, "C3"),
        ({"Sizes": [2**32, 1]}, "C3"),
        ({"Sizes": [2**16, 2**16]}, "C3"),
        ({"Strides": [-1, 1]}, "C4"),
        ({"Strides": [2**32 - 1, 2**31]}, "C4"),
        ({"TotalTensorSizeInBytes": -4}, "C6"),
        ({"GuaranteedBaseOffsetAlignment": 2}, "C7"),
        ({"GuaranteedBaseOffsetAlignment": 12}, "C7"),
        ({"Flags": "OWNED"}, "C8"),
    ],
)
def test_what_a_tensor_can_not_be(fields, clause):
    with pytest.raises(hu.SpecError) as caught:
        DML_BUFFER_TENSOR_DESC(**{"DataType": "FLOAT32", "Sizes": [2, 3]} | fields)
    assert caught.value.clause == f"directml.DML_BUFFER_TENSOR_DESC.{clause}"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7)), min_size=1, max_size=4))
def test_overlaps_is_what_counting_finds(dims):
    sizes, strides = zip(*dims, strict=True)
    places = [
        sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in np.ndindex(*sizes)
    ]
    made = tensor(*sizes, Strides=strides)
    assert overlaps(made) == (len(set(places)) < len(places))


# --- operators ------------------------------------------------------------------------------------

X4, X2, X9 = tensor(1, 1, 2, 3), tensor(2, 3), tensor(*[1] * 8)
HALF = tensor(2, 3, kind="FLOAT16")
PADDED = tensor(2, 3, Strides=[4, 1])


@pytest.mark.parametrize(
    ("desc", "level", "found"),
    [
        (constant_pow(X4), "1_0", "directml.ELEMENT_WISE_CONSTANT_POW-1_0"),
        (constant_pow(X9), "6_4", "directml.ELEMENT_WISE_CONSTANT_POW-3_0"),
        (power(X2, tensor(2, 3, kind="INT8")), "3_0", "directml.ELEMENT_WISE_POW-3_0"),
        (prelu(X4, X4), "2_0", "directml.ACTIVATION_PARAMETERIZED_RELU-2_0"),
        (prelu(*[tensor(3, kind="INT16")] * 2), "5_1", "directml.ACTIVATION_PARAMETERIZED_RELU-5_1"),
        (constant_pow(X2, PADDED), "6_0", "directml.ELEMENT_WISE_CONSTANT_POW-3_0"),
        (constant_pow(tensor(2, 3, Strides=[1, 1])), "6_0", None),
        (constant_pow(tensor(2, 3, Strides=[1, 1]), X2), "6_0", "directml.ELEMENT_WISE_CONSTANT_POW-3_0"),
    ],
)
def test_the_version_in_force(desc, level, found):
    if found is None:
        with pytest.raises(hu.SpecError, match=r"DML_BUFFER_TENSOR_DESC\.C5"):
            validate(desc, level)
    else:
        assert validate(desc, level).id == found


@pytest.mark.parametrize(
    ("desc", "level", "clause"),
    [
        (constant_pow(X2), "2_0", "ELEMENT_WISE_CONSTANT_POW-1_0.C4"),
        (constant_pow(X2, tensor(3, 2)), "6_4", "ELEMENT_WISE_CONSTANT_POW-3_0.C2"),
        (constant_pow(X2, HALF), "6_4", "ELEMENT_WISE_CONSTANT_POW-3_0.C3"),
        (constant_pow(X2, ScaleBias=DML_SCALE_BIAS(1e300, 0)), "6_4", "ELEMENT_WISE_CONSTANT_POW-3_0.C8"),
        (power(X4, tensor(1, 1, 2, 3, kind="INT32")), "2_0", "ELEMENT_WISE_POW-1_0.C3"),
        (power(X2, tensor(2, 3, kind="INT64")), "6_4", "ELEMENT_WISE_POW-3_0.C11"),
        (prelu(X2, HALF), "6_4", "ACTIVATION_PARAMETERIZED_RELU-5_1.C3"),
        (constant_pow(tensor(3, Flags="OWNED_BY_DML")), "6_4", "DML_BUFFER_TENSOR_DESC.C8"),
        (constant_pow(X2, tensor(2, 3, Strides=[0, 1])), "6_4", "DML_BUFFER_TENSOR_DESC.C5"),
    ],
)
def test_what_an_operator_does_not_take(desc, level, clause):
    with pytest.raises(hu.SpecError) as caught:
        validate(desc, level)
    assert caught.value.clause == f"directml.{clause}"


def test_feature_levels():
    for level in FEATURE_LEVELS:
        validate(constant_pow(X4), level)
    with pytest.raises(hu.HalfulpError, match="unknown feature level"):
        validate(constant_pow(X4), "7_0")
    assert [list(tensors(desc)) for desc in (prelu(X2, X2), power(X2, X2))] == [
        ["InputTensor", "SlopeTensor", "OutputTensor"],
        ["InputTensor", "ExponentTensor", "OutputTensor"],
    ]
    rows = {op.split(".")[1].split("-")[0] for op in hu.ops() if op.startswith("directml")}
    assert set(OPERATORS) == rows


# --- execution ------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn, sizes: tuple[int, ...], output: bool = False) -> tuple[int, ...]:
    """Draw strides: dims in any order, with gaps; an input's may also be 0 or overlap."""
    strides = [0] * len(sizes)
    reach = 1
    for axis in draw(st.permutations(range(len(sizes)))):
        strides[axis] = reach * draw(st.integers(1, 3))
        reach = strides[axis] * sizes[axis]
        if not output and draw(st.booleans()):
            strides[axis] = draw(st.integers(0, 2))
    return tuple(strides)


@settings(max_examples=150)
@given(st.data())
def test_execution_on_any_layout(data):
    """As the operator on plain arrays, each element in its place, every other byte as it was."""
    kind = data.draw(
        st.sampled_from(["ELEMENT_WISE_CONSTANT_POW", "ELEMENT_WISE_POW", "ACTIVATION_PARAMETERIZED_RELU"])
    )
    types = ["FLOAT32", "FLOAT16", *(["INT16", "INT8"] if kind != "ELEMENT_WISE_CONSTANT_POW" else [])]
    dtype_name = data.draw(st.sampled_from(types))
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    fields: dict[str, Any] = {}
    if kind != "ACTIVATION_PARAMETERIZED_RELU":
        fields["ScaleBias"] = data.draw(st.sampled_from([None, DML_SCALE_BIAS(0.5, 1)]))
    if kind == "ELEMENT_WISE_CONSTANT_POW":
        fields["Exponent"] = data.draw(st.sampled_from([2.0, 0.5, -1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    names = {
        "ELEMENT_WISE_CONSTANT_POW": ("InputTensor", "OutputTensor"),
        "ELEMENT_WISE_POW": ("InputTensor", "ExponentTensor", "OutputTensor"),
        "ACTIVATION_PARAMETERIZED_RELU": ("InputTensor", "SlopeTensor", "OutputTensor"),
    }[kind]
    buffers, offsets = {}, {}
    for name in names:
        strides = data.draw(layouts(sizes, name == "OutputTensor"))
        fields[name] = tensor(*sizes, kind=dtype_name, Strides=strides)
        offsets[name] = 16 * data.draw(st.integers(0, 2))
        size = offsets[name] + fields[name].TotalTensorSizeInBytes + data.draw(st.integers(0, 9))
        buffers[name] = rng.integers(0, 256, size, dtype=np.uint8)
    desc = OPERATORS[kind](**fields)

    def places(name: str) -> np.ndarray:
        """Return the index of each element's first byte."""
        steps = fields[name].byte_strides
        grid = np.indices(sizes).reshape(len(sizes), -1)
        return (offsets[name] + np.array(steps) @ grid).reshape(sizes)

    def gathered(name: str) -> np.ndarray:
        dtype = DATA_TYPES[dtype_name].dtype
        raw = [buffers[name][place : place + dtype.itemsize].tobytes() for place in places(name).reshape(-1)]
        return np.frombuffer(b"".join(raw), dtype).reshape(sizes)

    row = validate(desc)
    attributes = {key: fields[key] for key in ("Exponent",) if key in fields}
    if fields.get("ScaleBias"):
        attributes["ScaleBias"] = (0.5, 1)
    expected = row(*(gathered(name) for name in names[:-1]), **attributes)
    before = {name: buffer.copy() for name, buffer in buffers.items()}
    execute(desc, buffers, offsets=offsets)
    assert gathered("OutputTensor").tobytes() == expected.tobytes()
    touched = np.zeros(buffers["OutputTensor"].size, bool)
    for byte in range(expected.itemsize):
        touched[places("OutputTensor").reshape(-1) + byte] = True
    assert np.array_equal(buffers["OutputTensor"][~touched], before["OutputTensor"][~touched])
    for name in names[:-1]:
        assert np.array_equal(buffers[name], before[name])


@pytest.mark.parametrize(
    ("desc", "bound"),
    [
        (
            prelu(tensor(4), tensor(4)),
            {"SlopeTensor": 0, "OutputTensor": 0},
        ),  # only InputTensor may be aliased
        (power(tensor(4), tensor(4)), {"ExponentTensor": 0, "OutputTensor": 0}),
        (constant_pow(tensor(8), tensor(8)), {"InputTensor": 0, "OutputTensor": 16}),
        (constant_pow(tensor(2, 2), tensor(2, 2, Strides=[1, 2])), {"InputTensor": 0, "OutputTensor": 0}),
        (constant_pow(tensor(4, Strides=[0]), tensor(4)), {"InputTensor": 0, "OutputTensor": 0}),
    ],
)
def test_overlaps_that_are_refused(desc, bound):
    shared = np.arange(16, dtype=np.float32)
    buffers = {name: shared if name in bound else np.zeros(16, np.float32) for name in tensors(desc)}
    with pytest.raises(hu.SpecError, match=r"DML_BUFFER_TENSOR_DESC\.C10"):
        execute(desc, buffers, offsets=bound)
    assert shared.tolist() == list(range(16))


@pytest.mark.parametrize(
    ("buffers", "offsets", "words"),
    [
        ({"InputTensor": np.zeros(3, np.float32)}, {}, "one buffer for each tensor"),
        (
            {"InputTensor": b"", "OutputTensor": bytearray(12)},
            {},
            r"the buffer of InputTensor is too small .*C9",
        ),
        (
            {"InputTensor": bytes(12), "OutputTensor": bytes(12)},
            {},
            "the buffer of OutputTensor is read-only",
        ),
        (
            {"InputTensor": bytes(28), "OutputTensor": bytearray(12)},
            {"InputTensor": 4},
            "InputTensor starts at .*C9",
        ),
        ({"InputTensor": np.zeros(6, np.float32)[::2], "OutputTensor": bytearray(12)}, {}, "not contiguous"),
    ],
)
def test_what_a_buffer_can_not_be(buffers, offsets, words):
    with pytest.raises(hu.HalfulpError, match=words):
        execute(constant_pow(tensor(3)), buffers, offsets=offsets)


def test_a_guaranteed_alignment_binds():
    x = tensor(4, GuaranteedBaseOffsetAlignment=64)
    buffers = {"InputTensor": np.ones(64, np.float32), "OutputTensor": np.zeros(4, np.float32)}
    with pytest.raises(hu.SpecError, match="C9"):
        execute(constant_pow(x, tensor(4)), buffers, offsets={"InputTensor": 16})
    execute(constant_pow(x, tensor(4)), buffers, offsets={"InputTensor": 64})
    assert buffers["OutputTensor"].tolist() == [1] * 4


def test_scale_bias_and_what_dml_makes_of_a_negative_base():
    memory, out = np.array([0, 1.5, -3], np.float32), np.zeros(3, np.float32)
    desc = constant_pow(tensor(3), Exponent=0.5, ScaleBias=DML_SCALE_BIAS(2, 1))
    execute(desc, {"InputTensor": memory, "OutputTensor": out})
    assert out[:2].tolist() == [1, 2]
    assert math.isnan(out[2])
