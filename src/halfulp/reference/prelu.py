"""The parametric rectified linear unit, exactly: the oracle of the core's prelu kernels. Clauses N5, N2."""

from __future__ import annotations

from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from halfulp.reference.formats import (
    TOWARD_ZERO,
    Array,
    FloatFormat,
    Format,
    IntFormat,
    decode,
    decode_integers,
    format_of,
    from_codes,
    from_integers,
    native,
    truncated,
)


def prelu(x: Any, slope: Any) -> Array:
    """Compute `x < 0 ? slope * x : x`, the product rounded once, or modulo 2^bits for integers.

    x, slope: arrays of one element type and of shapes that broadcast as NumPy's do (the operators
    allow fewer). Returns an array of the broadcast shape. An x that is not below zero is copied bit
    for bit: NaN, +0 and -0 too. Raises TypeError where the types differ, UnsupportedError where
    they are no element types. Clauses N5, N2.

    >>> prelu(np.array([-2, 3], np.float16), np.array([0.25], np.float16))
    array([-0.5,  3. ], dtype=float16)
    """
    x, slope = native(x), native(slope)
    if x.dtype != slope.dtype:
        raise TypeError(f"x is {x.dtype.name}, slope is {slope.dtype.name}")
    target = format_of(x.dtype)
    x, slope = np.broadcast_arrays(x, slope)
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        return broadcast_prelu(x, slope, target)


def broadcast_prelu(x: Array, slope: Array, target: Format) -> Array:
    """Copy x, then compute the products where x is below zero."""
    result = x.flatten()
    bases, factors = result.copy(), slope.flatten()
    if isinstance(target, FloatFormat):
        negative = np.array([value < 0 for value in decode(bases)], bool)
        codes = [
            float_product(a, b, target)
            for a, b in zip(decode(bases[negative]), decode(factors[negative]), strict=True)
        ]
        result[negative] = from_codes(codes, target)
    else:
        negative = np.array([value < 0 for value in decode_integers(bases)], bool)
        products = [
            integer_product(a, b, target)
            for a, b in zip(decode_integers(bases[negative]), decode_integers(factors[negative]), strict=True)
        ]
        result[negative] = from_integers(products, target)
    shaped: Array = result.reshape(x.shape)
    return shaped


def float_product(x: mpfr, slope: mpfr, target: FloatFormat) -> int:
    """The code of the product, rounded once."""
    return target.encode(truncated(TOWARD_ZERO.mul(x, slope)))


def integer_product(x: int, slope: int, target: IntFormat) -> int:
    """The product modulo 2^bits."""
    return target.wrap(x * slope)
