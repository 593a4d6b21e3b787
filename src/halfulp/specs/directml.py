"""The rows of DirectML: an operator at each feature level that changed it."""

from typing import Any

from halfulp.specs import broadcast
from halfulp.specs.model import Attribute, OpVersion, clauses, later, ports, questions, shared

_URL = "https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_{}_operator_desc"

# --- types, in the documents' order --------------------------------------------------------------

_FLOATS = ("float32", "float16")
_SIGNED = ("int32", "int16", "int8")
_UNSIGNED = ("uint32", "uint16", "uint8")

# --- common to the operators ---------------------------------------------------------------------

_SCALE_BIAS = Attribute(
    "ScaleBias",
    "DML_SCALE_BIAS",
    "An optional scale and bias to apply to the input: g(x) = x * scale + bias is applied to each input"
    " element before the operator.",
)
_EXPONENT = Attribute("Exponent", "FLOAT", "The exponent that all inputs will be raised to.", required=True)

_OWN = questions("""
    differing-sizes: Operands of differing sizes that a stride of 0 would fit together.
        Choice: An error, as Sizes must be equal; give an array that is broadcast already.
    negative-base (N9): How far the NaN for a negative base reaches.
        Choice: It holds for every base below 0, -1 and -infinity included, and an infinite exponent is not
        integral; -0 is not below 0.
    scale-bias-rounding (N6): The rounding of x * scale + bias.
        Choice: One rounding to float32 (a fused multiply-add); the power of that float32 base is rounded once
        to the output's type.
    scale-bias-of-integers (N6): ScaleBias with an integer InputTensor.
        Choice: x * scale + bias with one rounding to float64; its power is truncated toward zero and
        saturated.
    exponent-not-float32: An Exponent or a ScaleBias that is not a float32 value.
        Choice: It is rounded once to float32, to nearest; a finite number that would overflow is an error.
    special-values (N1): Results for zeros, infinities, NaN and a negative base.
        Choice: As pow of IEEE 754-2019 9.2.1, where the document's NaN for a negative base does not come
        first: x^0 = 1 and 1^y = 1 even for a NaN.
    prelu-nan (N5): A NaN in the input.
        Choice: x < 0 decides, not x >= 0: a NaN passes through bit for bit, and so do +0 and -0; a product
        that is NaN is the canonical quiet NaN.
""")
_SCALED = "negative-base scale-bias-rounding exponent-not-float32 rounding special-values nan environment"

# --- the rows ------------------------------------------------------------------------------------


def _first(name: str, **given: Any) -> OpVersion:
    """Return the version of an operator at feature level 1_0."""
    return OpVersion(
        id=f"directml.{name}-1_0",
        outputs=ports("OutputTensor (DataType): The output tensor to write the results to."),
        type_variables={"DataType": _FLOATS},
        broadcasting=broadcast.NONE,
        ranks=(4, 4),
        source=_URL.format(name.lower()),
        **given,
    )


_CONSTANT_POW_1_0 = _first(
    "ELEMENT_WISE_CONSTANT_POW",
    summary=(
        "Raises each element of InputTensor to the power of Exponent, placing the result into the"
        " corresponding element of OutputTensor: f(x) = pow(x, Exponent)."
    ),
    inputs=ports("InputTensor (DataType): The input tensor to read from."),
    attributes=(_EXPONENT, _SCALE_BIAS),
    clauses=clauses("""
        C1 f(x) = pow(x, Exponent), element by element.
        C2 InputTensor and OutputTensor have the same DimensionCount and Sizes. [shape]
        C3 InputTensor and OutputTensor have the same DataType, one that DataType allows. [type DataType,
            output]
        C4 The number of dimensions is one that the feature level supports. [rank]
        C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
        C6 The only input is InputTensor, required. [inputs]
        C7 Exponent is required, a FLOAT. [attribute Exponent]
        C8 ScaleBias may be given: g(x) = x * scale + bias is applied to each element first. [attribute
            ScaleBias]
        C9 There are no other attributes. [unknown attribute]
        C10 A negative base gives NaN unless the exponent is integral.
        C11 The output may alias InputTensor.
    """),
    unspecified=shared(_SCALED, _OWN),
    kernel="pow_directml",
)
_CONSTANT_POW_3_0 = later(_CONSTANT_POW_1_0, "3_0", ranks=(1, 8))

