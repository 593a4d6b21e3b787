"""The .bin file beside an OpenVINO IR: constants by offset and size, mapped, never believed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.files import opened
from halfulp.models.graph import MOST_DIMS, Array, describe
from halfulp.models.openvino.layers import ELEMENT_TYPES, LARGEST, natural
from halfulp.types import TYPES


def parse_shape(text: str) -> tuple[int | None, ...] | None:
    """Return the shape that a Parameter or Const declares; None where the rank is dynamic.

    Args:
        text: dims separated by commas. ``?`` and ``-1`` are dynamic, and so is a range; ``...``
            alone is a dynamic rank, nothing a scalar.

    Raises:
        HalfulpError: a dim that is negative, too large, or no dim at all.
    """
    if text.strip() == "...":
        return None
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    dims = tuple(map(_dim, parts))
    if len(dims) > MOST_DIMS:
        raise HalfulpError("its shape has more dims than NumPy does", expected=MOST_DIMS, got=len(dims))
    return dims


def allows(text: str, shape: tuple[int, ...]) -> bool:
    """Return whether a shape has the rank and lies within the ranges that a Parameter declares."""
    if text.strip() == "...":
        return True
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    ranges = map(_range, parts)
    return len(parts) == len(shape) and all(a <= dim <= b for dim, (a, b) in zip(shape, ranges, strict=True))


def _dim(text: str) -> int | None:
    low, high = _range(text)
    return low if low == high else None


def _range(text: str) -> tuple[int, int]:
    """Return the least and the greatest size that a dim may have."""
    if text in ("?", "-1"):
        return 0, LARGEST
    low, dots, high = (part.strip() for part in text.partition(".."))
    bounds = natural(low or "0"), natural(high or str(LARGEST))
    if not dots:
        bounds = natural(text), natural(text)
    if bounds[0] is None or bounds[1] is None or bounds[0] > bounds[1]:
        raise HalfulpError("its shape has a dim that can't be", got=repr(text[:40]))
    return bounds[0], bounds[1]


class Weights:
    """The weights of one model.

    Args:
        source: the .bin file, which need not exist where no constant has data; or its bytes.
    """

    def __init__(self, source: Path | bytes | None) -> None:
        self._source = source
        self._memory: Array | None = None
        self._unpacked: dict[tuple[str, int, int], Array] = {}
        self._taken = 0

    def read(self, data: Mapping[str, str]) -> Array:
        """Return the array of a Const layer, read-only; mapped where its type is not packed.

        Args:
            data: the attributes of the layer's <data>: element_type, shape, offset, size.

        Raises:
            HalfulpError: an attribute is missing or can't be, the shape contradicts the size, or
                the .bin file is missing or too short.
            UnsupportedError: an element type that is not ours.
        """
        for name in ("element_type", "shape", "offset", "size"):
            if name not in data:
                raise HalfulpError(f"it has no {name}")
        openvino = data["element_type"]
        if openvino not in ELEMENT_TYPES:
            raise UnsupportedError("its element_type is not one of ours", got=repr(openvino[:40]))
        element_type = ELEMENT_TYPES[openvino]
        shape = parse_shape(data["shape"])
        if shape is None or None in shape:
            raise HalfulpError("its shape is not static", got=repr(data["shape"][:40]))
        static = tuple(dim for dim in shape if dim is not None)
        offset, size = natural(data["offset"]), natural(data["size"])
        if offset is None or size is None:
            shown = f"offset {data['offset'][:40]!r}, size {data['size'][:40]!r}"
            raise HalfulpError("offset and size must be numbers, at least 0 and below 2^63", got=shown)
        needed = stored_bytes(element_type, math.prod(static))
        # Zero elements of an absurd shape take no bytes, but NumPy counts them all the same.
        if needed != size or math.prod(max(dim, 1) for dim in static) >= 1 << 60:
            raise HalfulpError(
                f"its shape contradicts its size: {describe(element_type, static)}",
                expected=f"{needed} bytes",
                got=f"{size} bytes",
            )
        return self._array(element_type, static, offset, size)

    def _array(self, element_type: str, shape: tuple[int, ...], offset: int, size: int) -> Array:
        dtype = np.dtype(bool) if element_type == "bool" else TYPES[element_type].dtype
        if size == 0:
            array = np.empty(shape, dtype)
        else:
            memory = self._mapped()
            if offset + size > memory.size:
                raise HalfulpError(
                    "it reaches past the end of the weights",
                    expected=f"{offset + size} bytes",
                    got=f"{memory.size} bytes",
                )
            raw = memory[offset : offset + size]
            if element_type == "bool" or TYPES[element_type].bits == 4:
                array = self._unpack(raw, element_type, math.prod(shape), offset).reshape(shape)
            else:
                array = raw.view(dtype.newbyteorder("<")).reshape(shape)
        array.flags.writeable = False
        return array

    def _unpack(self, raw: Array, element_type: str, count: int, offset: int) -> Array:
        """Return elements that can't be looked at where they are: the only ones that take memory."""
        key = element_type, offset, count
        if key not in self._unpacked:
            assert self._memory is not None
            # Constants may share their bytes, but many that overlap would unpack to any size.
            self._taken += count
            if self._taken > 8 * self._memory.size:
                raise HalfulpError("the constants overlap, and unpack to more than the weights hold")
            if element_type == "bool":
                self._unpacked[key] = raw != 0
            else:
                self._unpacked[key] = _unpacked(raw, count, TYPES[element_type].dtype)
        return self._unpacked[key]

    def _mapped(self) -> Array:
        """Return all of the weights, mapped once: a mapping for each constant would use up the files."""
        if self._memory is None:
            if self._source is None:
                raise HalfulpError("it has data, but the model came without weights")
            if isinstance(self._source, bytes):
                self._memory = np.frombuffer(self._source, np.uint8)
            else:
                self._memory = _map(self._source)
        return self._memory


def _map(path: Path) -> Array:
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        return np.asarray(np.memmap(stream, np.uint8, "r")) if size else np.empty(0, np.uint8)


def stored_bytes(element_type: str, count: int) -> int:
    """Return the bytes that so many elements take: those of 4 bits lie two to a byte."""
    if element_type == "bool":
        return count
    row = TYPES[element_type]
    return (count + 1) // 2 if row.bits == 4 else count * row.dtype.itemsize


def stored(array: Array) -> Array:
    """Return an array as the bytes that :class:`Weights` reads it from."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.name in TYPES and TYPES[array.dtype.name].bits == 4:
        nibbles = np.zeros(flat.size + flat.size % 2, np.uint8)
        nibbles[: flat.size] = flat.view(np.uint8) & 15
        return nibbles[::2] | nibbles[1::2] << 4
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _unpacked(raw: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Return the elements of two to a byte, the first in the low half."""
    nibbles = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count]
    if dtype.name == "int4":  # what ml_dtypes keeps in the byte's other half is its own affair
        return ((nibbles ^ 8).astype(np.int8) - np.int8(8)).astype(dtype)
    return nibbles.view(dtype)
