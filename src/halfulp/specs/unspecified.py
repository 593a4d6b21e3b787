"""What documents leave open, and our choice: shared by the rows of every standard.

The ids N1 to N7 are those of the numeric contract, which every row follows.
"""

from halfulp.specs.model import Unspecified

ROUNDING = Unspecified(
    "rounding",
    "How exact a floating result is.",
    "The exact real x^y of the operands as stored, rounded once to the output's type, to nearest, ties"
    " to even; subnormals are kept and overflow gives an infinity (in a type without one, what ml_dtypes"
    " converts an overflow to).",
    "N1",
)
SPECIAL_VALUES = Unspecified(
    "special-values",
    "Results for zeros, infinities, NaN and a negative base.",
    "As pow of IEEE 754-2019 9.2.1: x^0 = 1 and 1^y = 1 even for a NaN; a negative finite base with a"
    " finite exponent that is not an integer gives NaN.",
    "N1",
)
NAN = Unspecified(
    "nan",
    "Sign and payload of a NaN result.",
    "The canonical quiet NaN of the type, with the sign bit clear.",
    "N2",
)
INTEGER_OVERFLOW = Unspecified(
    "integer-overflow",
    "An integer result that the type does not hold.",
    "The exact integer modulo 2^n (it wraps); 0^0 = 1.",
    "N3",
)
INTEGER_BASE = Unspecified(
    "integer-base",
    "An integer base with a negative or a floating exponent.",
    "The exact real value truncated toward zero and saturated to the type; NaN gives 0, and 0 to a"
    " negative power gives the type's maximum.",
    "N4",
)
ENVIRONMENT = Unspecified(
    "environment",
    "Whether a result may depend on anything but its operands.",
    "It does not: not on the floating-point environment, shapes, position, alignment, strides, aliasing"
    " of the output, thread count or instruction set.",
    "N7",
)
PRELU_ZERO_AND_NAN = Unspecified(
    "prelu-zero-and-nan",
    "A NaN in the input, and the sign of a zero.",
    "x < 0 decides: NaN, +0 and -0 pass through bit for bit, even where the slope is NaN or infinite; a"
    " product that is NaN is the canonical quiet NaN.",
    "N5",
)
PRELU_ROUNDING = Unspecified(
    "prelu-rounding",
    "How exact a floating product is.",
    "The exact product rounded once to the type, to nearest, ties to even.",
    "N5",
)
PRELU_INTEGER = Unspecified(
    "prelu-integer-overflow",
    "An integer product that the type does not hold.",
    "The product modulo 2^n (it wraps); an unsigned input is never below 0 and is copied.",
    "N5",
)

POW_FLOAT = (ROUNDING, SPECIAL_VALUES, NAN, ENVIRONMENT)
POW_ANY = (ROUNDING, SPECIAL_VALUES, NAN, INTEGER_OVERFLOW, INTEGER_BASE, ENVIRONMENT)
PRELU_FLOAT = (PRELU_ZERO_AND_NAN, PRELU_ROUNDING, ENVIRONMENT)
PRELU_ANY = (PRELU_ZERO_AND_NAN, PRELU_ROUNDING, PRELU_INTEGER, ENVIRONMENT)
