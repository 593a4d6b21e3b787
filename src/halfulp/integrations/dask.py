"""Dask: ``pow`` and ``prelu`` on arrays in chunks, lazily, on threads, processes or a cluster.

``hu.pow`` and ``hu.prelu`` also take dask arrays. The functions here check types and shapes at once, not when the
blocks are computed, and convert NumPy's arrays to dask's.
"""

import math
from typing import Any

import dask.array as da
import numpy as np

import halfulp.operators as hu
from halfulp._interop import as_array, is_number

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
    # The call for each block converts a number to the other operand's type.
    dtypes = [(b if is_number(a) else a).dtype for a, b in ((x, y), (y, x))]
    shapes = [[None if math.isnan(n) else int(n) for n in np.shape(a)] for a in (x, y)]
    operator.infer(*zip(dtypes, shapes, strict=True))
    return function(x, y)
