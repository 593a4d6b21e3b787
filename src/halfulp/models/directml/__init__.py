"""DirectML's descriptions of Pow and PReLU operators, checked and executed.

Names and fields are DirectML's own. :func:`validate` refuses the same descriptions as DirectML's debug layer at a
feature level, and names the clause: of the operator version, or of DML_BUFFER_TENSOR_DESC (below).
:func:`execute` runs an operator on plain memory.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from math import prod
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import HalfulpError, SpecError
from halfulp.models.graph import Array
from halfulp.operators import Operator, op
from halfulp.specs import ScaleBias, in_force
from halfulp.types import TYPES, ElementType, TensorType, format_shape

__all__ = [
    "DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC",
    "DML_BUFFER_TENSOR_DESC",
    "DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC",
    "DML_ELEMENT_WISE_POW_OPERATOR_DESC",
    "DML_SCALE_BIAS",
    "DMLCalcBufferTensorSize",
    "execute",
    "tensors",
    "validate",
]

FEATURE_LEVELS = (  # without the prefix DML_FEATURE_LEVEL_, oldest first
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2"),
    *("6_0", "6_1", "6_2", "6_3", "6_4"),
)

# --- tensors -------------------------------------------------------------------------------------

DATA_TYPES = {row.directml: row for row in TYPES.values() if row.directml is not None and row.bits >= 8}
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
        DataType: such as ``FLOAT32``; the prefix DML_TENSOR_DATA_TYPE_ is optional.
        Flags: ``NONE`` or ``OWNED_BY_DML``; the prefix DML_TENSOR_FLAG_ is optional.
        DimensionCount: 0 means the number of Sizes.
        Sizes: of each dim, in elements.
        Strides: of each dim, in elements; None for a packed tensor.
        TotalTensorSizeInBytes: 0 means the minimum.
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
        sizes = tuple(_uint(size, "C3", "a size") for size in self.Sizes)
        strides = self.Strides
        if strides is not None:
            strides = tuple(_uint(stride, "C4", "a stride") for stride in strides)
        count = _uint(self.DimensionCount, "C2", "DimensionCount") or len(sizes)
        alignment = _uint(self.GuaranteedBaseOffsetAlignment, "C7", "GuaranteedBaseOffsetAlignment")
        total = _uint(self.TotalTensorSizeInBytes, "C6", "TotalTensorSizeInBytes", 2**64 - 1)
        flags, itemsize = short(self.Flags, "DML_TENSOR_FLAG_"), self.element_type.dtype.itemsize
        _check_dims(count, sizes, strides)
        if alignment.bit_count() > 1 or 0 < alignment < itemsize:
            rule = "GuaranteedBaseOffsetAlignment must be 0, or a power of two and at least the element size"
            raise error("C7", rule, got=alignment)
        if flags not in ("NONE", "OWNED_BY_DML"):
            raise error("C8", "unknown flag", expected="NONE or OWNED_BY_DML", got=flags)
        least = DMLCalcBufferTensorSize(self.DataType, count, sizes, strides)
        if 0 < total < least:
            message = "TotalTensorSizeInBytes is too small for the tensor"
            raise error("C6", message, expected=f"at least {least}", got=total)
        kind = short(self.DataType, "DML_TENSOR_DATA_TYPE_")
        made = kind, flags, count, sizes, strides, total or least, alignment
        # A frozen class has no other way.
        vars(self).update(zip((field.name for field in fields(self)), made, strict=True))

    @property
    def element_type(self) -> ElementType:
        """The row of the element type."""
        return _row(self.DataType)

    @property
    def byte_strides(self) -> tuple[int, ...]:
        """The distance in bytes from one element to the next in each dim, packed or not."""
        packed = (prod(self.Sizes[axis + 1 :]) for axis in range(len(self.Sizes)))
        return tuple(stride * self.element_type.dtype.itemsize for stride in self.Strides or packed)


def _check_dims(count: int, sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
    if {len(sizes), len(strides or sizes)} != {count} or not 1 <= count <= 8:
        rule = "DimensionCount must be 1 to 8, and the number of Sizes and of Strides"
        raise error("C2", rule, got=f"{count}, Sizes {_line(sizes)}, Strides {_line(strides)}")
    if 0 in sizes or prod(sizes) > _MOST:
        limit = "no size may be 0, and there may be at most 2^32 - 1 elements"
        raise error("C3", limit, got=_line(sizes))
    if _reach(sizes, strides) > _MOST:
        raise error("C4", "the strides span more than 2^32 - 1 elements", got=_line(strides))


def overlaps(tensor: DML_BUFFER_TENSOR_DESC) -> bool:
    """Return whether two elements of a tensor share memory."""
    dims = sorted(dim for dim in zip(tensor.byte_strides, tensor.Sizes, strict=True) if dim[1] > 1)
    reaches = accumulate((stride * (size - 1) for stride, size in dims), initial=0)
    if all(stride > reach for (stride, _), reach in zip(dims, reaches, strict=False)):
        return False
    # Interleaved dims need not overlap. Two elements that first differ in some dim overlap if the slice at 0 of that
    # dim shares memory with the slice of all other indices.
    one = np.empty(1, tensor.element_type.dtype)
    memory = np.lib.stride_tricks.as_strided(one, tensor.Sizes, tensor.byte_strides)
    for axis in range(memory.ndim):
        first, others = memory[(0,) * axis + (slice(0, 1),)], memory[(0,) * axis + (slice(1, None),)]
        if others.size and share(first, others):
            return True
    return False


def share(a: Array, b: Array) -> bool:
    """Return whether two arrays share an element; True if that takes too long to compute."""
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


# --- operators -----------------------------------------------------------------------------------


class DML_SCALE_BIAS(ScaleBias):
    """g(x) = x * Scale + Bias, applied to each element of the input first."""


@dataclass(frozen=True, kw_only=True)
class DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC:
    """Each element of InputTensor to the power of Exponent."""

    type: ClassVar[str] = "ELEMENT_WISE_CONSTANT_POW"
    InputTensor: DML_BUFFER_TENSOR_DESC
    OutputTensor: DML_BUFFER_TENSOR_DESC
    ScaleBias: DML_SCALE_BIAS | None = None
    Exponent: float


@dataclass(frozen=True, kw_only=True)
class DML_ELEMENT_WISE_POW_OPERATOR_DESC:
    """Each element of InputTensor to the power of the element of ExponentTensor."""

    type: ClassVar[str] = "ELEMENT_WISE_POW"
    InputTensor: DML_BUFFER_TENSOR_DESC
    ExponentTensor: DML_BUFFER_TENSOR_DESC
    OutputTensor: DML_BUFFER_TENSOR_DESC
    ScaleBias: DML_SCALE_BIAS | None = None


@dataclass(frozen=True, kw_only=True)
class DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC:
    """Each element x of InputTensor, or slope * x where x is negative."""

    type: ClassVar[str] = "ACTIVATION_PARAMETERIZED_RELU"
    InputTensor: DML_BUFFER_TENSOR_DESC
    SlopeTensor: DML_BUFFER_TENSOR_DESC
    OutputTensor: DML_BUFFER_TENSOR_DESC


OperatorDesc = (
    DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC
    | DML_ELEMENT_WISE_POW_OPERATOR_DESC
    | DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC
)


def tensors(desc: OperatorDesc) -> dict[str, DML_BUFFER_TENSOR_DESC]:
    """Return the tensors of an operator by field, the output last.

    Example:
        >>> x = DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[3])
        >>> list(tensors(DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(InputTensor=x, OutputTensor=x, Exponent=2)))
        ['InputTensor', 'OutputTensor']
    """
    named = {field.name: getattr(desc, field.name) for field in fields(desc)}
    return {name: value for name, value in named.items() if isinstance(value, DML_BUFFER_TENSOR_DESC)}


def validate(desc: OperatorDesc, feature_level: str = FEATURE_LEVELS[-1]) -> Operator:
    """Return the operator version that a description asks for at a feature level.

    Args:
        desc: one of the three operator descriptions.
        feature_level: such as ``3_0``; the prefix DML_FEATURE_LEVEL_ is optional.

    Raises:
        SpecError: a clause of the operator version, or C5 or C8 of DML_BUFFER_TENSOR_DESC.

    Example:
        >>> x = DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[2, 3])
        >>> desc = DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(InputTensor=x, OutputTensor=x, Exponent=0.5)
        >>> validate(desc)
        <directml.ELEMENT_WISE_CONSTANT_POW-3_0>
        >>> validate(desc, "2_0")
        Traceback (most recent call last):
            ...
        halfulp.errors.SpecError: InputTensor has an unsupported number of dimensions
            (directml.ELEMENT_WISE_CONSTANT_POW-1_0.C4)
          InputTensor: float32[2, 3]
          expected: 4
          got: 2
    """
    level = short(feature_level, "DML_FEATURE_LEVEL_")
    if level not in FEATURE_LEVELS:
        raise HalfulpError("unknown feature level", expected=", ".join(FEATURE_LEVELS), got=feature_level)
    row = op(in_force("directml", desc.type, level).id)
    named = tensors(desc)
    output = named.pop("OutputTensor")
    operands = [TensorType(tensor.element_type.name, tensor.Sizes) for tensor in named.values()]
    expected = row.infer(*operands, **attributes(desc))
    got = TensorType(output.element_type.name, output.Sizes)
    if got.type != expected.type:
        message = "OutputTensor must have InputTensor's DataType"
        raise row.error("output", message, expected=expected.type, got=got.type)
    if got.shape != expected.shape:
        raise row.error("shape", "OutputTensor must have InputTensor's Sizes", expected=expected, got=got)
    if output.Flags != "NONE":
        raise error("C8", "OutputTensor may not be owned by DirectML", expected="NONE", got=output.Flags)
    if overlaps(output):
        layout = f"Sizes {format_shape(output.Sizes)}, Strides {format_shape(output.Strides)}"
        raise error("C5", "the strides of OutputTensor put two of its elements in one place", got=layout)
    return row


def execute(
    desc: OperatorDesc,
    buffers: Mapping[str, Any],
    *,
    offsets: Mapping[str, int] | None = None,
    feature_level: str = FEATURE_LEVELS[-1],
) -> None:
    """Execute an operator on buffers, writing the elements of OutputTensor and nothing between them.

    Args:
        desc: the description of an operator.
        buffers: the memory of each tensor: a contiguous object with the buffer protocol. One buffer for InputTensor and
            OutputTensor executes in place.
        offsets: where tensors start in their buffers, in bytes; 0 by default.
        feature_level: as for :func:`validate`.

    Raises:
        SpecError: as :func:`validate`, and clauses C9 and C10 of DML_BUFFER_TENSOR_DESC.
        HalfulpError: a buffer is missing, not one of the tensors', not contiguous or not writeable.

    Example:
        >>> x = DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[3], Strides=[2])
        >>> desc = DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(InputTensor=x, OutputTensor=x, Exponent=2)
        >>> memory = np.array([1, -7, 2, -7, 3], np.float32)
        >>> execute(desc, {"InputTensor": memory, "OutputTensor": memory})
        >>> memory
        array([ 1., -7.,  4., -7.,  9.], dtype=float32)
    """
    row = validate(desc, feature_level)
    named = tensors(desc)
    if set(buffers) != set(named):
        expected, got = ", ".join(named), ", ".join(buffers)
        raise HalfulpError("needs one buffer for each tensor", expected=expected, got=got)
    starts = offsets or {}
    views = {name: _view(name, tensor, buffers[name], starts.get(name, 0)) for name, tensor in named.items()}
    output = views.pop("OutputTensor")
    if not output.flags.writeable:
        raise HalfulpError("the buffer of OutputTensor is read-only")
    for name, view in views.items():
        in_place = name == "InputTensor" and _places(view) == _places(output)
        if not in_place and share(output, view):
            raise error("C10", f"OutputTensor may not overlap {name} in this way")
    row(*views.values(), out=output, **attributes(desc))


def attributes(desc: OperatorDesc) -> dict[str, Any]:
    """Return an operator's attributes in the form that its row takes."""
    return {name: getattr(desc, name) for name in ("Exponent", "ScaleBias") if hasattr(desc, name)}


