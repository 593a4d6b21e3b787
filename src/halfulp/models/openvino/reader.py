"""The two files of an OpenVINO IR to a graph: layers, ports and edges of the .xml, constants of the .bin.

Every element is checked: ids, ports and edges, order, names, types, shapes. Constants are mapped, by offset and size.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable, within
from halfulp.models.files import opened
from halfulp.models.graph import (
    LARGEST,
    MOST_DIMS,
    Array,
    Graph,
    Model,
    Node,
    Value,
    agree,
    describe,
    is_countable,
    lengthened,
    natural,
    type_name,
)
from halfulp.models.openvino.operators import (
    OPERATORS,
    PRECISIONS,
    element_type,
    infer,
    read_attributes,
    unpacked,
)
from halfulp.specs.tensor import Shape, TensorType, format_shape
from halfulp.types import TYPES

VERSIONS = (10, 11)
"""The versions of the format that are read. The last one is written."""

NEWEST_OPSET = 17
"""That of OpenVINO 2026.4."""

_DEEPEST = 256  # Python recurses to copy or write an element
Source = tuple[int, int]  # a layer's id and one of its output ports


@dataclass(frozen=True, slots=True)
class Port:
    """A port. Its type is None if halfulp does not have it, and its dims are None if it lists none."""

    id: int
    type: str | None
    dims: tuple[int | None, ...] | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A layer. ``position`` is its place in the file, ``label`` its name in messages."""

    position: int
    id: int
    name: str
    type: str
    version: str
    data: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    output_names: tuple[str, ...]
    rt_info: Element | None

    @classmethod
    def new(cls, position: int, name: str, tensors: tuple[str, ...]) -> Layer:
        """Return a layer that no file has, with the names of the tensor that it makes or takes."""
        return cls(position, -1, name, "", "", {}, (), (Port(0, None, None, tensors),), tensors, None)

    @property
    def label(self) -> str:
        return f"'{printable(self.name)}' ({printable(self.type)})" if self.name else f"#{self.id}"


