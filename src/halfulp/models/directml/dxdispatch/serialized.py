"""Serialized graphs of DirectML: the FlatBuffers files that its execution provider for ONNX Runtime writes.

The file is untrusted: every offset is checked, and the sum of all sizes is limited.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from halfulp.errors import HalfulpError

_OPERATOR, _CONSTANT = 1, 2  # kinds of nodes
_NAMED, _RAW = 1, 2  # kinds of constants
_FLOAT, _SCALE_BIAS = 6, 10  # kinds of attributes


@dataclass(frozen=True)
class SerializedNode:
    """An operator, with its tensors and attributes as in JSON. The edges that it reads and writes are names."""

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[dict[str, Any], ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class SerializedGraph:
    """A graph. A constant is the name of a file without its suffix, or its bytes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[SerializedNode, ...]
    constants: dict[str, str | bytes]


def parse(data: bytes) -> SerializedGraph:
    """Return the graph of a file; raises HalfulpError if it is broken."""
    return _Reader(data).graph()


class _Reader:
    """Reads the tables of one file. A place is an offset in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = 8 * len(data)  # text and vectors may be shared, and count each time

    def graph(self) -> SerializedGraph:
        root = self._follow(0)
        nodes, constants = [], dict[str, str | bytes]()
        for place in self._vector(root, 0):
            node = self._follow(place)
            kind, desc = self._number(node, 0, "B"), self._table(node, 1)
            name, inputs, outputs = self._text(node, 2), self._texts(node, 3), self._texts(node, 4)
            if kind == _OPERATOR:
                tensors = [*self._vector(desc, 1), *self._vector(desc, 2)]
                attributes = dict(map(self._attribute, self._vector(desc, 3)))
                parts = tuple(map(self._tensor, tensors)), attributes
                nodes.append(SerializedNode(name, self._text(desc, 0), inputs, outputs, *parts))
            elif kind == _CONSTANT and len(outputs) == 1:
                constants[outputs[0]] = self._constant(desc)
            else:
                raise HalfulpError(f"node {name!r} is neither an operator nor a constant")
        return SerializedGraph(self._texts(root, 1), self._texts(root, 2), tuple(nodes), constants)

    def _constant(self, desc: int) -> str | bytes:
        kind, held = self._number(desc, 0, "B"), self._table(desc, 1)
        if kind == _NAMED:
            return self._text(held, 0)
        if kind == _RAW:
            return self._bytes(self._table(held, 0))
        raise HalfulpError("a constant has neither a name nor data")

    def _tensor(self, place: int) -> dict[str, Any]:
        table = self._follow(place)
        sizes, strides = ([self._at(at, "I") for at in self._vector(table, field)] for field in (1, 2))
        total = self._number(table, 3, "Q")
        return {
            "DataType": self._text(table, 0),
            "Sizes": sizes,
            "Strides": strides,
            "TotalTensorSizeInBytes": total,
        }

    def _attribute(self, place: int) -> tuple[str, Any]:
        """Return an attribute's name and value: no name if it is absent, None if it is of a kind that Pow lacks."""
        table = self._follow(place)
        kind = self._number(table, 1, "B")
        value: Any = None
        if kind == _FLOAT:
            value = self._at(self._table(table, 2), "f")
        elif kind == _SCALE_BIAS:
            start = self._table(table, 2)
            value = {"Scale": self._at(start, "f"), "Bias": self._at(start + 4, "f")}
        return self._text(table, 0), value

    # --- FlatBuffers --------------------------------------------------------------------------------

    def _at(self, place: int, code: str) -> Any:
        size = struct.calcsize("<" + code)
        if not 0 <= place <= len(self._data) - size:
            raise HalfulpError("not a serialized graph of DirectML: an offset leaves the file")
        return struct.unpack_from("<" + code, self._data, place)[0]

    def _follow(self, place: int) -> int:
        return place + int(self._at(place, "I"))

    def _field(self, table: int, index: int) -> int:
        """Return the place of a table's field; 0 if it is absent."""
        layout = table - self._at(table, "i")
        entry = 4 + 2 * index
        offset = self._at(layout + entry, "H") if entry < self._at(layout, "H") else 0
        return table + offset if offset else 0

    def _number(self, table: int, index: int, code: str) -> Any:
        place = self._field(table, index)
        return self._at(place, code) if place else 0

    def _table(self, table: int, index: int) -> int:
        place = self._field(table, index)
        if not place:
            raise HalfulpError("not a serialized graph of DirectML: a field is missing")
        return self._follow(place)

    def _vector(self, table: int, index: int) -> range:
        """Return the places of a vector's elements, of 4 bytes each."""
        place = self._field(table, index)
        if not place:
            return range(0)
        start = self._follow(place)
        count = self._at(start, "I")
        self._spend(4 * count)
        return range(start + 4, start + 4 + 4 * count, 4)

    def _texts(self, table: int, index: int) -> tuple[str, ...]:
        return tuple(self._decoded(self._follow(place)) for place in self._vector(table, index))

    def _text(self, table: int, index: int) -> str:
        place = self._field(table, index)
        return self._decoded(self._follow(place)) if place else ""

    def _decoded(self, start: int) -> str:
        try:
            return self._bytes(start).decode()
        except UnicodeDecodeError:
            raise HalfulpError("not a serialized graph of DirectML: a name is not UTF-8") from None

    def _bytes(self, start: int) -> bytes:
        count = self._at(start, "I")
        self._spend(count)
        if start + 4 + count > len(self._data):
            raise HalfulpError("not a serialized graph of DirectML: it is cut off")
        return self._data[start + 4 : start + 4 + count]

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise HalfulpError("not a serialized graph of DirectML: its vectors are longer than the file")
