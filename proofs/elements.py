"""The values of the element types, by IEEE 754's formula from a type's row, and the core's results."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.compiled import output, program

# The numbers of bits of the encodings.
FLOATS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn": 4,
}
INTEGERS = {f"{sign}int{bits}": bits for bits in (4, 8, 16, 32, 64) for sign in ("", "u")}
INFINITY = float("inf")
Value = Fraction | float  # finite, or an infinity or NaN as a float


@dataclass(frozen=True)
class FloatType:
    """A floating type: its row, and the values of its encodings."""

    name: str
    bits: int
    precision: int
    bias: int
    largest: int
    overflow: int
    nan: int
    has_minus_zero: bool

    @property
    def sign(self) -> int:
        return 0 if self.precision == 1 else 1 << (self.bits - 1)

    def magnitude(self, encoding: int) -> Fraction:
        if self.precision == 1:
            return Fraction(2) ** (encoding - self.bias)
        fraction_bits = self.precision - 1
        fraction, exponent = encoding & ((1 << fraction_bits) - 1), encoding >> fraction_bits
        unit = Fraction(2) ** (max(exponent, 1) - self.bias - fraction_bits)
        return (fraction + ((1 << fraction_bits) if exponent else 0)) * unit

    def value(self, encoding: int) -> Value:
        """-0 counts as 0: see `is_negative`."""
        if encoding == self.nan and not self.has_minus_zero and self.sign and self.bits == 8:
            return float("nan")
        magnitude = encoding & ~self.sign
        sign = -1 if encoding & self.sign else 1
        if magnitude <= self.largest:
            return sign * self.magnitude(magnitude)
        has_infinity = self.overflow not in (self.nan, self.largest)
        return sign * INFINITY if has_infinity and magnitude == self.overflow else float("nan")

    def is_negative(self, encoding: int) -> bool:
        return bool(encoding & self.sign)

    def rounded(self, value: Value, negative: bool) -> int:
        """To nearest, ties to even; `negative`: of a zero, or a magnitude that is given without its sign."""
        without_zero = self.precision == 1
        if value != value or (without_zero and (value == 0 or negative)):
            return self.nan
        exact = isinstance(value, Fraction) or abs(value) != INFINITY
        encoding = self._nearest(abs(Fraction(value))) if exact else self.overflow
        if encoding == self.nan and self.bits != 4:
            return encoding
        minus = negative and (self.has_minus_zero or encoding != 0)
        return encoding | (self.sign if minus else 0)

    def _nearest(self, magnitude: Fraction) -> int:
        low, high = 0, self.largest + 1  # the last encoding that is not above it
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.magnitude(middle) <= magnitude else (low, middle)
        middle_value = (self.magnitude(low) + self.magnitude(low + 1)) / 2
        is_odd = self.precision == 1 or low % 2 == 1
        if magnitude > middle_value or (magnitude == middle_value and is_odd):
            low += 1
        return low if low <= self.largest else self.overflow


@functools.cache
def float_type(core: Path, name: str) -> FloatType:
    (row,) = ask(core, [f"row {name}"])
    numbers = [int(word) for word in row.split()]
    precision, bias, largest, overflow, nan, minus_zero = numbers
    return FloatType(name, FLOATS[name], precision, bias, largest, overflow, nan, bool(minus_zero))


def ask(core: Path, questions: Iterable[str]) -> list[str]:
    """Return the answers of programs/elements.cpp."""
    asked = list(questions)
    told = output(program("elements.cpp", core), stdin="\n".join(asked) + "\n").splitlines()
    demand(len(told) == len(asked), "the program did not answer every question")
    return told


def double_bits(value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(bits)


def integer_value(bits: int, is_signed: bool, encoding: int) -> int:
    encoding &= (1 << bits) - 1
    return encoding - (1 << bits) if is_signed and encoding >> (bits - 1) else encoding
