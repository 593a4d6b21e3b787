"""Which elements of a case's inputs meet."""

from __future__ import annotations

import numpy as np

from halfulp.conformance.case import Case
from halfulp.protocols import Array
from halfulp.specs.tensor import tensor_type


def broadcast(case: Case) -> tuple[Array, ...]:
    """Return a valid case's inputs in the output's shape, as the operator's rule fits them together.

    Example:
        >>> x, y = np.array([[1.0, 2], [3, 4]]), np.array([5.0, 6])
        >>> case = Case("", "onnx.Pow-1", "broadcast", (x, y), {"broadcast": 1, "axis": 0})
        >>> broadcast(case)[1]
        array([[5., 5.],
               [6., 6.]])
    """
    if len(case.inputs) == 1:
        return case.inputs
    x, y = case.inputs
    plan = case.row.plan(tensor_type(x), tensor_type(y), case.attributes)
    return np.broadcast_arrays(x, y.reshape(plan.y_shape))


def meeting(case: Case, index: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the operands of one element of a valid case's output, as 0-d arrays.

    Example:
        >>> x, y = np.array([[1.0, 2], [3, 4]]), np.array([5.0, 6])
        >>> case = Case("", "onnx.Pow-1", "broadcast", (x, y), {"broadcast": 1, "axis": 0})
        >>> meeting(case, (0, 1))
        (array(2.), array(5.))
    """
    return tuple(np.asarray(array[index]) for array in broadcast(case))
