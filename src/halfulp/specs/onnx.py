"""The rows of ONNX: all versions of Pow and PRelu. A row contains the changes from the previous version.

SONNX has a row of its own, which is not one of ``ROWS``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.specs import broadcast, unspecified
from halfulp.specs.model import Attribute, Clause, Example, OpVersion, Port, Unspecified, later
from halfulp.specs.tensor import TensorType

_URLS = {
    "Pow": "https://onnx.ai/onnx/operators/onnx__Pow.html#l-onnx-op-pow-{}",
    "PRelu": "https://onnx.ai/onnx/operators/onnx__PRelu.html#l-onnx-op-prelu-{}",
}

# --- types, in the documents' order --------------------------------------------------------------

_FLOATS = ("float64", "float32", "float16")
_POW_12_T = (*_FLOATS, "int32", "int64")
_POW_13_T = ("bfloat16", *_POW_12_T)
_POW_12_T1 = (*_FLOATS, "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8")
_POW_15_T1 = ("bfloat16", *_POW_12_T1)
_PRELU_9_T = (*_FLOATS, "int32", "int64", "uint32", "uint64")
_PRELU_16_T = ("bfloat16", *_PRELU_9_T)

# --- Pow -----------------------------------------------------------------------------------------

_POW_SUMMARY = (
    "Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>)"
    " where the function f(x) = x^exponent, is applied to the data tensor elementwise."
)

_POW_7_INPUTS = (
    Port("X", "T", "First operand, base of the exponent."),
    Port("Y", "T", "Second operand, power of the exponent."),
)

_POW_C1 = Clause("C1", "Z = X^Y: the function f(x) = x^exponent is applied element by element.")
_INPUTS_XY = "The inputs are X and Y, both required, in this order."

_POW_7_C2 = Clause("C2", "X and Y are broadcast multidirectionally, as in NumPy.", ("shape",))
_POW_7_C4_C6 = (
    Clause("C4", _INPUTS_XY, ("inputs",)),
    Clause("C5", "There are no attributes.", ("unknown attribute",)),
    Clause("C6", "Z has X's type and the broadcast shape.", ("output",)),
)


def _example(name: str, x: Any, y: Any, result: Any, *types: str) -> Example:
    """An example with values."""
    inputs = tuple(TensorType(kind, np.shape(value)) for kind, value in zip(types, (x, y), strict=True))
    return Example(name, inputs, inputs[0], values=(x, y), result=result)


def _vector_example(*types: str) -> Example:
    """[1, 2, 3] to the power of [4, 5, 6], as the document does it for eight pairs of types."""
    return _example(f"test_pow_types_{'_'.join(types)}", [1, 2, 3], [4, 5, 6], [1, 32, 729], *types)


_X_1 = TensorType("float32", (2, 3, 4, 5))


def _shape_example(name: str, shape: tuple[int, ...], axis: int | None = None) -> Example:
    attributes = {"broadcast": 1} if axis is None else {"axis": axis, "broadcast": 1}
    return Example(name, (_X_1, TensorType("float32", shape)), _X_1, attributes)


# --- PRelu ---------------------------------------------------------------------------------------

_PRELU_1_SUMMARY = (
    "PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data"
    " (Tensor<T>) where the function f(x) = slope * x for x < 0, f(x) = x for x >= 0., is applied to the"
    " data tensor elementwise."
)

_PRELU_X = Port("X", "T", "Input tensor")

_PRELU_C1 = Clause("C1", "Y = slope * X where X < 0, and X where X >= 0, element by element.")
_PRELU_1_C2 = Clause("C2", "A slope of size 1 is shared across the channels.", ("shape",))
_PRELU_T = Clause("C3", "X, slope and Y have the same type, one that T allows.", ("type T",))
_PRELU_C4 = Clause("C4", "The inputs are X and slope, both required, in this order.", ("inputs",))
_PRELU_NO_ATTRIBUTES = Clause("C5", "There are no attributes.", ("unknown attribute",))
_PRELU_C6 = Clause("C6", "Y has X's type and shape.", ("output",))

_PRELU_7_CLAUSES = (
    _PRELU_C1,
    Clause("C2", "slope is unidirectionally broadcast to X: X is never enlarged.", ("shape",)),
    _PRELU_T,
    _PRELU_C4,
    _PRELU_NO_ATTRIBUTES,
    _PRELU_C6,
)

_HIGHER_RANK = Unspecified(
    "slope-of-higher-rank",
    "A slope of higher rank than X whose extra dims are 1.",
    "An error: it would enlarge X.",
)

_PRELU_16_BODY = """\
<
  domain: "",
  opset_import: ["" : 16]
