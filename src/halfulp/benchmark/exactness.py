"""How many results are not the exact ones, and how far off the farthest is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halfulp.benchmark.case import Array
from halfulp.types import element_type


class Exactness(NamedTuple):
    """What a comparison found.

    Attributes:
        misrounded: how many results are not the right one: another number, or a zero of the wrong sign.
        total: how many were compared.
        farthest: the greatest distance from the right result, in representable values; a NaN that should
            be a number, or the other way round, counts as the type's whole range.
    """

    misrounded: int
    total: int
    farthest: int

    @property
    def share(self) -> float:
        """The share of misrounded results, from 0 to 1."""
        return self.misrounded / self.total if self.total else 0.0


def exactness(result: Array, right: Array) -> Exactness:
    """Compare results with the right ones; all NaNs are one.

    Raises:
        ValueError: their types or shapes differ.
    """
    if result.dtype != right.dtype or result.shape != right.shape:
        raise ValueError(f"not comparable: {result.dtype}{result.shape} and {right.dtype}{right.shape}")
    unsigned = np.dtype(f"u{right.dtype.itemsize}")
    differs = _bits(result, unsigned) != _bits(right, unsigned)
    ours, theirs = right[differs], result[differs]
    if element_type(right.dtype).kind == "float":
        known = ~(np.isnan(ours) & np.isnan(theirs))
        ours, theirs = ours[known], theirs[known]
    return Exactness(ours.size, right.size, _farthest(ours, theirs))


def _bits(array: Array, unsigned: np.dtype[np.unsignedinteger]) -> Array:
    # A view needs a dtype of its size only, so any strides will do.
    return array.view(unsigned)


def _farthest(a: Array, b: Array) -> int:
    if a.size == 0:
        return 0
    element = element_type(a.dtype)
    if element.kind == "float":
        ranks_a, ranks_b = _ranks(a), _ranks(b)
        if (np.isnan(a) | np.isnan(b)).any():
            return 1 << element.bits
    else:
        ranks_a, ranks_b = a, b
    # Python's integers: the distance of two int64 may need 64 bits without a sign.
    greater, less = np.maximum(ranks_a, ranks_b), np.minimum(ranks_a, ranks_b)
    return int((greater.astype(np.uint64) - less.astype(np.uint64)).max())


def _ranks(values: Array) -> Array:
    """Number the floats in their order: neighbours differ by one, and so do the two zeros."""
    codes = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    lowest = np.int64(-(1 << (8 * values.dtype.itemsize - 1)))
    return np.where(codes < 0, lowest - codes - 1, codes)