class Edge(NamedTuple):
    """From an output port to an input port."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int


@dataclass(frozen=True)
class Origin:
    """The parts of a file that its graph does not hold, so that it can be written again.

    These are the layers by value, those of the outputs, the elements beside layers and edges (``rest``), and the edges
    in order.
    """

    values: Mapping[str, Layer]
    results: tuple[Layer, ...]
    rest: tuple[Element, ...]
    edges: tuple[Edge, ...] = ()


def elements(data: bytes, file: str) -> Element:
    """Return the root element of a file. Document types are refused, so that no entity is ever expanded."""
    try:
        root: Element = fromstring(data, forbid_dtd=True)
    except ParseError as error:
        raise ModelError(f"not well-formed XML: {printable(str(error))}", file=file) from None
    except (ValueError, LookupError) as error:  # defusedxml's refusals, and encodings that don't exist
        reason = printable(str(error)) or type(error).__name__
        raise ModelError(f"unsafe or unreadable XML: {reason}", file=file) from None
    level = [root]
    for _ in range(_DEEPEST):
        level = [child for element in level for child in element]
    if level:
        raise ModelError("its elements nest too deep", file=file, expected=f"at most {_DEEPEST}")
    return root


EDGE = ("from-layer", "from-port", "to-layer", "to-port")
"""The attributes of an edge."""


def build(root: Element, weights: Weights, file: str, *, is_body: bool = False) -> Model:
    """Return the graph of a file's elements, or of a layer's body, which may be without a Result."""
    reader = _Reader(root, weights, file)
    if not is_body and not reader.results:
        raise ModelError("has no layer of the type Result, and so no output", file=file)
    return reader.model()


class _Reader:
    """Reads one <net>."""

    def __init__(self, root: Element, weights: Weights, file: str) -> None:
        self._weights = weights
        self._file = file
        with within(file):
            if root.tag != "net":
                raise HalfulpError("not an OpenVINO IR", expected="<net>", got=f"<{printable(root.tag)}>")
            version = _number(root, "version")
            if version not in VERSIONS:
                expected = f"{' or '.join(map(str, VERSIONS))}: convert the original model again, by ovc"
                raise UnsupportedError("unsupported version of the IR format", expected=expected, got=version)
            found = {child.tag: child for child in root}
            if "layers" not in found:
                raise HalfulpError("not an OpenVINO IR: it has no layers")
        self._graph_name = root.get("name", "")
        self._rest = tuple(child for child in root if child.tag not in ("layers", "edges"))
        self.layers: dict[int, Layer] = {}
        for position, element in enumerate(found["layers"].iterfind("layer")):
            name, kind = element.get("name"), element.get("type")
            label = f"'{printable(name)}' ({printable(kind)})" if name and kind else f"#{position}"
            with within(file, label, kind="layer"):
                layer = _layer(element, position)
                if layer.id in self.layers:
                    raise HalfulpError(f"its id {layer.id} is that of {self.layers[layer.id].label} too")
            self.layers[layer.id] = layer
        with within(file):
            edges = found["edges"].iterfind("edge") if "edges" in found else ()
            self._edges = tuple(Edge(*(_number(edge, name) for name in EDGE)) for edge in edges)
        self.results = tuple(layer for layer in self.layers.values() if layer.type == "Result")
        self._outputs = {
            (layer.id, port.id): port for layer in self.layers.values() for port in layer.outputs
        }
        self._sources: dict[tuple[int, int], Source] = {}  # by input port
        self._names: dict[Source, str] = {}
        self._known: dict[str, Value] = {}
        self._constants: dict[str, Array] = {}
        self._makers: dict[str, Layer] = {}

    def model(self) -> Model:
        self._connect()
        order = self._sorted()
        self._name_values()
        nodes, inputs = [], []
        for layer in order:
            with within(self._file, layer.label, kind="layer"):
                if layer.type == "Parameter":
                    inputs.append(self._parameter(layer))
                elif layer.type == "Const":
                    self._constant(layer)
                elif layer.type != "Result":
                    nodes.append(self._node(layer))
        inputs.sort(key=lambda value: self._makers[value.name].position)
        outputs = tuple(map(self._output, self.results))
        origin = Origin(self._makers, self.results, self._rest, self._edges)
        parts = tuple(inputs), outputs, self._constants, tuple(nodes), self._known
        return Model(self._file, Graph(self._graph_name, *parts, source=origin))

    # --- connections and order ------------------------------------------------------------------

    def _connect(self) -> None:
        inputs = {layer.id: {port.id for port in layer.inputs} for layer in self.layers.values()}
        outputs = {layer.id: {port.id for port in layer.outputs} for layer in self.layers.values()}
        for edge in self._edges:
            for number, port, ports, side in ((*edge[:2], outputs, "output"), (*edge[2:], inputs, "input")):
                if number not in ports:
                    raise ModelError(f"an edge joins layer {number}, which does not exist", file=self._file)
                if port not in ports[number]:
                    self._fail(self.layers[number], f"an edge joins its {side} port {port}, which it lacks")
            if edge[2:] in self._sources:
                self._fail(self.layers[edge.to_layer], f"two edges lead to its input port {edge.to_port}")
            self._sources[edge[2:]] = edge[:2]
        for layer in self.layers.values():
            for given in layer.inputs:
                if (layer.id, given.id) not in self._sources:
                    self._fail(layer, f"no edge leads to its input port {given.id}")
            sides = {"Parameter": (0, 1), "Const": (0, 1), "Result": (1, len(layer.outputs))}
            if layer.type in OPERATORS or layer.type == "Prelu":
                sides[layer.type] = len(layer.inputs), 1  # inference checks the number of inputs
            found = len(layer.inputs), len(layer.outputs)
            if sides.get(layer.type, found) != found:
                counts = "{} inputs, {} outputs"
                expected, got = counts.format(*sides[layer.type]), counts.format(*found)
                self._fail(layer, "wrong number of ports for its type", expected=expected, got=got)
        for number, _ in self._sources.values():
            if self.layers[number].type == "Result":
                self._fail(self.layers[number], "an edge leaves it, but a Result has no readers")

    def _sorted(self) -> list[Layer]:
        """Return the layers in topological order, otherwise in the file's order."""
        sources: dict[int, set[int]] = {number: set() for number in self.layers}
        for (number, _), (source, _) in self._sources.items():
            sources[number].add(source)
        sorter = TopologicalSorter(sources)
        try:
            sorter.prepare()
        except CycleError as error:
            self._fail(self.layers[error.args[1][0]], "the graph has a cycle through it")
        order, ready = list[Layer](), list[tuple[int, int]]()
        while sorter.is_active():
            for number in sorter.get_ready():
                heappush(ready, (self.layers[number].position, number))
            _, number = heappop(ready)
            order.append(self.layers[number])
            sorter.done(number)
        return order

    # --- names ----------------------------------------------------------------------------------

    def _name_values(self) -> None:
        """Give every output port a name. Names that a caller may use come first.

        The name of an input or output is its tensor name, else that of the Parameter or Result. Any other value has its
        layer's name.
        """
        wished: list[tuple[Source, tuple[str, ...]]] = []
        for layer in self.layers.values():
            if layer.type == "Parameter":
                (port,) = layer.outputs
                wished.append(((layer.id, port.id), (*port.names, layer.name)))
        for layer in self.results:
            source = self._sources[layer.id, layer.inputs[0].id]
            wished.append((source, (*layer.output_names, *self._outputs[source].names, layer.name)))
        for layer in self.layers.values():
            for index, port in enumerate(layer.outputs):
                wished.append(((layer.id, port.id), (f"{layer.name}.{index}" if index else layer.name,)))
        taken: set[str] = set()
        for source, names in wished:
            if source not in self._names:
                name = next((name for name in names if name and name not in taken), "")
                name = name or lengthened(f"{names[0]}#{source[0]}", taken, "'")
                taken.add(name)
                self._names[source] = name

    # --- layers ---------------------------------------------------------------------------------

    def _parameter(self, layer: Layer) -> Value:
        text, openvino = layer.data.get("shape"), layer.data.get("element_type")
        if text is None or openvino is None:
            raise HalfulpError("a Parameter needs the attributes shape and element_type")
        declared = TensorType(element_type(openvino), parse_shape(text))
        name = self._declare(layer, declared)
        aliases = _others(name, (*layer.outputs[0].names, layer.name))
        return Value(name, declared.type, declared.shape, aliases=aliases)

    def _constant(self, layer: Layer) -> None:
        array = self._weights.read(layer.data)
        name = self._declare(layer, TensorType(type_name(array.dtype), array.shape))
        self._constants[name] = array

    def _node(self, layer: Layer) -> Node:
        opset = layer.version.removeprefix("opset")
        numbered = layer.version.startswith("opset") and natural(opset) is not None and len(opset) < 4
        if numbered and not 1 <= int(opset) <= NEWEST_OPSET:
            expected = f"opset1 to opset{NEWEST_OPSET}"
            raise HalfulpError(f"the operator set {layer.version!r} does not exist", expected=expected)
        kind = "PReLU" if layer.type == "Prelu" else layer.type
        known = numbered and kind in OPERATORS
        sources = [self._sources[layer.id, port.id] for port in layer.inputs]
        inputs = tuple(self._names[source] for source in sources)
        node = Node(
            label=layer.label,
            standard="openvino",
            domain="" if numbered else layer.version or "unknown",
            type=kind,
            version="1" if known else opset if numbered else "0",
            opset=int(opset) if numbered else 0,
            inputs=inputs,
            outputs=tuple(self._names[layer.id, port.id] for port in layer.outputs),
            attributes=read_attributes(kind, layer.data) if known else dict(layer.data),
            source=layer,
        )
        for port, source in zip(layer.inputs, sources, strict=True):
            value = self._known[self._names[source]]
            self._compare(f"its input port {port.id}", port, value.type, value.shape)
        result = None
        operands = [self._known[name] for name in inputs]
        if known and all(operand.type is not None for operand in operands):
            types = [TensorType(str(operand.type), operand.shape) for operand in operands]
            result = infer(node, types, [self._constants.get(name) for name in inputs])
        for index in range(len(layer.outputs)):
            self._declare(layer, result, index)
        return node

    def _declare(self, layer: Layer, found: TensorType | None, index: int = 0) -> str:
        """Record the type, shape and layer of an output port, and return its value's name."""
        port = layer.outputs[index]
        name = self._names[layer.id, port.id]
        kind, dims = port.type, port.dims
        if found is not None:
            self._compare(f"its output port {port.id}", port, found.type, found.shape)
            kind = found.type
            dims = found.shape if dims is None or layer.type == "Parameter" else dims  # type: ignore[assignment]
        self._known[name] = Value(name, kind, dims)
        self._makers[name] = layer
        return name

    def _compare(self, what: str, port: Port, kind: str | None, shape: Shape) -> None:
        if port.type is not None and kind is not None and port.type != kind:
            raise HalfulpError(f"{what} declares a wrong precision", expected=kind, got=port.type)
        if not agree(port.dims, shape):
            expected, got = format_shape(shape), format_shape(port.dims)
            raise HalfulpError(f"{what} declares wrong dims", expected=expected, got=got)

    def _output(self, layer: Layer) -> Value:
        source = self._sources[layer.id, layer.inputs[0].id]
        value = self._known[self._names[source]]
        with within(self._file, layer.label, kind="layer"):
            port = layer.inputs[0]
            self._compare(f"its input port {port.id}", port, value.type, value.shape)
        maker = self.layers[source[0]]
        names = (*layer.output_names, *self._outputs[source].names, layer.name, maker.name)
        return Value(value.name, value.type, value.shape, aliases=_others(value.name, names))

    def _fail(self, layer: Layer, message: str, **shown: Any) -> NoReturn:
        raise ModelError(message, file=self._file, node=layer.label, **shown)


