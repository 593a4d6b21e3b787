"""The rows of DirectML: an operator at each feature level that changed it."""

from __future__ import annotations

from typing import Any

from halfulp.specs import broadcast, unspecified
from halfulp.specs.model import Attribute, Clause, Limits, OpVersion, Port, Unspecified, later

_URL = "https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_{}_operator_desc"
_MOST_ELEMENTS = 2**32 - 1

# --- types, in the documents' order --------------------------------------------------------------

_FLOATS = ("float32", "float16")
_SIGNED = ("int32", "int16", "int8")
_UNSIGNED = ("uint32", "uint16", "uint8")

# --- common to the operators ---------------------------------------------------------------------

_IN_PLACE = "The output may alias InputTensor."
_SAME_SIZES = "{} have the same DimensionCount and Sizes."
_C4_C5 = (
    Clause("C4", "The number of dimensions is one that the feature level supports.", ("rank",)),
    Clause("C5", "No size is 0, and a tensor has at most 2^32 - 1 elements.", ("size",)),
)

_SCALE_BIAS = Attribute(
    "ScaleBias",
    "DML_SCALE_BIAS",
    "An optional scale and bias to apply to the input: g(x) = x * scale + bias is applied to each input"
    " element before the operator.",
)
_EXPONENT = Attribute("Exponent", "FLOAT", "The exponent that all inputs will be raised to.", required=True)

_NEGATIVE_BASE = Unspecified(
    "negative-base",
    "How far the NaN for a negative base reaches.",
    "It holds for every base below 0, -1 and -infinity included, and an infinite exponent is not"
    " integral; -0 is not below 0.",
    "N9",
)
_SCALE_BIAS_ROUNDING = Unspecified(
    "scale-bias-rounding",
    "The rounding of x * scale + bias.",
    "One rounding to float32 (a fused multiply-add); the power of that float32 base is rounded once to"
    " the output's type.",
    "N6",
)
_SCALE_BIAS_INTEGER = Unspecified(
    "scale-bias-of-integers",
    "ScaleBias with an integer InputTensor.",
    "x * scale + bias with one rounding to float64; its power is truncated toward zero and saturated.",
    "N6",
)
_SPECIAL_VALUES = Unspecified(
    unspecified.SPECIAL_VALUES.key,
    unspecified.SPECIAL_VALUES.question,
    "As pow of IEEE 754-2019 9.2.1, where the document's NaN for a negative base does not come first:"
    " x^0 = 1 and 1^y = 1 even for a NaN.",
    "N1",
)
_EXPONENT_ROUNDING = Unspecified(
    "exponent-not-float32",
    "An Exponent or a ScaleBias that is not a float32 value.",
    "It is rounded once to float32, to nearest; a finite number that would overflow is an error.",
)
_POW_FLOAT = (unspecified.ROUNDING, _SPECIAL_VALUES, unspecified.NAN, unspecified.ENVIRONMENT)
_POW_ANY = (*_POW_FLOAT[:-1], unspecified.INTEGER_OVERFLOW, unspecified.INTEGER_BASE, unspecified.ENVIRONMENT)
_BROADCASTING = Unspecified(
    "differing-sizes",
    "Operands of differing sizes that a stride of 0 would fit together.",
    "An error, as Sizes must be equal; give an array that is broadcast already.",
)

_CONSTANT_POW_UNSPECIFIED = (_NEGATIVE_BASE, _SCALE_BIAS_ROUNDING, _EXPONENT_ROUNDING, *_POW_FLOAT)
_INPUT = Port("InputTensor", "DataType", "The input tensor to read from.")

# --- ELEMENT_WISE_POW ----------------------------------------------------------------------------

_POW_INPUT = Port("InputTensor", "DataType", "The tensor containing the input values.")
_POW_EXPONENT_TEXT = "The tensor containing the exponent values."

