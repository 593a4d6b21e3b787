"""A DxDispatch program: its resources, dispatchables and commands, spelled as in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfulp.models.directml import OperatorDesc
from halfulp.models.directml.dxdispatch.values import Initial, Mixed
from halfulp.models.directml.tensor import DATA_TYPES
from halfulp.models.graph import Array, Value


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
