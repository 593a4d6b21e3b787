"""The Pow and PRelu nodes of a model in ONNX or OpenVINO's IR, including bodies and functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto

from halfulp.auditing.node import Operand, Site, Use, breaches
from halfulp.conversion.editor import view_of
from halfulp.conversion.powers import is_never_negative
from halfulp.errors import ModelError
from halfulp.integrations import ir
from halfulp.integrations.fusions import fused
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
from halfulp.models.run.api import LAYERS
from halfulp.specs import in_force

_MOST_CONSTANT = 1 << 24  # elements; larger exponents and slopes are not read


def of_onnx(proto: ModelProto, file: str, folder: Path | None) -> list[Use]:
    """Return the Pow and PRelu nodes of an ONNX model, in the file's order, those of functions last.

    A function's nodes are returned once, with the types and shapes that all its calls agree on. Pow and PRelu
    nodes may break clauses, and operators may be unknown. Everything else must be valid, or else the front
    end's error is raised.
    """
    error = fault_of_ours(proto, file, folder)
    uses = list(_Reader(proto, file, folder).all())
    # Errors of Pow and PRelu nodes are reported by their clauses.
    if isinstance(error, ModelError) and not any(map(breaches, uses)):
        raise error
    return uses


class _Reader:
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
        nodes = (
            ([*node.input, *(name for _, body in subgraphs(node) for name in read_names(body))], node.output)
            for node in owner.node
        )
        folded = _folded(nodes, lambda name: value_info.tensor(name) is not None, outer)
        ends = {end if isinstance(end, str) else end.name for end in (*owner.input, *owner.output)}
        around = _Around(owner, value_info, where, folded, ends, opset or 1)
        operands: dict[str, Operand] = {}
        for index, node in enumerate(owner.node):
            name = label(node, index, where)
            for attribute, graph in subgraphs(node) if node.attribute else ():
                inner = inner_path(path, node, attribute)
                inside = value_info.inside(self._types.setdefault(inner, {}))
                yield from self._walk(graph, inside, inner, f"{name}.{attribute}", opset, folded)
            if is_ours(node) and opset is not None and identity(node) not in self._functions:
                yield around.placed(
                    self._use(node, name, opset, Site(owner, index, where, value_info), operands)
                )

    def _use(self, node: NodeProto, name: str, opset: int, site: Site, operands: dict[str, Operand]) -> Use:
        """Return a node with its operands, which are kept by name for the others of its graph."""
        names = (*node.input, node.output[0] if node.output else "")
        operands |= {each: self._operand(each, site.values) for each in names if each not in operands}
        *inputs, output = [operands[each] for each in names]
        operator = in_force("onnx", node.op_type, opset).id
        return Use(name, operator, str(opset), tuple(inputs), output, attributes_of(node), site)

    def _operand(self, name: str, value_info: ValueInfo) -> Operand:
        value = value_info.value(name)
        array = None
        tensor = value_info.tensor(name)
        if tensor is not None and onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) is not None:
            array = value_info.array(name) if math.prod(tensor.dims) <= _MOST_CONSTANT else None
        return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)


class _Around:
    """The graph around nodes, and the facts about it that a verdict depends on. An IR's has no opset."""

    def __init__(
        self,
        owner: Owner,
        value_info: ValueInfo,
        where: str,
        folded: set[str],
        ends: set[str],
        opset: int = 0,
    ) -> None:
        self._where, self._folded, self._ends = where, folded, ends | folded
        self._view = view_of(owner, value_info)
        self._mistaken = defaultdict[str, dict[str, str]](dict)
        for power, runtime, reason in fused(owner, value_info, opset or 1):
            if reason and (opset or runtime == "openvino"):
                self._mistaken[power.output[0]][runtime] = reason

    def placed(self, use: Use) -> Use:
        """Return a node with these facts."""
        read = {operand.name for operand in use.inputs if operand.constant is None}
        use.is_alone = not self._where and self._ends >= {use.output.name, *read}
        use.folded, use.mistaken = self._folded, self._mistaken[use.output.name]
        base = use.inputs[0].name if use.inputs else ""
        use.is_base_positive = is_never_negative(base, self._view)
        return use


def _folded(
    steps: Iterable[tuple[Iterable[str], Iterable[str]]],
    is_constant: Callable[[str], bool],
    outer: Iterable[str] = (),
) -> set[str]:
    """Return the values that nodes, by their inputs and outputs, compute from constants alone, and outer ones."""
    folded = {"", *outer}
    for inputs, outputs in steps:
        names = list(inputs)
        if names and all(name in folded or is_constant(name) for name in names):
            folded.update(outputs)
    return folded


# --- OpenVINO's IR -------------------------------------------------------------------------------


def of_openvino(source: Path | bytes, file: str) -> tuple[list[Use], tuple[str, ...]]:
    """Return the Power and PReLU layers of an IR file; a body's follow those of the graph around it.

    The second result has the layers that halfulp has put in the place of others, which an audit does not look into.
    """
    network, _ = ir.read(source, file)
    uses: list[Use] = []
    replaced: list[str] = []
    for where, body in ir.graphs(network):
        graph = ir.graph_of(body, where)
        makers = {name: node for node in graph.nodes for name in node.outputs}
        around = _around(graph, makers, where, file)
        for node in graph.nodes:
            if node.operator in ir.ROWS:
                values = (graph.declared.get(name, Value(name)) for name in (*node.inputs, node.outputs[0]))
                *inputs, output = [
                    Operand(value.name, value.type, value.shape, _constant(value, graph, makers))
                    for value in values
                ]
                asked = f"opset{node.opset}"
                use = Use(node.label, node.operator, asked, tuple(inputs), output, node.attributes)
                uses.append(around.placed(use))
            elif node.type in ("HalfulpPower", "HalfulpPReLU"):
                replaced.append(node.label)
    return uses, tuple(replaced)


_AS_ONNX = {
    "Power": "Pow",
    "Multiply": "Mul",
    "Subtract": "Sub",
    "Divide": "Div",
    "Maximum": "Max",
    "ReLU": "Relu",
}


def _around(graph: Graph, makers: dict[str, Node], where: str, file: str) -> _Around:
    steps = ((node.inputs, node.outputs) for node in graph.nodes)
    folded = _folded(steps, graph.constants.__contains__)
    ends = {value.name for value in (*graph.inputs, *graph.outputs)} | graph.constants.keys()
    return _Around(*_in_onnx(graph, makers, file), where, folded, ends)


def _in_onnx(graph: Graph, makers: dict[str, Node], file: str) -> tuple[onnx.GraphProto, ValueInfo]:
    """Return an IR's graph with the names that ONNX has for its layers, and its types and small constants."""
    known, nodes = ValueInfo({**graph.declared}, TensorReader(file, None)), []
    for node in graph.nodes:
        kind = _AS_ONNX.get(node.type, node.type)
        nodes.append(onnx.helper.make_node(kind, node.inputs, node.outputs))
        if kind == "ReduceMean":
            keeps = int(node.source.get_attributes()["keep_dims"])
            nodes[-1].attribute.append(onnx.helper.make_attribute("keepdims", keeps))
        for value in (graph.declared.get(name, Value(name)) for name in node.inputs):
            array = _constant(value, graph, makers) if len(value.shape or ()) < 2 else None
            if array is not None and array.size < 64 and array.dtype.kind in "fiu":
                known.add_tensor(value.name, onnx.numpy_helper.from_array(array))
    return onnx.helper.make_graph(nodes, "ir", [], []), known


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
        array = LAYERS["Convert"](convert, array)
    return array
