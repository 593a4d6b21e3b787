"""DirectML's DML_BUFFER_TENSOR_DESC: a tensor's type, sizes, strides and place in a buffer.

Its clauses, which errors name:

==== ==========================================================================================
C1   DataType is a DML_TENSOR_DATA_TYPE of 8 bits or more.
C2   DimensionCount is 1 to 8, and the number of Sizes and of Strides where these are given.
C3   No size is 0; a tensor has at most 2^32 - 1 elements.
C4   Strides count elements; 0 repeats an element. They reach at most 2^32 - 1 elements far.
C5   The elements of an output do not overlap.
C6   TotalTensorSizeInBytes is at least the result of DMLCalcBufferTensorSize.
C7   GuaranteedBaseOffsetAlignment is 0 or a power of two that is at least the element size.
C8   Flags is NONE or OWNED_BY_DML, which an output may not have.
C9   The buffer range of a tensor starts at a multiple of 16 and of GuaranteedBaseOffsetAlignment,
     and has at least TotalTensorSizeInBytes.
C10  An output may share elements with InputTensor alone, and then each with its own place there.
==== ==========================================================================================
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from halfulp.errors import SpecError
from halfulp.models.graph import Array
from halfulp.specs.tensor import format_shape
from halfulp.types import TYPES, ElementType

DATA_TYPES: Mapping[str, ElementType] = {
    row.directml: row for row in TYPES.values() if row.directml is not None and row.bits >= 8
}
"""The element types by name, without the prefix DML_TENSOR_DATA_TYPE_."""

_MOST = 2**32 - 1
_BUFFER_ALIGNMENT = 16  # DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT


def DMLCalcBufferTensorSize(
    dataType: str, dimensionCount: int, sizes: Iterable[int], strides: Iterable[int] | None = None
) -> int:
    """Return the minimum size in bytes of a buffer tensor, a multiple of 4.

    Args:
        dataType: with or without the prefix DML_TENSOR_DATA_TYPE_.
        dimensionCount: the number of sizes and strides to use.
        sizes: of each dim, at least 1.
        strides: of each dim, in elements; by default the tensor is packed.

    Raises:
        SpecError: the type is unknown.

    Example:
        >>> DMLCalcBufferTensorSize("FLOAT16", 2, [3, 3]), DMLCalcBufferTensorSize("FLOAT32", 2, [2, 3], [8, 2])
        (20, 52)
    """
    sizes = list(sizes)[:dimensionCount]
    elements = _reach(sizes, None if strides is None else list(strides)[:dimensionCount])
    return -(-elements * _row(dataType).dtype.itemsize // 4) * 4


def _reach(sizes: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return the number of elements from the first to the last in memory."""
    if strides is None:
        return prod(sizes)
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1


@dataclass(frozen=True, kw_only=True)
class DML_BUFFER_TENSOR_DESC:
    """A tensor in a buffer.

    Attributes:
        DataType: such as ``FLOAT32``; the prefix DML_TENSOR_DATA_TYPE_ may stand before it.
        Flags: ``NONE`` or ``OWNED_BY_DML``; the prefix DML_TENSOR_FLAG_ may stand before it.
        DimensionCount: 0 stands for the number of Sizes.
        Sizes: of each dim, in elements.
        Strides: of each dim, in elements; None for a packed tensor.
        TotalTensorSizeInBytes: 0 stands for the minimum.
        GuaranteedBaseOffsetAlignment: in bytes; 0 promises nothing.

    Raises:
        SpecError: clauses C1 to C4 and C6 to C8 of DML_BUFFER_TENSOR_DESC.

    Example:
        >>> DML_BUFFER_TENSOR_DESC(DataType="FLOAT16", Sizes=[2, 3], Strides=[4, 1])
        DML_BUFFER_TENSOR_DESC(DataType='FLOAT16', Flags='NONE', DimensionCount=2, Sizes=(2, 3),
            Strides=(4, 1), TotalTensorSizeInBytes=16, GuaranteedBaseOffsetAlignment=0)
    """

    DataType: str
    Flags: str = "NONE"
    DimensionCount: int = 0
    Sizes: tuple[int, ...]
    Strides: tuple[int, ...] | None = None
    TotalTensorSizeInBytes: int = 0
    GuaranteedBaseOffsetAlignment: int = 0

    def __post_init__(self) -> None:
        self._set("DataType", short(self.DataType, "DML_TENSOR_DATA_TYPE_"))
        self._set("Flags", short(self.Flags, "DML_TENSOR_FLAG_"))
        self._set("Sizes", tuple(_uint(size, "C3", "a size") for size in self.Sizes))
        if self.Strides is not None:
            self._set("Strides", tuple(_uint(stride, "C4", "a stride") for stride in self.Strides))
        self._set("DimensionCount", _uint(self.DimensionCount, "C2", "DimensionCount") or len(self.Sizes))
        alignment = _uint(self.GuaranteedBaseOffsetAlignment, "C7", "GuaranteedBaseOffsetAlignment")
        self._set("GuaranteedBaseOffsetAlignment", alignment)
        total = _uint(self.TotalTensorSizeInBytes, "C6", "TotalTensorSizeInBytes", 2**64 - 1)
        self._check(_row(self.DataType).dtype.itemsize)
        least = DMLCalcBufferTensorSize(self.DataType, self.DimensionCount, self.Sizes, self.Strides)
        self._set("TotalTensorSizeInBytes", total or least)
        if self.TotalTensorSizeInBytes < least:
            message = "TotalTensorSizeInBytes is too small for the tensor"
            raise error("C6", message, expected=f"at least {least}", got=total)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self, itemsize: int) -> None:
        counts = {len(self.Sizes), self.DimensionCount, len(self.Strides or self.Sizes)}
        if counts != {self.DimensionCount} or not 1 <= self.DimensionCount <= 8:
            got = f"{self.DimensionCount}, Sizes {_line(self.Sizes)}, Strides {_line(self.Strides)}"
            raise error(
                "C2", "DimensionCount must be 1 to 8, and the number of Sizes and of Strides", got=got
            )
        if 0 in self.Sizes or prod(self.Sizes) > _MOST:
            limit = "no size may be 0, and there may be at most 2^32 - 1 elements"
            raise error("C3", limit, got=_line(self.Sizes))
        if _reach(self.Sizes, self.Strides) > _MOST:
            raise error("C4", "the strides span more than 2^32 - 1 elements", got=_line(self.Strides))
        alignment = self.GuaranteedBaseOffsetAlignment
        if alignment and (alignment & (alignment - 1) or alignment < itemsize):
            rule = "GuaranteedBaseOffsetAlignment must be 0, or a power of two and at least the element size"
            raise error("C7", rule, got=alignment)
        if self.Flags not in ("NONE", "OWNED_BY_DML"):
            raise error("C8", "unknown flag", expected="NONE or OWNED_BY_DML", got=self.Flags)

    @property
    def element_type(self) -> ElementType:
        """The row of the element type."""
        return _row(self.DataType)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """The distance in bytes from one element to the next in each dim, packed or not."""
        strides = self.Strides
        if strides is None:
            strides = tuple(prod(self.Sizes[axis + 1 :]) for axis in range(len(self.Sizes)))
        return tuple(stride * self.element_type.dtype.itemsize for stride in strides)

    @property
    def is_packed(self) -> bool:
        """Whether the elements are contiguous, in C order."""
        packed = DML_BUFFER_TENSOR_DESC(DataType=self.DataType, Sizes=self.Sizes).byte_strides
        pairs = zip(self.Sizes, self.byte_strides, packed, strict=True)
        return all(size == 1 or stride == other for size, stride, other in pairs)


