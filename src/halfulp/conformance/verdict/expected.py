"""The right result of a case: halfulp's, and its independent confirmation by MPFR."""

from __future__ import annotations

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast
from halfulp.operators import op
from halfulp.specs import TensorType
from halfulp.types import element_type


def expected(case: Case) -> Array:
    """Return the right output of a case, by halfulp.

    Raises:
        SpecError: the case is invalid; ``.clause`` is ``case.clause``.
    """
    out = None
    if case.declared is not None:
        out = _empty(case.declared)
    return op(case.operator)(*case.inputs, out=out, **case.attributes)


def _empty(declared: TensorType) -> Array:
    shape = tuple(dim for dim in declared.shape or () if isinstance(dim, int))
    return np.empty(shape, element_type(declared.type).dtype)


def oracle(case: Case) -> Array:
    """Return the right output of a valid case, by the slow exact oracle; needs gmpy2.

    It shares with ``expected`` the way in which operands of different shapes meet, and nothing else.
    """
    from halfulp import reference  # lazily: whoever only wants cases needs no gmpy2

    row = case.row
    if row.kernel == "prelu":
        return reference.prelu(*broadcast(case))
    values = row.check_attributes(case.attributes)
    x, *rest = broadcast(case)
    y = rest[0] if rest else np.float32(values["Exponent"])
    return reference.pow(x, y, directml=row.kernel == "pow_directml", scale_bias=values.get("ScaleBias"))
