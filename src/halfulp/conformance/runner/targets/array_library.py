"""The common part of array libraries: they have no versions, only what Pow and PRelu mean, in their own words.

Pow: x to the power y, in the type that the library itself computes that in, converted to x's type. PRelu: slope times
x where x is below 0, else x.
"""

from __future__ import annotations

from typing import NamedTuple

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.specs.tensor import tensor_type


class Prepared(NamedTuple):
    """What to compute.

    Attributes:
        is_prelu: a PRelu, or else a power.
        x, y: its operands, in shapes that NumPy's broadcasting fits together.
        constants: which of them, 0 and 1, a model would hold as initializers.
        number: the second one as a Python number, where a person would write one: where it is a scalar for its own
            sake, or a constant.
    """

    is_prelu: bool
    x: Array
    y: Array
    constants: frozenset[int]
    number: int | float | None


def prepare(case: Case) -> Prepared:
    """Return what to compute."""
    x, y = case.inputs
    plan = case.row.plan(tensor_type(x), tensor_type(y), case.attributes)
    is_prelu = case.row.kernel == "prelu"
    if y.ndim:
        return Prepared(is_prelu, x, y.reshape(plan.y_shape), case.constants, None)
    is_number = 1 in case.constants or case.aspect == "scalar exponent"
    number: int | float | None = y.item() if is_number and y.dtype.kind in "iuf" else None
    return Prepared(is_prelu, x, y, case.constants, number)
