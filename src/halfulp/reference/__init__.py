"""The slow exact oracle of the kernels: the same names, written for clarity with gmpy2 (MPFR).

They share no code and no algorithm with the compiled core, so that tests can hold one against the other.
Needs gmpy2; `import halfulp` alone does not load this package. docs/numerics.md has the clauses N1 to N9.
"""

from __future__ import annotations

from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from halfulp.reference.formats import (
    FLOAT_FORMATS,
    TOWARD_ZERO,
    Array,
    FloatFormat,
    Format,
    IntFormat,
    decode,
    decode_operands,
    exact,
    format_of,
    from_codes,
    native,
)

__all__ = ["pow", "prelu"]

ScaleBias = tuple[float, float]


def pow(x: Any, y: Any, *, directml: bool = False, scale_bias: ScaleBias | None = None) -> Array:
    """Raise each element of x to the power of the element of y, correctly rounded to x's type.

    x, y: arrays of any shapes that broadcast as NumPy's do, of any element types; y may be a Python
    int of any size or a float. directml: follow N9 for negative bases. scale_bias: N6, the float32
    numbers (Scale, Bias). Returns an array of the broadcast shape in x's type. Raises
    UnsupportedError for a type that is not an element type. Clauses N1, N2, N3, N4, N6, N9.

    >>> pow(np.array([3, -2], np.float32), np.array([0.5, 3], np.float16))
    array([ 1.7320508, -8.       ], dtype=float32)
    >>> pow(np.array([3, 2, 0], np.int8), np.array([5, -1, -1], np.int64))
    array([-13,   0, 127], dtype=int8)
    """
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        return _broadcast_pow(native(x), y, directml, scale_bias)


def _broadcast_pow(x: Array, y: Any, directml: bool, scale_bias: ScaleBias | None) -> Array:
    """Compute each distinct pair once."""
    target = format_of(x.dtype)
    bases, base_at = _distinct(x)
    if isinstance(y, (int, float)) and not isinstance(y, np.generic):
        exponents, exponent_at = [y], np.zeros((), np.int64)
    else:
        y = native(y)
        distinct_exponents, exponent_at = _distinct(y)
        exponents = decode_operands(distinct_exponents)

    pairs = np.asarray(base_at * len(exponents) + exponent_at)
    distinct_pairs, pair_at = np.unique(pairs, return_inverse=True)
    base_values = decode_operands(bases)
    if scale_bias is not None:
        base_values = [_scaled(exact(base), scale_bias, target) for base in base_values]
    results = [
        _element(base_values[pair // len(exponents)], exponents[pair % len(exponents)], target, directml)
        for pair in distinct_pairs.tolist()
    ]
    return from_codes(results, target)[pair_at].reshape(pairs.shape)


def _element(x: int | mpfr, y: int | float | mpfr, target: Format, directml: bool) -> int:
    """Return one power: the code of a floating result, or the integer."""
    if isinstance(target, IntFormat) and isinstance(x, int) and isinstance(y, int) and y >= 0:
        return target.wrap(int(gmpy2.powmod(x, y, 1 << target.bits)))  # N3
    result = _real_power(exact(x), exact(y), directml)
    if isinstance(target, FloatFormat):
        return target.encode(result, result.rc != 0)  # N1
    return target.saturate(result)  # N4


def _real_power(x: mpfr, y: mpfr, directml: bool) -> mpfr:
    """Return the real number x^y, truncated. MPFR follows C23 F.10.4.4 for special values.

    MPFR's power is itself correctly rounded: it raises the working precision until truncation is
    decided (Ziv), and proves exactness apart, so it ends for exact cases too.
    """
    if directml and x < 0 and not gmpy2.is_integer(y):  # N9; an infinity is not an integer
        return mpfr("nan")
    return TOWARD_ZERO.pow(x, y)


def _scaled(x: mpfr, scale_bias: ScaleBias, target: Format) -> mpfr:
    """N6: x * Scale + Bias, rounded once to float32, or to float64 for an integer target."""
    scale, bias = (mpfr(float(np.float32(number)), 53) for number in scale_bias)
    intermediate = FLOAT_FORMATS["float64" if isinstance(target, IntFormat) else "float32"]
    result = TOWARD_ZERO.fma(x, scale, bias)  # an exact zero is +0, except for -0 + -0
    (base,) = decode(from_codes([intermediate.encode(result, result.rc != 0)], intermediate))
    # N4 knows one zero: to a negative power it is +infinity.
    return mpfr(0) if base == 0 and isinstance(target, IntFormat) else base


def _distinct(array: Array) -> tuple[Array, Array]:
    """Return the distinct bit patterns of an array, 1-d and of its type, and the index of each element's pattern."""
    codes = np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))
    values, index = np.unique(codes, return_inverse=True)
    return values.view(array.dtype), index.reshape(array.shape)


def prelu(x: Any, slope: Any) -> Array:
    """Compute `x < 0 ? slope * x : x`, the product rounded once, or modulo 2^bits for integers.

    x, slope: arrays of one element type and of shapes that broadcast as NumPy's do (the operators
    allow fewer). Returns an array of the broadcast shape. An x that is not below zero is copied bit
    for bit: NaN, +0 and -0 too. Raises TypeError where the types differ, UnsupportedError where
    they are not element types. Clauses N5, N2.

    >>> prelu(np.array([-2, 3], np.float16), np.array([0.25], np.float16))
    array([-0.5,  3. ], dtype=float16)
    """
    x, slope = native(x), native(slope)
    if x.dtype != slope.dtype:
        raise TypeError(f"x is {x.dtype.name}, slope is {slope.dtype.name}")
    target = format_of(x.dtype)
    x, slope = np.broadcast_arrays(x, slope)
    result, factors = x.flatten(), slope.flatten()
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        negative = np.array([value < 0 for value in decode_operands(result)], bool)
        operands = zip(decode_operands(result[negative]), decode_operands(factors[negative]), strict=True)
        result[negative] = from_codes([_product(a, b, target) for a, b in operands], target)
    shaped: Array = result.reshape(x.shape)
    return shaped


def _product(x: Any, slope: Any, target: Format) -> int:
    """Return the code of the product, rounded once, or the integer modulo 2^bits."""
    if isinstance(target, IntFormat):
        return target.wrap(x * slope)
    result = TOWARD_ZERO.mul(x, slope)
    return target.encode(result, result.rc != 0)
