"""The numbers of each type by their bits: the range, the order, the special values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from halfulp._interop import Array
from halfulp.types import TYPES, element_type


@dataclass(frozen=True)
class FloatType:
    """A floating type's facts. A code is a value's bits as an unsigned integer."""

    bits: int
    digits: int  # of the significand, the hidden one included
    least_exponent: int  # the binary exponent of the least positive value
    greatest_exponent: int  # the largest finite value lies below 2 to this
    largest: int  # the code of the largest finite value
    least_normal: int  # the code of the least normal value; zero and the subnormals have the codes below it
    one: int  # the code of 1
    infinity: int  # the code to which an infinity is converted
    nan: int
    has_infinity: bool
    has_zero: bool  # and with it a sign
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
        infinite, zero, minus_zero = np.array([np.inf, 0.0, -0.0]).astype(dtype).astype(np.float64)
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


def from_integers(values: Iterable[int], name: str) -> Array:
    """Return an array of an integer type from integers within its range."""
    wide = np.uint64 if TYPES[name].kind == "uint" else np.int64
    return np.array(list(values), wide).astype(TYPES[name].dtype)


def integers_within(values: Iterable[int], name: str) -> Array:
    """Return the integers that a type has of some, in their order and each once."""
    least, largest = integer_range(name)
    return from_integers(sorted({value for value in values if least <= value <= largest}), name)


def clipped(values: Iterable[int], name: str) -> Array:
    """Return an array of an integer type from integers, each clipped to its range."""
    least, largest = integer_range(name)
    return from_integers((min(max(value, least), largest) for value in values), name)


def integer_range(name: str) -> tuple[int, int]:
    """Return the minimum and the maximum of an integer type."""
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

    The first number is arbitrary, and the numbers of NaNs mean nothing.
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
