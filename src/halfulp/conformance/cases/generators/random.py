"""Random numbers that are the same wherever and whenever they are drawn.

NumPy keeps the raw stream of a bit generator from version to version, but not what ``Generator`` makes of it; and
exp2 may differ by machine. Here everything comes from the raw stream, by arithmetic that is exact or rounded once.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.floats import float_type, from_codes, from_integers, integer_range
from halfulp.operators import pow as exact_pow
from halfulp.types import TYPES


class Random:
    """A stream of random numbers that a text determines."""

    def __init__(self, text: str) -> None:
        self._raw = np.random.PCG64(zlib.crc32(text.encode()))

    def words(self, count: int) -> Array:
        """Return random uint64."""
        return np.asarray(self._raw.random_raw(count))

    def uniform(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers between low and high."""
        return low + (high - low) * ((self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, low: int, high: int, count: int) -> Array:
        """Return int64 numbers from low to high - 1."""
        return np.floor(self.uniform(low, high, count)).astype(np.int64)

    def choose(self, options: Sequence[Any] | Array, count: int) -> Array:
        """Return elements of an array, each with the same probability."""
        options = np.asarray(options)
        return options[self.integers(0, len(options), count)]

    def mixed(self, *arrays: Array) -> Array:
        """Return an array with each element from one of some arrays of one length."""
        which = self.integers(0, len(arrays), len(arrays[0]))
        result = arrays[0].copy()
        for index, array in enumerate(arrays[1:], start=1):
            result[which == index] = array[which == index]
        return result

    def bits(self, name: str, count: int) -> Array:
        """Return values of a type with random bits: of every size, NaNs and infinities among them."""
        row = TYPES[name]
        words = self.words(count) >> np.uint64(64 - row.bits)
        if row.kind == "float":
            return from_codes(words.astype(f"u{row.dtype.itemsize}"), name)
        least = integer_range(name)[0]
        return from_integers((int(word) + least for word in words), name)

    def normal(self, count: int) -> Array:
        """Return numbers about 0, most of them within 1 of it (a sum of uniform ones)."""
        return sum((self.uniform(-1, 1, count) for _ in range(3)), np.zeros(count))

    def spread(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers from 2^low to 2^high, their logarithms uniform."""
        return np.asarray(exact_pow(np.float64(2), self.uniform(low, high, count)))


def cast(values: Array, name: str) -> Array:
    """Return float64 numbers converted to a type: rounded to nearest, clipped to the range of an integer type."""
    row = TYPES[name]
    if row.kind == "float":
        with np.errstate(all="ignore"):
            return values.astype(row.dtype)
    least, largest = integer_range(name)
    numbers = np.rint(np.nan_to_num(values)).ravel().tolist()
    clipped = from_integers((min(max(int(number), least), largest) for number in numbers), name)
    return clipped.reshape(values.shape)


def log2(values: Array) -> Array:
    """Return the binary logarithms of magnitudes to about 20 bits, the same on every machine."""
    with np.errstate(all="ignore"):
        logs = np.log2(np.abs(values.astype(np.float64)))
    fraction, exponent = np.frexp(logs)
    return np.ldexp(np.rint(fraction * 2.0**20) * 2.0**-20, exponent)


def has_sign(name: str) -> bool:
    """Return whether a type has negative numbers."""
    row = TYPES[name]
    return row.kind == "int" or (row.kind == "float" and float_type(name).has_zero)
