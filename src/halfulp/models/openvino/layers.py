"""OpenVINO IR as XML: the text of a file to layers, ports and edges, and nothing believed on the way.

What an element means is :mod:`halfulp.models.openvino.builder`'s business; here it is only known
to be well-formed: ids that are unique, dims that can be, precisions that exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.etree.ElementTree import Element, ParseError

from defusedxml.ElementTree import fromstring  # type: ignore[import-untyped]

from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.models.graph import MOST_DIMS
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
    """Return the layers and edges of a file.

    Args:
        data: the file. A document type declaration is refused, and so no entity is ever expanded.
        file: the model's name in messages.

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
