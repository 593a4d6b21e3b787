"""A DxDispatch file's JSON to a Program: every field, name and size checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError, printable, within
from halfulp.models.directml import (
    DML_BUFFER_TENSOR_DESC,
    DML_SCALE_BIAS,
    OPERATORS,
    OperatorDesc,
    tensors,
    validate,
)
from halfulp.models.directml.dxdispatch.lenient_json import (
    Fields,
    anything,
    array,
    boolean,
    mapping,
    number,
    parse,
    shown,
    text,
    uint,
    uint32,
    uint32s,
)
from halfulp.models.directml.dxdispatch.program import (
    Binding,
    Command,
    Constant,
    Dispatch,
    Dispatchable,
    FromFile,
    Initial,
    Mixed,
    Print,
    Program,
    Resource,
    Sequence,
    Values,
    WriteFile,
    array_of,
)
from halfulp.models.directml.tensor import DATA_TYPES, check_binding
from halfulp.models.files import inside, open_npy

_MOST_BYTES = 1 << 32  # more than a tensor of DirectML can reach in bytes
_TYPES = {row.dtype: name for name, row in DATA_TYPES.items()}
_WRITTEN = (".npy", ".dat", ".bin")
_FLAGS = {"NONE", "ALLOW_HALF_PRECISION_COMPUTATION", "DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE"}


def read(data: bytes, file: str, folder: Path | None) -> Program:
    """Return the program of a file; the files that it names lie in ``folder``, if there is one.

    Raises:
        ModelError, UnsupportedError: as :func:`halfulp.models.directml.dxdispatch.load`.
    """
    return _Reader(file, folder).program(data)


class _Reader:
    """Reads one file."""

    def __init__(self, file: str, folder: Path | None) -> None:
        self._file = file
        self._folder = folder
        self._resources: dict[str, Resource] = {}
        self._dispatchables: dict[str, Dispatchable] = {}

    def program(self, data: bytes) -> Program:
        root = Fields(parse(data, self._file), "the model")
        with within(self._file):
            resources = root.take("resources", mapping)
            dispatchables = root.take("dispatchables", mapping)
            commands = root.take("commands", array)
        for name, value in resources.items():
            with within(self._file, f"resource '{printable(name)}'", kind=""):
                self._resources[name] = self._resource(name, value)
        for name, value in dispatchables.items():
            with within(self._file, f"dispatchable '{printable(name)}'", kind=""):
                self._dispatchables[name] = self._dispatchable(name, value)
        found = []
        for index, value in enumerate(commands):
            with within(self._file, f"command {index}", kind=""):
                found.append(self._command(value))
        known = self._resources, self._dispatchables
        return Program(self._file, self._folder, *known, tuple(found), root.rest())

    # --- resources ------------------------------------------------------------------------------

    def _resource(self, name: str, value: Any) -> Resource:
        given = Fields(value, "a resource")
        given.take("type", _one_of("buffer"), "buffer")
        data_type = given.take("initialValuesDataType", _data_type, None)
        values = given.take("initialValues", anything)
        initial, data_type = _initial(values, data_type, self._folder)
        size = given.take("sizeInBytes", uint) if "sizeInBytes" in given else None
        offset = given.take("initialValuesOffsetInBytes", uint, 0)
        resource = Resource(name, initial, data_type, size, offset, given.rest())
        if resource.size > _MOST_BYTES:
            raise HalfulpError(
                "sizeInBytes is more than a buffer holds", expected="at most 4 GiB", got=resource.size
            )
        if resource.bytes_of_values + offset > resource.size:
            raise HalfulpError(
                "its size is too small for its initial values at their offset",
                expected=f"{resource.bytes_of_values + offset} bytes",
                got=f"{resource.size} bytes",
            )
        return resource

    # --- dispatchables --------------------------------------------------------------------------

    def _dispatchable(self, name: str, value: Any) -> Dispatchable:
        given = Fields(value, "a dispatchable")
        spelled = given.take("Type" if "Type" in given else "type", text)
        kind = spelled.removeprefix("DML_OPERATOR_")
        if kind not in OPERATORS:
            return Dispatchable(name, spelled, other=given.rest())
        field = next((field for field in ("Desc", "desc") if field in given), None)
        flags = given.take("executionFlags", _flags, None)
        compiled = given.take("dmlCompileType", _one_of("DmlCompileOp", "DmlCompileGraph"), None)
        bindings = given.take("bindings", self._bindings, {})
        if field is None:  # the fields of the description stand among the dispatchable's own
            other = {}
            desc = _operator(given, kind)
        else:
            desc = _operator(Fields(given.take(field, anything), field), kind)
            other = given.rest()
        validate(desc)
        owned = {name for name, tensor in tensors(desc).items() if tensor.Flags == "OWNED_BY_DML"}
        self._check_bindings(desc, bindings, owned, "when the dispatchable is initialized")
        if flags is not None:
            other["executionFlags"] = flags
        if compiled is not None:
            other["dmlCompileType"] = compiled
        return Dispatchable(name, kind, desc, bindings, other)

    # --- commands -------------------------------------------------------------------------------

    def _command(self, value: Any) -> Command:
        given = Fields(value, "a command")
        match given.take("type", text).lower():
            case "dispatch":
                name = given.take("dispatchable", text)
                if name not in self._dispatchables:
                    raise HalfulpError(f"there is no dispatchable {printable(name)!r}")
                desc = self._dispatchables[name].desc
                if desc is None:
                    return Dispatch(name, {}, given.rest())
                bindings = given.take("bindings", self._bindings)
                bound = {name for name, tensor in tensors(desc).items() if tensor.Flags == "NONE"}
                self._check_bindings(desc, bindings, bound, "here")
                return Dispatch(name, bindings, given.rest())
            case "print":
                resource = given.take("resource", self._resource_name)
                return Print(resource, given.take("verbose", boolean, False), given.rest())
            case "writefile":
                resource = given.take("resource", self._resource_name)
                target = given.take("targetPath", text)
                dimensions = given.take("dimensions", uint32s, ())
                self._check_target(target)
                return WriteFile(resource, target, dimensions, given.rest())
            case other:
                known = "dispatch, print or writeFile"
                raise HalfulpError("no such command", expected=known, got=repr(other[:40]))

    def _check_target(self, target: str) -> None:
        suffix = Path(target).suffix.lower()
        if suffix in (".png", ".jpg"):
            raise UnsupportedError("targetPath is an image, which is not written here", got=shown(target))
        if suffix not in _WRITTEN:
            raise HalfulpError("targetPath is no data file", expected=", ".join(_WRITTEN), got=shown(target))
        # Where the files go is not known yet; what leaves any folder is refused now.
        inside(self._folder or Path.cwd(), target, "targetPath", exists=False)

    def _resource_name(self, value: Any, name: str) -> str:
        resource = text(value, name)
        if resource not in self._resources:
            raise HalfulpError(f"there is no resource {printable(resource)!r}")
        return resource

    def _bindings(self, value: Any, name: str) -> dict[str, Binding]:
        return {point: self._binding(source, point) for point, source in mapping(value, name).items()}

    def _binding(self, value: Any, point: str) -> Binding:
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        if isinstance(value, str):
            value = {"name": value}
        given = Fields(value, f"the binding of {printable(point)}")
        return Binding(
            given.take("name", self._resource_name),
            given.take("elementCount", uint, 0),
            given.take("elementSizeInBytes", uint, 0),
            given.take("elementOffset", uint, 0),
            given.rest(),
        )

    def _check_bindings(
        self, desc: OperatorDesc, bindings: Mapping[str, Binding], wanted: set[str], when: str
    ) -> None:
        if set(bindings) != wanted:
            names = [name for name in tensors(desc) if name in wanted]
            raise HalfulpError(
                f"other tensors are bound than must be {when}",
                expected=", ".join(names) or "none",
                got=", ".join(printable(name) for name in bindings) or "none",
            )
        for name, binding in bindings.items():
            resource = self._resources[binding.name]
            check_binding(name, tensors(desc)[name], binding.offset_in(resource), resource.size)


# --- initial values ---------------------------------------------------------------------------------


def _initial(value: Any, data_type: str | None, folder: Path | None) -> tuple[Initial, str | None]:
    """Return a resource's initial values and their type, which a .npy file may be the one to say.

    Args:
        value: the field initialValues.
        data_type: the field initialValuesDataType; None for UNKNOWN and where it is missing.
        folder: where files may lie; None for a model that came without one.
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
        given = Fields(value, "initialValues")
        kinds = [name for name in ("value", "valueStart", "sourcePath") if name in given]
        if len(kinds) != 1:
            raise HalfulpError("initialValues must have one of value, valueStart and sourcePath")
        if kinds == ["sourcePath"]:
            initial, data_type = _file(given.take("sourcePath", text), data_type, folder)
        else:
            initial = _generated(given, _dtype(data_type))
        given.end()
    itemsize = _dtype(data_type if not isinstance(initial, Mixed) else "UINT8").itemsize
    if not initial.count():
        raise HalfulpError("initialValues must not be empty")
    if initial.count() * itemsize > _MOST_BYTES:
        got = f"{initial.count()} values of {itemsize} bytes"
        raise HalfulpError("initialValues claims more than a buffer holds", expected="at most 4 GiB", got=got)
    return initial, data_type


