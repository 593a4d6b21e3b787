"""The program of a DxDispatch file: resources, dispatchables and commands, spelled as in the file.

A resource's initial values have five forms. Their size is known before the values are made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import HalfulpError, printable
from halfulp.models.directml import DATA_TYPES, DML_BUFFER_TENSOR_DESC, AnyDesc
from halfulp.models.graph import Array, Value

Other = Mapping[str, Any]
"""Fields that DxDispatch does not read."""


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
class _Generated:
    """Values that are computed from a few."""

    valueCount: int

    def count(self) -> int:
        return self.valueCount

    def json(self) -> Any:
        return {name: jsonable(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Constant(_Generated):
    """``valueCount`` times one value."""

    value: Any

    def make(self, dtype: np.dtype[Any]) -> Array:
        (value,) = array_of([self.value], dtype)
        if not value and not np.signbit(value):
            return np.zeros(self.valueCount, dtype)  # the system provides this memory when it is written
        return np.full(self.valueCount, value, dtype)


@dataclass(frozen=True)
class Sequence(_Generated):
    """A value, and ``valueCount - 1`` more, each the previous one plus a delta in the resource's own arithmetic."""

    valueStart: Any
    valueDelta: Any

    def make(self, dtype: np.dtype[Any]) -> Array:
        start, delta = array_of([self.valueStart, self.valueDelta], dtype)
        steps = np.full(self.valueCount, delta, dtype)
        steps[:1] = start
        # Not start + i * delta: DxDispatch rounds or wraps at every step.
        with np.errstate(all="ignore"):
            return np.add.accumulate(steps, dtype=dtype, out=steps)


@dataclass(frozen=True)
class FromFile:
    """``elements`` elements of a file, raw or .npy, in the file's byte order, from the byte ``offset`` on."""

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
    """A list of values, each of its own type, as bytes: their types, values and optional names."""

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
    """Return JSON values as an array: numbers that fit the type, or words for numbers that are not finite."""
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
            raise HalfulpError("a value is not an integer of the type", expected=dtype.name, got=shown(value))
    return np.array(values, dtype)


def number(value: Any, name: str) -> float:
    """Return a float: a number, or one of the words nan, inf and -inf."""
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or float(value) != value:
        expected = f'{name} must be a number that float64 holds, or "nan", "inf", "-inf"'
        raise HalfulpError(expected, got=shown(value))
    return float(value)


def shown(value: object) -> str:
    """Return a JSON value as errors show it."""
    kinds: Mapping[type, str] = {dict: "an object", list: "a list"}
    return kinds.get(type(value)) or printable(json.dumps(value, ensure_ascii=False))


def jsonable(value: Any) -> Any:
    """Return a value of JSON, with words for floats that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


@dataclass(frozen=True)
class Resource:
    """A buffer and its initial values. Without ``sizeInBytes`` its size is the values' size, rounded up to 4 bytes.

    An internal one holds a value within a graph: it is neither an input nor an output of the program.
    """

    name: str
    initialValues: Initial
    initialValuesDataType: str | None = None
    sizeInBytes: int | None = None
    initialValuesOffsetInBytes: int = 0
    other: Other = field(default_factory=dict)
    internal: bool = False

    @property
    def type(self) -> str:
        """The short name of the elements' type; UINT8 for values of mixed types."""
        return Mixed.type if isinstance(self.initialValues, Mixed) else str(self.initialValuesDataType)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return DATA_TYPES[self.type].dtype

    @property
    def bytes_of_values(self) -> int:
        """The size of the initial values."""
        return self.initialValues.count() * self.dtype.itemsize

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return -(-self.bytes_of_values // 4) * 4 if self.sizeInBytes is None else self.sizeInBytes

    def make(self) -> Array:
        """Return the initial values."""
        return self.initialValues.make(self.dtype)

    def json(self) -> Any:
        given = _said(
            initialValuesDataType=self.initialValuesDataType,
            initialValues=self.initialValues.json(),
            sizeInBytes=self.sizeInBytes,
            initialValuesOffsetInBytes=self.initialValuesOffsetInBytes,
        )
        return {**given, **self.other}


@dataclass(frozen=True)
class Binding:
    """A resource, and the element at which a tensor starts."""

    name: str
    elementCount: int = 0
    elementSizeInBytes: int = 0
    elementOffset: int = 0
    other: Other = field(default_factory=dict)

    def offset_in(self, resource: Resource) -> int:
        """Return the offset in bytes within the resource."""
        return self.elementOffset * (self.elementSizeInBytes or resource.dtype.itemsize)

    def json(self) -> Any:
        found = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "other"}
        given = {**_said(**found), **self.other}
        return self.name if list(given) == ["name"] else given


