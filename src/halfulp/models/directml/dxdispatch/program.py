"""The program of a DxDispatch file: resources, dispatchables and commands, spelled as in the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, printable
from halfulp.models.directml import DATA_TYPES, DML_BUFFER_TENSOR_DESC, AnyDesc
from halfulp.models.graph import Array, Value

Other = Mapping[str, Any]
"""Fields that DxDispatch does not read."""

_UNWRITTEN = {"is_written": False}


@dataclass(frozen=True)
class Initial:
    """A resource's initial values. Their number is known before they are made.

    Attributes:
        json: the values as the file has them.
        count: the number of elements.
        make: returns the elements.
        path: the file of the elements, if they are in one.
    """

    json: Any
    count: int
    make: Callable[[], Array] = field(compare=False)
    path: Path | None = None


def listed(values: Sequence[Any], dtype: np.dtype[Any]) -> Initial:
    """Return a list of values."""
    array_of(values, dtype)  # a value that does not fit is found now
    return Initial(values, len(values), partial(array_of, values, dtype))


def repeated(count: int, value: Any, dtype: np.dtype[Any]) -> Initial:
    """Return ``count`` times one value."""
    (element,) = array_of([value], dtype)

    def make() -> Array:
        if not element and not np.signbit(element):
            return np.zeros(count, dtype)  # the system provides this memory when it is written
        return np.full(count, element, dtype)

    return Initial({"valueCount": count, "value": value}, count, make)


def accumulated(count: int, start: Any, delta: Any, dtype: np.dtype[Any]) -> Initial:
    """Return a value, and ``count - 1`` more, each the previous one plus a delta in the type's own arithmetic."""
    first, step = array_of([start, delta], dtype)

    def make() -> Array:
        steps = np.full(count, step, dtype)
        steps[:1] = first
        # Not start + i * delta: DxDispatch rounds or wraps at every step.
        with np.errstate(all="ignore"):
            return np.add.accumulate(steps, dtype=dtype, out=steps)

    return Initial({"valueCount": count, "valueStart": start, "valueDelta": delta}, count, make)


def from_file(location: str, path: Path, dtype: np.dtype[Any], count: int, offset: int = 0) -> Initial:
    """Return ``count`` elements of a file, raw or .npy, in the file's byte order, from the byte ``offset`` on."""

    def make() -> Array:
        try:
            array = np.fromfile(path, dtype, count, offset=offset)
        except OSError as error:
            raise HalfulpError(f"{path}: can't be read: {error.strerror}") from None
        if array.size < count:
            raise HalfulpError(f"{path}: has become shorter")
        return array.astype(dtype.newbyteorder("="))

    return Initial({"sourcePath": location}, count, make, path)


def array_of(values: Sequence[Any], dtype: np.dtype[Any]) -> Array:
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


def jsonable(part: Any) -> Any:
    """Return a part of a program as a value of JSON, without the fields that have their defaults."""
    if isinstance(part, float) and not math.isfinite(part):
        return "nan" if math.isnan(part) else "inf" if part > 0 else "-inf"
    if isinstance(part, Initial):
        return jsonable(part.json)
    if isinstance(part, tuple | list):
        return [jsonable(item) for item in part]
    if isinstance(part, dict):
        return {name: jsonable(value) for name, value in part.items()}
    if not is_dataclass(part):
        return part
    implied = {item.name: item.default if item.init else None for item in fields(part)}
    if isinstance(part, DML_BUFFER_TENSOR_DESC):  # which fills in these two
        plain = DML_BUFFER_TENSOR_DESC(DataType=part.DataType, Sizes=part.Sizes, Strides=part.Strides)
        implied |= {name: getattr(plain, name) for name in ("DimensionCount", "TotalTensorSizeInBytes")}
    given = {item.name: getattr(part, item.name) for item in fields(part) if not item.metadata}
    other = given.pop("other", {})
    kept = {name: value for name, value in given.items() if value not in (implied[name], None, {})}
    found = {name: jsonable(value) for name, value in kept.items()} | other
    if isinstance(part, Dispatchable) and part.desc is not None:
        found["type"] = f"DML_OPERATOR_{part.type}"
    return part.name if isinstance(part, Binding) and len(found) == 1 else found


@dataclass(frozen=True)
class Resource:
    """A buffer and its initial values. Without ``sizeInBytes`` its size is the values' size, rounded up to 4 bytes.

    Values without a data type are bytes. An internal resource holds a value within a graph: it is neither an input nor
    an output of the program.
    """

    name: str = field(metadata=_UNWRITTEN)
    initialValuesDataType: str | None
    initialValues: Initial
    sizeInBytes: int | None = None
    initialValuesOffsetInBytes: int = 0
    other: Other = field(default_factory=dict)
    internal: bool = field(default=False, metadata=_UNWRITTEN)

    @property
    def type(self) -> str:
        """The short name of the elements' type."""
        return self.initialValuesDataType or "UINT8"

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the elements."""
        return DATA_TYPES[self.type].dtype

    @property
    def bytes_of_values(self) -> int:
        """The size of the initial values."""
        return self.initialValues.count * self.dtype.itemsize

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return -(-self.bytes_of_values // 4) * 4 if self.sizeInBytes is None else self.sizeInBytes

    def make(self) -> Array:
        """Return the initial values."""
        return self.initialValues.make()


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


@dataclass(frozen=True)
class Dispatchable:
    """An operator. ``desc`` is None for an unsupported one, whose fields are in ``other``.

    ``bindings`` are those of tensors that DirectML owns: it copies them before the first command.
    """

    name: str = field(metadata=_UNWRITTEN)
    type: str
    desc: AnyDesc | None = None
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    other: Other = field(default_factory=dict)


@dataclass(frozen=True)
class Dispatch:
    """Executes a dispatchable, with a binding for each tensor that DirectML does not own.

    The bindings of an unsupported dispatchable are in ``other``.
    """

    type: str = field(default="dispatch", init=False)
    dispatchable: str
    bindings: Mapping[str, Binding]
    other: Other = field(default_factory=dict)


@dataclass(frozen=True)
class Print:
    """Prints a resource's elements."""

    type: str = field(default="print", init=False)
    resource: str
    verbose: bool = False
    other: Other = field(default_factory=dict)


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file: as .npy with the given dimensions, or raw."""

    type: str = field(default="writeFile", init=False)
    resource: str
    targetPath: str
    dimensions: tuple[int, ...] = ()
    other: Other = field(default_factory=dict)


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
            Value(resource.name, resource.dtype.name, (resource.initialValues.count,))
            for resource in self.resources.values()
            if not resource.internal
        )
