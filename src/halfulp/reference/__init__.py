"""The slow exact oracle of the kernels: the same names, written for clarity with gmpy2 (MPFR).

They share no code and no algorithm with the compiled core, so that tests can hold one against the other.
Needs gmpy2; `import halfulp` alone does not load this package. docs/numerics.md has the clauses N1 to N9.

An operation works in three steps: decode the operands to `mpfr` (always exact), compute the real
result truncated toward zero to `WORKING_PRECISION` bits together with the fact whether anything was
cut off (its ternary value `rc` is not 0), round that once to the target. Truncation plus that fact
loses nothing a rounding could need, so the target gets the exact value rounded once.
"""

from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

import halfulp.types as types
from halfulp.types import TYPES, ElementType, FloatType, element_type, float_type, integer_range

__all__ = ["pow", "prelu"]

Array = NDArray[Any]
ScaleBias = tuple[float, float]

# float64 needs its 53 bits and two more below them to tell apart: exact, below half, half, above
# half. An int64 or uint64 result needs 64 bits before the point. 80 covers both.
WORKING_PRECISION = 80

TOWARD_ZERO = gmpy2.context(
    precision=WORKING_PRECISION, round=gmpy2.RoundToZero, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max()
)


def encode(value: mpfr, inexact: bool, name: str) -> int:
    """Round a truncated result to nearest, ties to even, once; return the code in a floating type.

    Overflow and infinity give what ml_dtypes converts an infinity to: where the type lacks one, its NaN (which has no
    sign here), or the largest value (float4, whose NaN is 0x8, read back as -0).

    The codes of the finite magnitudes count up from zero in steps of one, whatever the type: n * 2^e has the code
    n + (e - least_exponent) * 2^(digits - 1).
    """
    facts = float_type(name)
    if gmpy2.is_nan(value):
        return facts.nan
    if gmpy2.is_infinite(value):
        magnitude = facts.infinity
    elif value == 0 and not inexact and not facts.has_zero:
        return facts.nan  # as ml_dtypes converts an exact zero
    else:
        magnitude = _magnitude(*mantissa_exponent(value), inexact, facts)
    if magnitude == facts.nan or not gmpy2.is_signed(value):
        return magnitude
    return magnitude | facts.sign_bit if magnitude or facts.has_minus_zero else 0


def _magnitude(mantissa: int, exponent: int, inexact: bool, facts: FloatType) -> int:
    """Return the code of a finite magnitude, or of an overflow."""
    if mantissa == 0:  # zero, or a result below the range of MPFR and so of every type
        return 0
    top = exponent + mantissa.bit_length()  # the magnitude is in [2^(top-1), 2^top)
    last = max(top - facts.digits, facts.least_exponent)  # exponent of the last place in the target
    code = round_half_even(mantissa, exponent - last, inexact)
    code += (last - facts.least_exponent) << (facts.digits - 1)
    # Without a zero the least value has code 0, and every smaller magnitude rounds to it, however near to zero.
    code = code if facts.has_zero else max(code, 1) - 1
    return code if code <= facts.largest else facts.infinity


def mantissa_exponent(value: mpfr) -> tuple[int, int]:
    """Return the magnitude as mantissa * 2^exponent. (abs and trunc would round to the current context.)"""
    mantissa, exponent = value.as_mantissa_exp()
    return abs(int(mantissa)), int(exponent)


def round_half_even(mantissa: int, shift: int, inexact: bool) -> int:
    """Round (mantissa + fraction) * 2^shift, the fraction in (0, 1) where inexact, else 0."""
    if shift >= 0:
        assert not inexact, "a cut value must reach below the target's last place"
        return mantissa << shift
    if -shift > mantissa.bit_length() + 1:  # far below a half, and 1 << -shift may not fit in memory
        return 0
    quotient, rest = mantissa >> -shift, mantissa & ((1 << -shift) - 1)
    half = 1 << (-shift - 1)
    above = rest > half or (rest == half and (inexact or quotient & 1 == 1))
    return quotient + above


def saturate(value: mpfr, name: str) -> int:
    """Truncate toward zero and saturate to an integer type; NaN gives 0."""
    least, largest = integer_range(name)
    if gmpy2.is_nan(value):
        return 0
    if value >= largest:
        return largest
    if value <= least:
        return least
    mantissa, exponent = mantissa_exponent(value)
    magnitude = mantissa << exponent if exponent >= 0 else mantissa >> -exponent
    return -magnitude if value < 0 else magnitude