def _places(view: Array) -> tuple[object, ...]:
    """Return a key that is equal for views whose elements have the same places."""
    steps = tuple(stride for stride, size in zip(view.strides, view.shape, strict=True) if size > 1)
    return view.__array_interface__["data"][0], view.dtype, view.shape, steps


def _view(name: str, tensor: DML_BUFFER_TENSOR_DESC, buffer: Any, offset: int) -> Array:
    try:
        array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    except (TypeError, ValueError, BufferError) as fault:
        raise HalfulpError(f"{name}: expected an object with the buffer protocol: {fault}") from None
    if not array.flags.c_contiguous:
        raise HalfulpError(f"the buffer of {name} is not contiguous")
    memory = array.reshape(-1).view(np.uint8)
    alignment = max(_BUFFER_ALIGNMENT, tensor.GuaranteedBaseOffsetAlignment)
    if offset % alignment:
        expected = f"a multiple of {alignment}"
        raise error("C9", f"{name} starts at an offset that is not aligned", expected=expected, got=offset)
    if memory.size - offset < tensor.TotalTensorSizeInBytes:
        expected, got = f"{tensor.TotalTensorSizeInBytes} bytes", f"{max(memory.size - offset, 0)} bytes"
        raise error("C9", f"the buffer of {name} is too small", expected=expected, got=got)
    return np.ndarray(tensor.Sizes, tensor.element_type.dtype, memory, offset, tensor.byte_strides)
