"""Cutting a broadcast computation into pieces along the leading dims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np

from halfulp.models.files import NpyFile
from halfulp.models.graph import Array

Region = tuple[slice, ...]


def regions(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Yield regions that cover an array of this shape once, in order, each of ``limit`` elements at most.

    Each region is contiguous in an array in C order.
    """
    if 0 in shape:
        return
    # The first dim whose trailing block fits is cut; those before it go one by one.
    cut = next((axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= limit), 0)
    if not shape:
        yield ()
        return
    step = max(limit // math.prod(shape[cut + 1 :]), 1)
    whole = tuple(slice(0, size) for size in shape[cut + 1 :])
    for lead in itertools.product(*map(range, shape[:cut])):
        ones = tuple(slice(index, index + 1) for index in lead)
        for start in range(0, shape[cut], step):
            yield (*ones, slice(start, min(start + step, shape[cut])), *whole)


def window(file: NpyFile, shape: tuple[int, ...], region: Region, mode: Literal["r", "r+"] = "r") -> Array:
    """Map the part of an operand that a region of the output needs.

    Args:
        file: the operand.
        shape: what its shape becomes before broadcasting: its own, with dims of 1 put in.
        region: of the output, as :func:`regions` makes it; dims of 1 stay whole.
    """
    parts = region[len(region) - len(shape) :]
    parts = tuple(slice(0, 1) if size == 1 else part for size, part in zip(shape, parts, strict=True))
    if file.fortran:
        return expanded(file.map(), shape)[parts]
    start = 0
    for size, part in zip(shape, parts, strict=True):
        start = start * size + part.start
    return file.map_part(start, tuple(part.stop - part.start for part in parts), mode)


def expanded(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a view of an array with dims of 1 put in, so that it has this shape; never a copy.

    A one-element array may also lose dims.
    """
    if array.size == 1:
        return array.reshape(shape)
    # reshape() would copy an array in Fortran order, which may be larger than memory.
    sizes = iter(array.shape)
    size = next(sizes, None)
    index: list[slice | None] = []
    for dim in shape:
        if dim == size:
            index.append(slice(None))
            size = next(sizes, None)
        else:
            index.append(np.newaxis)
    return array[tuple(index)]
