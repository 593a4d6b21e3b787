"""A DxDispatch program: its resources, dispatchables and commands, spelled as in the file.

A resource's initial values have five forms, whose size is known before they are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.models.directml import OperatorDesc
from halfulp.models.directml.dxdispatch.lenient_json import number, shown
from halfulp.models.directml.tensor import DATA_TYPES
from halfulp.models.graph import Array, Value


@dataclass(frozen=True)
class Values:
    """A list of values of the resource's type."""

    values: tuple[Any, ...]

    def count(self) -> int:
        return len(self.values)

    def make(self, dtype: np.dtype[Any]) -> Array:
        return array_of(self.values, dtype)

    def json(self) -> Any:
        return [jsonable(value) for value in self.values]


@dataclass(frozen=True)
class Constant:
    """One value, so many times."""

    valueCount: int
    value: Any

    def count(self) -> int:
        return self.valueCount

    def make(self, dtype: np.dtype[Any]) -> Array:
        (value,) = array_of([self.value], dtype)
        if not value and not np.signbit(value):
            return np.zeros(self.valueCount, dtype)  # memory that the system hands out when it is touched
        return np.full(self.valueCount, value, dtype)

    def json(self) -> Any:
        return {"valueCount": self.valueCount, "value": jsonable(self.value)}


@dataclass(frozen=True)
class Sequence:
    """A value, and each next one the last plus a delta, in the resource's own arithmetic."""

    valueCount: int
    valueStart: Any
    valueDelta: Any

    def count(self) -> int:
        return self.valueCount

    def make(self, dtype: np.dtype[Any]) -> Array:
        start, delta = array_of([self.valueStart, self.valueDelta], dtype)
        steps = np.full(self.valueCount, delta, dtype)
        steps[:1] = start
        # Not start + i * delta: DxDispatch adds up, rounding or wrapping at every step.
        with np.errstate(all="ignore"):
            return np.add.accumulate(steps, dtype=dtype, out=steps)

    def json(self) -> Any:
        delta = jsonable(self.valueDelta)
        return {"valueCount": self.valueCount, "valueStart": jsonable(self.valueStart), "valueDelta": delta}


@dataclass(frozen=True)
class FromFile:
    """The contents of a file, raw or .npy: so many elements, of the file's byte order, from a byte on."""

    sourcePath: str
    path: Path
    dtype: np.dtype[Any]
    elements: int
    offset: int = 0

    def count(self) -> int:
        return self.elements

    def make(self, dtype: np.dtype[Any]) -> Array:
        try:
            array = np.fromfile(self.path, self.dtype, self.elements, offset=self.offset)
        except OSError as error:
            raise HalfulpError(f"{self.path}: can't be read: {error.strerror}") from None
        if array.size < self.elements:
            raise HalfulpError(f"{self.path}: has become shorter")
        return array.astype(dtype)

    def json(self) -> Any:
        return {"sourcePath": self.sourcePath}


@dataclass(frozen=True)
class Mixed:
    """A list of values each of its own type, as bytes: type, value, and a name that says what it is."""

    elements: tuple[tuple[str, Any, str], ...]
    type: ClassVar[str] = "UINT8"

    def count(self) -> int:
        return sum(DATA_TYPES[kind].dtype.itemsize for kind, _, _ in self.elements)

    def make(self, dtype: np.dtype[Any]) -> Array:
        parts = [array_of([value], DATA_TYPES[kind].dtype).tobytes() for kind, value, _ in self.elements]
        return np.frombuffer(b"".join(parts), np.uint8).copy()

    def json(self) -> Any:
        return [
            ({"name": name} if name else {}) | {"type": kind, "value": jsonable(value)}
            for kind, value, name in self.elements
        ]


Initial = Values | Constant | Sequence | FromFile | Mixed


def array_of(values: tuple[Any, ...] | list[Any], dtype: np.dtype[Any]) -> Array:
    """Return JSON values as an array: numbers that fit the type, and words for what is not finite."""
    if dtype.kind == "f":
        exact = np.array([number(value, "a value") for value in values], np.float64)
        with np.errstate(all="ignore"):
            array = exact.astype(dtype)
        if not np.array_equal(np.isinf(array), np.isinf(exact)):
            raise HalfulpError("a value is too large for the type", expected=dtype.name)
        return array
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise HalfulpError(
                "a value is none of the type's integers", expected=dtype.name, got=shown(value)
            )
    return np.array(values, dtype)


def jsonable(value: Any) -> Any:
    """Return a value as JSON spells it: words for floats that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


@dataclass(frozen=True)
class Resource:
    """A buffer and what it holds at first; ``sizeInBytes`` None is the values' size, a multiple of 4.

    ``other`` are fields, here and below, that DxDispatch does not look at.
    """

    name: str
    initialValues: Initial
    initialValuesDataType: str | None = None
    sizeInBytes: int | None = None
    initialValuesOffsetInBytes: int = 0
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The short name of its elements' type; UINT8 for values of mixed types."""
        return Mixed.type if isinstance(self.initialValues, Mixed) else str(self.initialValuesDataType)

    @property
    def bytes_of_values(self) -> int:
        """The size of the initial values."""
        return self.initialValues.count() * DATA_TYPES[self.type].dtype.itemsize

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return -(-self.bytes_of_values // 4) * 4 if self.sizeInBytes is None else self.sizeInBytes

    def make(self) -> Array:
        """Return the initial values."""
        return self.initialValues.make(DATA_TYPES[self.type].dtype)


@dataclass(frozen=True)
class Binding:
    """A resource, and the element that a tensor starts at."""

    name: str
    elementCount: int = 0
    elementSizeInBytes: int = 0
    elementOffset: int = 0
    other: Mapping[str, Any] = field(default_factory=dict)

    def offset_in(self, resource: Resource) -> int:
        """Return the byte of the resource that it starts at."""
        itemsize = self.elementSizeInBytes or DATA_TYPES[resource.type].dtype.itemsize
        return self.elementOffset * itemsize


@dataclass(frozen=True)
class Dispatchable:
    """An operator; ``desc`` is None for what is not ours, which ``other`` then holds whole.

    ``bindings`` are those of tensors that DirectML owns: it copies them before the first command.
    """

    name: str
    type: str
    desc: OperatorDesc | None = None
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Dispatch:
    """Execute a dispatchable; a binding for each tensor that DirectML does not own.

    What a dispatchable that is not ours is bound to stays in ``other``.
    """

    dispatchable: str
    bindings: Mapping[str, Binding]
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Print:
    """Print a resource's elements."""

    resource: str
    verbose: bool = False
    other: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WriteFile:
    """Write a resource to a file: .npy, of the given dimensions, or raw."""

    resource: str
    targetPath: str
    dimensions: tuple[int, ...] = ()
    other: Mapping[str, Any] = field(default_factory=dict)


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Program:
    """What a file holds, and where it came from."""

    file: str
    folder: Path | None
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The resources as inputs: each has its initial values as default."""
        return tuple(
            Value(resource.name, DATA_TYPES[resource.type].name, (resource.initialValues.count(),))
            for resource in self.resources.values()
        )
