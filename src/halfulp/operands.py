"""What callers pass, as arrays: array-likes, Python numbers, other libraries' arrays, ``out``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import HalfulpError
from halfulp.types import TYPES

Array = NDArray[Any]
Number = int | float


def is_number(operand: object) -> bool:
    """Whether an operand is a Python number, which has a value but no element type.

    Example:
        >>> is_number(2), is_number(np.float64(2)), is_number(True)
        (True, False, False)
    """
    return type(operand) is int or type(operand) is float


def as_array(operand: Any) -> Array:
    """Return an operand as a plain ndarray, without a copy where it is an array already.

    Raises:
        HalfulpError: NumPy can make nothing of it.

    Example:
        >>> as_array([1.5, 2]).dtype
        dtype('float64')
        >>> as_array([[1], [1, 2]])
        Traceback (most recent call last):
            ...
        halfulp.errors.HalfulpError: HalfulpError: not an array: setting an array element with a sequence...
    """
    try:
        return np.asarray(operand)
    except (TypeError, ValueError, OverflowError) as error:
        raise HalfulpError(f"not an array: {error}") from None


def exponent_array(number: Number) -> Array:
    """Return a Python number as a 0-d array that has the same powers in every type.

    A float is that double. An integer outside the 64-bit range becomes one within it that no type's
    result can tell apart: a base other than 0 and +-1 leaves every floating type before 2^63, where only the sign
    and the parity still count; modulo 2^n with n <= 64, powers of an odd base repeat after 2^62.

    Example:
        >>> exponent_array(10**30 + 1), exponent_array(0.1)
        (array(14300316307160039425, dtype=uint64), array(0.1))
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

    Example:
        >>> number_as(0.1, np.dtype("float32"), exactly=False), number_as(300, np.dtype("int8"), exactly=False)
        (array(0.1, dtype=float32), None)
    """
    name = dtype.name
    exact = exactly or name not in TYPES or TYPES[name].kind != "float"
    with np.errstate(all="ignore"):
        try:
            converted = np.array(number, np.float64 if isinstance(number, float) else np.int64).astype(dtype)
            same = converted.astype(np.float64).item() == number or number != number
        except (OverflowError, TypeError, ValueError):
            return None
    return converted if same or not exact else None


def overriding_result(function: Callable[..., Any], operands: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what an operand's own ``__array_ufunc__`` makes of a call, as for a NumPy ufunc.

    Subclasses come before their bases, otherwise the order is the operands'. NotImplemented where no
    operand has one, which leaves the call to us.

    Raises:
        TypeError: an operand forbids ufuncs (``__array_ufunc__ = None``), or all overrides decline.
    """
    asked: list[Any] = []
    for operand in operands:
        kind = type(operand)
        if kind is np.ndarray or kind in (int, float, list, tuple) or isinstance(operand, np.generic):
            continue
        override = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
        if override is np.ndarray.__array_ufunc__:
            continue
        if override is None:
            raise TypeError(f"operand of type {kind.__name__} does not support ufuncs")
        if any(type(other) is kind for other in asked):
            continue
        place = next((i for i, other in enumerate(asked) if issubclass(kind, type(other))), len(asked))
        asked.insert(place, operand)
    for operand in asked:
        result = type(operand).__array_ufunc__(operand, function, "__call__", *operands[:2], **kwargs)
        if result is not NotImplemented:
            return result
    if asked:
        names = ", ".join(type(operand).__name__ for operand in asked)
        raise TypeError(f"{function.__name__} is not implemented by the operands' types: {names}")
    return NotImplemented


def wrapped_like(operands: tuple[Any, ...], result: Array) -> Any:
    """Return the result as the ndarray subclass among the operands that has the highest priority.

    Example:
        >>> masked = np.ma.masked_array([1.0, 2.0], [False, True])
        >>> wrapped_like((masked, 2), np.array([1.0, 4.0])).mask.tolist()
        [False, True]
    """
    subclassed = [a for a in operands if isinstance(a, np.ndarray) and type(a) is not np.ndarray]
    if not subclassed:
        return result
    chosen = max(subclassed, key=lambda a: a.__array_priority__)
    return chosen.__array_wrap__(result, (np.power, operands, 0), False)


def is_safe_to_overwrite(out: Array, operand: Array) -> bool:
    """Whether writing results to ``out``, element by element, leaves what is still to be read of an operand.

    It does where they share no memory, and where they are the very same elements in the same order.

    Example:
        >>> a = np.arange(4.0)
        >>> is_safe_to_overwrite(a, a), is_safe_to_overwrite(a[1:], a[:-1]), is_safe_to_overwrite(a[::2], a[1::2])
        (True, False, True)
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
