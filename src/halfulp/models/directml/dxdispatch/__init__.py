"""DxDispatch JSON, the files that DirectML's own tool runs: resources, dispatchables, commands.

The file is untrusted. Faults are found here, before anything runs, and reported in one line that names the file and the
part. Dispatchables of all operators are read; running an unsupported one is refused by name. A graph is read as the
dispatches of its nodes. Fields are spelled as in the file.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError, printable, within
from halfulp.models.directml import (
    DATA_TYPES,
    DML_BUFFER_TENSOR_DESC,
    DML_SCALE_BIAS,
    OPERATORS,
    AnyDesc,
    check,
    check_binding,
    tensors,
)
from halfulp.models.directml.dxdispatch.program import (
    Binding,
    Command,
    Dispatch,
    Dispatchable,
    Initial,
    Print,
    Program,
    Resource,
    WriteFile,
    accumulated,
    array_of,
    from_file,
    jsonable,
    listed,
    number,
    repeated,
    shown,
)
from halfulp.models.directml.dxdispatch.serialized import SerializedNode, parse
from halfulp.models.files import inside, open_npy, read_whole, replacing
from halfulp.models.graph import lengthened
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
_MOST_BYTES = 1 << 32  # a tensor of DirectML reaches no further
_TYPES = {row.dtype: name for name, row in DATA_TYPES.items()}
_INITIALIZATION = "the initialization, of the tensors with Flags OWNED_BY_DML"
_WRITTEN = (".npy", ".dat", ".bin")
_FLAGS = {"NONE", "ALLOW_HALF_PRECISION_COMPUTATION", "DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE"}


def load(source: str | os.PathLike[str] | bytes, *, file: str | None = None) -> Program:
    """Read a DxDispatch file and check it.

    Args:
        source: a path, or the bytes of a file that names no other files.
        file: the model's name in messages; by default the path, or ``<bytes>``.

    Raises:
        ModelError: the file is broken or unsafe: other JSON, fields that are missing or invalid, names that do not
            exist, values that do not fit their type, files outside the folder, or a description that DirectML's debug
            layer would refuse (``.clause`` names the clause).
        UnsupportedError: initial values from images, or from ONNX dispatchables.

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
    return _Reader(name, None if path is None else path.parent).program(data)


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program as JSON, complete or not at all.

    Args:
        program: a program. If it reads files, ``path`` must be in their folder.
        path: a name that ends in .json.

    Raises:
        HalfulpError: the file can't be written, or the program would not find its files there.
    """
    target = Path(path)
    if target.suffix.lower() != ".json":
        raise HalfulpError(f"{target}: the name of a DxDispatch file must end in .json")
    reads = [r.name for r in program.resources.values() if r.initialValues.path is not None]
    if reads and (program.folder is None or program.folder.resolve() != target.parent.resolve()):
        raise HalfulpError(f"resource {reads[0]!r} reads a file that is not in {target.parent}")
    text = json.dumps(to_json(program), indent=2, ensure_ascii=False, allow_nan=False)
    with replacing(target) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def to_json(program: Program) -> dict[str, Any]:
    """Return a program as the JSON object that :func:`save` writes.

    Example:
        >>> to_json(Program("m.json", None, {}, {}, ()))
        {'resources': {}, 'dispatchables': {}, 'commands': []}
    """
    parts = {name: jsonable(getattr(program, name)) for name in ("resources", "dispatchables", "commands")}
    return {**program.other, **parts}


_Node: TypeAlias = tuple[Dispatchable, dict[str, str]]
"""A node of a graph, and by tensor the name of the value that it reads or writes."""


@dataclass(frozen=True)
class _Graph:
    """A graph: its nodes in order, the values that its dispatch binds, and the resources of all other values."""

    nodes: tuple[_Node, ...]
    bound: tuple[str, ...]
    inner: Mapping[str, Binding]


class _Reader:
    """Reads one file."""

    def __init__(self, file: str, folder: Path | None) -> None:
        self._file = file
        self._folder = folder
        self._resources: dict[str, Resource] = {}
        self._dispatchables: dict[str, Dispatchable] = {}
        self._graphs: dict[str, _Graph] = {}

    def program(self, data: bytes) -> Program:
        with within(self._file):
            root = _Fields(_parse(data), "the model")
            resources = root.take("resources", mapping)
            dispatchables = root.take("dispatchables", mapping)
            commands = root.take("commands", array)
        for name, value in resources.items():
            with within(self._file, f"resource '{printable(name)}'", kind=""):
                self._resources[name] = self._resource(name, value)
        # Graphs in JSON refer to dispatchables, and follow them here.
        for name, value in sorted(dispatchables.items(), key=lambda item: _is_graph(item[1])):
            with within(self._file, f"dispatchable '{printable(name)}'", kind=""):
                self._add_dispatchable(name, value)
        found: list[Command] = []
        for index, value in enumerate(commands):
            with within(self._file, f"command {index}", kind=""):
                found += self._commands(value)
        return Program(
            self._file, self._folder, self._resources, self._dispatchables, tuple(found), root.rest()
        )

    # --- resources ------------------------------------------------------------------------------

    def _resource(self, name: str, value: Any) -> Resource:
        given = _Fields(value, "a resource")
        given.take("type", _one_of("buffer"), "buffer")
        data_type = given.take("initialValuesDataType", _data_type, None)
        values = given.take("initialValues", anything)
        initial, data_type = _initial(values, data_type, self._folder)
        size = given.take("sizeInBytes", uint) if "sizeInBytes" in given else None
        offset = given.take("initialValuesOffsetInBytes", uint, 0)
        resource = Resource(name, data_type, initial, size, offset, given.rest())
        if resource.size > _MOST_BYTES:
            raise HalfulpError("sizeInBytes is too large", expected="at most 4 GiB", got=resource.size)
        if resource.bytes_of_values + offset > resource.size:
            expected, got = f"{resource.bytes_of_values + offset} bytes", f"{resource.size} bytes"
            raise HalfulpError("its size is too small for its initial values", expected=expected, got=got)
        return resource

    # --- dispatchables --------------------------------------------------------------------------

    def _add_dispatchable(self, name: str, value: Any) -> None:
        given = _Fields(value, "a dispatchable")
        spelled = given.take("Type" if "Type" in given else "type", text)
        if spelled == "dmlSerializedGraph":
            self._graphs[name] = self._serialized_graph(name, given.take("sourcePath", text))
        elif spelled == "DML_GRAPH_DESC":
            field = "Desc" if "Desc" in given else "desc"
            self._graphs[name] = self._json_graph(name, _Fields(given.take(field, anything), field))
        else:
            self._dispatchables[name] = self._dispatchable(name, spelled, given)

    def _dispatchable(self, name: str, spelled: str, given: _Fields) -> Dispatchable:
        kind = spelled.removeprefix("DML_OPERATOR_")
        if kind not in OPERATORS:
            return Dispatchable(name, spelled, other=given.rest())
        field = next((field for field in ("Desc", "desc") if field in given), None)
        flags = given.take("executionFlags", _flags, None)
        compiled = given.take("dmlCompileType", _one_of("DmlCompileOp", "DmlCompileGraph"), None)
        bindings = given.take("bindings", self._bindings, {})
        if field is None:  # the dispatchable has the description's fields itself
            other = {}
            desc = _desc(OPERATORS[kind], given)
        else:
            desc = _desc(OPERATORS[kind], _Fields(given.take(field, anything), field))
            other = given.rest()
        check(desc)
        self._check_bindings(desc, bindings, _INITIALIZATION, "OWNED_BY_DML")
        kept = {"executionFlags": flags, "dmlCompileType": compiled}
        other.update((name, value) for name, value in kept.items() if value is not None)
        return Dispatchable(name, kind, desc, bindings, other)

    # --- graphs ---------------------------------------------------------------------------------

    def _serialized_graph(self, name: str, location: str) -> _Graph:
        graph = parse(read_whole(inside(self._folder, location, "sourcePath"), _LARGEST_FILE))
        folder = location.replace("\\", "/").rpartition("/")[0]
        constants = dict[str, Binding]()  # by edge
        nodes: list[_Node] = []
        for node in graph.nodes:
            label = lengthened(f"{name}/{node.name}", self._dispatchables)
            with within(self._file, f"dispatchable '{printable(label)}'", kind=""):
                kind, desc = node.type.removeprefix("DML_OPERATOR_"), None
                if kind in OPERATORS:
                    desc = _desc(OPERATORS[kind], _Fields(_described(node, graph.constants), "a node"))
                    check(desc)
                if desc is None:
                    found = Dispatchable(label, node.type)
                    edges = {f"Output{index}": edge for index, edge in enumerate(node.outputs)}
                else:
                    named = tensors(desc)
                    edges = dict(zip(named, (*node.inputs, *node.outputs), strict=True))
                    owned = [point for point, edge in edges.items() if edge in graph.constants]
                    for point in owned:
                        if (edge := edges[point]) not in constants:
                            initial = _of_constant(graph.constants[edge], named[point], folder, self._folder)
                            constants[edge] = self._internal(f"{name}/{edge}", initial, named[point])
                    bindings = {point: constants[edges.pop(point)] for point in owned}
                    self._check_bindings(desc, bindings, _INITIALIZATION, "OWNED_BY_DML")
                    found = Dispatchable(label, kind, desc, bindings)
            self._dispatchables[label] = found
            nodes.append((found, edges))
        return self._graph(name, nodes, filter(None, graph.inputs), filter(None, graph.outputs))

    def _json_graph(self, name: str, given: _Fields) -> _Graph:
        """Read a DML_GRAPH_DESC. Its nodes name dispatchables, and its edges count nodes and their tensors."""
        nodes: list[_Node] = []
        for node in given.objects("Nodes"):
            operator = node.take("Operator" if "Operator" in node else "Name", text)
            if operator not in self._dispatchables:
                raise HalfulpError(f"no dispatchable is called {printable(operator)!r}")
            nodes.append((self._dispatchables[operator], {}))
        ends: dict[str, dict[int, str]] = {"Input": {}, "Output": {}}

        def join(edge: _Fields, way: str, label: str) -> str:
            """Name the tensor at one end of an edge, and return its name, which may be given already."""
            node, edges = nodes[edge.take(f"{way}NodeIndex", _below(len(nodes)))]
            points = [] if node.desc is None else [*tensors(node.desc)]
            points = points[:-1] if way == "To" else points[-1:]
            index = edge.take(f"{way}Node{'Input' if way == 'To' else 'Output'}Index", _below(len(points)))
            if edges.setdefault(points[index], label) != label and way == "To":
                raise HalfulpError(f"two edges lead to {points[index]} of {printable(node.name)!r}")
            return edges[points[index]]

        for way, kind in (("From", "Output"), ("To", "Input")):
            for edge in given.objects(f"{kind}Edges"):
                index = edge.take(f"Graph{kind}Index", uint32)
                label = ends[kind].setdefault(index, edge.take("Name", text, f"{kind.lower()}{index}"))
                join(edge, way, label)
        for index, edge in enumerate(given.objects("IntermediateEdges")):
            join(edge, "To", join(edge, "From", edge.take("Name", text, f"edge {index}")))
        for count in ("InputCount", "OutputCount"):
            given.take(count, uint32, 0)
        given.end()
        return self._graph(name, nodes, ends["Input"].values(), ends["Output"].values())

    def _graph(self, name: str, nodes: list[_Node], inputs: Iterable[str], outputs: Iterable[str]) -> _Graph:
        """Return a graph. The values between its nodes get resources."""
        inner = dict[str, Binding]()
        first = tuple(inputs)
        known, bound = set(first), (*first, *outputs)
        for node, edges in nodes:
            for point, edge in edges.items():
                if point.startswith("Output"):
                    known.add(edge)
                elif edge not in known:
                    raise HalfulpError(
                        f"node {printable(node.name)!r} reads a value that no earlier node computes"
                    )
                if node.desc is not None and edge not in inner and edge not in bound:
                    tensor = tensors(node.desc)[point]
                    dtype, size = tensor.element_type.dtype, tensor.TotalTensorSizeInBytes
                    zeros = repeated(min(math.prod(tensor.Sizes), size // dtype.itemsize), 0, dtype)
                    inner[edge] = self._internal(f"{name}/{edge}", zeros, tensor, size)
        return _Graph(tuple(nodes), bound, inner)

    def _internal(
        self, name: str, initial: Initial, tensor: DML_BUFFER_TENSOR_DESC, size: int | None = None
    ) -> Binding:
        """Add a resource that no command names, and return its binding."""
        name = lengthened(name, self._resources)
        self._resources[name] = Resource(name, tensor.DataType, initial, size, internal=True)
        return Binding(name)

    def _dispatch_graph(self, graph: _Graph, bindings: Mapping[str, Binding]) -> list[Command]:
        _check_names(graph.bound, bindings, "this dispatch")
        found: list[Command] = []
        for node, edges in graph.nodes:
            every = {}
            if node.desc is not None:
                every = {point: bindings.get(edge) or graph.inner[edge] for point, edge in edges.items()}
                self._check_bindings(node.desc, every, f"node {printable(node.name)!r}")
            found.append(Dispatch(node.name, every))
        return found

    # --- commands -------------------------------------------------------------------------------

    def _commands(self, value: Any) -> list[Command]:
        """Return a command; instead of the dispatch of a graph, those of its nodes."""
        given = _Fields(value, "a command")
        match given.take("type", text).lower():
            case "dispatch":
                name = given.take("dispatchable", text)
                if name in self._graphs:
                    return self._dispatch_graph(self._graphs[name], given.take("bindings", self._bindings))
                if name not in self._dispatchables:
                    raise HalfulpError(f"no dispatchable is called {printable(name)!r}")
                desc = self._dispatchables[name].desc
                if desc is None:
                    return [Dispatch(name, {}, given.rest())]
                bindings = given.take("bindings", self._bindings)
                self._check_bindings(desc, bindings, "this dispatch")
                return [Dispatch(name, bindings, given.rest())]
            case "print":
                resource = given.take("resource", self._resource_name)
                return [Print(resource, given.take("verbose", boolean, False), given.rest())]
            case "writefile":
                resource = given.take("resource", self._resource_name)
                target = given.take("targetPath", text)
                dimensions = given.take("dimensions", uint32s, ())
                self._check_target(target)
                return [WriteFile(resource, target, dimensions, given.rest())]
            case other:
                known = "dispatch, print or writeFile"
                raise HalfulpError("unknown command", expected=known, got=repr(other[:40]))

    def _check_target(self, target: str) -> None:
        suffix = Path(target).suffix.lower()
        if suffix in (".png", ".jpg"):
            raise UnsupportedError("targetPath is an image: unsupported", got=shown(target))
        if suffix not in _WRITTEN:
            expected = ", ".join(_WRITTEN)
            raise HalfulpError("targetPath is not a data file", expected=expected, got=shown(target))
        # The folder is not known yet. A path that leaves any folder is refused now.
        inside(self._folder or Path.cwd(), target, "targetPath", exists=False)

    def _resource_name(self, value: Any, name: str) -> str:
        resource = text(value, name)
        if resource not in self._resources:
            raise HalfulpError(f"no resource is called {printable(resource)!r}")
        return resource

    def _bindings(self, value: Any, name: str) -> dict[str, Binding]:
        return {point: self._binding(source, point) for point, source in mapping(value, name).items()}

    def _binding(self, value: Any, point: str) -> Binding:
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        if isinstance(value, str):
            value = {"name": value}
        given = _Fields(value, f"the binding of {printable(point)}")
        return Binding(
            given.take("name", self._resource_name),
            given.take("elementCount", uint, 0),
            given.take("elementSizeInBytes", uint, 0),
            given.take("elementOffset", uint, 0),
            given.rest(),
        )

    def _check_bindings(
        self, desc: AnyDesc, bindings: Mapping[str, Binding], where: str, flags: str = "NONE"
    ) -> None:
        """Check the bindings of the tensors with these flags: those that DirectML owns are initialized."""
        named = tensors(desc)
        _check_names([name for name, tensor in named.items() if tensor.Flags == flags], bindings, where)
        for name, binding in bindings.items():
            resource = self._resources[binding.name]
            check_binding(name, named[name], binding.offset_in(resource), resource.size)


def _is_graph(value: Any) -> bool:
    return isinstance(value, dict) and "DML_GRAPH_DESC" in (value.get("Type"), value.get("type"))


def _check_names(names: Collection[str], bindings: Mapping[str, Binding], where: str) -> None:
    if set(bindings) != set(names):
        expected, got = (", ".join(map(printable, given)) or "none" for given in (names, bindings))
        raise HalfulpError(f"wrong bindings for {where}", expected=expected, got=got)


# --- initial values ---------------------------------------------------------------------------------


def _initial(value: Any, data_type: str | None, folder: Path | None) -> tuple[Initial, str | None]:
    """Return a resource's initial values and their type.

    ``data_type`` is None if the field is UNKNOWN or missing; a .npy file then has the type.
    """
    if value == "deferred":
        raise UnsupportedError("initialValues is deferred: only ONNX dispatchables can fill it")
    if isinstance(value, list):
        initial = _mixed(value) if data_type is None else listed(value, _dtype(data_type))
    else:
        given = _Fields(value, "initialValues")
        kinds = [name for name in ("value", "valueStart", "sourcePath") if name in given]
        if len(kinds) != 1:
            raise HalfulpError("initialValues must have one of value, valueStart and sourcePath")
        if kinds == ["sourcePath"]:
            initial, data_type = _file(given.take("sourcePath", text), data_type, folder)
        else:
            dtype, count = _dtype(data_type), given.take("valueCount", uint32)
            first = given.take(kinds[0], anything)
            if kinds == ["value"]:
                initial = repeated(count, first, dtype)
            else:
                initial = accumulated(count, first, given.take("valueDelta", anything), dtype)
        given.end()
    itemsize = DATA_TYPES[data_type or "UINT8"].dtype.itemsize
    if not initial.count:
        raise HalfulpError("initialValues must not be empty")
    if initial.count * itemsize > _MOST_BYTES:
        got = f"{initial.count} values of {itemsize} bytes"
        raise HalfulpError("initialValues is too large", expected="at most 4 GiB", got=got)
    return initial, data_type


def _data_type(value: Any, name: str) -> str | None:
    """Return a data type by its short name; None for UNKNOWN."""
    short = text(value, name).removeprefix("DML_TENSOR_DATA_TYPE_")
    if short == "UNKNOWN":
        return None
    if short not in DATA_TYPES:
        raise HalfulpError(f"{name} is not a data type", expected=", ".join(DATA_TYPES), got=shown(value))
    return short


def _mixed(items: list[Any]) -> Initial:
    """Return values, each of its own type and perhaps with a name, as bytes."""
    found, data = [], bytearray()
    for item in items:
        given = _Fields(item, "each of initialValues without initialValuesDataType")
        kind, value = given.take("type", _data_type), given.take("value", anything)
        name = given.take("name", text, "")
        given.end()
        data += array_of([value], _dtype(kind)).tobytes()
        found.append(({"name": name} if name else {}) | {"type": kind, "value": value})
    return Initial(found, len(data), lambda: np.frombuffer(data, np.uint8).copy())


def _dtype(data_type: str | None) -> np.dtype[Any]:
    if data_type is None:
        raise HalfulpError("initialValuesDataType is missing or UNKNOWN")
    return DATA_TYPES[data_type].dtype


def _file(location: str, data_type: str | None, folder: Path | None) -> tuple[Initial, str | None]:
    suffix = Path(location.replace("\\", "/")).suffix.lower()
    if suffix in (".png", ".jpg"):
        raise UnsupportedError("sourcePath is an image: unsupported", got=shown(location))
    path = inside(folder, location, "sourcePath")
    if suffix != ".npy":
        dtype = _dtype(data_type)
        size = path.stat().st_size
        if not size or size % dtype.itemsize:
            got = f"{size} bytes of {dtype.name}"
            raise HalfulpError("sourcePath has a size that is not one or more elements", got=got)
        return from_file(location, path, dtype.newbyteorder("<"), size // dtype.itemsize), data_type
    file = open_npy(path)
    if file.fortran and len(file.shape) > 1:
        raise HalfulpError("DxDispatch reads no sourcePath in Fortran order", got=shown(location))
    held = _TYPES.get(file.dtype.newbyteorder("="))
    if held is None or held != (data_type or held):
        got = f"{file.dtype.name} in {shown(location)}"
        raise HalfulpError("the type of sourcePath is not the resource's", expected=data_type or "", got=got)
    return from_file(location, path, file.dtype, math.prod(file.shape), file.offset), held


# --- descriptions -----------------------------------------------------------------------------------


def _desc(kind: type[T], given: _Fields) -> T:
    """Return the description that an object holds, and refuse other fields."""
    values = {
        field.name: given.take(field.name, _READERS.get(field.name, _tensor))
        for field in fields(kind)  # type: ignore[arg-type]
        if field.name in given or field.default is MISSING
    }
    given.end()
    return kind(**values)


def _described(node: SerializedNode, constants: Mapping[str, object]) -> dict[str, Any]:
    """Return a serialized operator as the fields of a description."""
    points = [field.name for field in fields(OPERATORS[node.type.removeprefix("DML_OPERATOR_")])]
    points = sorted((point for point in points if point.endswith("Tensor")), key="OutputTensor".__eq__)
    edges = *node.inputs, *node.outputs
    if not len(points) == len(node.tensors) == len(edges):
        raise HalfulpError("a node has the wrong number of tensors", expected=len(points), got=len(edges))
    described = {name: value for name, value in node.attributes.items() if value is not None}
    for point, tensor, edge in zip(points, node.tensors, edges, strict=True):
        described[point] = tensor | ({"Flags": "OWNED_BY_DML"} if edge in constants else {})
    return described


def _of_constant(
    held: str | bytes, tensor: DML_BUFFER_TENSOR_DESC, subfolder: str, folder: Path | None
) -> Initial:
    """Return the values of a graph's constant: those of a file, or bytes of the graph's own file."""
    if isinstance(held, str):
        return _file(f"{subfolder}/{held}.bin".lstrip("/"), tensor.DataType, folder)[0]
    dtype = tensor.element_type.dtype
    if len(held) % dtype.itemsize:
        raise HalfulpError("a constant has half an element", got=f"{len(held)} bytes of {dtype.name}")
    return listed(np.frombuffer(held, dtype).tolist(), dtype)


def _below(count: int) -> Callable[[Any, str], int]:
    def read(value: Any, name: str) -> int:
        if uint32(value, name) >= count:
            raise HalfulpError(f"{name} is out of range", expected=f"less than {count}", got=value)
        return int(value)

    return read


def _tensor(value: Any, name: str) -> DML_BUFFER_TENSOR_DESC:
    given = _Fields(value, name)
    given.take("Type", _one_of("BUFFER", "DML_TENSOR_TYPE_BUFFER"), "BUFFER")
    if "Desc" in given:
        outer, given = given, _Fields(given.take("Desc", anything), f"{name}.Desc")
        outer.end()
    return _desc(DML_BUFFER_TENSOR_DESC, given)


def _tensor_flags(value: Any, name: str) -> str:
    flags = [text(flag, name).removeprefix("DML_TENSOR_FLAG_") for flag in _listed(value)]
    return next((flag for flag in flags if flag != "NONE"), "NONE")


def _flags(value: Any, name: str) -> list[str] | None:
    flags = [text(flag, name).removeprefix("DML_EXECUTION_FLAG_") for flag in _listed(value)]
    for flag in flags:
        if flag not in _FLAGS:
            raise HalfulpError(f"unknown flag in {name}", expected=", ".join(sorted(_FLAGS)), got=flag[:60])
    return flags


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _one_of(*names: str) -> Callable[[Any, str], str]:
    def read(value: Any, name: str) -> str:
        if value not in names:
            raise HalfulpError(f"{name} must be {' or '.join(names)}", got=shown(value))
        return str(value)

    return read


# --- JSON with comments and trailing commas ---------------------------------------------------------

T = TypeVar("T")
Default = TypeVar("Default")

# An unclosed string or comment extends to the end of the text, and possessive quantifiers prevent backtracking. So the
# time does not grow with the square of the length.
_STRING = r'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?'
_COMMENT = re.compile(rf"({_STRING}|/\*(?:(?!\*/).)*+\Z)|//[^\n]*|/\*.*?\*/", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _parse(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a file."""
    try:
        text = data.decode("utf-8-sig")
        for pattern in (_COMMENT, _TRAILING_COMMA):
            text = pattern.sub(lambda match: match[1] or " ", text)
        root = json.loads(
            text, object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant
        )
        if _SURROGATE.search(text):
            json.dumps(root, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise HalfulpError("not UTF-8, or not a DxDispatch model") from None
    except UnicodeEncodeError:
        raise HalfulpError("a text has half of a surrogate pair") from None
    except RecursionError:
        raise HalfulpError("nests too deep") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise HalfulpError(f"not well-formed JSON, {place}: {printable(error.msg)}") from None
    if not isinstance(root, dict):
        raise HalfulpError("not a DxDispatch model: not a JSON object")
    return root


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise HalfulpError(f"the field {printable(twice)!r} is given twice")
    return found


def _int(text: str) -> int | float:
    return int(text) if len(text) <= 20 else _float(text)  # as DxDispatch: beyond 64 bits it is a float


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise HalfulpError(f"the number {printable(text)} is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise HalfulpError(f'JSON has no {text}; write "nan", "inf" or "-inf"')


def _of(kind: type[T], noun: str) -> Callable[[Any, str], T]:
    def read(value: Any, name: str) -> T:
        if not isinstance(value, kind):
            raise HalfulpError(f"{name} must be {noun}", got=shown(value))
        return value

    return read


mapping = _of(dict, "an object")
array = _of(list, "a list")
text = _of(str, "a string")
boolean = _of(bool, "true or false")


class _Fields:
    """The fields of one JSON object, taken one by one. Errors name the object (``what``) and the field."""

    def __init__(self, value: Any, what: str) -> None:
        self._left: dict[str, Any] = dict(mapping(value, what))
        self._what = what

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, read: Callable[[Any, str], T], *default: Default) -> T | Default:
        """Return a field as ``read`` reads it, or the default if it is missing."""
        if name not in self._left:
            if default:
                return default[0]
            raise HalfulpError(f"{self._what} has no {name}")
        return read(self._left.pop(name), name)

    def objects(self, name: str) -> list[_Fields]:
        """Return a list of objects."""
        return [_Fields(value, f"each of {name}") for value in self.take(name, array)]

    def rest(self) -> dict[str, Any]:
        """Return the fields that were not taken."""
        return self._left

    def end(self) -> None:
        """Refuse fields that were not taken: a misspelled one would silently change the result."""
        for name in self._left:
            raise HalfulpError(f"{self._what} has an unknown field {printable(name)!r}")


def anything(value: Any, name: str) -> Any:
    """Return a value unchecked."""
    return value


def uint(value: Any, name: str, bits: int = 64) -> int:
    """Return an unsigned integer."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise HalfulpError(f"{name} must be an unsigned integer of {bits} bits", got=shown(value))
    return value


def uint32(value: Any, name: str) -> int:
    """Return an unsigned integer of 32 bits."""
    return uint(value, name, 32)


def uint32s(value: Any, name: str) -> tuple[int, ...]:
    """Return a list of unsigned integers of 32 bits."""
    return tuple(uint32(item, f"each of {name}") for item in array(value, name))


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "DataType": text,
    "Flags": _tensor_flags,
    "DimensionCount": uint32,
    "Sizes": uint32s,
    "Strides": lambda value, name: uint32s(value, name) or None,  # a packed tensor has none
    "TotalTensorSizeInBytes": uint,
    "GuaranteedBaseOffsetAlignment": uint32,
    "Exponent": number,
    "ScaleBias": lambda value, name: _desc(DML_SCALE_BIAS, _Fields(value, name)),
    "Scale": number,
    "Bias": number,
}
"""The functions that read the fields of descriptions, other than tensors, by name."""