def _data_type(value: Any, name: str) -> str | None:
    """Return a data type by its short name; None for UNKNOWN."""
    short = text(value, name).removeprefix("DML_TENSOR_DATA_TYPE_")
    if short == "UNKNOWN":
        return None
    if short not in DATA_TYPES:
        raise HalfulpError(f"{name} is no data type", expected=", ".join(DATA_TYPES), got=shown(value))
    return short


def _generated(given: Fields, dtype: np.dtype[Any]) -> Initial:
    count = given.take("valueCount", uint32)
    names = ("value",) if "value" in given else ("valueStart", "valueDelta")
    values = [given.take(name, anything) for name in names]
    array_of(values, dtype)
    return Constant(count, *values) if len(values) == 1 else Sequence(count, *values)


def _element(item: Any) -> tuple[str, Any, str]:
    given = Fields(item, "each of initialValues without initialValuesDataType")
    kind = given.take("type", _data_type)
    value = given.take("value", anything)
    name = given.take("name", text, "")
    given.end()
    array_of([value], _dtype(kind))
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


# --- descriptions -----------------------------------------------------------------------------------


def _operator(given: Fields, kind: str) -> OperatorDesc:
    readers: dict[str, Callable[[Any, str], Any]] = {"Exponent": number, "ScaleBias": _scale_bias}
    values: dict[str, Any] = {}
    for field in fields(OPERATORS[kind]):
        absent = (None,) if field.name == "ScaleBias" else ()
        values[field.name] = given.take(field.name, readers.get(field.name, _tensor), *absent)
    given.end()
    return OPERATORS[kind](**values)