def overlaps(tensor: DML_BUFFER_TENSOR_DESC) -> bool:
    """Return whether two elements of a tensor share memory."""
    strides = sorted(
        (stride, size) for stride, size in zip(tensor.byte_strides, tensor.Sizes, strict=True) if size > 1
    )
    reach = 0
    for stride, size in strides:
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    # Interleaved dims need not overlap. Two elements that first differ in some dim overlap if the slice at 0 of that
    # dim shares memory with the slice of all other indices.
    memory = np.lib.stride_tricks.as_strided(
        np.empty(1, tensor.element_type.dtype), tensor.Sizes, tensor.byte_strides
    )
    for axis in range(memory.ndim):
        first, others = memory[(0,) * axis + (slice(0, 1),)], memory[(0,) * axis + (slice(1, None),)]
        if others.size and share(first, others):
            return True
    return False


def share(a: Array, b: Array) -> bool:
    """Return whether two arrays share an element; True if that takes too long to compute."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]  # the stubs know less
    except np.exceptions.TooHardError:
        return True


def _row(data_type: str) -> ElementType:
    name = short(data_type, "DML_TENSOR_DATA_TYPE_")
    if name not in DATA_TYPES:
        raise error("C1", "unknown DataType", expected=", ".join(DATA_TYPES), got=repr(name)[:60])
    return DATA_TYPES[name]


def short(name: object, prefix: str) -> str:
    """Return the name of an enumeration's value without the prefix."""
    return str(name).removeprefix(prefix)


def _uint(value: object, clause: str, what: str, most: int = _MOST) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if isinstance(value, bool) or not 0 <= number <= most:
        raise error(clause, f"{what} must be an integer, 0 to {most}", got=repr(value)[:60])
    return number


def _line(dims: tuple[int, ...] | None) -> str:
    return "none" if dims is None else format_shape(dims[:16])


def error(clause: str, message: str, **shown: object) -> SpecError:
    """Return the error of a broken clause of DML_BUFFER_TENSOR_DESC."""
    return SpecError(f"directml.DML_BUFFER_TENSOR_DESC.{clause}", message, **shown)


def check_binding(name: str, tensor: DML_BUFFER_TENSOR_DESC, offset: int, size: int) -> None:
    """Check the buffer range from an offset on to which a tensor is bound (C9)."""
    alignment = max(_BUFFER_ALIGNMENT, tensor.GuaranteedBaseOffsetAlignment)
    if offset % alignment:
        expected = f"a multiple of {alignment}"
        raise error("C9", f"{name} starts at an offset that is not aligned", expected=expected, got=offset)
    if size - offset < tensor.TotalTensorSizeInBytes:
        expected, got = f"{tensor.TotalTensorSizeInBytes} bytes", f"{max(size - offset, 0)} bytes"
        raise error("C9", f"the buffer of {name} is too small", expected=expected, got=got)