def _others(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for other in names if other and other != name))


def split_names(text: str) -> tuple[str, ...]:
    r"""Return a port's tensor names, which commas separate. A comma within a name is escaped."""
    return tuple(name.replace("\\,", ",") for name in re.split(r"(?<!\\),", text) if name)


def _layer(element: Element, position: int) -> Layer:
    if not element.get("type"):
        raise HalfulpError("it has no type")
    data = element.find("data")
    return Layer(
        position,
        _number(element, "id"),
        element.get("name", ""),
        element.get("type", ""),
        element.get("version", ""),
        dict(data.attrib) if data is not None else {},
        tuple(_ports(element, "input")),
        tuple(_ports(element, "output")),
        split_names(element.get("output_names", "")),
        element.find("rt_info"),
    )


def _ports(layer: Element, side: str) -> Iterator[Port]:
    seen = set()
    for element in layer.iterfind(f"{side}/port"):
        number = _number(element, "id")
        if number in seen:
            raise HalfulpError(f"it has two {side} ports {number}")
        seen.add(number)
        spelled = element.get("precision", "")
        texts = ((dim.text or "").strip() for dim in element.iterfind("dim"))
        dims = tuple(None if text == "-1" else _natural(text, "a dim of a port") for text in texts)
        if len(dims) > MOST_DIMS:
            raise HalfulpError("a port has too many dims", expected=f"at most {MOST_DIMS}", got=len(dims))
        # A port without dims belongs to a scalar or to a tensor of unknown rank.
        names = split_names(element.get("names", ""))
        yield Port(number, PRECISIONS.get(spelled.upper()), dims or None, names)


