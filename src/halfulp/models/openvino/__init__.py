"""OpenVINO IR: reads versions 10 and 11, an .xml file and its .bin, as a graph; writes graphs as version 11.

The file is untrusted. Faults are found here, before anything runs, and reported in one line that names the file and the
layer. Layers of all operators are read; only those that halfulp has can be run or written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.models.files import replacing
from halfulp.models.graph import Array, Graph, Model, Node, Value, agree, lengthened, listed, type_name
from halfulp.models.openvino.operators import OPENVINO_TYPES, OPERATORS, foreign, infer, packed, precision
from halfulp.models.openvino.reader import (
    EDGE,
    VERSIONS,
    Layer,
    Origin,
    Weights,
    build,
    elements,
    parse_shape,
)
from halfulp.models.source import read_source
from halfulp.specs.tensor import TensorType
from halfulp.types import TYPES

__all__ = ["load", "save"]

LARGEST_FILE = 1 << 28  # the largest models have .xml files of tens of megabytes


def load(
    source: str | os.PathLike[str] | bytes, *, weights: bytes | None = None, file: str | None = None
) -> Model:
    """Read an IR file and check it.

    An input or output of the model has its tensor name, and its other names as aliases. Any other value has its layer's
    name.

    Args:
        source: a path, whose weights are the .bin beside it, or the bytes of an .xml file.
        weights: the bytes of the .bin file, instead of the file.
        file: the model's name in messages; by default the path, or ``<bytes>``.

    Raises:
        ModelError: the file is broken or unsafe: entities, ids that are not unique, ports and edges that do not exist,
            cycles, shapes that contradict each other or the weights.
        UnsupportedError: another version of the format, an unsupported element type, pdpd.

    Example:
        >>> xml = b'''<net name="n" version="11">
        ...   <layers>
        ...     <layer id="0" name="a" type="Parameter" version="opset1">
        ...       <data shape="?,3" element_type="f16"/>
        ...       <output><port id="0" precision="FP16" names="x"/></output></layer>
        ...     <layer id="1" name="b" type="Power" version="opset1">
        ...       <input><port id="0"/><port id="1"/></input>
        ...       <output><port id="2" names="y"/></output></layer>
        ...     <layer id="2" name="c" type="Result" version="opset1"><input><port id="0"/></input></layer>
        ...   </layers>
        ...   <edges>
        ...     <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
        ...     <edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>
        ...     <edge from-layer="1" from-port="2" to-layer="2" to-port="0"/>
        ...   </edges></net>'''
        >>> graph = load(xml).graph
        >>> [(value.name, str(value), value.aliases) for value in (*graph.inputs, *graph.outputs)]
        [('x', 'float16[?, 3]', ('a',)), ('y', 'float16[?, 3]', ('c', 'b'))]
    """
    data, name, path = read_source(source, LARGEST_FILE, file)
    beside = path.with_suffix(".bin") if path is not None and weights is None else weights
    return build(elements(data, name), Weights(beside), name)


def save(model: Model | Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as IR version 11: the .xml at ``path``, the .bin beside it, both or neither.

    If the process is killed between the two, no .xml is left: an older one would misread the new .bin. The tensor
    names, layer names and rt_info of a graph that was read from a file are kept.

    Args:
        model: a graph of the OpenVINO operators that halfulp has.
        path: a name that ends in .xml.

    Raises:
        UnsupportedError: a node or type that can't be written, by name.
        HalfulpError: the files or a name can't be written.
    """
    graph = model.graph if isinstance(model, Model) else model
    xml = Path(path)
    if xml.suffix.lower() != ".xml":
        raise HalfulpError(f"{xml}: OpenVINO reads files that end in .xml only")
    with replacing(xml) as new_xml, replacing(xml.with_suffix(".bin")) as new_bin:
        with new_bin.open("wb") as weights:
            text = write(graph, weights)
        new_xml.write_bytes(text)
        Path(os.path.realpath(xml)).unlink(missing_ok=True)


# --- a graph as files ---------------------------------------------------------------------------------

_NEW = 1 << 62  # the position of new layers: after all layers of the file


