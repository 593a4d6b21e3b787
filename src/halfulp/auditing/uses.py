"""The Pow and PRelu nodes of a model in ONNX or OpenVINO's IR, including bodies and functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

import onnx

from halfulp.auditing.node import Operand, Use, breaches
from halfulp.conversion.editor import view_of
from halfulp.conversion.powers import is_never_negative
from halfulp.errors import ModelError
from halfulp.integrations import ir
from halfulp.integrations.fusions import fused
from halfulp.models.graph import Array, Graph, Node, Value
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import (
    attributes_of,
    default_opset,
    identity,
    is_ours,
    owners_of,
    read_names,
    subgraphs,
)
from halfulp.models.run.api import LAYERS
from halfulp.specs import in_force

_OLDEST_IR = 3  # before, there was one opset, and models imported none
_MOST_CONSTANT = 1 << 24  # elements; larger exponents and slopes are not read


def of_onnx(model: Onnx) -> list[Use]:
    """Return the Pow and PRelu nodes of an ONNX model, in the file's order, those of functions last.

    A function's nodes are returned once, with the types and shapes that all its calls agree on. Pow and PRelu
    nodes may break clauses, and operators may be unknown. Everything else must be valid, or else the front
    end's error is raised.
    """
    error = model.fault_of_ours()
    *functions, main = owners_of(model.proto)
    has_opset = default_opset(model.proto.opset_import) is not None or model.proto.ir_version < _OLDEST_IR
    tops = (model.scope(*top) for top in [main] * has_opset + functions)
    uses = list(chain.from_iterable(_within(model, top, ()) for top in tops))
    # Errors of Pow and PRelu nodes are reported by their clauses.
    if isinstance(error, ModelError) and not any(map(breaches, uses)):
        raise error
    return uses


def _within(model: Onnx, scope: Scope, outer: Iterable[str]) -> Iterator[Use]:
    """Yield the nodes of a graph, those in its bodies included; ``outer`` has the constants around it."""
    nodes = scope.owner.node
    steps = (
        ([*node.input, *(name for _, body in subgraphs(node) for name in read_names(body))], node.output)
        for node in nodes
    )
    folded = _folded(steps, lambda name: scope.tensor(name) is not None, outer)
    owner, functions = scope.owner, {identity(function) for function in model.proto.functions}
    ends = {end if isinstance(end, str) else end.name for end in (*owner.input, *owner.output)}
    placed = _placing(scope, folded, ends)
    operand = cache(partial(_operand, scope))
    for index, node in enumerate(nodes):
        for inner in model.within(scope, index, node) if node.attribute else ():
            yield from _within(model, inner, folded)
        if is_ours(node) and identity(node) not in functions:
            *inputs, output = map(operand, (*node.input, node.output[0] if node.output else ""))
            operator = in_force("onnx", node.op_type, scope.opset).id
            name, facts = label(node, index, scope.where), (attributes_of(node), scope, index)
            yield placed(Use(name, operator, str(scope.opset), tuple(inputs), output, *facts))


def _operand(scope: Scope, name: str) -> Operand:
    value, tensor, array = scope.value(name), scope.tensor(name), None
    if tensor is not None and onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) is not None:
        array = scope.array(name) if math.prod(tensor.dims) <= _MOST_CONSTANT else None
    return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)


def _placing(scope: Scope, folded: set[str], ends: set[str], *, is_ir: bool = False) -> Callable[[Use], Use]:
    """Return a function that notes in a node the facts about the graph around it that a verdict depends on."""
    view, mistaken = view_of(scope), defaultdict[str, dict[str, str]](dict)
    for power, runtime, reason in fused(scope):
        if reason and (runtime == "openvino" or not is_ir):
            mistaken[power.output[0]][runtime] = reason

    def placed(use: Use) -> Use:
        read = {operand.name for operand in use.inputs if operand.constant is None}
        use.is_alone = not scope.where and ends | folded >= {use.output.name, *read}
        use.folded, use.mistaken = folded, mistaken[use.output.name]
        use.is_base_positive = is_never_negative(use.inputs[0].name if use.inputs else "", view)
        return use

    return placed


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
        placed = _around(graph, makers, where, file)
        for node in graph.nodes:
            if node.operator in ir.ROWS:
                values = (graph.declared.get(name, Value(name)) for name in (*node.inputs, node.outputs[0]))
                *inputs, output = [
                    Operand(value.name, value.type, value.shape, _constant(value, graph, makers))
                    for value in values
                ]
                asked = f"opset{node.opset}"
                use = Use(node.label, node.operator, asked, tuple(inputs), output, node.attributes)
                uses.append(placed(use))
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


def _around(graph: Graph, makers: dict[str, Node], where: str, file: str) -> Callable[[Use], Use]:
    steps = ((node.inputs, node.outputs) for node in graph.nodes)
    folded = _folded(steps, graph.constants.__contains__)
    ends = {value.name for value in (*graph.inputs, *graph.outputs)} | graph.constants.keys()
    return _placing(_in_onnx(graph, makers, where, file), folded, ends, is_ir=True)


def _in_onnx(graph: Graph, makers: dict[str, Node], where: str, file: str) -> Scope:
    """Return an IR's graph with the names that ONNX has for its layers, and its types and small constants."""
    scope, nodes = Scope(onnx.GraphProto(), {**graph.declared}, TensorReader(file, None), "", where), []
    for node in graph.nodes:
        kind = _AS_ONNX.get(node.type, node.type)
        nodes.append(onnx.helper.make_node(kind, node.inputs, node.outputs))
        if kind == "ReduceMean":
            keeps = int(node.source.get_attributes()["keep_dims"])
            nodes[-1].attribute.append(onnx.helper.make_attribute("keepdims", keeps))
        for value in (graph.declared.get(name, Value(name)) for name in node.inputs):
            array = _constant(value, graph, makers) if len(value.shape or ()) < 2 else None
            if array is not None and array.size < 64 and array.dtype.kind in "fiu":
                scope.add_tensor(value.name, onnx.numpy_helper.from_array(array))
    scope.owner.node.extend(nodes)
    return scope


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