_POW_C1_C2 = (
    Clause("C1", "f(input, exponent) = pow(input, exponent), element by element."),
    Clause(
        "C2", _SAME_SIZES.format("InputTensor, ExponentTensor and OutputTensor"), ("shape", "equal shapes")
    ),
)
_POW_C4_C10 = (
    *_C4_C5,
    Clause("C6", "The inputs are InputTensor and ExponentTensor, required, in this order.", ("inputs",)),
    Clause(
        "C7",
        "ScaleBias may be given: g(x) = x * scale + bias is applied to each element of InputTensor first.",
        ("attribute ScaleBias",),
    ),
    Clause("C8", "There are no other attributes.", ("unknown attribute",)),
    Clause(
        "C9", "A negative base gives NaN unless the exponent has an integral value, whatever its type is."
    ),
    Clause("C10", _IN_PLACE),
)

# --- ACTIVATION_PARAMETERIZED_RELU ---------------------------------------------------------------

_RELU_NAN = Unspecified(
    "prelu-nan",
    "A NaN in the input.",
    "x < 0 decides, not x >= 0: a NaN passes through bit for bit, and so do +0 and -0; a product that is"
    " NaN is the canonical quiet NaN.",
    "N5",
)
_RELU_FLOAT = (_BROADCASTING, _RELU_NAN, unspecified.PRELU_ROUNDING, unspecified.ENVIRONMENT)
_RELU_ANY = (*_RELU_FLOAT[:-1], unspecified.PRELU_INTEGER, unspecified.ENVIRONMENT)

# --- the rows ------------------------------------------------------------------------------------


def _first(name: str, **given: Any) -> OpVersion:
    """Return the version of an operator at feature level 1_0."""
    return OpVersion(
        id=f"directml.{name}-1_0",
        since_version="DML_FEATURE_LEVEL_1_0",
        outputs=(Port("OutputTensor", "DataType", "The output tensor to write the results to."),),
        type_variables={"DataType": _FLOATS},
        broadcasting=broadcast.NONE,
        limits=Limits((4, 4), _MOST_ELEMENTS),
        source=_URL.format(name.lower()),
        **given,
    )


def _later(before: OpVersion, level: str, **changes: Any) -> OpVersion:
    return later(before, level, since_version=f"DML_FEATURE_LEVEL_{level}", **changes)


_ANY_RANK = Limits((1, 8), _MOST_ELEMENTS)

_CONSTANT_POW_1_0 = _first(
    "ELEMENT_WISE_CONSTANT_POW",
    summary=(
        "Raises each element of InputTensor to the power of Exponent, placing the result into the"
        " corresponding element of OutputTensor: f(x) = pow(x, Exponent)."
    ),
    inputs=(_INPUT,),
    attributes=(_EXPONENT, _SCALE_BIAS),
    clauses=(
        Clause("C1", "f(x) = pow(x, Exponent), element by element."),
        Clause("C2", "InputTensor and OutputTensor have the same DimensionCount and Sizes.", ("shape",)),
        Clause(
            "C3",
            "InputTensor and OutputTensor have the same DataType, one that DataType allows.",
            ("type DataType", "output"),
        ),
        *_C4_C5,
        Clause("C6", "The only input is InputTensor, required.", ("inputs",)),
        Clause("C7", "Exponent is required, a FLOAT.", ("attribute Exponent",)),
        Clause(
            "C8",
            "ScaleBias may be given: g(x) = x * scale + bias is applied to each element first.",
            ("attribute ScaleBias",),
        ),
        Clause("C9", "There are no other attributes.", ("unknown attribute",)),
        Clause("C10", "A negative base gives NaN unless the exponent is integral."),
        Clause("C11", _IN_PLACE),
    ),
    unspecified=_CONSTANT_POW_UNSPECIFIED,
    kernel="pow_directml",
)
_CONSTANT_POW_3_0 = _later(_CONSTANT_POW_1_0, "3_0", limits=_ANY_RANK)

