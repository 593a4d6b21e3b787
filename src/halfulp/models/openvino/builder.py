"""Layers, ports and edges to a Graph: connections, order, names, types and shapes, each checked."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn
from xml.etree.ElementTree import Element

from halfulp.errors import HalfulpError, ModelError, within
from halfulp.models.graph import Array, Graph, Model, Node, Value, agree, type_name
from halfulp.models.openvino.layers import Edge, Layer, Net, Port, Weights, element_type, parse_shape
from halfulp.models.openvino.operators import OPERATORS, infer, read_attributes
from halfulp.specs.tensor import Shape, TensorType, format_shape

Source = tuple[int, int]  # a layer's id and one of its output ports

NEWEST_OPSET = 17
"""Of OpenVINO 2026.4."""


class Note(NamedTuple):
    """What a file says of a value's layer or of a Result beyond what a graph holds."""

    position: int
    name: str
    tensors: tuple[str, ...] = ()
    rt_info: Element | None = None
    shape: str | None = None


@dataclass(frozen=True)
class Origin:
    """What a file says beyond its graph, for writing it again: notes by value and output, and its edges in order."""

    values: Mapping[str, Note]
    results: tuple[Note, ...]
    rest: tuple[Element, ...]
    edges: tuple[Edge, ...] = ()


def build(net: Net, weights: Weights, file: str, *, is_body: bool = False) -> Model:
    """Return the graph of a parsed file, or of a layer's body, which may be without a Result."""
    if not is_body and not any(layer.type == "Result" for layer in net.layers):
        raise ModelError("has no layer of the type Result: nothing would come out of it", file=file)
    return _Builder(net, weights, file).model()


