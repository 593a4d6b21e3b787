"""The two files of an OpenVINO IR: layers, ports and edges of the .xml, constants of the .bin; none is believed.

What an element means is :mod:`halfulp.models.openvino.builder`'s business. Here it is only known to be well-formed:
ids that are unique, dims that can be, precisions that exist. Constants are mapped, by offset and size.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable
from halfulp.models.files import opened
from halfulp.models.graph import MOST_DIMS, Array, describe
from halfulp.types import TYPES

VERSIONS = (10, 11)
"""The versions of the format that are read; the last one is written."""

_DEEPEST = 256  # to copy or write an element, Python recurses
LARGEST = (1 << 63) - 1
"""No dim, offset or id is larger."""

BOOLEAN = "boolean"
ELEMENT_TYPES = {row.openvino: row.name for row in TYPES.values() if row.openvino} | {BOOLEAN: "bool"}
"""Our name of an element type, by OpenVINO's."""

OPENVINO_TYPES = {name: openvino for openvino, name in ELEMENT_TYPES.items()}
"""OpenVINO's name of an element type, by ours."""


def precision(openvino: str) -> str:
    """Return how a port spells an element type."""
    return {"f64": "FP64", "f32": "FP32", "f16": "FP16", BOOLEAN: "BOOL"}.get(openvino, openvino.upper())