def _number(element: Element, name: str) -> int:
    text = element.get(name)
    if text is None:
        raise HalfulpError(f"<{printable(element.tag)}> has no {name}")
    return _natural(text, name)


def _natural(text: str, what: str) -> int:
    number = natural(text)
    if number is None:
        raise HalfulpError(f"{what} must be a number, at least 0 and below 2^63", got=printable(repr(text)))
    return number


# --- shapes and constants ---------------------------------------------------------------------------


def parse_shape(text: str) -> tuple[int | None, ...] | None:
    """Return the shape that a Parameter or Const declares; None for a dynamic rank (``...``).

    Commas separate the dims. ``?``, ``-1`` and ranges are dynamic dims, and an empty text is a scalar's shape.
    """
    ranges = _ranges(text)
    if ranges is None:
        return None
    if len(ranges) > MOST_DIMS:
        raise HalfulpError("its shape has too many dims", expected=f"at most {MOST_DIMS}", got=len(ranges))
    return tuple(low if low == high else None for low, high in ranges)


def allows(text: str, shape: tuple[int, ...]) -> bool:
    """Return whether a shape has the rank that a Parameter declares, with each dim in its range."""
    ranges = _ranges(text)
    if ranges is None:
        return True
    sizes = zip(shape, ranges, strict=False)
    return len(ranges) == len(shape) and all(low <= dim <= high for dim, (low, high) in sizes)