_POW_1_0 = _first(
    "ELEMENT_WISE_POW",
    summary=(
        "Computes each element of InputTensor raised to the power of the corresponding element of"
        " ExponentTensor, placing the result into the corresponding element of OutputTensor:"
        " f(input, exponent) = pow(input, exponent)."
    ),
    inputs=ports("""
        InputTensor (DataType): The tensor containing the input values.
        ExponentTensor (DataType): The tensor containing the exponent values.
    """),
    attributes=(_SCALE_BIAS,),
    clauses=clauses("""
        C1 f(input, exponent) = pow(input, exponent), element by element.
        C2 InputTensor, ExponentTensor and OutputTensor have the same DimensionCount and Sizes. [shape, equal
            shapes]
        C3 InputTensor, ExponentTensor and OutputTensor have the same DataType. [type DataType, output]
        C4 The number of dimensions is one that the feature level supports. [rank]
        C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
        C6 The inputs are InputTensor and ExponentTensor, required, in this order. [inputs]
        C7 ScaleBias may be given: g(x) = x * scale + bias is applied to each element of InputTensor first.
            [attribute ScaleBias]
        C8 There are no other attributes. [unknown attribute]
        C9 A negative base gives NaN unless the exponent has an integral value, whatever its type is.
        C10 The output may alias InputTensor.
    """),
    unspecified=shared(f"differing-sizes {_SCALED}", _OWN),
    kernel="pow_directml",
)
_POW_3_0 = later(
    _POW_1_0,
    "3_0",
    inputs=(
        _POW_1_0.inputs[0],
        *ports("ExponentTensor (ExponentDataType): The tensor containing the exponent values."),
    ),
    type_variables=dict.fromkeys(("DataType", "ExponentDataType"), (*_FLOATS, *_SIGNED, *_UNSIGNED)),
    ranks=(1, 8),
    amended="""
        C3 InputTensor and OutputTensor have the same DataType, one that DataType allows. [type DataType,
            output]
        C11 ExponentTensor has a type that ExponentDataType allows, whatever InputTensor's is. [type
            ExponentDataType]
        C12 Results are exact where input and exponent both have an integral type.
    """,
    unspecified=shared(
        "differing-sizes negative-base scale-bias-rounding scale-bias-of-integers exponent-not-float32"
        " rounding special-values nan integer-overflow integer-base environment",
        _OWN,
    ),
)

_RELU_1_0 = _first(
    "ACTIVATION_PARAMETERIZED_RELU",
    summary=(
        "Performs a parameterized rectified linear unit (ReLU) activation function on every element in"
        " InputTensor, placing the result into the corresponding element of OutputTensor:"
        " f(x, slope) = x, if x >= 0; slope * x, otherwise."
    ),
    inputs=ports("""
        InputTensor (DataType): The input tensor to read from.
        SlopeTensor (DataType): A tensor containing the slope for each corresponding value of the input.
    """),
    attributes=(),
    clauses=clauses("""
        C1 f(x, slope) = x where x >= 0, slope * x otherwise, element by element.
        C2 InputTensor, SlopeTensor and OutputTensor have the same DimensionCount and Sizes. [shape, equal
            shapes]
        C3 InputTensor, SlopeTensor and OutputTensor have the same DataType, one that DataType allows.
            [type DataType, output]
        C4 The number of dimensions is one that the feature level supports. [rank]
        C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
        C6 The inputs are InputTensor and SlopeTensor, required, in this order. [inputs]
        C7 There are no attributes. [unknown attribute]
        C8 The output may alias InputTensor.
    """),
    unspecified=shared("differing-sizes prelu-nan prelu-rounding environment", _OWN),
    kernel="prelu",
)
_RELU_2_0 = later(_RELU_1_0, "2_0", ranks=(4, 5))
_RELU_3_0 = later(_RELU_2_0, "3_0", ranks=(1, 8))
_RELU_5_1 = later(
    _RELU_3_0,
    "5_1",
    type_variables={"DataType": (*_FLOATS, *_SIGNED)},
    unspecified=shared("differing-sizes prelu-nan prelu-rounding prelu-integer-overflow environment", _OWN),
)

ROWS = (
    *(_CONSTANT_POW_1_0, _CONSTANT_POW_3_0),
    *(_POW_1_0, _POW_3_0),
    *(_RELU_1_0, _RELU_2_0, _RELU_3_0, _RELU_5_1),
)