def _scale_bias(value: Any, name: str) -> DML_SCALE_BIAS:
    given = Fields(value, name)
    found = DML_SCALE_BIAS(given.take("Scale", number), given.take("Bias", number))
    given.end()
    return found


def _tensor(value: Any, name: str) -> DML_BUFFER_TENSOR_DESC:
    given = Fields(value, name)
    given.take("Type", _one_of("BUFFER", "DML_TENSOR_TYPE_BUFFER"), "BUFFER")
    if "Desc" in given:
        outer, given = given, Fields(given.take("Desc", anything), f"{name}.Desc")
        outer.end()
    sizes = given.take("Sizes", uint32s)
    tensor = DML_BUFFER_TENSOR_DESC(
        DataType=given.take("DataType", text),
        Flags=given.take("Flags", _tensor_flags, "NONE"),
        DimensionCount=given.take("DimensionCount", uint32, len(sizes)),
        Sizes=sizes,
        Strides=given.take("Strides", uint32s, None) or None,  # none are a packed tensor's
        TotalTensorSizeInBytes=given.take("TotalTensorSizeInBytes", uint, 0),
        GuaranteedBaseOffsetAlignment=given.take("GuaranteedBaseOffsetAlignment", uint32, 0),
    )
    given.end()
    return tensor


def _tensor_flags(value: Any, name: str) -> str:
    flags = [text(flag, name).removeprefix("DML_TENSOR_FLAG_") for flag in _listed(value)]
    return next((flag for flag in flags if flag != "NONE"), "NONE")


def _flags(value: Any, name: str) -> list[str] | None:
    flags = [text(flag, name).removeprefix("DML_EXECUTION_FLAG_") for flag in _listed(value)]
    for flag in flags:
        if flag not in _FLAGS:
            raise HalfulpError(f"{name} has no such flag", expected=", ".join(sorted(_FLAGS)), got=flag[:60])
    return flags


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _one_of(*names: str) -> Callable[[Any, str], str]:
    def read(value: Any, name: str) -> str:
        if value not in names:
            raise HalfulpError(f"{name} must be {' or '.join(names)}", got=shown(value))
        return str(value)

    return read