@dataclass(frozen=True)
class Dispatchable:
    """An operator. ``desc`` is None for an unsupported one, whose fields are in ``other``.

    ``bindings`` are those of tensors that DirectML owns: it copies them before the first command.
    """

    name: str
    type: str
    desc: AnyDesc | None = None
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    other: Other = field(default_factory=dict)

    def json(self) -> Any:
        if self.desc is None:
            return {"type": self.type, **self.other}
        given = _said(bindings=_bindings(self.bindings))
        return {"type": f"DML_OPERATOR_{self.type}", "desc": _desc(self.desc), **given, **self.other}


@dataclass(frozen=True)
class Dispatch:
    """Executes a dispatchable, with a binding for each tensor that DirectML does not own.

    The bindings of an unsupported dispatchable are in ``other``.
    """

    dispatchable: str
    bindings: Mapping[str, Binding]
    other: Other = field(default_factory=dict)

    def json(self) -> Any:
        given = _said(bindings=_bindings(self.bindings))
        return {"type": "dispatch", "dispatchable": self.dispatchable, **given, **self.other}


@dataclass(frozen=True)
class Print:
    """Prints a resource's elements."""

    resource: str
    verbose: bool = False
    other: Other = field(default_factory=dict)

    def json(self) -> Any:
        return {"type": "print", "resource": self.resource, **_said(verbose=self.verbose), **self.other}


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file: as .npy with the given dimensions, or raw."""

    resource: str
    targetPath: str
    dimensions: tuple[int, ...] = ()
    other: Other = field(default_factory=dict)

    def json(self) -> Any:
        given = _said(targetPath=self.targetPath, dimensions=list(self.dimensions))
        return {"type": "writeFile", "resource": self.resource, **given, **self.other}


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Program:
    """The contents of a file, with its name in messages and its folder."""

    file: str
    folder: Path | None
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    other: Other = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The resources as inputs, whose defaults are their initial values."""
        return tuple(
            Value(resource.name, resource.dtype.name, (resource.initialValues.count(),))
            for resource in self.resources.values()
            if not resource.internal
        )

    def json(self) -> dict[str, Any]:
        parts = {
            "resources": {resource.name: resource.json() for resource in self.resources.values()},
            "dispatchables": {each.name: each.json() for each in self.dispatchables.values()},
            "commands": [command.json() for command in self.commands],
        }
        return {**self.other, **parts}


def _desc(desc: Any) -> dict[str, Any]:
    """Return a description as JSON, without the fields that a reader would add."""
    found: dict[str, Any] = {}
    for item in fields(desc):
        value = getattr(desc, item.name)
        if is_dataclass(value):
            found[item.name] = _desc(value)
        elif isinstance(value, tuple):
            found[item.name] = list(value)
        elif value is not None:
            found[item.name] = jsonable(value)
    if isinstance(desc, DML_BUFFER_TENSOR_DESC):
        kept = ("DataType", "Sizes", "Strides")
        implied = DML_BUFFER_TENSOR_DESC(DataType=desc.DataType, Sizes=desc.Sizes, Strides=desc.Strides)
        found = {name: v for name, v in found.items() if name in kept or v != getattr(implied, name)}
    return found


def _bindings(bindings: Mapping[str, Binding]) -> dict[str, Any]:
    return {name: binding.json() for name, binding in bindings.items()}


def _said(**given: Any) -> dict[str, Any]:
    """Return the fields whose values differ from their defaults."""
    return {name: value for name, value in given.items() if value}