def wrap(value: int, name: str) -> int:
    """Return the integer of a type that equals value modulo 2^bits."""
    least, _ = integer_range(name)
    return (value - least) % (1 << TYPES[name].bits) + least


def exact(number: int | float | mpfr) -> mpfr:
    """Return a number as an mpfr of enough digits to hold it exactly."""
    if isinstance(number, mpfr):
        return number
    return mpfr(number, 53 if isinstance(number, float) else max(2, number.bit_length()))


def decode(values: Array) -> list[mpfr]:
    """Return the elements of a 1-d array of any type of the tables, exactly."""
    return [exact(number) for number in decode_operands(values)]


def decode_operands(values: Array) -> list[Any]:
    """Return the elements of a 1-d array exactly: an int for each element of an integer type."""
    kind = element_type(values.dtype).kind
    if kind == "float":
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return [exact(number) for number in values.astype(np.float64).tolist()]
    return [int(number) for number in values.astype(np.int64 if kind == "int" else np.uint64)]


def native(array: Any) -> Array:
    """Return an array in the machine's byte order."""
    given = np.asarray(array)
    return given.astype(given.dtype.newbyteorder("="), copy=False)


def from_codes(codes: list[int], row: ElementType) -> Array:
    """Return a 1-d array of a type from its codes. The code of an integer is the integer."""
    return (types.from_codes if row.kind == "float" else types.from_integers)(codes, row.name)


# --- the operators -----------------------------------------------------------------------------


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
    x = native(x)
    target = element_type(x.dtype)
    bases, base_at = _distinct(x)
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        if isinstance(y, (int, float)) and not isinstance(y, np.generic):
            exponents, exponent_at = [y], np.zeros((), np.int64)
        else:
            distinct_exponents, exponent_at = _distinct(native(y))
            exponents = decode_operands(distinct_exponents)
        # Each distinct pair is computed once.
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


def _element(x: int | mpfr, y: int | float | mpfr, target: ElementType, directml: bool) -> int:
    """Return one power: the code of a floating result, or the integer."""
    is_float = target.kind == "float"
    if not is_float and isinstance(x, int) and isinstance(y, int) and y >= 0:
        return wrap(int(gmpy2.powmod(x, y, 1 << target.bits)), target.name)  # N3
    # The real number x^y, truncated: MPFR has the special values of C23 F.10.4.4.
    result = TOWARD_ZERO.pow(exact(x), exact(y))
    if directml and x < 0 and not gmpy2.is_integer(exact(y)):  # N9; an infinity is not an integer
        result = mpfr("nan")
    return encode(result, result.rc != 0, target.name) if is_float else saturate(result, target.name)


def _scaled(x: mpfr, scale_bias: ScaleBias, target: ElementType) -> mpfr:
    """N6: x * Scale + Bias, rounded once to float32, or to float64 for an integer target."""
    scale, bias = (mpfr(float(np.float32(number)), 53) for number in scale_bias)
    name = "float32" if target.kind == "float" else "float64"
    result = TOWARD_ZERO.fma(x, scale, bias)  # an exact zero is +0, except for -0 + -0
    (base,) = decode(types.from_codes([encode(result, result.rc != 0, name)], name))
    # N4 knows one zero: to a negative power it is +infinity.
    return mpfr(0) if base == 0 and target.kind != "float" else base


def _distinct(array: Array) -> tuple[Array, Array]:
    """Return the distinct bit patterns of an array, 1-d and of its type, and the index of each element's pattern."""
    values, index = np.unique(types.codes(array), return_inverse=True)
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
    target = element_type(x.dtype)
    x, slope = np.broadcast_arrays(x, slope)
    result, factors = x.flatten(), slope.flatten()
    with gmpy2.context(TOWARD_ZERO):  # not the caller's precision and exponent range
        negative = np.array([value < 0 for value in decode_operands(result)], bool)
        operands = zip(decode_operands(result[negative]), decode_operands(factors[negative]), strict=True)
        result[negative] = from_codes([_product(a, b, target) for a, b in operands], target)
    shaped: Array = result.reshape(x.shape)
    return shaped


def _product(x: Any, slope: Any, target: ElementType) -> int:
    """Return the code of the product, rounded once, or the integer modulo 2^bits."""
    if target.kind != "float":
        return wrap(x * slope, target.name)
    result = TOWARD_ZERO.mul(x, slope)
    return encode(result, result.rc != 0, target.name)
