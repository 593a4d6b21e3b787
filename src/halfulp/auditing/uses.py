"""The Pow and PRelu nodes of a model in ONNX or OpenVINO's IR, including bodies and functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element, SubElement

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.auditing.halves import Body, Net, Step
from halfulp.auditing.node import Operand, Site, Use, breach_of, breaches
from halfulp.errors import ModelError, printable
from halfulp.models.graph import Array, Graph, Node, Value
from halfulp.models.onnx import fault_of_ours
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import FunctionTypes, ValueInfo, infer_types
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import (
    Owner,
    attributes_of,
    default_opset,
    identity,
    inner_path,
    is_ours,
    reached,
    read_names,
    root,
    subgraphs,
)
from halfulp.models.openvino import LARGEST_FILE
from halfulp.models.openvino.reader import Weights, elements
from halfulp.models.openvino.reader import build as build_ir
from halfulp.models.run.api import evaluate_openvino
from halfulp.models.source import read_source
from halfulp.specs import in_force

_MOST_CONSTANT = 1 << 24  # elements; larger exponents and slopes are not read
_DEEPEST = 16  # bodies within bodies of an IR

_Place: TypeAlias = partial[Body]  # of a body, whose graph is yet to be read


def of_onnx(proto: ModelProto, file: str, folder: Path | None) -> list[Use]:
    """Return the Pow and PRelu nodes of an ONNX model, in the file's order, those of functions last.

    A function's nodes are returned once, with the types and shapes that all its calls agree on. Pow and PRelu
    nodes may break clauses, and operators may be unknown. Everything else must be valid, or else the front
    end's error is raised.
    """
    error = fault_of_ours(proto, file, folder)
    found = list(_Reader(proto, file, folder).all())
    # Errors of Pow and PRelu nodes are reported by their clauses.
    if isinstance(error, ModelError) and not any(map(breaches, found)):
        raise error
    return found


class _Reader:
    """Reads one ONNX model."""

    def __init__(self, proto: ModelProto, file: str, folder: Path | None) -> None:
        self._proto = proto
        self._tensors = TensorReader(file, folder)
        self._file = file
        self._types = infer_types(proto, file)
        self._functions = {identity(function) for function in proto.functions}

    def all(self) -> Iterator[Use]:
        proto = self._proto
        opset = default_opset(proto.opset_import)
        if opset is None and proto.ir_version < 3:
            opset = 1  # before IR version 3 there was one opset and models imported none
        yield from self._walk(proto.graph, ValueInfo(self._types[""], self._tensors), "", "", opset)
        inside = FunctionTypes(proto, self._types, self._file)
        for function in reached(proto):
            path = root(function)
            self._types |= inside.of(function)
            value_info = ValueInfo(self._types.setdefault(path, {}), self._tensors)
            opset = default_opset(function.opset_import)
            yield from self._walk(function, value_info, path, function.name, opset)

    def _walk(
        self,
        owner: Owner,
        value_info: ValueInfo,
        path: str,
        where: str,
        opset: int | None,
        body: Body | None = None,
    ) -> Iterator[Use]:
        value_info.add_constants(owner, self._proto.ir_version)
        net = _net(owner, value_info, where, body)
        known: dict[str, Operand] = {}
        for index, node in enumerate(owner.node):
            name = label(node, index, where)
            for attribute, graph in subgraphs(node) if node.attribute else ():
                inner = inner_path(path, node, attribute)
                inside = value_info.inside(self._types.setdefault(inner, {}))
                place = _body(node, graph, net)
                yield from self._walk(graph, inside, inner, f"{name}.{attribute}", opset, place)
            own = self._functions and identity(node) in self._functions
            if is_ours(node) and opset is not None and not own:
                names = (*node.input, node.output[0] if node.output else "")
                known |= {each: self._operand(each, value_info) for each in names if each not in known}
                *inputs, output = [known[each] for each in names]
                operator = in_force("onnx", node.op_type, opset).id
                given = name, operator, str(opset), tuple(inputs), output, attributes_of(node)
                yield Use(*given, net=net, site=Site(owner, index, where, value_info))

    def _operand(self, name: str, value_info: ValueInfo) -> Operand:
        value = value_info.value(name)
        array = None
        tensor = value_info.tensor(name)
        if tensor is not None and onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) is not None:
            array = value_info.array(name) if math.prod(tensor.dims) <= _MOST_CONSTANT else None
        return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)


def _net(owner: Owner, value_info: ValueInfo, where: str, body: Body | None) -> Net:
    def steps() -> Iterator[Step]:
        for index, node in enumerate(owner.node):
            captured = (name for _, graph in subgraphs(node) for name in read_names(graph))
            yield Step(label(node, index, where), node.op_type, [*node.input, *captured], node.output)

    net = Net(
        steps,
        lambda name: value_info.value(name).type,
        {info if isinstance(info, str) else info.name for info in owner.output},
        lambda name: value_info.tensor(name) is not None,
        body=body,
    )
    if isinstance(owner, FunctionProto):
        net.caller, net.inputs = f"the caller of '{printable(owner.name)}'", owner.input
    return net


def _body(node: NodeProto, graph: GraphProto, net: Net) -> Body:
    """Return the place of a body: how the values of its node enter and leave it."""
    made = results = [info.name for info in graph.output]
    backs: list[str] = []
    if node.op_type == "Loop":
        backs, results = ["", *made], made[1:]
    elif node.op_type == "Scan":
        backs = made[: max(len(node.input) - attributes_of(node).get("num_scan_inputs", 0), 0)]
    names = [info.name for info in graph.input]
    inputs = list(zip(names, node.input, chain(backs, repeat("")), strict=False))
    return Body(net, node.op_type, inputs, list(zip(results, node.output, strict=False)))


# --- OpenVINO's IR -------------------------------------------------------------------------------


def of_openvino(source: Path | bytes, file: str) -> tuple[list[Use], tuple[str, ...]]:
    """Return the Power and PReLU layers of an IR file, in the file's order; a body's follow their loop or branch.

    The weights of a path are the .bin beside it. If the front end refuses the file because such a layer
    breaks a clause, only that layer is returned. The second result has the layers that halfulp
    has put in the place of others, which an audit does not look into.
    """
    data, _, path = read_source(source, LARGEST_FILE, file)
    weights = Weights(None if path is None else path.with_suffix(".bin"))
    net = elements(data, file)
    layers = ((layer.get("name", ""), layer.get("type", "")) for layer in net.iter("layer"))
    ours = ((name, type) for name, type in layers if type in ("HalfulpPower", "HalfulpPReLU"))
    return list(_layers(net, weights, file)), tuple(f"'{printable(name)}' ({type})" for name, type in ours)


def _layers(
    net: Element, weights: Weights, file: str, where: str = "", depth: int = 0, place: _Place | None = None
) -> Iterator[Use]:
    try:
        graph = build_ir(net, weights, file, is_body=depth > 0).graph
    except ModelError as error:
        if error.clause is None or error.node is None:
            raise
        yield _refused(where + error.node, error, error.clause, "opset1")
        return
    around = _around(graph, where, None if place is None else place(net, graph))
    makers = {name: node for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        if node.standard == "openvino" and not node.domain and node.type in ("Power", "PReLU"):
            names = (*node.inputs, node.outputs[0])
            *inputs, output = [_operand(name, graph, makers) for name in names]
            operator = in_force("openvino", node.type, "1").id
            given = where + node.label, operator, f"opset{node.opset}", tuple(inputs), output, node.attributes
            yield Use(*given, net=around)
    nodes = {node.label: node for node in graph.nodes}
    for layer in net.iterfind("layers/layer"):
        for body in layer:
            if body.tag not in ("body", "then_body", "else_body"):
                continue
            owner = f"'{printable(layer.get('name', ''))}' ({printable(layer.get('type', ''))})"
            name = f"{where}{owner}.{body.tag}."
            if depth == _DEEPEST:
                expected = f"at most {_DEEPEST}"
                raise ModelError("its bodies nest too deep", file=file, node=name, expected=expected)
            inner = partial(_body_of, layer, body.tag, nodes[owner], around)
            yield from _layers(_as_net(body), weights, file, name, depth + 1, inner)


def _refused(node: str, error: ModelError, clause: str, asked: str) -> Use:
    """Return a node at which a front end stopped."""
    return Use(node, clause.rpartition(".")[0], asked, (), Operand(""), {}, breach_of(error, clause))


def _operand(name: str, graph: Graph, makers: dict[str, Node]) -> Operand:
    value = graph.declared.get(name, Value(name))
    return Operand(name, value.type, value.shape, _constant(value, graph, makers))


def _constant(value: Value, graph: Graph, makers: dict[str, Node]) -> Array | None:
    """Return the array of a constant, which may go through Converts; None for any other value."""
    converts = []  # the last one first
    while (maker := makers.get(value.name)) and maker.type == "Convert" and value.type is not None:
        converts.append(maker)
        value = graph.declared.get(maker.inputs[0], Value(""))
    array = graph.constants.get(value.name)
    for convert in reversed(converts):
        if array is None or array.size > _MOST_CONSTANT:
            return None
        array = evaluate_openvino(convert, [array])
    return array


def _as_net(body: Element) -> Element:
    net = Element("net", name=body.tag, version="11")
    net.extend(child for child in body if child.tag in ("layers", "edges"))
    if net.find("layers") is None:
        SubElement(net, "layers")
    return net


def _body_of(layer: Element, tag: str, node: Node, around: Net, net: Element, graph: Graph) -> Body:
    """Return the place of a body: how the values of its layer enter and leave it, by the layer's port map."""
    ports = [port.get("id") for side in ("input", "output") for port in layer.iterfind(f"{side}/port")]
    outer = dict(zip(ports, (*node.inputs, *node.outputs), strict=False))
    inner: dict[str | None, str] = {}
    for kind, values in (("Parameter", graph.inputs), ("Result", graph.outputs)):
        ids = [each.get("id") for each in net.iterfind("layers/layer") if each.get("type") == kind]
        inner |= dict(zip(ids, (value.name for value in values), strict=False))

    def mapped(side: str) -> list[tuple[str, str, str]]:
        """Give the body's layer of each mapped port with the names inside and outside."""
        found = layer.iterfind(f"{tag.replace('body', 'port_map')}/{side}")
        pairs = ((each.get("internal_layer_id"), each.get("external_port_id")) for each in found)
        return [(id or "", inner.get(id, ""), outer.get(port, "")) for id, port in pairs]

    edges = layer.iterfind("back_edges/edge")
    backs = {edge.get("to-layer"): inner.get(edge.get("from-layer"), "") for edge in edges}
    inputs = [(name, value, backs.get(id, "")) for id, name, value in mapped("input")]
    return Body(around, node.type, inputs, [(name, value) for _, name, value in mapped("output")], False)


def _around(graph: Graph, where: str, body: Body | None) -> Net:
    def steps() -> Iterator[Step]:
        for node in graph.nodes:
            yield Step(where + node.label, node.type, node.inputs, node.outputs)

    outputs = {value.name for value in graph.outputs}
    declared, constants = graph.declared, graph.constants
    return Net(
        steps, lambda name: declared.get(name, Value(name)).type, outputs, constants.__contains__, body=body
    )
