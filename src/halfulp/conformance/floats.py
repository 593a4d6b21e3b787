"""The numbers of each type by their bits: the range, the order, the special values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from halfulp._interop import Array
from halfulp.types import TYPES, element_type


@dataclass(frozen=True)
class FloatType:
    """A floating type's facts. A code is a value's bits as an unsigned integer.

    Attributes:
        bits: how many a value has.
        digits: significand digits, the hidden one included.
        least_exponent: the binary exponent of the least positive value.
        greatest_exponent: the largest finite value lies below 2 to this.
        largest: the largest finite value's code.
        least_normal: the least normal value's code; the codes from 0 to below it are zero and the subnormals.
        one: the code of 1.
        infinity, nan: the codes that an infinity and a NaN are converted to.
        has_infinity, has_zero: whether there are infinities, and a zero (with it a sign).
        has_minus_zero: whether zeros have a sign.
    """

    bits: int
    digits: int
    least_exponent: int
    greatest_exponent: int
    largest: int
    least_normal: int
    one: int
    infinity: int
    nan: int
    has_infinity: bool
    has_zero: bool
    has_minus_zero: bool

    @property
    def sign_bit(self) -> int:
        """The code of the sign alone."""
        return 1 << (self.bits - 1)


@cache
def float_type(name: str) -> FloatType:
    """Return the facts of a floating type; raises KeyError for another."""
    dtype = TYPES[name].dtype
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]

    def code(value: Any) -> int:
        with np.errstate(all="ignore"):
            return int(codes(np.array(value).astype(dtype)))

    with np.errstate(all="ignore"):
        infinite = np.array(np.inf).astype(dtype).astype(np.float64)
        zero, minus_zero = np.array([0.0, -0.0]).astype(dtype).astype(np.float64)
    return FloatType(
        bits=info.bits,
        digits=info.nmant + 1,
        least_exponent=int(np.frexp(np.float64(info.smallest_subnormal))[1]) - 1,
        greatest_exponent=int(np.frexp(np.float64(info.max))[1]),
        largest=code(info.max),
        least_normal=code(info.smallest_normal),
        one=code(1),
        infinity=code(np.inf),
        nan=code(np.nan),
        has_infinity=bool(np.isinf(infinite)),
        has_zero=bool(zero == 0),
        has_minus_zero=bool(minus_zero == 0 and np.signbit(minus_zero)),
    )


def codes(array: Array) -> Array:
    """Return the bits of an array, of any byte order, as unsigned integers."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def from_codes(bits: Any, name: str) -> Array:
    """Return an array of a type from its bits."""
    dtype = TYPES[name].dtype
    return np.asarray(bits, f"u{dtype.itemsize}").view(dtype)


def from_integers(values: Any, name: str) -> Array:
    """Return an array of an integer type from integers within its range."""
    wide = np.uint64 if TYPES[name].kind == "uint" else np.int64
    return np.array(list(values), wide).astype(TYPES[name].dtype)


def integer_range(name: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    row = TYPES[name]
    least = -(1 << (row.bits - 1)) if row.kind == "int" else 0
    return least, least + (1 << row.bits) - 1


def is_float(array: Array) -> bool:
    """Return whether an array has a floating type."""
    return element_type(array.dtype).kind == "float"


@np.errstate(invalid="ignore")  # a signalling one
def is_nan(array: Array) -> Array:
    """Return which elements are NaN."""
    return np.isnan(array) if is_float(array) else np.zeros(array.shape, bool)


def ranks(array: Array) -> Array:
    """Number the values of a type in their order, as uint64: neighbours differ by one, the two zeros too.

    The numbers start somewhere; those of NaNs mean nothing.
    """
    row = element_type(array.dtype)
    if row.kind != "float":
        # Flipping the sign bit subtracts the least value, modulo 2^64.
        if row.kind == "int":
            return array.astype(np.int64).astype(np.uint64) ^ np.uint64(1 << 63)
        return array.astype(np.uint64)
    facts = float_type(row.name)
    word = codes(array).astype(np.uint64)
    if not facts.has_zero:
        return word
    magnitude = word & np.uint64(facts.sign_bit - 1)
    middle = np.uint64(facts.sign_bit)
    negative = (word & middle) != 0
    below = middle - np.uint64(facts.has_minus_zero)
    return np.where(negative, below - magnitude, middle + magnitude)
