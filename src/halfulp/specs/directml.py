"""The rows of DirectML: an operator at each feature level that changed it."""

from halfulp.specs import broadcast
from halfulp.specs.model import Kernel, OpVersion, later, read

_URL = "https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_{}_operator_desc"

# --- types, in the documents' order --------------------------------------------------------------

_FLOATS = ("float32", "float16")
_SIGNED = ("int32", "int16", "int8")
_UNSIGNED = ("uint32", "uint16", "uint8")

# --- common to the operators ---------------------------------------------------------------------

_SCALE_BIAS = (
    "attribute ScaleBias (DML_SCALE_BIAS): An optional scale and bias to apply to the input: g(x) = x * scale + bias is"
    " applied to each input element before the operator."
)
_SPECIAL_VALUES = (
    "special-values (N1): Results for zeros, infinities, NaN and a negative base. Choice: As pow of IEEE 754-2019"
    " 9.2.1, where the document's NaN for a negative base does not come first: x^0 = 1 and 1^y = 1 even for a NaN."
)

# --- the rows ------------------------------------------------------------------------------------


def _first(name: str, kernel: Kernel, text: str) -> OpVersion:
    """Return the version of an operator at feature level 1_0."""
    return OpVersion(
        id=f"directml.{name}-1_0",
        type_variables={"DataType": _FLOATS},
        broadcasting=broadcast.NONE,
        ranks=(4, 4),
        source=_URL.format(name.lower()),
        kernel=kernel,
        **read(text),
    )


_CONSTANT_POW_1_0 = _first(
    "ELEMENT_WISE_CONSTANT_POW",
    "pow_directml",
    f"""
    Raises each element of InputTensor to the power of Exponent, placing the result into the corresponding
        element of OutputTensor: f(x) = pow(x, Exponent).
    input InputTensor (DataType): The input tensor to read from.
    output OutputTensor (DataType): The output tensor to write the results to.
    attribute Exponent (FLOAT, required): The exponent that all inputs will be raised to.
    {_SCALE_BIAS}
    C1 f(x) = pow(x, Exponent), element by element.
    C2 InputTensor and OutputTensor have the same DimensionCount and Sizes. [shape]
    C3 InputTensor and OutputTensor have the same DataType, one that DataType allows. [type DataType, output]
    C4 The number of dimensions is one that the feature level supports. [rank]
    C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
    C6 The only input is InputTensor, required. [inputs]
    C7 Exponent is required, a FLOAT. [attribute Exponent]
    C8 ScaleBias may be given: g(x) = x * scale + bias is applied to each element first. [attribute ScaleBias]
    C9 There are no other attributes. [unknown attribute]
    C10 A negative base gives NaN unless the exponent is integral.
    C11 The output may alias InputTensor.
    open negative-base scale-bias-rounding exponent-not-float32 rounding
    {_SPECIAL_VALUES}
    open nan environment
    """,
)
_CONSTANT_POW_3_0 = later(_CONSTANT_POW_1_0, "3_0", ranks=(1, 8))

_POW_1_0 = _first(
    "ELEMENT_WISE_POW",
    "pow_directml",
    f"""
    Computes each element of InputTensor raised to the power of the corresponding element of ExponentTensor,
        placing the result into the corresponding element of OutputTensor: f(input, exponent) = pow(input,
        exponent).
    input InputTensor (DataType): The tensor containing the input values.
    input ExponentTensor (DataType): The tensor containing the exponent values.
    output OutputTensor (DataType): The output tensor to write the results to.
    {_SCALE_BIAS}
    C1 f(input, exponent) = pow(input, exponent), element by element.
    C2 InputTensor, ExponentTensor and OutputTensor have the same DimensionCount and Sizes. [shape, equal shapes]
    C3 InputTensor, ExponentTensor and OutputTensor have the same DataType. [type DataType, output]
    C4 The number of dimensions is one that the feature level supports. [rank]
    C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
    C6 The inputs are InputTensor and ExponentTensor, required, in this order. [inputs]
    C7 ScaleBias may be given: g(x) = x * scale + bias is applied to each element of InputTensor first.
        [attribute ScaleBias]
    C8 There are no other attributes. [unknown attribute]
    C9 A negative base gives NaN unless the exponent has an integral value, whatever its type is.
    C10 The output may alias InputTensor.
    open differing-sizes negative-base scale-bias-rounding exponent-not-float32 rounding
    {_SPECIAL_VALUES}
    open nan environment
    """,
)
_POW_3_0 = later(
    _POW_1_0,
    "3_0",
    f"""
    input InputTensor (DataType): The tensor containing the input values.
    input ExponentTensor (ExponentDataType): The tensor containing the exponent values.
    C3 InputTensor and OutputTensor have the same DataType, one that DataType allows. [type DataType, output]
    C11 ExponentTensor has a type that ExponentDataType allows, whatever InputTensor's is. [type ExponentDataType]
    C12 Results are exact where input and exponent both have an integral type.
    open differing-sizes negative-base scale-bias-rounding scale-bias-of-integers exponent-not-float32 rounding
    {_SPECIAL_VALUES}
    open nan integer-overflow integer-base environment
    """,
    type_variables=dict.fromkeys(("DataType", "ExponentDataType"), (*_FLOATS, *_SIGNED, *_UNSIGNED)),
    ranks=(1, 8),
)

_RELU_1_0 = _first(
    "ACTIVATION_PARAMETERIZED_RELU",
    "prelu",
    """
    Performs a parameterized rectified linear unit (ReLU) activation function on every element in InputTensor,
        placing the result into the corresponding element of OutputTensor: f(x, slope) = x, if x >= 0; slope * x,
        otherwise.
    input InputTensor (DataType): The input tensor to read from.
    input SlopeTensor (DataType): A tensor containing the slope for each corresponding value of the input.
    output OutputTensor (DataType): The output tensor to write the results to.
    C1 f(x, slope) = x where x >= 0, slope * x otherwise, element by element.
    C2 InputTensor, SlopeTensor and OutputTensor have the same DimensionCount and Sizes. [shape, equal shapes]
    C3 InputTensor, SlopeTensor and OutputTensor have the same DataType, one that DataType allows.
        [type DataType, output]
    C4 The number of dimensions is one that the feature level supports. [rank]
    C5 No size is 0, and a tensor has at most 2^32 - 1 elements. [size]
    C6 The inputs are InputTensor and SlopeTensor, required, in this order. [inputs]
    C7 There are no attributes. [unknown attribute]
    C8 The output may alias InputTensor.
    open differing-sizes prelu-nan prelu-rounding environment
    """,
)
_RELU_2_0 = later(_RELU_1_0, "2_0", ranks=(4, 5))
_RELU_3_0 = later(_RELU_2_0, "3_0", ranks=(1, 8))
_RELU_5_1 = later(
    _RELU_3_0,
    "5_1",
    "open differing-sizes prelu-nan prelu-rounding prelu-integer-overflow environment",
    type_variables={"DataType": (*_FLOATS, *_SIGNED)},
)

ROWS = (
    *(_CONSTANT_POW_1_0, _CONSTANT_POW_3_0),
    *(_POW_1_0, _POW_3_0),
    *(_RELU_1_0, _RELU_2_0, _RELU_3_0, _RELU_5_1),
)