_PRECISIONS = {precision(openvino): name for openvino, name in ELEMENT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Port:
    """A port; its type is None where it is not one of ours, its dims None where it lists none."""

    id: int
    type: str | None
    dims: tuple[int | None, ...] | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A layer; ``position`` is its place in the file, ``label`` how messages name it."""

    position: int
    id: int
    name: str
    type: str
    version: str
    data: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    output_names: tuple[str, ...] = ()
    rt_info: Element | None = None

    @property
    def label(self) -> str:
        return f"'{printable(self.name)}' ({printable(self.type)})" if self.name else f"#{self.id}"


@dataclass(frozen=True, slots=True)
class Edge:
    """From an output port to an input port."""

    from_layer: int
    from_port: int
    to_layer: int
    to_port: int


@dataclass(slots=True, eq=False)
class Net:
    """What a file holds; ``rest`` are the elements beside the layers and edges, as they are."""

    name: str
    version: int
    layers: list[Layer] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    rest: list[Element] = field(default_factory=list)


def parse(data: bytes, file: str) -> Net:
    """Return the layers and edges of a file. Document types are refused: no entity is ever expanded.

    Raises:
        ModelError: it is not XML, no IR, or an element of it is not well-formed.
        UnsupportedError: it is of another version of the format.
    """
    return read(elements(data, file), file)


def elements(data: bytes, file: str) -> Element:
    """Return the root of a file's elements; raises ModelError where it is not XML, or nests too deep."""
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


def read(root: Element, file: str) -> Net:
    """Return the layers and edges below an element; raises as :func:`parse` does."""
    return _Parser(file).net(root)


def split_names(text: str) -> tuple[str, ...]:
    r"""Return the tensor names of a port: separated by commas, a comma within one escaped."""
    return tuple(name.replace("\\,", ",") for name in re.split(r"(?<!\\),", text) if name)


class _Parser:
    """Reads the elements of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._layer: str | None = None  # the one being read, as messages name it

    def net(self, root: Element) -> Net:
        if root.tag != "net":
            self._fail("not an OpenVINO IR", expected="<net>", got=f"<{printable(root.tag)}>")
        version = self._number(root, "version")
        if version not in VERSIONS:
            raise UnsupportedError(
                f"{self._file}: of a version of the IR format that is not read here",
                expected=" or ".join(map(str, VERSIONS)),
                got=version,
            )
        net = Net(root.get("name", ""), version)
        found = {child.tag: child for child in root}
        if "layers" not in found:
            self._fail("not an OpenVINO IR: it has no layers")
        seen: dict[int, str] = {}
        for position, element in enumerate(found["layers"].iterfind("layer")):
            layer = self._read_layer(element, position)
            if layer.id in seen:
                self._fail(f"its id {layer.id} is that of {seen[layer.id]} too")
            seen[layer.id] = layer.label
            net.layers.append(layer)
        self._layer = None
        names = ("from-layer", "from-port", "to-layer", "to-port")
        for element in found["edges"].iterfind("edge") if "edges" in found else ():
            net.edges.append(Edge(*(self._number(element, name) for name in names)))
        net.rest = [child for child in root if child.tag not in ("layers", "edges")]
        return net

    def _read_layer(self, element: Element, position: int) -> Layer:
        self._layer = f"#{position}"
        name, kind = element.get("name", ""), element.get("type", "")
        if not kind:
            self._fail("it has no type")
        self._layer = f"'{printable(name)}' ({printable(kind)})" if name else self._layer
        data = element.find("data")
        return Layer(
            position,
            self._number(element, "id"),
            name,
            kind,
            element.get("version", ""),
            dict(data.attrib) if data is not None else {},
            tuple(self._ports(element, "input")),
            tuple(self._ports(element, "output")),
            split_names(element.get("output_names", "")),
            element.find("rt_info"),
        )

    def _ports(self, layer: Element, side: str) -> Iterator[Port]:
        seen = set()
        for element in layer.iterfind(f"{side}/port"):
            number = self._number(element, "id")
            if number in seen:
                self._fail(f"it has two {side} ports {number}")
            seen.add(number)
            spelled = element.get("precision")
            dims = tuple(self._dim(dim.text or "") for dim in element.iterfind("dim"))
            if len(dims) > MOST_DIMS:
                self._fail("a port has more dims than NumPy does", expected=MOST_DIMS, got=len(dims))
            # A port without dims is that of a scalar, and that of a tensor of unknown rank as well.
            yield Port(
                number,
                _PRECISIONS.get(spelled.upper()) if spelled else None,
                dims or None,
                split_names(element.get("names", "")),
            )

    def _dim(self, text: str) -> int | None:
        text = text.strip()
        if text == "-1":
            return None
        return self._natural(text, "a dim of a port")

    def _number(self, element: Element, name: str) -> int:
        text = element.get(name)
        if text is None:
            self._fail(f"<{printable(element.tag)}> has no {name}")
        return self._natural(text, name)

    def _natural(self, text: str, what: str) -> int:
        number = natural(text)
        if number is None:
            self._fail(f"{what} must be a number, at least 0 and below 2^63", got=printable(repr(text)))
        return number

    def _fail(self, message: str, **shown: Any) -> NoReturn:
        raise ModelError(message, file=self._file, node=self._layer, **shown)


def natural(text: str) -> int | None:
    """Return a number as IR files write them; None where it is none, negative, or 2^63 and more."""
    # int() would take " 1_0" and digits of other scripts, and choke on 5000 digits.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return None
    number = int(text)
    return number if number <= LARGEST else None


# --- shapes and constants ---------------------------------------------------------------------------


def parse_shape(text: str) -> tuple[int | None, ...] | None:
    """Return the shape that a Parameter or Const declares; None for a dynamic rank, ``...``.

    Commas separate the dims. ``?``, ``-1`` and ranges are dynamic dims; an empty text is a scalar's shape.
    """
    ranges = _ranges(text)
    if ranges is None:
        return None
    if len(ranges) > MOST_DIMS:
        raise HalfulpError("its shape has more dims than NumPy does", expected=MOST_DIMS, got=len(ranges))
    return tuple(low if low == high else None for low, high in ranges)


def allows(text: str, shape: tuple[int, ...]) -> bool:
    """Return whether a shape has the rank and lies within the ranges that a Parameter declares."""
    ranges = _ranges(text)
    if ranges is None:
        return True
    sizes = zip(shape, ranges, strict=False)
    return len(ranges) == len(shape) and all(low <= dim <= high for dim, (low, high) in sizes)


def _ranges(text: str) -> list[tuple[int, int]] | None:
    """Return the least and the greatest size of each dim; None where the rank is dynamic."""
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
        raise HalfulpError("its shape has a dim that can't be", got=repr(text[:40]))
    return bounds[0], bounds[1]


class Weights:
    """The weights of a model: bytes, or a .bin file, which need not exist where no constant has data."""

    def __init__(self, source: Path | bytes | None) -> None:
        self._source = source
        self._memory: Array | None = None
        self._unpacked: dict[tuple[str, int, int], Array] = {}
        self._taken = 0

    def read(self, data: Mapping[str, str]) -> Array:
        """Return the array of a Const layer, read-only; mapped where its type is not packed.

        Args:
            data: the attributes of the layer's <data>: element_type, shape, offset, size.

        Raises:
            HalfulpError: an attribute is missing or can't be, the shape contradicts the size, or
                the .bin file is missing or too short.
            UnsupportedError: an element type that is not ours.
        """
        for name in ("element_type", "shape", "offset", "size"):
            if name not in data:
                raise HalfulpError(f"it has no {name}")
        openvino = data["element_type"]
        if openvino not in ELEMENT_TYPES:
            raise UnsupportedError("its element_type is not one of ours", got=repr(openvino[:40]))
        element_type = ELEMENT_TYPES[openvino]
        shape = parse_shape(data["shape"])
        if shape is None or None in shape:
            raise HalfulpError("its shape is not static", got=repr(data["shape"][:40]))
        static = tuple(dim for dim in shape if dim is not None)
        offset, size = natural(data["offset"]), natural(data["size"])
        if offset is None or size is None:
            shown = f"offset {data['offset'][:40]!r}, size {data['size'][:40]!r}"
            raise HalfulpError("offset and size must be numbers, at least 0 and below 2^63", got=shown)
        needed = stored_bytes(element_type, math.prod(static))
        # Zero elements of an absurd shape take no bytes, but NumPy counts them all the same.
        if needed != size or math.prod(max(dim, 1) for dim in static) >= 1 << 60:
            raise HalfulpError(
                f"its shape contradicts its size: {describe(element_type, static)}",
                expected=f"{needed} bytes",
                got=f"{size} bytes",
            )
        return self._array(element_type, static, offset, size)

    def _array(self, element_type: str, shape: tuple[int, ...], offset: int, size: int) -> Array:
        dtype = np.dtype(bool) if element_type == "bool" else TYPES[element_type].dtype
        if size == 0:
            array = np.empty(shape, dtype)
        else:
            memory = self._mapped()
            if offset + size > memory.size:
                raise HalfulpError(
                    "it reaches past the end of the weights",
                    expected=f"{offset + size} bytes",
                    got=f"{memory.size} bytes",
                )
            raw = memory[offset : offset + size]
            if element_type == "bool" or TYPES[element_type].bits == 4:
                array = self._unpack(raw, element_type, math.prod(shape), offset).reshape(shape)
            else:
                array = raw.view(dtype.newbyteorder("<")).reshape(shape)
        array.flags.writeable = False
        return array

    def _unpack(self, raw: Array, element_type: str, count: int, offset: int) -> Array:
        """Return elements that can't be looked at where they are: the only ones that take memory."""
        key = element_type, offset, count
        if key not in self._unpacked:
            assert self._memory is not None
            # Constants may share their bytes, but many that overlap would unpack to any size.
            self._taken += count
            if self._taken > 8 * self._memory.size:
                raise HalfulpError("the constants overlap, and unpack to more than the weights hold")
            if element_type == "bool":
                self._unpacked[key] = raw != 0
            else:
                self._unpacked[key] = _unpacked(raw, count, TYPES[element_type].dtype)
        return self._unpacked[key]

    def _mapped(self) -> Array:
        """Return all of the weights, mapped once: a mapping for each constant would use up the files."""
        if self._memory is None:
            if self._source is None:
                raise HalfulpError("it has data, but the model came without weights")
            if isinstance(self._source, bytes):
                self._memory = np.frombuffer(self._source, np.uint8)
            else:
                self._memory = _map(self._source)
        return self._memory


def _map(path: Path) -> Array:
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        return np.asarray(np.memmap(stream, np.uint8, "r")) if size else np.empty(0, np.uint8)


def stored_bytes(element_type: str, count: int) -> int:
    """Return the bytes that so many elements take: those of 4 bits lie two to a byte."""
    if element_type == "bool":
        return count
    row = TYPES[element_type]
    return (count + 1) // 2 if row.bits == 4 else count * row.dtype.itemsize


def stored(array: Array) -> Array:
    """Return an array as the bytes that :class:`Weights` reads it from."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.name in TYPES and TYPES[array.dtype.name].bits == 4:
        nibbles = np.zeros(flat.size + flat.size % 2, np.uint8)
        nibbles[: flat.size] = flat.view(np.uint8) & 15
        return nibbles[::2] | nibbles[1::2] << 4
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _unpacked(raw: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Return the elements of two to a byte, the first in the low half."""
    nibbles = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count]
    if dtype.name == "int4":  # what ml_dtypes keeps in the byte's other half is its own affair
        return ((nibbles ^ 8).astype(np.int8) - np.int8(8)).astype(dtype)
    return nibbles.view(dtype)