@dataclass(eq=False)
class _Written:
    """A layer to write, with the values that it reads and makes. ``known`` has its name, tensors' names and place."""

    kind: str
    known: Layer
    data: Mapping[str, str]
    inputs: tuple[str, ...] = ()
    output: str | None = None
    id: int = -1


def write(graph: Graph, weights: IO[bytes]) -> bytes:
    """Return a graph as XML, and write its constants to ``weights``. Equal constants share their bytes.

    A graph that was read from a file gives that file again.
    """
    return _Writer(graph, weights).xml()


class _Writer:
    """Writes one graph."""

    def __init__(self, graph: Graph, weights: IO[bytes]) -> None:
        self._graph = graph
        self._weights = weights
        self._origin = graph.source if isinstance(graph.source, Origin) else Origin({}, (), ())
        self._places: dict[bytes, int] = {}
        self._end = 0
        self._types: dict[str, TensorType] = {}
        self._new = _NEW
        self._taken = {layer.name for layer in self._origin.values.values()}

    def xml(self) -> bytes:
        self._check()
        layers = sorted(self._layers(), key=lambda layer: layer.known.position)
        for number, layer in enumerate(layers):
            layer.id = number
        root = Element("net", name=_text(self._graph.name), version=str(VERSIONS[-1]))
        parent = SubElement(root, "layers")
        parent.extend([self._element(layer) for layer in layers])
        parent = SubElement(root, "edges")
        parent.extend(self._edges(layers))
        root.extend([deepcopy(element) for element in self._origin.rest] or [Element("rt_info")])
        ElementTree.indent(root, "\t")
        text = ElementTree.tostring(root, encoding="unicode")
        return f'<?xml version="1.0"?>\n{text}\n'.encode()

    def _check(self) -> None:
        if unsupported := foreign(self._graph.nodes):
            expected, got = ", ".join(OPERATORS), listed(unsupported)
            message = "unsupported operators for OpenVINO's IR; OpenVINO's own save_model writes all"
            raise UnsupportedError(message, expected=expected, got=got)
        for value in self._graph.inputs:
            if value.name in self._graph.constants:
                raise UnsupportedError(
                    f"OpenVINO has no inputs with defaults, such as {printable(value.name)!r}"
                )

    # --- layers ---------------------------------------------------------------------------------

    def _layers(self) -> Iterable[_Written]:
        for value in self._graph.inputs:
            if value.type is None:
                raise UnsupportedError(f"input {printable(value.name)!r} has no element type")
            self._types[value.name] = TensorType(value.type, value.shape)
            layer = self._layer(value.name, (value.name, *value.aliases))
            shape = layer.data.get("shape")  # it may have ranges
            if shape is None or parse_shape(shape) != value.shape:
                shape = _shape(value)
            data = {"shape": shape, "element_type": self._openvino(value.type, value.name)}
            yield _Written("Parameter", layer, data, output=value.name)
        places = {name: layer.position for name, layer in self._origin.values.items()}
        for name in sorted(self._graph.constants, key=lambda name: places.get(name, _NEW)):
            array = self._graph.constants[name]
            kind = type_name(array.dtype)
            self._types[name] = TensorType(kind, array.shape)
            shape = ", ".join(map(str, array.shape))
            place = self._store(array)
            data = {"element_type": self._openvino(kind, name), "shape": shape, **place}
            yield _Written("Const", self._layer(name), data, output=name)
        for node in self._graph.nodes:
            (output,) = node.outputs
            self._types[output] = self._infer(node)
            data = {name: _spelled(name, value) for name, value in node.attributes.items()}
            yield _Written(node.type, self._layer(output, (output,)), data, node.inputs, output)
        for index, value in enumerate(self._graph.outputs):
            if index < len(self._origin.results):
                layer = self._origin.results[index]
            else:
                layer = self._layer(f"{value.name}/sink_port_0", (value.name,))
            yield _Written("Result", layer, {}, (value.name,))

    def _layer(self, name: str, tensors: tuple[str, ...] = ()) -> Layer:
        """Return the file's layer of a value, or a new one; the names of the tensor of a new one are ``tensors``."""
        if name in self._origin.values:
            return self._origin.values[name]
        self._new += 1
        name = lengthened(name, self._taken)
        self._taken.add(name)
        return Layer.new(self._new, name, tensors)

    def _infer(self, node: Node) -> TensorType:
        operands = [self._types[name] for name in node.inputs]
        constants = [self._graph.constants.get(name) for name in node.inputs]
        result = infer(node, operands, constants)
        declared = self._graph.declared.get(node.outputs[0])
        if declared is None:
            return result
        if declared.type not in (None, result.type) or not agree(declared.shape, result.shape):
            message = f"node {node.label}: its output contradicts its declaration"
            raise HalfulpError(message, expected=str(declared), got=result)
        return result if declared.shape is None else TensorType(result.type, declared.shape)

    def _store(self, array: Array) -> dict[str, str]:
        data = _stored(array).data
        key = hashlib.sha256(data).digest()
        if key not in self._places:
            self._places[key] = self._end
            self._weights.write(data)
            self._end += data.nbytes
        return {"offset": str(self._places[key]), "size": str(data.nbytes)}

    def _openvino(self, kind: str, name: str) -> str:
        if kind not in OPENVINO_TYPES:
            raise UnsupportedError(f"OpenVINO has no type {kind}, which {printable(name)!r} has")
        return OPENVINO_TYPES[kind]

    # --- elements -------------------------------------------------------------------------------

    def _element(self, layer: _Written) -> Element:
        known = layer.known
        attributes = {"id": str(layer.id), "name": _text(known.name), "type": layer.kind, "version": "opset1"}
        if layer.kind == "Result" and known.output_names:
            attributes["output_names"] = _names(known.output_names)
        element = Element("layer", attributes)
        if layer.data:
            SubElement(element, "data", dict(layer.data))
        if known.rt_info is not None:
            element.append(deepcopy(known.rt_info))
        if layer.inputs:
            side = SubElement(element, "input")
            side.extend([self._port(number, name) for number, name in enumerate(layer.inputs)])
        if layer.output is not None:
            side = SubElement(element, "output")
            side.append(self._port(len(layer.inputs), layer.output, known.outputs[0].names))
        return element

    def _port(self, number: int, name: str, names: tuple[str, ...] = ()) -> Element:
        kind, shape = self._types[name]
        port = Element("port", id=str(number), precision=precision(self._openvino(kind, name)))
        if names:
            port.set("names", _names(names))
        for dim in shape or ():
            SubElement(port, "dim").text = str(dim if isinstance(dim, int) else -1)
        return port

    def _edges(self, layers: list[_Written]) -> list[Element]:
        makers = {layer.output: layer for layer in layers if layer.output is not None}
        edges = []
        for layer in layers:
            for port, name in enumerate(layer.inputs):
                maker = makers[name]
                edges.append((maker.id, len(maker.inputs), layer.id, port))
        # The order in which OpenVINO writes the edges that leave a layer differs from process to process.
        given = {tuple(edge): place for place, edge in enumerate(self._origin.edges)}
        known = given.keys() == set(edges)
        edges.sort(key=lambda edge: (given[edge] if known else 0, edge))
        return [Element("edge", dict(zip(EDGE, map(str, edge), strict=True))) for edge in edges]


def _stored(array: Array) -> Array:
    """Return an array as bytes of the .bin file."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.name in TYPES and TYPES[array.dtype.name].bits == 4:
        return packed(flat)
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _shape(value: Value) -> str:
    if value.shape is None:
        return "..."
    return ",".join(str(dim) if isinstance(dim, int) else "?" for dim in value.shape)


def _spelled(name: str, value: Any) -> str:
    if name == "destination_type":
        return OPENVINO_TYPES[value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(names: Iterable[str]) -> str:
    escaped = [_text(name).replace(",", "\\,") for name in names]
    if any(name.endswith("\\") for name in escaped):
        raise HalfulpError("a tensor name that ends in a backslash can't be written", got=", ".join(escaped))
    return ",".join(escaped)


def _text(name: str) -> str:
    """Return a name; refuse one that XML 1.0 can't hold."""
    for character in name:
        code = ord(character)
        if (code < 32 and character not in "\t\n\r") or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF):
            raise HalfulpError("XML can't hold a character of a name", got=printable(name))
    return name
