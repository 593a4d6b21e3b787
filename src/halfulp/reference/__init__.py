"""The slow exact oracle of the kernels: the same names, written for clarity with gmpy2 (MPFR).

They share no code and no algorithm with the compiled core, so that tests can hold one against the other.
Needs gmpy2; `import halfulp` alone does not load this package. docs/numerics.md has the clauses N1 to N9.

An operation decodes the operands to `mpfr`, always exactly, and MPFR computes the real result, rounded once: to the
digits and the least exponent of a floating type, or toward zero for an integer type. The conversion to the type is
then exact, except for numbers that the type lacks.
"""

from functools import cache
from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from halfulp.types import TYPES, Array, codes, element_type, float_type, from_integers, integer_range

__all__ = ["pow", "prelu"]

# For an integer type. Every int64 and uint64 has fewer digits, and a larger number saturates.
TOWARD_ZERO = gmpy2.context(
    precision=80, round=gmpy2.RoundToZero, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max()
)


@cache
def to_nearest(name: str) -> Any:
    """Return the context that rounds to nearest, ties to even, with the digits and the exponents of a floating type."""
    facts = float_type(name)
    exponents = {"emin": facts.least_exponent + 1, "emax": facts.greatest_exponent}  # of significands below 1
    return gmpy2.context(precision=facts.digits, subnormalize=True, **exponents)


def encode(results: list[mpfr], name: str) -> Array:
    """Return results of operations in `to_nearest(name)` as an array of that floating type.

    Overflow and infinity give what ml_dtypes converts an infinity to: where the type lacks one, its NaN (which has no
    sign here), or the largest value (float4, whose NaN is 0x8, read back as -0).
    """
    facts = float_type(name)
    numbers = np.array([float(result) for result in results])
    if not facts.has_zero:  # then the least value is the nearest to every smaller number
        numbers[[result == 0 and result.rc != 0 for result in results]] = 2.0**facts.least_exponent
    with np.errstate(all="ignore"):
        array = numbers.astype(TYPES[name].dtype)
        array[np.isnan(array) | np.isnan(numbers)] = np.nan
    return array


def saturate(value: mpfr, name: str) -> int:
    """Truncate toward zero and saturate to an integer type; NaN gives 0."""
    least, largest = integer_range(name)
    return 0 if gmpy2.is_nan(value) else int(TOWARD_ZERO.trunc(min(max(value, least), largest)))


def wrap(value: int, name: str) -> int:
    """Return the integer of a type that equals value modulo 2^bits."""
    least, _ = integer_range(name)
    return (value - least) % (1 << TYPES[name].bits) + least


def decode(values: Array) -> list[Any]:
    """Return the elements of a 1-d array exactly: an int for each element of an integer type, else an mpfr."""
    if (kind := element_type(values.dtype).kind) != "float":
        return [int(number) for number in values.astype(np.int64 if kind == "int" else np.uint64)]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return [exact(number) for number in values.astype(np.float64).tolist()]


def exact(number: int | float | mpfr) -> mpfr:
    return mpfr(number, 1)  # with a precision of 1 gmpy2 takes as many digits as the number has


# --- the operators -----------------------------------------------------------------------------


def pow(x: Any, y: Any, *, directml: bool = False, scale_bias: tuple[float, float] | None = None) -> Array:
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
    target = element_type(np.asarray(x).dtype)
    is_number = isinstance(y, int | float) and not isinstance(y, np.generic)
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        bases, base_at = _distinct(np.asarray(x))
        exponents, exponent_at = ([y], np.array(0)) if is_number else _distinct(np.asarray(y))
        if scale_bias is not None:
            bases = _scaled(bases, scale_bias, target.kind == "float")
        # Each distinct pair is computed once.
        pairs = np.asarray(base_at * len(exponents) + exponent_at)
        distinct, pair_at = np.unique(pairs, return_inverse=True)
        results = [
            _power(bases[pair // len(exponents)], exponents[pair % len(exponents)], target.name, directml)
            for pair in distinct.tolist()
        ]
        encoded = (encode if target.kind == "float" else from_integers)(results, target.name)
    return encoded[pair_at].reshape(pairs.shape)


def _distinct(array: Array) -> tuple[list[Any], Array]:
    """Return the values of the distinct bit patterns of an array, and the index of each element's pattern."""
    bits, index = np.unique(codes(array), return_inverse=True)
    return decode(bits.view(element_type(array.dtype).dtype)), index.reshape(array.shape)


def _scaled(bases: list[Any], scale_bias: tuple[float, float], is_float: bool) -> list[Any]:
    """N6: x * Scale + Bias, rounded once to float32, or to float64 for an integer target."""
    scale, bias = decode(np.array(scale_bias, np.float32))
    name = "float32" if is_float else "float64"
    # An exact zero is +0, except for -0 + -0.
    scaled = decode(encode([to_nearest(name).fma(exact(base), scale, bias) for base in bases], name))
    # N4 knows one zero: to a negative power it is +infinity.
    return scaled if is_float else [base or mpfr(0) for base in scaled]


def _power(x: int | mpfr, y: int | float | mpfr, target: str, directml: bool) -> Any:
    """Return one power: an mpfr to be encoded, or the integer."""
    is_float = TYPES[target].kind == "float"
    if not is_float and isinstance(x, int) and isinstance(y, int) and y >= 0:
        return wrap(int(gmpy2.powmod(x, y, 1 << TYPES[target].bits)), target)  # N3
    # MPFR has the special values of C23 F.10.4.4.
    result = (to_nearest(target) if is_float else TOWARD_ZERO).pow(exact(x), exact(y))
    if directml and x < 0 and not gmpy2.is_integer(exact(y)):  # N9; an infinity is not an integer
        result = mpfr("nan")
    return result if is_float else saturate(result, target)


def prelu(x: Any, slope: Any) -> Array:
    """Compute `x < 0 ? slope * x : x`, the product rounded once, or modulo 2^bits for integers.

    x, slope: arrays of one element type and of shapes that broadcast as NumPy's do (the operators
    allow fewer). Returns an array of the broadcast shape. An x that is not below zero is copied bit
    for bit: NaN, +0 and -0 too. Raises TypeError where the types differ, UnsupportedError where
    they are not element types. Clauses N5, N2.

    >>> prelu(np.array([-2, 3], np.float16), np.array([0.25], np.float16))
    array([-0.5,  3. ], dtype=float16)
    """
    target, other = (element_type(np.asarray(array).dtype) for array in (x, slope))
    if target is not other:
        raise TypeError(f"x is {target}, slope is {other}")
    result, factors = (array.astype(target.dtype) for array in np.broadcast_arrays(x, slope))
    with gmpy2.context(TOWARD_ZERO), np.errstate(invalid="ignore"):  # not the caller's exponent range
        negative = result < 0
        operands = zip(decode(result[negative]), decode(factors[negative]), strict=True)
        if target.kind == "float":
            multiply = to_nearest(target.name).mul
            result[negative] = encode([multiply(a, b) for a, b in operands], target.name)
        else:
            result[negative] = from_integers([wrap(a * b, target.name) for a, b in operands], target.name)
    return result
