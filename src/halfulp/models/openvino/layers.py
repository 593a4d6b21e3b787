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
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable, within
from halfulp.models.files import opened
from halfulp.models.graph import MOST_DIMS, Array, describe, is_countable
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
    with within(file):
        if root.tag != "net":
            raise HalfulpError("not an OpenVINO IR", expected="<net>", got=f"<{printable(root.tag)}>")
        version = _number(root, "version")
        if version not in VERSIONS:
            raise UnsupportedError(
                "of a version of the IR format that is not read here",
                expected=" or ".join(map(str, VERSIONS)),
                got=version,
            )
        net = Net(root.get("name", ""), version)
        found = {child.tag: child for child in root}
        if "layers" not in found:
            raise HalfulpError("not an OpenVINO IR: it has no layers")
    seen: dict[int, str] = {}
    for position, element in enumerate(found["layers"].iterfind("layer")):
        name, kind = element.get("name"), element.get("type")
        label = f"'{printable(name)}' ({printable(kind)})" if name and kind else f"#{position}"
        with within(file, label, kind="layer"):
            layer = _layer(element, position)
            if layer.id in seen:
                raise HalfulpError(f"its id {layer.id} is that of {seen[layer.id]} too")
        seen[layer.id] = layer.label
        net.layers.append(layer)
    names = ("from-layer", "from-port", "to-layer", "to-port")
    with within(file):
        for element in found["edges"].iterfind("edge") if "edges" in found else ():
            net.edges.append(Edge(*(_number(element, name) for name in names)))
    net.rest = [child for child in root if child.tag not in ("layers", "edges")]
    return net


def split_names(text: str) -> tuple[str, ...]:
    r"""Return the tensor names of a port: separated by commas, a comma within one escaped."""
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
        dims = tuple(_port_dim((dim.text or "").strip()) for dim in element.iterfind("dim"))
        if len(dims) > MOST_DIMS:
            raise HalfulpError("a port has more dims than NumPy does", expected=MOST_DIMS, got=len(dims))
        # A port without dims is that of a scalar, and that of a tensor of unknown rank as well.
        names = split_names(element.get("names", ""))
        yield Port(number, _PRECISIONS.get(spelled.upper()), dims or None, names)


def _port_dim(text: str) -> int | None:
    return None if text == "-1" else _natural(text, "a dim of a port")


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
        self._unpacked: dict[tuple[np.dtype[Any], int, int], Array] = {}
        self._taken = 0

    def read(self, data: Mapping[str, str]) -> Array:
        """Return the array of a Const layer's <data>, read-only; mapped where its type is not packed."""
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
            raise HalfulpError(
                f"its shape contradicts its size: {describe(kind, static)}",
                expected=f"{needed} bytes",
                got=f"{size} bytes",
            )
        return self._array(kind, static, offset, size)

    def _array(self, kind: str, shape: tuple[int, ...], offset: int, size: int) -> Array:
        dtype = np.dtype(bool) if kind == "bool" else TYPES[kind].dtype
        if size == 0:
            array = np.empty(shape, dtype)
        else:
            memory = self._memory
            if offset + size > memory.size:
                raise HalfulpError(
                    "it reaches past the end of the weights",
                    expected=f"{offset + size} bytes",
                    got=f"{memory.size} bytes",
                )
            raw = memory[offset : offset + size]
            if kind == "bool" or TYPES[kind].bits == 4:
                array = self._unpack(raw, dtype, math.prod(shape), offset).reshape(shape)
            else:
                array = raw.view(dtype.newbyteorder("<")).reshape(shape)
        array.flags.writeable = False
        return array

    def _unpack(self, raw: Array, dtype: np.dtype[Any], count: int, offset: int) -> Array:
        """Return elements that can't be looked at where they are: the only ones that take memory."""
        key = dtype, offset, count
        if key not in self._unpacked:
            # Constants may share their bytes, but many that overlap would unpack to any size.
            self._taken += count
            if self._taken > 8 * self._memory.size:
                raise HalfulpError("the constants overlap, and unpack to more than the weights hold")
            self._unpacked[key] = raw != 0 if dtype.name == "bool" else _unpacked(raw, count, dtype)
        return self._unpacked[key]

    @cached_property
    def _memory(self) -> Array:
        """All of the weights, mapped once: a mapping for each constant would use up the files."""
        if self._source is None:
            raise HalfulpError("it has data, but the model came without weights")
        if isinstance(self._source, bytes):
            return np.frombuffer(self._source, np.uint8)
        with opened(self._source) as stream:
            size = os.fstat(stream.fileno()).st_size
            return np.asarray(np.memmap(stream, np.uint8, "r")) if size else np.empty(0, np.uint8)


def element_type(openvino: str) -> str:
    """Return our name of an element type; raises UnsupportedError for one that is not ours."""
    if openvino not in ELEMENT_TYPES:
        raise UnsupportedError("its element_type is not one of ours", got=repr(openvino[:40]))
    return ELEMENT_TYPES[openvino]


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
