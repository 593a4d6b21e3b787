"""DxDispatch JSON, the file that DirectML's own tool runs: resources, dispatchables, commands.

The file is taken to be hostile: what is wrong with it is found here, before anything runs, in one
line that names the file and the part. Dispatchables that are not ours are read all the same; running
them is refused by name. Fields are spelled as in the file.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from halfulp.errors import HalfulpError
from halfulp.models.directml.dxdispatch.program import (
    Binding,
    Command,
    Dispatch,
    Dispatchable,
    FromFile,
    Print,
    Program,
    Resource,
    WriteFile,
    jsonable,
)
from halfulp.models.directml.dxdispatch.reader import read
from halfulp.models.directml.tensor import DML_BUFFER_TENSOR_DESC
from halfulp.models.files import replacing
from halfulp.models.source import read_source

__all__ = [
    "Binding",
    "Command",
    "Dispatch",
    "Dispatchable",
    "Print",
    "Program",
    "Resource",
    "WriteFile",
    "load",
    "save",
    "to_json",
]

_LARGEST_FILE = 1 << 30


def load(source: str | os.PathLike[str] | bytes, *, file: str | None = None) -> Program:
    """Read a DxDispatch file and check it.

    Args:
        source: a path, or the bytes of a file, which then may name no other files.
        file: the model's name in messages; the path, or what stands for it, where not given.

    Raises:
        ModelError: for a file that is broken or unsafe: no such JSON, fields that are missing or don't
            fit, names that don't exist, values that don't fit their type, files outside the folder, a
            description that DirectML's debug layer would refuse (``.clause`` says why).
        UnsupportedError: initial values from images, or that ONNX dispatchables fill.

    Example:
        >>> program = load(b'''{
        ...   "resources": {"A": {"initialValuesDataType": "FLOAT32", "initialValues": [4, 9]}},
        ...   "dispatchables": {"root": {"type": "ELEMENT_WISE_CONSTANT_POW", "desc": {
        ...     "InputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
        ...     "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "Exponent": 0.5}}},
        ...   "commands": [{"type": "dispatch", "dispatchable": "root",
        ...     "bindings": {"InputTensor": "A", "OutputTensor": "A"}}]}''')
        >>> program.dispatchables["root"].desc.Exponent, program.resources["A"].size
        (0.5, 8)
    """
    data, name, path = read_source(source, _LARGEST_FILE, file)
    return read(data, name, None if path is None else path.parent)


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program as JSON, complete or not at all.

    Args:
        program: the files that it reads stay where they are, so it goes into their folder.
        path: ends in .json.

    Raises:
        HalfulpError: the file can't be written, or its program would not find its files there.
    """
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise HalfulpError(f"{target}: a DxDispatch file ends in .json")
    reads = [r.name for r in program.resources.values() if isinstance(r.initialValues, FromFile)]
    if reads and (program.folder is None or program.folder.resolve() != target.parent.resolve()):
        raise HalfulpError(f"resource {reads[0]!r} reads a file that is not in {target.parent}")
    text = json.dumps(to_json(program), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(target) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def to_json(program: Program) -> dict[str, Any]:
    """Return a program as the object that :func:`save` writes, names short.

    Example:
        >>> to_json(Program("m.json", None, {}, {}, ()))
        {'resources': {}, 'dispatchables': {}, 'commands': []}
    """
    resources = {
        resource.name: {
            **_said(initialValuesDataType=resource.initialValuesDataType),
            "initialValues": resource.initialValues.json(),
            **_said(sizeInBytes=resource.sizeInBytes),
            **_said(initialValuesOffsetInBytes=resource.initialValuesOffsetInBytes),
            **resource.other,
        }
        for resource in program.resources.values()
    }
    dispatchables = {d.name: _dispatchable(d) for d in program.dispatchables.values()}
    commands = [_command(command) for command in program.commands]
    return {**program.other, "resources": resources, "dispatchables": dispatchables, "commands": commands}


def _dispatchable(dispatchable: Dispatchable) -> dict[str, Any]:
    if dispatchable.desc is None:
        return {"type": dispatchable.type, **dispatchable.other}
    bindings = {name: _binding(binding) for name, binding in dispatchable.bindings.items()}
    return {
        "type": f"DML_OPERATOR_{dispatchable.type}",
        "desc": _desc(dispatchable.desc),
        **_said(bindings=bindings),
        **dispatchable.other,
    }


def _desc(desc: Any) -> dict[str, Any]:
    """Return a description as JSON, without what a reader would fill in anyway."""
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
        least = DML_BUFFER_TENSOR_DESC(DataType=desc.DataType, Sizes=desc.Sizes, Strides=desc.Strides)
        implied = {
            name: getattr(least, name) for name in found if name not in ("DataType", "Sizes", "Strides")
        }
        found = {name: value for name, value in found.items() if implied.get(name) != value}
    return found


def _binding(binding: Binding) -> Any:
    found = {item.name: getattr(binding, item.name) for item in fields(binding) if item.name != "other"}
    given = _said(**found) | dict(binding.other)
    return binding.name if list(given) == ["name"] else given


def _command(command: Command) -> dict[str, Any]:
    found: dict[str, Any]
    match command:
        case Dispatch():
            bindings = {name: _binding(binding) for name, binding in command.bindings.items()}
            found = {"type": "dispatch", "dispatchable": command.dispatchable, **_said(bindings=bindings)}
        case Print():
            found = {"type": "print", "resource": command.resource, **_said(verbose=command.verbose)}
        case WriteFile():
            found = {"type": "writeFile", "resource": command.resource, "targetPath": command.targetPath}
            found |= _said(dimensions=list(command.dimensions))
    return found | dict(command.other)


def _said(**fields: Any) -> dict[str, Any]:
    """Return the fields that say more than their absence does."""
    return {name: value for name, value in fields.items() if value}
