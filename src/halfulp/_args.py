"""The arguments of calls as arrays: array-likes, Python numbers, ``out``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from halfulp._interop import Array, check_frame, from_foreign, is_foreign, is_frame
from halfulp.errors import HalfulpError
from halfulp.types import TYPES

Number = int | float

_LONGEST = 80  # characters of an element that an error shows


def is_number(operand: object) -> bool:
    """Whether an operand is a Python number, which has a value but no element type."""
    return type(operand) is int or type(operand) is float


def as_array(operand: Any) -> Array:
    """Return an operand as a plain ndarray, without a copy where it is an array already.

    Raises:
        HalfulpError: NumPy makes no array of it, or one that would lose a mask or mark of missing values.
    """
    if type(operand) is np.ndarray:
        return operand
    if hasattr(type(operand), "todense"):  # SciPy's sparse arrays, JAX's, CuPy's and others
        raise HalfulpError(f"{_kind(operand)}: it is not dense; pass x.todense()")
    if is_frame(operand):
        check_frame(operand)
    if _has_missing_values(operand):
        raise HalfulpError(f"{_kind(operand)}: it has missing values (pandas.NA); pass x.fillna(value)")
    try:
        array = from_foreign(operand) if is_foreign(operand) else np.asanyarray(operand)
    except HalfulpError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise HalfulpError(f"not an array: {error}") from None
    if is_masked(array) or isinstance(getattr(operand, "_meta", None), np.ma.MaskedArray):  # Dask's arrays
        raise HalfulpError("a masked array: its mask would be lost; pass x.filled(value)")
    return np.asarray(array)


def not_numbers(operand: Number | Array) -> str:
    """Return why an operand has no powers, and what to write instead; empty for any element type of the table."""
    if not isinstance(operand, np.ndarray):
        return "a Python integer of more than 64 bits; pass float(value)"
    kind, dtype = operand.dtype.kind, operand.dtype
    if kind in "OUST":
        if not operand.size:
            return f"an empty array of type {dtype.name}; pass .astype(float)"
        first = operand.reshape(-1)[:1].tolist()[0]
        if type(first) is int:
            return "integers of more than 64 bits; pass .astype(float)"
        what = "text" if kind in "UST" else "Python objects"
        if operand.ndim == 0:
            return f"not a number: {first!r}"[:_LONGEST]
        return f"an array of {what} (the first: {repr(first)[:_LONGEST]}); convert it, for instance by .astype(float)"
    if kind in "mM":
        return f"dates or times ({dtype.name}), which have no powers; .astype('int64') counts their units"
    if kind == "b":
        return "of type bool; pass .astype('int8'), or call hu.float_power"
    if kind == "c":
        return f"complex ({dtype.name}); np.power has complex powers"
    return f"of type {dtype.name}; pass .astype('float64')" if kind == "f" and dtype.itemsize > 8 else ""


def _kind(operand: Any) -> str:
    name = type(operand).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _has_missing_values(operand: Any) -> bool:
    """Whether pandas.NA is an element of a pandas object or a wrapper of one; NumPy would make it NaN."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    dtypes = operand.dtypes if is_frame(operand) else [getattr(operand, "dtype", None)]
    if all(getattr(dtype, "na_value", None) is not pandas.NA for dtype in dtypes):
        return False
    find = operand.isna if hasattr(operand, "isna") else operand.isnull  # the name that xarray has
    return bool(np.asarray(find()).any())


def is_masked(array: Array | np.generic) -> bool:
    """Whether an array hides elements by a mask."""
    return type(array) is not np.ndarray and array.dtype.fields is None and bool(np.ma.is_masked(array))


def without_mask(operand: Any) -> Any:
    """Return a masked array's elements, masked or not, as an array; any other operand unchanged."""
    is_masked = isinstance(operand, np.ndarray) and hasattr(operand, "mask")
    return operand.view(np.ndarray) if is_masked else operand


def exponent_array(number: Number) -> Array:
    """Return a Python number as a 0-d array that has the same powers in every type.

    A float is that double. An integer outside the 64-bit range becomes one within it that no type's
    result can tell apart: a base other than 0 and +-1 leaves every floating type before 2^63, where only the sign
    and the parity still count; modulo 2^n with n <= 64, powers of an odd base repeat after 2^62.
    """
    if isinstance(number, float):
        return np.array(number, np.float64)
    if -(2**63) <= number < 2**63:
        return np.array(number, np.int64)
    if number > 0:
        return np.array(number if number < 2**64 else number % 2**63 + 2**63, np.uint64)
    return np.array(-(2**63) + number % 2, np.int64)


def number_as(number: Number, dtype: np.dtype[Any], *, exactly: bool) -> Array | None:
    """Return a Python number as a 0-d array of a type; None where it does not fit.

    Args:
        number: the number.
        dtype: the type.
        exactly: whether rounding counts as not fitting, too; integer types never round.
    """
    row = TYPES.get(dtype.name)
    if row is None:
        return np.array(number)  # the clause on types refuses the other operand
    if row.kind != "float":
        low = -(1 << (row.bits - 1)) if row.kind == "int" else 0
        if number % 1 != 0 or not low <= number < low + (1 << row.bits):  # infinity % 1 is NaN
            return None
        return np.array(int(number), np.int64 if low else np.uint64).astype(dtype)
    with np.errstate(all="ignore"):
        try:
            value = np.float64(number)
        except OverflowError:
            return None
        # Every step but the last rounds to odd, so that the last one errs by no more than its own rounding.
        if dtype != np.float64:
            value = _to_odd(value, number)
        # ml_dtypes goes by way of float32. (Asked of the row's dtype, because a copy of one is never builtin.)
        if row.dtype.isbuiltin != 1:
            value = _to_odd(np.float32(value), value)
        converted = np.array(value).astype(dtype)
        same = converted.astype(np.float64).item() == number or number != number
    return converted if same or not exactly else None


def _to_odd(nearest: Any, exact: Any) -> Any:
    """Return a number's neighbour whose last bit is set in place of its nearest one; itself where that is exact."""
    if float(nearest) == exact or exact != exact:
        return nearest
    if abs(float(nearest)) > abs(exact):
        nearest = np.nextafter(nearest, type(nearest)(0))
    word = f"u{nearest.itemsize}"
    return (nearest.view(word) | np.array(1, word)).view(type(nearest))


def is_safe_to_overwrite(out: Array, operand: Array) -> bool:
    """Whether results can be written to ``out``, element by element, before an operand is read to its end.

    They can if the two share no memory, or are the very same elements in the same order.
    """
    if not np.may_share_memory(out, operand):
        return True
    same_place = out.__array_interface__["data"][0] == operand.__array_interface__["data"][0]
    if same_place and (out.shape, out.strides, out.itemsize) == (
        operand.shape,
        operand.strides,
        operand.itemsize,
    ):
        return True
    try:
        # NumPy's stubs know only the two named bounds on the work.
        return not np.shares_memory(out, operand, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return False