>
PRelu (X, slope) => (Y)
{
   Zero = Constant <value: tensor = float {0}> ()
   ZeroCast = CastLike (Zero, X)
   XLessThanZero = Less (X, ZeroCast)
   SlopeMulX = Mul (slope, X)
   Y = Where (XLessThanZero, SlopeMulX, X)
}
"""

# --- the rows ------------------------------------------------------------------------------------


def _later(before: OpVersion, version: str, **changes: Any) -> OpVersion:
    source = _URLS[before.name].format(version)
    return later(before, version, since_version=version, source=source, **changes)


_POW_1 = OpVersion(
    id="onnx.Pow-1",
    since_version="1",
    support_level="COMMON",
    function=False,
    shape_inference=True,
    summary=(
        f"{_POW_SUMMARY} If necessary the right-hand-side argument will be broadcasted to match the shape"
        " of left-hand-side argument: see attributes broadcast and axis."
    ),
    inputs=(
        Port("X", "T", "Input tensor of any shape, base of the exponent."),
        Port("Y", "T", "Input tensor of any shape broadcastable to X shape, the exponent component."),
    ),
    outputs=(Port("Z", "T", "Output tensor (same size as X)"),),
    attributes=(
        Attribute("axis", "INT", "If set, defines the broadcast dimensions."),
        Attribute("broadcast", "INT", "Pass 1 to enable broadcasting.", 0, values=(0, 1)),
    ),
    type_variables={"T": _FLOATS},
    broadcasting=broadcast.LEGACY_AXIS,
    clauses=(
        _POW_C1,
        Clause(
            "C2",
            "With broadcast=1, Y has one element (a scalar, or any tensor of a rank up to X's), or its shape"
            " is a contiguous subset of X's shape.",
            ("shape",),
        ),
        Clause(
            "C3",
            "axis is the dim of X at which the mutually equal shape starts; where it is not set, the shapes"
            " are matched at their ends.",
            ("attribute axis",),
        ),
        Clause("C4", "A dim of 1 inside Y does not expand.", ("1-dim expansion",)),
        Clause(
            "C5",
            "Only broadcast=1 enables broadcasting; the default is 0.",
            ("equal shapes", "attribute broadcast"),
        ),
        Clause("C6", "X, Y and Z have the same type, one that T allows.", ("type T",)),
        Clause("C7", _INPUTS_XY, ("inputs",)),
        Clause("C8", "The attributes are axis and broadcast.", ("unknown attribute",)),
        Clause("C9", "Z has X's type and shape.", ("output",)),
    ),
    unspecified=(
        Unspecified("negative-axis", "A negative axis.", "It counts from the end: -1 is the last dim of X."),
        Unspecified("axis-without-broadcast", "axis without broadcast=1.", "It is ignored."),
        Unspecified(
            "axis-of-one-element",
            "axis with a Y of one element.",
            "It is ignored: there is no equal shape to place.",
        ),
        Unspecified("shapes-without-broadcast", "Differing shapes without broadcast=1.", "An error."),
        Unspecified("other-broadcast", "A broadcast that is neither 0 nor 1.", "An error."),
        *unspecified.POW_FLOAT,
    ),
    examples=(
        _shape_example("a scalar tensor", ()),
        _shape_example("a 1-element tensor", (1, 1)),
        _shape_example("the last dim", (5,)),
        _shape_example("the last two dims", (4, 5)),
        _shape_example("from axis 1", (3, 4), axis=1),
        _shape_example("from axis 0", (2,), axis=0),
    ),
    source=_URLS["Pow"].format(1),
    kernel="pow",
)
_POW_7 = _later(
    _POW_1,
    "7",
    summary=f"{_POW_SUMMARY} This operator supports multidirectional (i.e., Numpy-style) broadcasting.",
    inputs=_POW_7_INPUTS,
    outputs=(Port("Z", "T", "Output tensor."),),
    attributes=(),
    broadcasting=broadcast.NUMPY,
    clauses=(
        _POW_C1,
        _POW_7_C2,
        Clause("C3", "X, Y and Z have the same type, one that T allows.", ("type T",)),
        *_POW_7_C4_C6,
    ),
    unspecified=unspecified.POW_FLOAT,
    examples=(),
)
_POW_12 = _later(
    _POW_7,
    "12",
    inputs=(_POW_7_INPUTS[0], Port("Y", "T1", "Second operand, power of the exponent.")),
    type_variables={"T": _POW_12_T, "T1": _POW_12_T1},
    clauses=(
        _POW_C1,
        _POW_7_C2,
        Clause("C3", "X and Z have the same type, one that T allows.", ("type T",)),
        *_POW_7_C4_C6,
        Clause("C7", "Y has a type that T1 allows, whatever X's type is.", ("type T1",)),
    ),
    unspecified=unspecified.POW_ANY,
)
_POW_13 = _later(_POW_12, "13", type_variables={"T": _POW_13_T, "T1": _POW_12_T1})
_POW_15 = _later(
    _POW_13,
    "15",
    type_variables={"T": _POW_13_T, "T1": _POW_15_T1},
    examples=(
        _example("test_pow_bcast_scalar", [1, 2, 3], 2, [1, 4, 9], "float32", "float32"),
        _example(
            "test_pow_bcast_array",
            [[1, 2, 3], [4, 5, 6]],
            [1, 2, 3],
            [[1, 4, 27], [4, 25, 216]],
            "float32",
            "float32",
        ),
        _vector_example("float32", "int64"),
        _vector_example("int64", "float32"),
        _vector_example("float32", "int32"),
        _vector_example("int32", "float32"),
        _vector_example("float32", "uint64"),
        _vector_example("float32", "uint32"),
        _vector_example("int64", "int64"),
        _vector_example("int32", "int32"),
    ),
)

_PRELU_1 = OpVersion(
    id="onnx.PRelu-1",
    since_version="1",
    support_level="COMMON",
    function=False,
    shape_inference=False,
    summary=_PRELU_1_SUMMARY,
    inputs=(
        _PRELU_X,
        Port(
            "slope", "T", "Slope tensor. If slope is of size 1, the value is shared across different channels"
        ),
    ),
    outputs=(Port("Y", "T", "Output tensor"),),
    attributes=(Attribute("consumed_inputs", "INTS", "legacy optimization attribute."),),
    type_variables={"T": _FLOATS},
    broadcasting=broadcast.SHARED_OR_CHANNEL,
    clauses=(
        _PRELU_C1,
        _PRELU_1_C2,
        _PRELU_T,
        _PRELU_C4,
        Clause(
            "C5",
            "The only attribute is consumed_inputs, a legacy optimization that changes no result.",
            ("unknown attribute", "attribute consumed_inputs"),
        ),
        _PRELU_C6,
    ),
    unspecified=(
        Unspecified(
            "slope-of-rank-1",
            "A 1-d slope of more than one element.",
            "It holds a value for each channel, dim 1 of X; any other size is an error. An X of rank 1 has"
            " no channels.",
        ),
        Unspecified(
            "slope-of-rank-2",
            "A slope of rank 2 or more.",
            "It is broadcast unidirectionally to X, as PRelu-7 does it.",
        ),
        Unspecified("slope-of-one-element", "The rank of a slope of one element.", "Any."),
        Unspecified("output-shape", "The shape of Y.", "X's shape."),
        *unspecified.PRELU_FLOAT,
    ),
    source=_URLS["PRelu"].format(1),
    kernel="prelu",
)
_PRELU_6 = _later(
    _PRELU_1,
    "6",
    attributes=(),
    clauses=(_PRELU_C1, _PRELU_1_C2, _PRELU_T, _PRELU_C4, _PRELU_NO_ATTRIBUTES, _PRELU_C6),
    shape_inference=True,
)
_PRELU_7 = _later(
    _PRELU_6,
    "7",
    summary=(
        f"{_PRELU_1_SUMMARY} This operator supports unidirectional broadcasting (tensor slope should be"
        " unidirectional broadcastable to input tensor X)."
    ),
    inputs=(
        _PRELU_X,
        Port(
            "slope",
            "T",
            "Slope tensor. The shape of slope can be smaller than first input X; if so, its shape must be"
            " unidirectional broadcastable to X",
        ),
    ),
    outputs=(Port("Y", "T", "Output tensor (same size as X)"),),
    broadcasting=broadcast.UNIDIRECTIONAL,
    clauses=_PRELU_7_CLAUSES,
    unspecified=(_HIGHER_RANK, *unspecified.PRELU_FLOAT),
)
_PRELU_9 = _later(
    _PRELU_7, "9", type_variables={"T": _PRELU_9_T}, unspecified=(_HIGHER_RANK, *unspecified.PRELU_ANY)
)
_PRELU_16 = _later(
    _PRELU_9,
    "16",
    function=True,
    type_variables={"T": _PRELU_16_T},
    clauses=(
        *_PRELU_7_CLAUSES,
        Clause("C7", "The operator is a function: its body says the same as its definition."),
    ),
    body=_PRELU_16_BODY,
)

ROWS = (*(_POW_1, _POW_7, _POW_12, _POW_13, _POW_15), *(_PRELU_1, _PRELU_6, _PRELU_7, _PRELU_9, _PRELU_16))

# --- SONNX, ONNX's safety-related profile, of which Pow is a draft --------------------------------

SONNX_POW_15 = OpVersion(
    id="sonnx.Pow-15",
    since_version="15",
    summary="Operator Pow computes the element-wise power between input tensors A and B.",
    inputs=(
        Port("A", "T", "Base of the power operation."),
        Port("B", "T", "Exponent of the power operation."),
    ),
    outputs=(Port("C", "T", "Result of the element-wise power of A to B."),),
    attributes=(),
    type_variables={"T": ("float16", "float32", "float64", "int32", "int64")},
    broadcasting=broadcast.NONE,
    clauses=(
        Clause("C1", "A, B and C have the same shape.", ("equal shapes", "shape")),
        Clause("C2", "A, B and C have the same type, one that T allows.", ("type T",)),
        Clause("C3", "The elements of an integer B are >= 0; halfulp checks no values."),
        Clause("C4", "C[i] = A[i]^B[i]; floats by IEEE 754's semantics, integers exactly."),
        Clause("C5", "The inputs are A and B, both required, in this order.", ("inputs",)),
        Clause("C6", "There are no attributes.", ("unknown attribute",)),
        Clause("C7", "C has A's type and shape.", ("output",)),
    ),
    unspecified=(
        unspecified.ROUNDING,
        Unspecified(
            "draft-special-values",
            "Special values for which the draft's table contradicts IEEE 754, which it refers to: 1^NaN,"
            " abs(A) <= 1 to an infinite B, and odd powers of -0 and -infinity.",
            unspecified.SPECIAL_VALUES.choice,
            "N1",
        ),
        unspecified.NAN,
        unspecified.INTEGER_OVERFLOW,
        Unspecified(
            "negative-exponent",
            "An integer exponent below 0, against C3.",
            unspecified.INTEGER_BASE.choice,
            "N4",
        ),
        unspecified.ENVIRONMENT,
    ),
    source=(
        "https://github.com/onnx/working-groups/blob/247d3de1a4bfc99e167f1145c8366cbba5f085f7"
        "/safety-related-profile/sonnx/ops/spec/informal/pow/pow.md"
    ),
    kernel="pow",
)
