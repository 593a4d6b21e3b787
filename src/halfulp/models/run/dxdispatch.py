"""Execute a DxDispatch program: its resources are in memory, its commands run in order."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError, printable, within
from halfulp.models.directml import (
    DATA_TYPES,
    ELEMENT_WISE,
    FEATURE_LEVELS,
    OPERATORS,
    AnyDesc,
    execute,
    tensors,
)
from halfulp.models.directml.dxdispatch import Binding, Dispatch, Print, Program, Resource, WriteFile
from halfulp.models.files import inside, replacing
from halfulp.models.graph import Array, describe, listed
from halfulp.models.memory import guard_memory
from halfulp.models.run.inputs import as_value, by_name, check
from halfulp.models.run.report import NodeRun, RunReport
from halfulp.specs import in_force


def run(
    program: Program, inputs: Mapping[str, Any], output_folder: str | os.PathLike[str] | None = None
) -> tuple[dict[str, Array], RunReport]:
    """Execute a program.

    Print commands write to standard output in DxDispatch's format.

    Args:
        program: read from a file.
        inputs: arrays by resource. They replace the initial values, and have their type and number.
        output_folder: where writeFile commands may write; by default the file's own folder.

    Returns:
        The resources that a dispatch wrote, in the order of their first write, and the time of each dispatch.
        If the last tensor written to a resource covers it, the resource has that tensor's shape. Any other is
        a list of its elements.
    """
    refuse_foreign(program)
    if output_folder is not None and not Path(output_folder).is_dir():
        raise HalfulpError(f"{output_folder}: there is no such folder to write to")
    machine = _Machine(program, inputs, None if output_folder is None else Path(output_folder))
    for index, command in enumerate(program.commands):
        with within(program.file, f"command {index}", kind=""):
            match command:
                case Dispatch():
                    machine.dispatch(command, f"command {index}")
                case Print():
                    machine.print(command)
                case WriteFile():
                    machine.write_file(command)
    return machine.results(), machine.report


def refuse_foreign(program: Program) -> None:
    """Raise UnsupportedError if a program has dispatchables that halfulp lacks. The error names them."""
    unsupported = [d for d in program.dispatchables.values() if d.desc is None]
    if unsupported:
        powers = ", ".join(kind for kind in OPERATORS if kind not in ELEMENT_WISE)
        known = f"{powers} or an element-wise operator such as ELEMENT_WISE_ADD"
        got = listed(f"'{printable(d.name)}' ({printable(d.type)})" for d in unsupported)
        message = f"{program.file}: has dispatchables that halfulp does not compute"
        raise UnsupportedError(message, expected=known, got=got)


class _Machine:
    """The memory of one run."""

    def __init__(self, program: Program, inputs: Mapping[str, Any], folder: Path | None) -> None:
        self.report = RunReport()
        self._program = program
        self._folder = program.folder if folder is None else folder
        self._written: dict[str, tuple[AnyDesc, int]] = {}
        self._buffers: dict[str, Array] = {}
        used = self._used()
        declared = {value.name: value for value in program.inputs}
        fed = by_name(program.inputs, inputs, program.file)
        with within(program.file):
            total = sum(program.resources[name].size for name in used)
            guard_memory((total,), 1, "the memory of its resources")
            for name, resource in program.resources.items():
                if name in fed:
                    array = np.asarray(as_value(fed[name], declared[name]))
                    check(array.reshape(-1), declared[name], f"input {name!r}")
                elif name in used:
                    with within(program.file, f"resource '{printable(name)}'", kind=""):
                        array = resource.make()
                else:
                    continue
                self._buffers[name] = _filled(resource, array)
        # DirectML copies its own tensors before anything runs.
        self._owned = {
            dispatchable.name: {
                point: self._buffers[binding.name].copy() for point, binding in dispatchable.bindings.items()
            }
            for dispatchable in program.dispatchables.values()
        }

    def _used(self) -> set[str]:
        commands = self._program.commands
        bound = [dispatchable.bindings for dispatchable in self._program.dispatchables.values()]
        bound += [command.bindings for command in commands if isinstance(command, Dispatch)]
        used = {binding.name for bindings in bound for binding in bindings.values()}
        return used | {c.resource for c in commands if not isinstance(c, Dispatch)}

    def dispatch(self, command: Dispatch, label: str) -> None:
        dispatchable = self._program.dispatchables[command.dispatchable]
        desc = dispatchable.desc
        assert desc is not None
        bindings = {**dispatchable.bindings, **command.bindings}
        buffers = {point: self._buffers[binding.name] for point, binding in command.bindings.items()}
        buffers |= self._owned[dispatchable.name]
        start = time.perf_counter()
        execute(desc, buffers, offsets={point: self._offset(binding) for point, binding in bindings.items()})
        elapsed = time.perf_counter() - start
        output = bindings["OutputTensor"]
        self._written[output.name] = desc, self._offset(output)
        is_ours = desc.type not in ELEMENT_WISE
        version = in_force("directml", desc.type, FEATURE_LEVELS[-1]).version if is_ours else "1_0"
        *inputs, result = (describe(each.element_type.name, each.Sizes) for each in tensors(desc).values())
        label, operator = f"'{printable(command.dispatchable)}' ({label})", f"directml.{desc.type}-{version}"
        row = NodeRun(label, operator, "halfulp", tuple(inputs), (result,), elapsed, calls=1)
        self.report.nodes.append(row)

    def _offset(self, binding: Binding) -> int:
        return binding.offset_in(self._program.resources[binding.name])

    def print(self, command: Print) -> None:
        resource = self._program.resources[command.resource]
        array = self._elements(resource, resource.bytes_of_values)
        out = sys.stdout
        out.write(f"Resource '{printable(resource.name)}':" + ("\n" if command.verbose else " "))
        if command.verbose:
            width, digits = len(str(array.size)), 2 * array.itemsize
            numbered = enumerate(zip(array, array.view(f"u{array.itemsize}"), strict=True))
            out.writelines(
                f"[{i:{width}}] {_text(v)} (0x{int(bits):0{digits}X})\n" for i, (v, bits) in numbered
            )
        else:
            out.writelines((", " if i else "") + _text(value) for i, value in enumerate(array))
            out.write("\n")

    def write_file(self, command: WriteFile) -> None:
        resource = self._program.resources[command.resource]
        path = inside(self._folder, command.targetPath, "targetPath", exists=False)
        if any(other.initialValues.path == path for other in self._program.resources.values()):
            raise HalfulpError("targetPath is a file that the model reads", got=repr(command.targetPath))
        array = self._elements(resource, resource.size)
        if path.suffix.lower() == ".npy" and command.dimensions:
            count = math.prod(command.dimensions)
            if count > array.size:
                message = "dimensions ask for more elements than the resource has"
                raise HalfulpError(message, expected=array.size, got=count)
            array = array[:count].reshape(command.dimensions)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HalfulpError(f"{path.parent}: can't be made: {error.strerror}") from None
        with replacing(path) as temporary, temporary.open("wb") as stream:
            if path.suffix.lower() == ".npy":
                np.lib.format.write_array(stream, array, allow_pickle=False)
            else:
                stream.write(self._buffers[resource.name].data)

    def results(self) -> dict[str, Array]:
        found = {}
        for name, (desc, offset) in self._written.items():
            resource = self._program.resources[name]
            if resource.internal:
                continue
            tensor = desc.OutputTensor
            size = resource.bytes_of_values if resource.sizeInBytes is None else resource.size
            elements = self._elements(resource, size)
            dtype = tensor.element_type.dtype
            covers = math.prod(tensor.Sizes) * dtype.itemsize == elements.nbytes
            if tensor.is_packed and not offset and covers:
                elements = elements.view(dtype).reshape(tensor.Sizes)
            found[name] = elements.copy()
        return found

    def _elements(self, resource: Resource, size: int) -> Array:
        dtype = DATA_TYPES[resource.type].dtype
        return self._buffers[resource.name][: size // dtype.itemsize * dtype.itemsize].view(dtype)


def _filled(resource: Resource, array: Array) -> Array:
    """Return a resource's memory as bytes, with an array in place of its initial values."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    memory = np.zeros(resource.size, np.uint8)
    start = resource.initialValuesOffsetInBytes
    memory[start : start + data.size] = data
    return memory


def _text(value: Any) -> str:
    """Return the shortest text that distinguishes a number from its neighbours."""
    return str(value).removesuffix(".0")
