"""The initial values of a DxDispatch resource: five forms, whose size is known before they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.directml.dxdispatch.lenient_json import Fields, anything, number, shown, text, uint32
from halfulp.models.directml.tensor import DATA_TYPES
from halfulp.models.files import inside, open_npy
from halfulp.models.graph import Array

_MOST_BYTES = 1 << 32  # more than a tensor of DirectML can reach in bytes
_TYPES = {row.dtype: name for name, row in DATA_TYPES.items()}


@dataclass(frozen=True)
class Values:
    """A list of values of the resource's type."""

    values: tuple[Any, ...]

    def count(self) -> int:
        return len(self.values)

    def make(self, dtype: np.dtype[Any]) -> Array:
        return _array(self.values, dtype)

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
        (value,) = _array([self.value], dtype)
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
        start, delta = _array([self.valueStart, self.valueDelta], dtype)
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
        parts = [_array([value], DATA_TYPES[kind].dtype).tobytes() for kind, value, _ in self.elements]
        return np.frombuffer(b"".join(parts), np.uint8).copy()

    def json(self) -> Any:
        return [
            ({"name": name} if name else {}) | {"type": kind, "value": jsonable(value)}
            for kind, value, name in self.elements
        ]


Initial = Values | Constant | Sequence | FromFile | Mixed


def read_initial(value: Any, data_type: str | None, folder: Path | None) -> tuple[Initial, str | None]:
    """Return a resource's initial values and their type, which a .npy file may be the one to say.

    Args:
        value: the field initialValues.
        data_type: the field initialValuesDataType; None for UNKNOWN and where it is missing.
        folder: where files may lie; None for a model that came without one.

    Raises:
        HalfulpError: it is none of the forms, its values don't fit the type, or are none; a file that
            lies elsewhere, can't be read, or is of another type.
        UnsupportedError: images, and values that only an ONNX dispatchable makes.
    """
    initial: Initial
    if value == "deferred":
        raise UnsupportedError("initialValues is deferred, which ONNX dispatchables alone can fill")
    if isinstance(value, list):
        if data_type is None:
            initial = Mixed(tuple(_element(item) for item in value))
        else:
            initial = Values(tuple(value))
            initial.make(DATA_TYPES[data_type].dtype)  # so that a value that doesn't fit is found now
    else:
        fields = Fields(value, "initialValues")
        kinds = [name for name in ("value", "valueStart", "sourcePath") if name in fields]
        if len(kinds) != 1:
            raise HalfulpError("initialValues must have one of value, valueStart and sourcePath")
        if kinds == ["sourcePath"]:
            initial, data_type = _file(fields.take("sourcePath", text), data_type, folder)
        else:
            initial = _generated(fields, _dtype(data_type))
        fields.end()
    itemsize = _dtype(data_type if not isinstance(initial, Mixed) else "UINT8").itemsize
    if not initial.count():
        raise HalfulpError("initialValues must not be empty")
    if initial.count() * itemsize > _MOST_BYTES:
        got = f"{initial.count()} values of {itemsize} bytes"
        raise HalfulpError("initialValues claims more than a buffer holds", expected="at most 4 GiB", got=got)
    return initial, data_type


def most_bytes(size: int) -> int:
    """Return a buffer's size; raises HalfulpError for one that no buffer has."""
    if size > _MOST_BYTES:
        raise HalfulpError("sizeInBytes is more than a buffer holds", expected="at most 4 GiB", got=size)
    return size


def read_data_type(value: Any, name: str) -> str | None:
    """Return a data type by its short name; None for UNKNOWN."""
    short = text(value, name).removeprefix("DML_TENSOR_DATA_TYPE_")
    if short == "UNKNOWN":
        return None
    if short not in DATA_TYPES:
        raise HalfulpError(f"{name} is no data type", expected=", ".join(DATA_TYPES), got=shown(value))
    return short


def _generated(fields: Fields, dtype: np.dtype[Any]) -> Initial:
    count = fields.take("valueCount", uint32)
    names = ("value",) if "value" in fields else ("valueStart", "valueDelta")
    values = [fields.take(name, anything) for name in names]
    _array(values, dtype)
    return Constant(count, *values) if len(values) == 1 else Sequence(count, *values)


def _element(item: Any) -> tuple[str, Any, str]:
    fields = Fields(item, "each of initialValues without initialValuesDataType")
    kind = fields.take("type", read_data_type)
    value = fields.take("value", anything)
    name = fields.take("name", text, "")
    fields.end()
    _array([value], _dtype(kind))
    assert kind is not None
    return kind, value, name


def _dtype(data_type: str | None) -> np.dtype[Any]:
    if data_type is None:
        raise HalfulpError("initialValuesDataType is needed here, and not UNKNOWN")
    return DATA_TYPES[data_type].dtype


def _file(location: str, data_type: str | None, folder: Path | None) -> tuple[FromFile, str | None]:
    suffix = Path(location.replace("\\", "/")).suffix.lower()
    if suffix in (".png", ".jpg"):
        raise UnsupportedError("sourcePath is an image, which is not read here", got=shown(location))
    path = inside(folder, location, "sourcePath")
    if suffix != ".npy":
        dtype = _dtype(data_type)
        size = path.stat().st_size
        if not size or size % dtype.itemsize:
            got = f"{size} bytes of {dtype.name}"
            raise HalfulpError("sourcePath does not hold whole elements, or none", got=got)
        return FromFile(location, path, dtype.newbyteorder("<"), size // dtype.itemsize), data_type
    file = open_npy(path)
    if file.fortran and len(file.shape) > 1:
        raise HalfulpError(
            "sourcePath is in Fortran order, which DxDispatch does not read", got=shown(location)
        )
    held = _TYPES.get(file.dtype.newbyteorder("="))
    if held is None or held != (data_type or held):
        got = f"{file.dtype.name} in {shown(location)}"
        raise HalfulpError("sourcePath has another type than the resource", expected=data_type or "", got=got)
    return FromFile(location, path, file.dtype, math.prod(file.shape), file.offset), held


def _array(values: tuple[Any, ...] | list[Any], dtype: np.dtype[Any]) -> Array:
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
