"""A DxDispatch program to the JSON of its file, names short."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from halfulp.models.directml.dxdispatch.program import (
    Binding,
    Command,
    Dispatch,
    Dispatchable,
    Print,
    Program,
    WriteFile,
)
from halfulp.models.directml.dxdispatch.values import jsonable
from halfulp.models.directml.tensor import DML_BUFFER_TENSOR_DESC


def to_json(program: Program) -> dict[str, Any]:
    """Return a program as the object that :func:`save` writes, names short.

    Example:
        >>> to_json(Program("m.json", None, {}, {}, ()))
        {'resources': {}, 'dispatchables': {}, 'commands': []}
    """
    resources = {
        resource.name: {
            **({"initialValuesDataType": kind} if (kind := resource.initialValuesDataType) else {}),
            "initialValues": resource.initialValues.json(),
            **({"sizeInBytes": size} if (size := resource.sizeInBytes) is not None else {}),
            **(
                {"initialValuesOffsetInBytes": start}
                if (start := resource.initialValuesOffsetInBytes)
                else {}
            ),
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
        **({"bindings": bindings} if bindings else {}),
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
    given = {name: value for name, value in found.items() if value} | dict(binding.other)
    return binding.name if list(given) == ["name"] else given


def _command(command: Command) -> dict[str, Any]:
    found: dict[str, Any]
    match command:
        case Dispatch():
            bindings = {name: _binding(binding) for name, binding in command.bindings.items()}
            found = {"type": "dispatch", "dispatchable": command.dispatchable}
            found |= {"bindings": bindings} if bindings else {}
        case Print():
            found = {"type": "print", "resource": command.resource}
            found |= {"verbose": True} if command.verbose else {}
        case WriteFile():
            found = {"type": "writeFile", "resource": command.resource, "targetPath": command.targetPath}
            found |= {"dimensions": list(command.dimensions)} if command.dimensions else {}
    return found | dict(command.other)