_POW_1_0 = _first(
    "ELEMENT_WISE_POW",
    summary=(
        "Computes each element of InputTensor raised to the power of the corresponding element of"
        " ExponentTensor, placing the result into the corresponding element of OutputTensor:"
        " f(input, exponent) = pow(input, exponent)."
    ),
    inputs=(_POW_INPUT, Port("ExponentTensor", "DataType", _POW_EXPONENT_TEXT)),
    attributes=(_SCALE_BIAS,),
    clauses=(
        *_POW_C1_C2,
        Clause(
            "C3",
            "InputTensor, ExponentTensor and OutputTensor have the same DataType.",
            ("type DataType", "output"),
        ),
        *_POW_C4_C10,
    ),
    unspecified=(_BROADCASTING, *_CONSTANT_POW_UNSPECIFIED),
    kernel="pow_directml",
)
_POW_3_0 = _later(
    _POW_1_0,
    "3_0",
    inputs=(_POW_INPUT, Port("ExponentTensor", "ExponentDataType", _POW_EXPONENT_TEXT)),
    type_variables={
        "DataType": (*_FLOATS, *_SIGNED, *_UNSIGNED),
        "ExponentDataType": (*_FLOATS, *_SIGNED, *_UNSIGNED),
    },
    limits=_ANY_RANK,
    clauses=(
        *_POW_C1_C2,
        Clause(
            "C3",
            "InputTensor and OutputTensor have the same DataType, one that DataType allows.",
            ("type DataType", "output"),
        ),
        *_POW_C4_C10,
        Clause(
            "C11",
            "ExponentTensor has a type that ExponentDataType allows, whatever InputTensor's is.",
            ("type ExponentDataType",),
        ),
        Clause("C12", "Results are exact where input and exponent both have an integral type."),
    ),
    unspecified=(
        _BROADCASTING,
        _NEGATIVE_BASE,
        _SCALE_BIAS_ROUNDING,
        _SCALE_BIAS_INTEGER,
        _EXPONENT_ROUNDING,
        *_POW_ANY,
    ),
)

_RELU_1_0 = _first(
    "ACTIVATION_PARAMETERIZED_RELU",
    summary=(
        "Performs a parameterized rectified linear unit (ReLU) activation function on every element in"
        " InputTensor, placing the result into the corresponding element of OutputTensor:"
        " f(x, slope) = x, if x >= 0; slope * x, otherwise."
    ),
    inputs=(
        _INPUT,
        Port(
            "SlopeTensor",
            "DataType",
            "A tensor containing the slope for each corresponding value of the input.",
        ),
    ),
    attributes=(),
    clauses=(
        Clause("C1", "f(x, slope) = x where x >= 0, slope * x otherwise, element by element."),
        Clause(
            "C2", _SAME_SIZES.format("InputTensor, SlopeTensor and OutputTensor"), ("shape", "equal shapes")
        ),
        Clause(
            "C3",
            "InputTensor, SlopeTensor and OutputTensor have the same DataType, one that DataType allows.",
            ("type DataType", "output"),
        ),
        *_C4_C5,
        Clause("C6", "The inputs are InputTensor and SlopeTensor, required, in this order.", ("inputs",)),
        Clause("C7", "There are no attributes.", ("unknown attribute",)),
        Clause("C8", _IN_PLACE),
    ),
    unspecified=_RELU_FLOAT,
    kernel="prelu",
)
_RELU_2_0 = _later(_RELU_1_0, "2_0", limits=Limits((4, 5), _MOST_ELEMENTS))
_RELU_3_0 = _later(_RELU_2_0, "3_0", limits=_ANY_RANK)
_RELU_5_1 = _later(_RELU_3_0, "5_1", type_variables={"DataType": (*_FLOATS, *_SIGNED)}, unspecified=_RELU_ANY)

ROWS = (
    *(_CONSTANT_POW_1_0, _CONSTANT_POW_3_0),
    *(_POW_1_0, _POW_3_0),
    *(_RELU_1_0, _RELU_2_0, _RELU_3_0, _RELU_5_1),
)
