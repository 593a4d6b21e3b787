"""The power, exactly: the oracle of the core's pow kernels (clauses N1 to N4, N6, N9)."""

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
    Truncated,
    decode,
    decode_integers,
    exact,
    format_of,
    from_codes,
    from_integers,
    native,
    truncated,
)

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
        return broadcast_pow(native(x), y, directml, scale_bias)


def broadcast_pow(x: Array, y: Any, directml: bool, scale_bias: ScaleBias | None) -> Array:
    """One computation for each distinct pair, and its result everywhere the pair stands."""
    target = format_of(x.dtype)
    bases, base_at = distinct(x)
    if isinstance(y, (int, float)) and not isinstance(y, np.generic):
        exponents, exponent_at = [y], np.zeros((), np.int64)
    else:
        y = native(y)
        exponent_codes, exponent_at = distinct(y)
        integral = isinstance(format_of(y.dtype), IntFormat)
        exponents = list(decode_integers(exponent_codes) if integral else decode(exponent_codes))

    pairs = np.asarray(base_at * len(exponents) + exponent_at)
    distinct_pairs, pair_at = np.unique(pairs, return_inverse=True)
    base_values = list(decode_integers(bases) if isinstance(target, IntFormat) else decode(bases))
    if scale_bias is not None:
        base_values = [scaled(as_real(base), scale_bias, target) for base in base_values]
    results = [
        element(base_values[pair // len(exponents)], exponents[pair % len(exponents)], target, directml)
        for pair in distinct_pairs.tolist()
    ]
    values = (
        from_codes(results, target) if isinstance(target, FloatFormat) else from_integers(results, target)
    )
    return values[pair_at].reshape(pairs.shape)


def element(x: int | mpfr, y: int | float | mpfr, target: Format, directml: bool) -> int:
    """One power: the code of a floating result, or the integer. An int operand is that integer."""
    if isinstance(target, IntFormat) and isinstance(x, int) and isinstance(y, int) and y >= 0:
        return target.wrap(int(gmpy2.powmod(x, y, 1 << target.bits)))  # N3
    result = real_power(as_real(x), as_real(y), directml)
    return target.encode(result) if isinstance(target, FloatFormat) else target.saturate(result)  # N1, N4


def real_power(x: mpfr, y: mpfr, directml: bool) -> Truncated:
    """The real number x^y, truncated; C23 F.10.4.4 for special values, which MPFR follows.

    MPFR's power is itself correctly rounded: it raises the working precision until truncation is
    decided (Ziv), and proves exactness apart, so it ends for exact cases too.
    """
    if directml and x < 0 and not gmpy2.is_integer(y):  # N9; an infinity is no integer
        return Truncated(mpfr("nan"), False)
    return truncated(TOWARD_ZERO.pow(x, y))


def scaled(x: mpfr, scale_bias: ScaleBias, target: Format) -> mpfr:
    """N6: x * Scale + Bias, rounded once to float32, or to float64 for an integer target."""
    scale, bias = (mpfr(float(np.float32(number)), 53) for number in scale_bias)
    intermediate = FLOAT_FORMATS["float64" if isinstance(target, IntFormat) else "float32"]
    code = intermediate.encode(fused_multiply_add(x, scale, bias))
    base = decode(from_codes([code], intermediate))[0]
    # N4 knows one zero: to a negative power it is +infinity.
    return mpfr(0) if base == 0 and isinstance(target, IntFormat) else base


def fused_multiply_add(x: mpfr, scale: mpfr, bias: mpfr) -> Truncated:
    """The real number x * scale + bias, truncated; an exact zero is +0, but for -0 + -0."""
    return truncated(TOWARD_ZERO.fma(x, scale, bias))


def as_real(number: int | float | mpfr) -> mpfr:
    """An operand as an mpfr, exactly."""
    return exact(number) if isinstance(number, (int, float)) else number


def distinct(array: Array) -> tuple[Array, Array]:
    """The distinct bit patterns of an array, 1-d and of its type, and where each element's stands."""
    codes = np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))
    values, index = np.unique(codes, return_inverse=True)
    return values.view(array.dtype), index.reshape(array.shape)
