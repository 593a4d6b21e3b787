"""Dask: ``pow`` and ``prelu`` on arrays in chunks, lazily, on threads, processes or a cluster.

``hu.pow`` and ``hu.prelu`` also take dask arrays. The functions here check types and shapes at once, not when the
blocks are computed, and convert NumPy's arrays to dask's.
"""

import math
from typing import Any

import dask.array as da

import halfulp.operators as hu
from halfulp._interop import as_array, is_number
from halfulp.types import TensorType, tensor_type

__all__ = ["pow", "prelu"]
__dir__ = __all__.copy


def pow(x: Any, y: Any, /) -> da.Array:
    """Return x to the power y, elementwise, correctly rounded, as ``hu.pow`` does, when it is computed.

    Args:
        x: the base: a dask array of any chunks, an array-like, or a number, which gets y's type.
        y: the exponent, broadcast with x. A number is exact.

    Returns:
        A dask array of x's type and the broadcast shape. If x and y are chunked differently, it has the chunks of both.

    Raises:
        SpecError: shapes that do not broadcast, or a type that the table lacks. Sizes that dask does not know are
            checked when the blocks are computed.

    Example:
        >>> x = da.arange(1, 7, chunks=4, dtype="float32")
        >>> pow(x, 2.5)
        dask.array<halfulp_pow, shape=(6,), dtype=float32, chunksize=(4,), chunktype=numpy.ndarray>
        >>> pow(x, 2.5).compute()
        array([ 1.      ,  5.656854, 15.588457, 32.      , 55.9017  , 88.18163 ],
              dtype=float32)
    """
    return _lazily(hu.POW, hu.pow, x, y)


def prelu(x: Any, slope: Any, /) -> da.Array:
    """Return slope * x where x < 0, else x, as ``hu.prelu`` does, when it is computed.

    Args:
        x: a dask array of any chunks, or an array-like.
        slope: of x's type, of a shape that broadcasts to x's. A number gets x's type.

    Returns:
        A dask array of x's type and shape.

    Raises:
        SpecError: types that differ, a slope that would enlarge x. Sizes that dask does not know are checked
            when the blocks are computed.

    Example:
        >>> prelu(da.from_array([[-2.0, 3.0], [4.0, -5.0]], chunks=1), [0.25, 0.5]).compute()
        array([[-0.5,  3. ],
               [ 4. , -2.5]])
    """
    return _lazily(hu.PRELU, hu.prelu, x, slope)


def _lazily(operator: hu.Operator, function: Any, x: Any, y: Any) -> da.Array:
    x, y = (a if is_number(a) or isinstance(a, da.Array) else da.asarray(as_array(a)) for a in (x, y))
    if is_number(y):
        x = da.asarray(x)
    known = next(_tensor_type(a) for a in (x, y) if not is_number(a))
    # A number has no shape, and the call for each block converts it.
    operator.infer(*(TensorType(known.type, ()) if is_number(a) else _tensor_type(a) for a in (x, y)))
    return function(x, y)


def _tensor_type(array: da.Array) -> TensorType:
    return tensor_type((array.dtype, [None if math.isnan(n) else int(n) for n in array.shape]))
