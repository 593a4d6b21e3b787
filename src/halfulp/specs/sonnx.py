"""The row of SONNX, ONNX's safety-related profile, of which Pow is a draft."""

from __future__ import annotations

from halfulp.specs import broadcast, unspecified
from halfulp.specs.model import Clause, OpVersion, Port, Unspecified

_URL = "https://github.com/onnx/working-groups/blob/247d3de1a4bfc99e167f1145c8366cbba5f085f7/{}/pow.md"

ROWS = (
    OpVersion(
        id="sonnx.Pow-15",
        standard="sonnx",
        name="Pow",
        version="15",
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
        source=_URL.format("safety-related-profile/sonnx/ops/spec/informal/pow"),
        kernel="pow",
    ),
)
