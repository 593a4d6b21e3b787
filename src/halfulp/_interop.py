"""Other libraries' arrays: the protocols by which they take part in a call, and get their own kind back.

A library that implements ``__array_ufunc__`` (dask, pandas, xarray and others) is asked to make the
result, as NumPy's ufuncs ask it; a subclass of ndarray wraps the result (masked arrays, memory maps);
what exports its memory by DLPack (JAX, CuPy, torch) gets an array of its own library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Ufunc:
    """One of our functions in the shape of a NumPy ufunc, for libraries that are handed one.

    Its name is none of NumPy's: a library must not take it for the ufunc that it knows by that name
    and compute something else.

    Args:
        function: takes two operands and ``out``.
        name: of the variable, in the function's module, that holds this object; how it is pickled.
    """

    nin, nout, nargs, ntypes = 2, 1, 3, 0
    signature = None
    identity = None
    types: tuple[str, ...] = ()

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.__name__ = f"halfulp_{function.__name__}"
        self.__module__ = function.__module__
        self.__qualname__ = name
        self.__doc__ = function.__doc__

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        return self.function(*operands, out=out)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def __dask_tokenize__(self) -> str:
        return f"{self.__module__}.{self.__qualname__}"


def overriding_result(ufunc: Ufunc, x: Any, y: Any, out: Any) -> Any:
    """Return what an operand's own ``__array_ufunc__`` makes of a call, as for a NumPy ufunc.

    Subclasses come before their bases, otherwise the order is the operands'. NotImplemented where no
    operand has one, which leaves the call to us.

    Raises:
        TypeError: an operand forbids ufuncs (``__array_ufunc__ = None``), or all overrides decline.
    """
    if is_frame(x) and isinstance(y, int | float):
        return x.apply(lambda column: ufunc(column, y))
    if is_frame(y) and isinstance(x, int | float):
        return y.apply(lambda column: ufunc(x, column))
    asked: list[Any] = []
    for operand in (x, y, out):
        kind = type(operand)
        override = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
        if override is np.ndarray.__array_ufunc__ or issubclass(kind, np.generic):
            continue
        if override is None:
            raise TypeError(f"operand of type {kind.__name__} does not support ufuncs")
        if any(type(other) is kind for other in asked):
            continue
        place = next((i for i, other in enumerate(asked) if issubclass(kind, type(other))), len(asked))
        asked.insert(place, operand)
    keywords = {} if out is None else {"out": (out,)}
    for operand in asked:
        result = type(operand).__array_ufunc__(operand, ufunc, "__call__", x, y, **keywords)
        if result is not NotImplemented:
            return result
    # What knows none of our functions may hand over its memory all the same.
    if any(not is_foreign(operand) for operand in asked):
        names = ", ".join(type(operand).__name__ for operand in asked)
        raise TypeError(f"{ufunc.__name__} is not implemented by the operands' types: {names}")
    return NotImplemented


def is_frame(operand: Any) -> bool:
    """Whether an operand is a pandas DataFrame, whose columns have types of their own.

    Its ``__array_ufunc__`` makes one array of them all, and of a number an array that has a type, too.
    """
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(operand, pandas.DataFrame)


def is_foreign(operand: Any) -> bool:
    """Whether an operand is another library's array with DLPack.

    Example:
        >>> is_foreign(np.zeros(2)), is_foreign([1.0])
        (False, False)
    """
    return not isinstance(operand, np.ndarray | np.generic) and hasattr(type(operand), "__dlpack__")


# DLPack's numbers of device types.
_PROCESSORS = (1, 3, 11)  # memory of the processor: its own, or shared with devices of CUDA or ROCm
_CUDA = (2, 13)  # memory of CUDA's devices: their own, or managed


def device_type(operand: Any) -> int | None:
    """Return DLPack's number of the type of device that an array lies on; None where it does not say.

    Example:
        >>> device_type(np.zeros(2)), device_type([1.0])
        (1, None)
    """
    ask = getattr(type(operand), "__dlpack_device__", None)
    if ask is None:
        return _CUDA[0] if hasattr(type(operand), "__cuda_array_interface__") else None
    try:
        return int(ask(operand)[0])
    except Exception:  # as of JAX's tracers, which lie nowhere
        return None


def is_on_cuda(operand: Any) -> bool:
    """Whether an array lies in the memory of a CUDA device."""
    return not isinstance(operand, np.ndarray | np.generic) and device_type(operand) in _CUDA


def from_foreign(operand: Any) -> Array:
    """Return another library's array as an ndarray of the same memory.

    Raises:
        TypeError, ValueError, RuntimeError, BufferError: it can't be, as where it lies on a device.
    """
    device = device_type(operand)
    if device is not None and device not in _PROCESSORS:
        raise BufferError(f"it is in a device's memory (DLPack's type {device}); copy it to the processor's")
    if hasattr(type(operand), "__array__"):
        # Before DLPack, because NumPy's lacks bfloat16 and the float8 types, which JAX's arrays may have.
        try:
            return np.asarray(operand)
        except (TypeError, RuntimeError):
            pass
    return np.from_dlpack(operand)


def like_operands(x: Any, y: Any, out: Any, result: Array) -> Any:
    """Return the result as what NumPy's ufuncs return for such operands.

    That is the ndarray subclass among them that has the highest priority; the other library's array
    where that can hold the result's type; a scalar where both are scalars.

    Example:
        >>> masked = np.ma.masked_array([1.0, 2.0], [False, True])
        >>> like_operands(masked, 2, None, np.array([1.0, 4.0])).mask.tolist()
        [False, True]
        >>> like_operands(np.float32(3), 2, None, np.array(9, np.float32))
        np.float32(9.0)
    """
    operands = (x, y)
    subclassed = [a for a in operands if isinstance(a, np.ndarray) and type(a) is not np.ndarray]
    if out is not None:
        subclassed = [out] if type(out) is not np.ndarray else []
    if subclassed:
        chosen = max(subclassed, key=lambda a: a.__array_priority__)
        # Masked arrays look their ufunc up in a table: with np.power they join the operands' masks, and no more.
        return chosen.__array_wrap__(result, (np.power, operands, 0), False)
    if out is not None:
        return out
    for operand in operands:
        if is_foreign(operand):
            return to_foreign(operand, result)
    if all(isinstance(a, int | float | np.generic) for a in operands):
        return result[()]
    return result


def to_foreign(like: Any, result: Array) -> Any:
    """Return the result as an array of another library; as it is where that would change its type."""
    kind = type(like)
    if hasattr(kind, "__array_namespace__"):
        namespace = like.__array_namespace__()
    else:
        namespace = sys.modules[kind.__module__.partition(".")[0]]
    try:
        converted = namespace.asarray(result)
    except (AttributeError, TypeError):
        return result
    # JAX without 64-bit types would make float32 of float64.
    return converted if str(converted.dtype).rpartition(".")[2] == result.dtype.name else result