def _ranges(text: str) -> list[tuple[int, int]] | None:
    """Return the minimum and maximum of each dim; None for a dynamic rank."""
    if text.strip() == "...":
        return None
    return [_range(part.strip()) for part in text.split(",")] if text.strip() else []


def _range(text: str) -> tuple[int, int]:
    if text in ("?", "-1"):
        return 0, LARGEST
    low, dots, high = (part.strip() for part in text.partition(".."))
    bounds = natural(low or "0"), natural(high or str(LARGEST))
    if not dots:
        bounds = natural(text), natural(text)
    if bounds[0] is None or bounds[1] is None or bounds[0] > bounds[1]:
        raise HalfulpError("invalid dim in its shape", got=repr(text[:40]))
    return bounds[0], bounds[1]


class Weights:
    """The weights of a model: bytes, or a .bin file, which may be missing if no constant has data."""

    def __init__(self, source: Path | bytes | None) -> None:
        self._source = source
        self._unpacked: dict[tuple[np.dtype[Any], int, int], Array] = {}
        self._taken = 0

    def read(self, data: Mapping[str, str]) -> Array:
        """Return the array of a Const layer's <data>, read-only, and mapped unless its type is packed."""
        for name in ("element_type", "shape", "offset", "size"):
            if name not in data:
                raise HalfulpError(f"it has no {name}")
        kind = element_type(data["element_type"])
        shape = parse_shape(data["shape"])
        if shape is None or None in shape:
            raise HalfulpError("its shape is not static", got=repr(data["shape"][:40]))
        static = tuple(dim for dim in shape if dim is not None)
        offset, size = natural(data["offset"]), natural(data["size"])
        if offset is None or size is None:
            shown = f"offset {data['offset'][:40]!r}, size {data['size'][:40]!r}"
            raise HalfulpError("offset and size must be numbers, at least 0 and below 2^63", got=shown)
        bits = 8 if kind == "bool" else TYPES[kind].bits
        needed = -(-math.prod(static) * bits // 8)
        if needed != size or not is_countable(static):
            message = f"its shape contradicts its size: {describe(kind, static)}"
            raise HalfulpError(message, expected=f"{needed} bytes", got=f"{size} bytes")
        return self._array(kind, static, offset, size)

    def _array(self, kind: str, shape: tuple[int, ...], offset: int, size: int) -> Array:
        dtype = np.dtype(bool) if kind == "bool" else TYPES[kind].dtype
        if size == 0:
            array = np.empty(shape, dtype)
        else:
            memory = self._memory
            if offset + size > memory.size:
                expected, got = f"{offset + size} bytes", f"{memory.size} bytes"
                raise HalfulpError("it reaches past the end of the weights", expected=expected, got=got)
            raw = memory[offset : offset + size]
            if kind == "bool" or TYPES[kind].bits == 4:
                array = self._unpack(raw, dtype, math.prod(shape), offset).reshape(shape)
            else:
                array = raw.view(dtype.newbyteorder("<")).reshape(shape)
        array.flags.writeable = False
        return array

    def _unpack(self, raw: Array, dtype: np.dtype[Any], count: int, offset: int) -> Array:
        """Return elements that can't be mapped. Only these take memory."""
        key = dtype, offset, count
        if key not in self._unpacked:
            # Constants may share bytes, but many that overlap would unpack to any size.
            self._taken += count
            if self._taken > 8 * self._memory.size:
                raise HalfulpError("the constants overlap, and unpack to more bytes than the weights have")
            self._unpacked[key] = raw != 0 if dtype.name == "bool" else unpacked(raw, count, dtype)
        return self._unpacked[key]

    @cached_property
    def _memory(self) -> Array:
        """The weights, mapped once: one mapping for each constant would exceed the limit of open files."""
        if self._source is None:
            raise HalfulpError("it has data, but the model came without weights")
        if isinstance(self._source, bytes):
            return np.frombuffer(self._source, np.uint8)
        with opened(self._source) as stream:
            size = os.fstat(stream.fileno()).st_size
            return np.asarray(np.memmap(stream, np.uint8, "r")) if size else np.empty(0, np.uint8)
