"""The slow exact oracle of the kernels: the same names, written for clarity with gmpy2 (MPFR).

They share no code and no algorithm with the compiled core, so that tests can hold one against the other.
Needs gmpy2; `import halfulp` alone does not load this package. docs/numerics.md has the clauses N1 to N9.

An operation works in three steps: decode the operands to `mpfr` (always exact), compute the real
result truncated toward zero to `WORKING_PRECISION` bits together with the fact whether anything was
cut off (its ternary value `rc` is not 0), round that once to the target. Truncation plus that fact
loses nothing a rounding could need, so the target gets the exact value rounded once.
"""

from dataclasses import dataclass
from typing import Any

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

import halfulp.types as types
from halfulp.types import element_type

__all__ = ["pow", "prelu"]

Array = NDArray[Any]
ScaleBias = tuple[float, float]

# float64 needs its 53 bits and two more below them to tell apart: exact, below half, half, above
# half. An int64 or uint64 result needs 64 bits before the point. 80 covers both.
WORKING_PRECISION = 80

EXACT_RANGE = {"emin": gmpy2.get_emin_min(), "emax": gmpy2.get_emax_max()}
TOWARD_ZERO = gmpy2.context(precision=WORKING_PRECISION, round=gmpy2.RoundToZero, **EXACT_RANGE)


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point type, as far as encoding needs it.

    The codes of the finite magnitudes count up from zero in steps of one, whatever the type: with
    `digits` significand digits and `quantum` the exponent of the least subnormal, n * 2^e has the
    code n + (e - quantum) * 2^(digits - 1).
    """

    name: str
    bits: int
    digits: int  # significand digits, the hidden one included
    quantum: int  # exponent of the least positive value
    largest: int  # code of the largest finite magnitude
    overflow: int  # the code that an overflow and +infinity get
    nan: int  # code of the canonical NaN
    minus_zero: bool = True  # False: -0 and the NaN share a code (fnuz), or the type lacks zero
    zero: bool = True  # False: float8_e8m0fnu, powers of two alone

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def storage(self) -> np.dtype[Any]:
        """The unsigned integer type of the codes; a 4-bit type fills a byte."""
        return np.dtype(f"uint{max(8, self.bits)}")

    def encode(self, value: mpfr, inexact: bool) -> int:
        """Round a truncated result to nearest, ties to even, once; return the code.

        Overflow and infinity give `overflow`, or `nan` where the type's overflow is a NaN (a NaN
        has no sign here).
        """
        if gmpy2.is_nan(value):
            return self.nan
        if gmpy2.is_infinite(value):
            magnitude = self.overflow
        elif value == 0 and not inexact and not self.zero:
            return self.nan  # as ml_dtypes converts an exact zero
        else:
            magnitude = self._encode_magnitude(*mantissa_exponent(value), inexact)
        if magnitude == self.nan or not gmpy2.is_signed(value):
            return magnitude
        return magnitude | self.sign_bit if magnitude or self.minus_zero else 0

    def _encode_magnitude(self, mantissa: int, exponent: int, inexact: bool) -> int:
        if mantissa == 0:  # zero, or a result below the range of MPFR and so of every type
            return 0
        top = exponent + mantissa.bit_length()  # the magnitude is in [2^(top-1), 2^top)
        last = max(top - self.digits, self.quantum)  # exponent of the last place in the target
        scaled = round_half_even(mantissa, exponent - last, inexact)
        if not self.zero:
            # The least value has code 0, and every smaller magnitude rounds to it, however near to zero.
            return self._limit(max(scaled + (last - self.quantum), 1) - 1)
        return self._limit(scaled + (last - self.quantum) * (1 << (self.digits - 1)))

    def _limit(self, code: int) -> int:
        """Replace a code beyond the largest finite one by the type's overflow."""
        return code if code <= self.largest else self.overflow


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


# A type that lacks an infinity or a NaN has in its place the value to which ml_dtypes converts one:
# a NaN (e4m3fn, the fnuz types, e8m0fnu), the largest value (float4, whose NaN is 0x8, read back as -0).
FLOAT_FORMATS = {
    row.name: row
    for row in (
        # name, bits, digits, quantum, largest, overflow, nan
        FloatFormat("float64", 64, 53, -1074, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000),
        FloatFormat("float32", 32, 24, -149, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
        FloatFormat("float16", 16, 11, -24, 0x7BFF, 0x7C00, 0x7E00),
        FloatFormat("bfloat16", 16, 8, -133, 0x7F7F, 0x7F80, 0x7FC0),
        FloatFormat("float8_e3m4", 8, 5, -6, 0x6F, 0x70, 0x78),
        FloatFormat("float8_e4m3", 8, 4, -9, 0x77, 0x78, 0x7C),
        FloatFormat("float8_e4m3b11fnuz", 8, 4, -13, 0x7F, 0x80, 0x80, minus_zero=False),
        FloatFormat("float8_e4m3fn", 8, 4, -9, 0x7E, 0x7F, 0x7F),
        FloatFormat("float8_e4m3fnuz", 8, 4, -10, 0x7F, 0x80, 0x80, minus_zero=False),
        FloatFormat("float8_e5m2", 8, 3, -16, 0x7B, 0x7C, 0x7E),
        FloatFormat("float8_e5m2fnuz", 8, 3, -17, 0x7F, 0x80, 0x80, minus_zero=False),
        FloatFormat("float8_e8m0fnu", 8, 1, -127, 0xFE, 0xFF, 0xFF, minus_zero=False, zero=False),
        FloatFormat("float4_e2m1fn", 4, 2, -1, 0x7, 0x7, 0x8),
    )
}


@dataclass(frozen=True)
class IntFormat:
    """An integer type: two's complement or unsigned."""

    name: str
    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def largest(self) -> int:
        return self.least + (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """Return the integer of this type that equals value modulo 2^bits."""
        return (value - self.least) % (1 << self.bits) + self.least

    def saturate(self, value: mpfr) -> int:
        """Truncate toward zero and saturate; NaN gives 0."""
        if gmpy2.is_nan(value):
            return 0
        if value >= self.largest:
            return self.largest
        if value <= self.least:
            return self.least
        mantissa, exponent = mantissa_exponent(value)
        magnitude = mantissa << exponent if exponent >= 0 else mantissa >> -exponent
        return -magnitude if value < 0 else magnitude


Format = FloatFormat | IntFormat


def format_of(dtype: np.dtype[Any]) -> Format:
    """Return the row of an element type; raises UnsupportedError for any other type."""
    row = element_type(dtype)
    if row.kind == "float":
        return FLOAT_FORMATS[row.name]
    return IntFormat(row.name, row.bits, signed=row.kind == "int")


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
    row = format_of(values.dtype)
    if isinstance(row, FloatFormat):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return [exact(number) for number in values.astype(np.float64).tolist()]
    return [int(number) for number in values.astype(np.int64 if row.signed else np.uint64)]


def native(array: Any) -> Array:
    """Return an array in the machine's byte order."""
    given = np.asarray(array)
    return given.astype(given.dtype.newbyteorder("="), copy=False)


def from_codes(codes: list[int], row: Format) -> Array:
    """Return a 1-d array of a type from its codes. The code of an integer is the integer."""
    is_float = isinstance(row, FloatFormat)
    return types.from_codes(codes, row.name) if is_float else types.from_integers(codes, row.name)


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
    """Return the real number x^y, truncated, by MPFR: correctly rounded, with the special values of C23 F.10.4.4."""
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
