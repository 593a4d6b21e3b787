"""The type of a tensor in the rules of operators: element type and shape."""

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.types import type_name

Dim = int | str | None  # a size, a symbol ("N"), or unknown
Shape = tuple[Dim, ...] | None  # None: not even the rank is known


class TensorType(NamedTuple):
    """An element type and a shape.

    A dim is an int, a symbol (a str) or unknown (None); a shape of None has unknown rank.

    Example:
        >>> print(TensorType("float32", (2, "N", None)), TensorType("int8", ()), TensorType("int8", None))
        float32[2, N, ?] int8[] int8[...]
    """

    type: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.type}{format_shape(self.shape)}"


def format_shape(shape: Shape) -> str:
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def tensor_type(operand: Any) -> TensorType:
    """Return the type and shape of an operand: a (type, shape) pair, or anything with dtype and shape.

    A type may be a dtype or a name, and need not be in the table: the clause on types refuses it later and lists the
    allowed ones.

    Raises:
        HalfulpError: it is neither, or a dim is not an integer >= 0, a symbol or None.
    """
    if type(operand) is np.ndarray:  # fast path: its shape needs no checks
        return TensorType(type_name(operand.dtype), operand.shape)
    if hasattr(operand, "dtype") and hasattr(operand, "shape"):
        dtype, shape = operand.dtype, operand.shape
    elif isinstance(operand, tuple | list) and len(operand) == 2:
        dtype, shape = operand
    else:
        raise HalfulpError("an operand must be an array or a pair (type, shape)", got=repr(operand)[:80])
    if isinstance(shape, str) or not isinstance(shape, Iterable | None):
        raise HalfulpError("a shape must be a sequence of dims, or None", got=repr(shape)[:80])
    return TensorType(type_name(dtype), None if shape is None else tuple(map(_dim, shape)))


def _dim(dim: Any) -> Dim:
    if dim is None or (isinstance(dim, str) and dim):
        return dim
    try:
        size = operator.index(dim)
    except TypeError:
        size = -1
    if size < 0 or isinstance(dim, bool):
        raise HalfulpError("a dim must be an integer >= 0, a symbol or None", got=repr(dim)[:80])
    return size
