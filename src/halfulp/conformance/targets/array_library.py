"""The common part of array libraries: they have no versions, only what Pow and PRelu mean, in their own words.

Pow: x to the power y, in the type that the library itself computes that in, converted to x's type. PRelu: slope times
x where x is below 0, else x.
"""

from __future__ import annotations

from typing import NamedTuple

from halfulp.conformance.case import Case
from halfulp.protocols import Array
from halfulp.specs.tensor import tensor_type


class Prepared(NamedTuple):
    """What to compute.

    Attributes:
        is_prelu: a PRelu, or else a power.
        x, y: its operands, in shapes that NumPy's broadcasting fits together.
        constants: which of them, 0 and 1, a model would hold as initializers.
    """

    is_prelu: bool
    x: Array
    y: Array
    constants: frozenset[int]

    @property
    def number(self) -> int | float | None:
        """The second operand as a Python number, where it is a constant without dims that one can hold."""
        if 1 not in self.constants or self.y.ndim or self.y.dtype.kind not in "iuf":
            return None
        number: int | float = self.y.item()
        return number


def prepare(case: Case) -> Prepared:
    """Return what to compute."""
    x, y = case.inputs
    plan = case.row.plan(tensor_type(x), tensor_type(y), case.attributes)
    # A scalar stays one.
    return Prepared(case.row.kernel == "prelu", x, y.reshape(plan.y_shape) if y.ndim else y, case.constants)