class _Builder:
    """Turns one Net into a Model."""

    def __init__(self, net: Net, weights: Weights, file: str) -> None:
        self._net = net
        self._weights = weights
        self._file = file
        self._layers = {layer.id: layer for layer in net.layers}
        self._outputs = {(layer.id, port.id): port for layer in net.layers for port in layer.outputs}
        self._sources: dict[tuple[int, int], Source] = {}  # of each input port
        self._names: dict[Source, str] = {}
        self._known: dict[str, Value] = {}
        self._constants: dict[str, Array] = {}
        self._notes: dict[str, Note] = {}

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
        inputs.sort(key=lambda value: self._notes[value.name].position)
        results = [layer for layer in self._net.layers if layer.type == "Result"]
        outputs = tuple(self._output(layer) for layer in results)
        notes = tuple(Note(r.position, r.name, r.output_names, r.rt_info) for r in results)
        origin = Origin(self._notes, notes, tuple(self._net.rest), tuple(self._net.edges))
        graph = Graph(
            self._net.name, tuple(inputs), outputs, self._constants, tuple(nodes), self._known, source=origin
        )
        return Model(self._file, graph)

    # --- connections and order ------------------------------------------------------------------

    def _connect(self) -> None:
        inputs = {layer.id: {port.id for port in layer.inputs} for layer in self._net.layers}
        outputs = {layer.id: {port.id for port in layer.outputs} for layer in self._net.layers}
        for edge in self._net.edges:
            for number, port, ports, side in (
                (edge.from_layer, edge.from_port, outputs, "output"),
                (edge.to_layer, edge.to_port, inputs, "input"),
            ):
                if number not in ports:
                    raise ModelError(f"an edge joins layer {number}, which does not exist", file=self._file)
                if port not in ports[number]:
                    self._fail(self._layers[number], f"an edge joins its {side} port {port}, which it lacks")
            end = edge.to_layer, edge.to_port
            if end in self._sources:
                self._fail(self._layers[end[0]], f"two edges lead to its input port {end[1]}")
            self._sources[end] = edge.from_layer, edge.from_port
        for layer in self._net.layers:
            for given in layer.inputs:
                if (layer.id, given.id) not in self._sources:
                    self._fail(layer, f"no edge leads to its input port {given.id}")
            sides = {"Parameter": (0, 1), "Const": (0, 1), "Result": (1, len(layer.outputs))}
            if layer.type in OPERATORS or layer.type == "Prelu":
                sides[layer.type] = len(layer.inputs), 1  # how many inputs is inference's business
            found = len(layer.inputs), len(layer.outputs)
            if sides.get(layer.type, found) != found:
                self._fail(
                    layer,
                    "it has another number of ports than its type",
                    expected="{} inputs, {} outputs".format(*sides[layer.type]),
                    got="{} inputs, {} outputs".format(*found),
                )
        for number, _ in self._sources.values():
            if self._layers[number].type == "Result":
                self._fail(self._layers[number], "an edge leaves it, and nothing reads a Result")

    def _sorted(self) -> list[Layer]:
        """Return the layers, each after those that it reads, otherwise as in the file."""
        waiting = {layer.id: len(layer.inputs) for layer in self._net.layers}
        readers: dict[int, list[int]] = {layer.id: [] for layer in self._net.layers}
        for (layer, _), (source, _) in self._sources.items():
            readers[source].append(layer)
        ready = [(layer.position, layer.id) for layer in self._net.layers if not waiting[layer.id]]
        heapq.heapify(ready)
        order = []
        while ready:
            _, number = heapq.heappop(ready)
            order.append(self._layers[number])
            for reader in readers[number]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (self._layers[reader].position, reader))
        if len(order) < len(self._net.layers):
            self._fail(self._on_a_cycle(waiting), "the graph has a cycle through it")
        return order

    def _on_a_cycle(self, waiting: Mapping[int, int]) -> Layer:
        """Return a layer on a cycle: where one ends who goes upstream among those that wait."""
        number = next(number for number, count in waiting.items() if count)
        seen = set()
        while number not in seen:
            seen.add(number)
            sources = (self._sources[number, port.id][0] for port in self._layers[number].inputs)
            number = next(source for source in sources if waiting[source])
        return self._layers[number]

    # --- names ----------------------------------------------------------------------------------

    def _name_values(self) -> None:
        """Give every output port a name: what a caller may know it by comes first.

        A Parameter goes by its tensor name, else by its own; what a Result reads by the tensor name,
        else by the Result's; everything else by its layer.
        """
        taken: set[str] = set()
        for layer in self._net.layers:
            if layer.type == "Parameter":
                port = layer.outputs[0]
                self._name((layer.id, port.id), (*port.names, layer.name), taken)
        for layer in self._net.layers:
            if layer.type == "Result":
                source = self._sources[layer.id, layer.inputs[0].id]
                names = self._outputs[source].names
                self._name(source, (*layer.output_names, *names, layer.name), taken)
        for layer in self._net.layers:
            for index, port in enumerate(layer.outputs):
                name = layer.name if index == 0 else f"{layer.name}.{index}"
                self._name((layer.id, port.id), (name,), taken)

    def _name(self, source: Source, wished: tuple[str, ...], taken: set[str]) -> None:
        if source in self._names:
            return
        name = next((name for name in wished if name and name not in taken), None)
        if name is None:
            name = f"{wished[0]}#{source[0]}"
            while name in taken:
                name += "'"
        taken.add(name)
        self._names[source] = name

    # --- layers ---------------------------------------------------------------------------------

    def _parameter(self, layer: Layer) -> Value:
        text, openvino = layer.data.get("shape"), layer.data.get("element_type")
        if text is None or openvino is None:
            raise HalfulpError("a Parameter needs the attributes shape and element_type")
        declared = TensorType(element_type(openvino), parse_shape(text))
        name = self._declare(layer, declared, shape=text)
        aliases = _others(name, (*layer.outputs[0].names, layer.name))
        return Value(name, declared.type, declared.shape, aliases=aliases)

    def _constant(self, layer: Layer) -> None:
        array = self._weights.read(layer.data)
        name = self._declare(layer, TensorType(type_name(array.dtype), array.shape))
        self._constants[name] = array

    def _node(self, layer: Layer) -> Node:
        opset = layer.version.removeprefix("opset")
        numbered = (
            layer.version.startswith("opset") and opset.isascii() and opset.isdigit() and len(opset) < 4
        )
        if numbered and not 1 <= int(opset) <= NEWEST_OPSET:
            raise HalfulpError(
                f"the operator set {layer.version!r} does not exist",
                expected=f"opset1 to opset{NEWEST_OPSET}",
            )
        kind = "PReLU" if layer.type == "Prelu" else layer.type
        ours = numbered and kind in OPERATORS
        sources = [self._sources[layer.id, port.id] for port in layer.inputs]
        inputs = tuple(self._names[source] for source in sources)
        node = Node(
            label=layer.label,
            standard="openvino",
            domain="" if numbered else layer.version or "unknown",
            type=kind,
            version="1" if ours else opset if numbered else "0",
            opset=int(opset) if numbered else 0,
            inputs=inputs,
            outputs=tuple(self._names[layer.id, port.id] for port in layer.outputs),
            attributes=read_attributes(kind, layer.data) if ours else dict(layer.data),
            source=layer,
        )
        for port, source in zip(layer.inputs, sources, strict=True):
            value = self._known[self._names[source]]
            self._compare(f"its input port {port.id}", port, value.type, value.shape)
        result = None
        operands = [self._known[name] for name in inputs]
        if ours and all(operand.type is not None for operand in operands):
            types = [TensorType(str(operand.type), operand.shape) for operand in operands]
            result = infer(node, types, [self._constants.get(name) for name in inputs])
        for index in range(len(layer.outputs)):
            self._declare(layer, result, index)
        return node

    def _declare(
        self, layer: Layer, found: TensorType | None, index: int = 0, *, shape: str | None = None
    ) -> str:
        """Note what is known of an output port, and return its value's name."""
        port = layer.outputs[index]
        name = self._names[layer.id, port.id]
        kind, dims = port.type, port.dims
        if found is not None:
            self._compare(f"its output port {port.id}", port, found.type, found.shape)
            kind = found.type
            dims = found.shape if dims is None or layer.type == "Parameter" else dims  # type: ignore[assignment]
        self._known[name] = Value(name, kind, dims)
        rt_info = layer.rt_info if index == 0 else None
        self._notes[name] = Note(layer.position, layer.name, port.names, rt_info, shape)
        return name

    def _compare(self, what: str, port: Port, kind: str | None, shape: Shape) -> None:
        if port.type is not None and kind is not None and port.type != kind:
            raise HalfulpError(
                f"{what} declares another precision than it gets", expected=kind, got=port.type
            )
        if not agree(port.dims, shape):
            raise HalfulpError(
                f"{what} declares other dims than it gets",
                expected=format_shape(shape),
                got=format_shape(port.dims),
            )

    def _output(self, layer: Layer) -> Value:
        source = self._sources[layer.id, layer.inputs[0].id]
        value = self._known[self._names[source]]
        with within(self._file, layer.label, kind="layer"):
            port = layer.inputs[0]
            self._compare(f"its input port {port.id}", port, value.type, value.shape)
        maker = self._layers[source[0]]
        names = (*layer.output_names, *self._outputs[source].names, layer.name, maker.name)
        return Value(value.name, value.type, value.shape, aliases=_others(value.name, names))

    def _fail(self, layer: Layer, message: str, **shown: Any) -> NoReturn:
        raise ModelError(message, file=self._file, node=layer.label, **shown)


def _others(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for other in names if other and other != name))
