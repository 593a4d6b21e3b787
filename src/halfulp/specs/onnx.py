"""The rows of ONNX, all versions of Pow and PRelu, each with the changes from the one before; and the row of SONNX."""

from typing import Any

import numpy as np

from halfulp.specs import broadcast
from halfulp.specs.model import SHARED, Example, OpVersion, example, later, read
from halfulp.types import TensorType

_URL = "https://onnx.ai/onnx/operators/onnx__{}.html#l-onnx-op-{}-{}"

# --- types, in the documents' order --------------------------------------------------------------

_FLOATS = ("float64", "float32", "float16")
_POW_12_T = (*_FLOATS, "int32", "int64")
_POW_13_T = ("bfloat16", *_POW_12_T)
_POW_12_T1 = (*_FLOATS, "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8")
_PRELU_9_T = (*_FLOATS, "int32", "int64", "uint32", "uint64")

# --- texts and examples --------------------------------------------------------------------------

_POW_SUMMARY = (
    "Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>)"
    " where the function f(x) = x^exponent, is applied to the data tensor elementwise."
)
_PRELU_SUMMARY = (
    "PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data"
    " (Tensor<T>) where the function f(x) = slope * x for x < 0, f(x) = x for x >= 0., is applied to the"
    " data tensor elementwise."
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


def _example(name: str, x: Any, y: Any, result: Any, types: str = "float32_float32") -> Example:
    """Return an example with values."""
    operands = zip(types.split("_"), (x, y), strict=True)
    inputs = tuple(TensorType(type, np.shape(value)) for type, value in operands)
    return Example(name, inputs, inputs[0], values=(x, y), result=result)


# The document raises [1, 2, 3] to the power of [4, 5, 6] for these types.
_PAIRS = """
    float32_int64 int64_float32 float32_int32 int32_float32 float32_uint64 float32_uint32 int64_int64 int32_int32
"""
_X = (2, 3, 4, 5)

# --- the rows ------------------------------------------------------------------------------------


_POW_1 = OpVersion(
    id="onnx.Pow-1",
    support_level="COMMON",
    function=False,
    shape_inference=True,
    type_variables={"T": _FLOATS},
    broadcasting=broadcast.LEGACY_AXIS,
    **read(f"""
        {_POW_SUMMARY} If necessary the right-hand-side argument will be broadcasted to match the shape
            of left-hand-side argument: see attributes broadcast and axis.
        input X (T): Input tensor of any shape, base of the exponent.
        input Y (T): Input tensor of any shape broadcastable to X shape, the exponent component.
        output Z (T): Output tensor (same size as X)
        attribute axis (INT): If set, defines the broadcast dimensions.
        attribute broadcast (INT, 0 of 0 1): Pass 1 to enable broadcasting.
        C1 Z = X^Y: the function f(x) = x^exponent is applied element by element.
        C2 With broadcast=1, Y has one element (a scalar, or any tensor of a rank up to X's), or its shape is
            a contiguous subset of X's shape. [shape]
        C3 axis is the dim of X at which the mutually equal shape starts; where it is not set, the shapes are
            matched at their ends. [attribute axis]
        C4 A dim of 1 inside Y does not expand. [1-dim expansion]
        C5 Only broadcast=1 enables broadcasting; the default is 0. [equal shapes, attribute broadcast]
        C6 X, Y and Z have the same type, one that T allows. [type T]
        C7 The inputs are X and Y, both required, in this order. [inputs]
        C8 The attributes are axis and broadcast. [unknown attribute]
        C9 Z has X's type and shape. [output]
        negative-axis: A negative axis. Choice: It counts from the end: -1 is the last dim of X.
        axis-without-broadcast: axis without broadcast=1. Choice: It is ignored.
        axis-of-one-element: axis with a Y of one element.
            Choice: It is ignored: there is no equal shape to place.
        shapes-without-broadcast: Differing shapes without broadcast=1. Choice: An error.
        other-broadcast: A broadcast that is neither 0 nor 1. Choice: An error.
        open rounding special-values nan environment
    """),
    examples=(
        example("a scalar tensor", _X, (), _X, broadcast=1),
        example("a 1-element tensor", _X, (1, 1), _X, broadcast=1),
        example("the last dim", _X, (5,), _X, broadcast=1),
        example("the last two dims", _X, (4, 5), _X, broadcast=1),
        example("from axis 1", _X, (3, 4), _X, axis=1, broadcast=1),
        example("from axis 0", _X, (2,), _X, axis=0, broadcast=1),
    ),
    source=_URL.format("Pow", "pow", 1),
    kernel="pow",
)
_POW_7 = later(
    _POW_1,
    "7",
    f"""
    {_POW_SUMMARY} This operator supports multidirectional (i.e., Numpy-style) broadcasting.
    input X (T): First operand, base of the exponent.
    input Y (T): Second operand, power of the exponent.
    output Z (T): Output tensor.
    C1 Z = X^Y: the function f(x) = x^exponent is applied element by element.
    C2 X and Y are broadcast multidirectionally, as in NumPy. [shape]
    C3 X, Y and Z have the same type, one that T allows. [type T]
    C4 The inputs are X and Y, both required, in this order. [inputs]
    C5 There are no attributes. [unknown attribute]
    C6 Z has X's type and the broadcast shape. [output]
    open rounding special-values nan environment
    """,
    attributes=(),
    broadcasting=broadcast.NUMPY,
    clauses=(),
    examples=(),
)
_POW_12 = later(
    _POW_7,
    "12",
    """
    input X (T): First operand, base of the exponent.
    input Y (T1): Second operand, power of the exponent.
    C3 X and Z have the same type, one that T allows. [type T]
    C7 Y has a type that T1 allows, whatever X's type is. [type T1]
    open rounding special-values nan integer-overflow integer-base environment
    """,
    type_variables={"T": _POW_12_T, "T1": _POW_12_T1},
)
_POW_13 = later(_POW_12, "13", type_variables={"T": _POW_13_T, "T1": _POW_12_T1})
_POW_15 = later(
    _POW_13,
    "15",
    type_variables={"T": _POW_13_T, "T1": ("bfloat16", *_POW_12_T1)},
    examples=(
        _example("test_pow_bcast_scalar", [1, 2, 3], 2, [1, 4, 9]),
        _example("test_pow_bcast_array", [[1, 2, 3], [4, 5, 6]], [1, 2, 3], [[1, 4, 27], [4, 25, 216]]),
        *(
            _example(f"test_pow_types_{types}", [1, 2, 3], [4, 5, 6], [1, 32, 729], types)
            for types in _PAIRS.split()
        ),
    ),
)

_PRELU_1 = OpVersion(
    id="onnx.PRelu-1",
    support_level="COMMON",
    function=False,
    shape_inference=False,
    type_variables={"T": _FLOATS},
    broadcasting=broadcast.SHARED_OR_CHANNEL,
    **read(f"""
        {_PRELU_SUMMARY}
        input X (T): Input tensor
        input slope (T): Slope tensor. If slope is of size 1, the value is shared across different channels
        output Y (T): Output tensor
        attribute consumed_inputs (INTS): legacy optimization attribute.
        C1 Y = slope * X where X < 0, and X where X >= 0, element by element.
        C2 A slope of size 1 is shared across the channels. [shape]
        C3 X, slope and Y have the same type, one that T allows. [type T]
        C4 The inputs are X and slope, both required, in this order. [inputs]
        C5 The only attribute is consumed_inputs, a legacy optimization that changes no result.
            [unknown attribute, attribute consumed_inputs]
        C6 Y has X's type and shape. [output]
        slope-of-rank-1: A 1-d slope of more than one element.
            Choice: It holds a value for each channel, dim 1 of X; any other size is an error. An X of
            rank 1 has no channels.
        slope-of-rank-2: A slope of rank 2 or more.
            Choice: It is broadcast unidirectionally to X, as PRelu-7 does it.
        slope-of-one-element: The rank of a slope of one element. Choice: Any.
        output-shape: The shape of Y. Choice: X's shape.
        open prelu-zero-and-nan prelu-rounding environment
    """),
    source=_URL.format("PRelu", "prelu", 1),
    kernel="prelu",
)
_PRELU_6 = later(
    _PRELU_1,
    "6",
    "C5 There are no attributes. [unknown attribute]",
    attributes=(),
    shape_inference=True,
)
_PRELU_7 = later(
    _PRELU_6,
    "7",
    f"""
    {_PRELU_SUMMARY} This operator supports unidirectional broadcasting (tensor slope should be
        unidirectional broadcastable to input tensor X).
    input X (T): Input tensor
    input slope (T): Slope tensor. The shape of slope can be smaller than first input X; if so, its shape must
        be unidirectional broadcastable to X
    output Y (T): Output tensor (same size as X)
    C2 slope is unidirectionally broadcast to X: X is never enlarged. [shape]
    slope-of-higher-rank: A slope of higher rank than X whose extra dims are 1.
        Choice: An error: it would enlarge X.
    open prelu-zero-and-nan prelu-rounding environment
    """,
    broadcasting=broadcast.UNIDIRECTIONAL,
)
_PRELU_9 = later(
    _PRELU_7,
    "9",
    """
    slope-of-higher-rank: A slope of higher rank than X whose extra dims are 1.
        Choice: An error: it would enlarge X.
    open prelu-zero-and-nan prelu-rounding prelu-integer-overflow environment
    """,
    type_variables={"T": _PRELU_9_T},
)
_PRELU_16 = later(
    _PRELU_9,
    "16",
    "C7 The operator is a function: its body says the same as its definition.",
    function=True,
    type_variables={"T": ("bfloat16", *_PRELU_9_T)},
    body=_PRELU_16_BODY,
)

ROWS = (*(_POW_1, _POW_7, _POW_12, _POW_13, _POW_15), *(_PRELU_1, _PRELU_6, _PRELU_7, _PRELU_9, _PRELU_16))

# --- SONNX, ONNX's safety-related profile, of which Pow is a draft --------------------------------

SONNX_POW_15 = OpVersion(
    id="sonnx.Pow-15",
    type_variables={"T": ("float16", "float32", "float64", "int32", "int64")},
    broadcasting=broadcast.NONE,
    **read(f"""
        Operator Pow computes the element-wise power between input tensors A and B.
        input A (T): Base of the power operation.
        input B (T): Exponent of the power operation.
        output C (T): Result of the element-wise power of A to B.
        C1 A, B and C have the same shape. [equal shapes, shape]
        C2 A, B and C have the same type, one that T allows. [type T]
        C3 The elements of an integer B are >= 0; halfulp checks no values.
        C4 C[i] = A[i]^B[i]; floats by IEEE 754's semantics, integers exactly.
        C5 The inputs are A and B, both required, in this order. [inputs]
        C6 There are no attributes. [unknown attribute]
        C7 C has A's type and shape. [output]
        open rounding
        draft-special-values (N1): Special values for which the draft's table contradicts IEEE 754, which it
            refers to: 1^NaN, abs(A) <= 1 to an infinite B, and odd powers of -0 and -infinity.
            Choice: {SHARED["special-values"].choice}
        open nan integer-overflow
        negative-exponent (N4): An integer exponent below 0, against C3.
            Choice: {SHARED["integer-base"].choice}
        open environment
    """),
    source=(
        "https://github.com/onnx/working-groups/blob/247d3de1a4bfc99e167f1145c8366cbba5f085f7"
        "/safety-related-profile/sonnx/ops/spec/informal/pow/pow.md"
    ),
    kernel="pow",
)
