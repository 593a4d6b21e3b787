"""The Pow and PRelu nodes of a model in ONNX or OpenVINO's IR, including bodies and functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import onnx
from onnx import ModelProto, NodeProto

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
        outer: Iterable[str] = (),
    ) -> Iterator[Use]:
        value_info.add_constants(owner, self._proto.ir_version)
        nodes = (([*node.input, *_captured(node)], node.output) for node in owner.node)
        folded = _folded(nodes, lambda name: value_info.tensor(name) is not None, outer)
        ends = {
            each if isinstance(each, str) else each.name for each in (*owner.input, *owner.output)
        } | folded
        known: dict[str, Operand] = {}
        for index, node in enumerate(owner.node):
            name = label(node, index, where)
            for attribute, graph in subgraphs(node) if node.attribute else ():
                inner = inner_path(path, node, attribute)
                inside = value_info.inside(self._types.setdefault(inner, {}))
                yield from self._walk(graph, inside, inner, f"{name}.{attribute}", opset, folded)
            own = self._functions and identity(node) in self._functions
            if is_ours(node) and opset is not None and not own:
                names = (*node.input, node.output[0] if node.output else "")
                known |= {each: self._operand(each, value_info) for each in names if each not in known}
                *inputs, output = [known[each] for each in names]
                operator = in_force("onnx", node.op_type, opset).id
                given = name, operator, str(opset), tuple(inputs), output, attributes_of(node), None
                is_alone = not where and all(
                    each.constant is not None or each.name in ends for each in inputs
                )
                is_alone = is_alone and output.name in ends
                yield Use(*given, Site(owner, index, where, value_info), folded, is_alone)

    def _operand(self, name: str, value_info: ValueInfo) -> Operand:
        value = value_info.value(name)
        array = None
        tensor = value_info.tensor(name)
        if tensor is not None and onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) is not None:
            array = value_info.array(name) if math.prod(tensor.dims) <= _MOST_CONSTANT else None
        return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)


def _captured(node: NodeProto) -> Iterator[str]:
    """Yield the values that the bodies of a node read from the graph around it."""
    return (name for _, graph in subgraphs(node) for name in read_names(graph))


def _folded(
    steps: Iterable[tuple[Iterable[str], Iterable[str]]],
    is_constant: Callable[[str], bool],
    outer: Iterable[str] = (),
) -> set[str]:
    """Return the values that nodes, by their inputs and outputs, compute from constants alone, and outer ones."""
    found = {"", *outer}
    for inputs, outputs in steps:
        names = list(inputs)
        if names and all(name in found or is_constant(name) for name in names):
            found.update(outputs)
    return found


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


def _layers(net: Element, weights: Weights, file: str, where: str = "", depth: int = 0) -> Iterator[Use]:
    try:
        graph = build_ir(net, weights, file, is_body=depth > 0).graph
    except ModelError as error:
        if error.clause is None or error.node is None:
            raise
        yield _refused(where + error.node, error, error.clause, "opset1")
        return
    folded = _folded(((node.inputs, node.outputs) for node in graph.nodes), graph.constants.__contains__)
    ends = {value.name for value in (*graph.inputs, *graph.outputs)} | folded | graph.constants.keys()
    makers = {name: node for node in graph.nodes for name in node.outputs}
    for node in graph.nodes:
        if node.standard == "openvino" and not node.domain and node.type in ("Power", "PReLU"):
            names = (*node.inputs, node.outputs[0])
            *inputs, output = [_operand(name, graph, makers) for name in names]
            operator = in_force("openvino", node.type, "1").id
            given = where + node.label, operator, f"opset{node.opset}", tuple(inputs), output, node.attributes
            yield Use(*given, folded=folded, is_alone=not where and ends >= {*names})
    for layer in net.iterfind("layers/layer"):
        for body in layer:
            if body.tag not in ("body", "then_body", "else_body"):
                continue
            owner = f"'{printable(layer.get('name', ''))}' ({printable(layer.get('type', ''))})"
            name = f"{where}{owner}.{body.tag}."
            if depth == _DEEPEST:
                expected = f"at most {_DEEPEST}"
                raise ModelError("its bodies nest too deep", file=file, node=name, expected=expected)
            yield from _layers(_as_net(body), weights, file, name, depth + 1)


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
