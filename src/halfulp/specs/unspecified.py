"""The questions that rows of several standards share, with halfulp's choices.

N1 to N7 are rules of the numeric contract, which every row follows.
"""

from __future__ import annotations

from collections.abc import Mapping

from halfulp.specs.model import Unspecified, questions

SHARED: Mapping[str, Unspecified] = {
    question.key: question
    for question in questions("""
        rounding (N1): How exact a floating result is.
            Choice: The exact real x^y of the operands as stored, rounded once to the output's type, to
            nearest, ties to even; subnormals are kept and overflow gives an infinity (in a type without one,
            what ml_dtypes converts an overflow to).
        special-values (N1): Results for zeros, infinities, NaN and a negative base.
            Choice: As pow of IEEE 754-2019 9.2.1: x^0 = 1 and 1^y = 1 even for a NaN; a negative finite base
            with a finite exponent that is not an integer gives NaN.
        nan (N2): Sign and payload of a NaN result.
            Choice: The canonical quiet NaN of the type, with the sign bit clear.
        integer-overflow (N3): An integer result that the type does not hold.
            Choice: The exact integer modulo 2^n (it wraps); 0^0 = 1.
        integer-base (N4): An integer base with a negative or a floating exponent.
            Choice: The exact real value truncated toward zero and saturated to the type; NaN gives 0, and 0
            to a negative power gives the type's maximum.
        environment (N7): Whether a result may depend on anything but its operands.
            Choice: It does not: not on the floating-point environment, shapes, position, alignment, strides,
            aliasing of the output, thread count or instruction set.
        prelu-zero-and-nan (N5): A NaN in the input, and the sign of a zero.
            Choice: x < 0 decides: NaN, +0 and -0 pass through bit for bit, even where the slope is NaN or
            infinite; a product that is NaN is the canonical quiet NaN.
        prelu-rounding (N5): How exact a floating product is.
            Choice: The exact product rounded once to the type, to nearest, ties to even.
        prelu-integer-overflow (N5): An integer product that the type does not hold.
            Choice: The product modulo 2^n (it wraps); an unsigned input is never below 0 and is copied.
    """)
}
"""The questions that rows of several standards share, by key, with halfulp's choices."""


def shared(*keys: str) -> tuple[Unspecified, ...]:
    """Return some of the shared questions."""
    return tuple(SHARED[key] for key in keys)


POW_FLOAT = shared("rounding", "special-values", "nan", "environment")
POW_ANY = (*POW_FLOAT[:-1], *shared("integer-overflow", "integer-base", "environment"))
PRELU_FLOAT = shared("prelu-zero-and-nan", "prelu-rounding", "environment")
PRELU_ANY = (*PRELU_FLOAT[:-1], *shared("prelu-integer-overflow", "environment"))
