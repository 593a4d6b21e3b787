"""Turn a model's Pow and PRelu nodes into our custom operators.

Each becomes the operator of its X's type (``Pow_float16``) and is told its version as attributes: the
broadcasting rule, and the clause that each check enforces. So types must be known before the model runs.
The onnx package infers them, and ONNX Runtime does where that gives up, at operators of its own.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeAlias

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, helper

from halfulp.errors import HalfulpError, ModelError, SpecError, printable
from halfulp.integrations.onnxruntime.inline import RESOLVED, all_nodes, resolved, subgraphs
from halfulp.models.onnx.tensors import declared
from halfulp.specs import OpVersion, TensorType, find
from halfulp.types import TYPES

DOMAIN = "halfulp"

# The checks whose clauses the kernels look up by their attributes: bindings/onnxruntime/rules.h.
_SHAPE_CHECKS = ("shape", "equal shapes", "1-dim expansion", "attribute axis")

_Types: TypeAlias = ChainMap[str, TypeProto]


class _Untyped(Exception):
    """A node's operand whose type nobody could infer."""


def patched(model: ModelProto, file: str) -> ModelProto:
    """Return a copy of a model whose Pow and PRelu nodes, wherever they stand, are our custom operators.

    Args:
        model: is left as it is.
        file: its name in messages.

    Raises:
        ModelError: a node's types or shapes break a clause of its version, or its types cannot be inferred.
        UnsupportedError: a function with such nodes needs another opset than the model's.
    """
    result = resolved(model, file)
    if not any(map(_is_ours, all_nodes(result.graph.node))):
        return result
    attempt = ModelProto()
    attempt.CopyFrom(result)
    try:
        _Patcher(file).graph(attempt.graph, _inferred(attempt, file), ChainMap())
    except _Untyped as untyped:
        name, label = untyped.args
        _add_types_of_onnxruntime(result)
        try:
            _Patcher(file).graph(result.graph, _inferred(result, file), ChainMap())
        except _Untyped:
            raise ModelError(
                f"the type of {printable(name)!r} can't be inferred: declare it in the graph's value_info",
                file=file,
                node=label,
            ) from None
        attempt = result
    if DOMAIN not in {entry.domain for entry in attempt.opset_import}:
        attempt.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return attempt


class _Patcher:
    def __init__(self, file: str) -> None:
        self._file = file

    def graph(self, graph: GraphProto, inferred: GraphProto, outer: _Types) -> None:
        """Patch a graph in place; ``inferred`` is the same one with types."""
        types = outer.new_child()
        for tensor in inferred.initializer:
            types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for info in (*inferred.input, *inferred.value_info, *inferred.output):
            if info.type.WhichOneof("value") is not None:
                types[info.name] = info.type
        stated = {info.name for info in (*graph.value_info, *graph.output)}
        for index, (node, counterpart) in enumerate(zip(graph.node, inferred.node, strict=True)):
            if _is_ours(node):
                output = self._node(node, index, types)
                types.setdefault(output.name, output.type)
                # ONNX Runtime infers no shape of a custom operator, and shares memory only where it knows it.
                if output.name not in stated:
                    graph.value_info.append(output)
                continue
            for attribute, other in zip(node.attribute, counterpart.attribute, strict=True):
                for subgraph, typed in zip(subgraphs(attribute), subgraphs(other), strict=True):
                    self.graph(subgraph, typed, types)

    def _node(self, node: NodeProto, index: int, types: _Types) -> onnx.ValueInfoProto:
        """Make a node our custom operator, and return what is known of its output."""
        row = find(node.op_type)
        label = f"'{printable(node.name)}'" if node.name else f"#{index}"
        label += f" ({row.name})"
        try:
            if not (all(node.input) and any(node.output)):
                raise HalfulpError("an operand or the output is missing")
            attributes = {attribute.name: _value(attribute) for attribute in node.attribute}
            operands = [self._operand(name, types, label) for name in node.input]
            output = row.infer(*operands, **attributes)
        except HalfulpError as error:
            clause = error.clause if isinstance(error, SpecError) else None
            shown: Mapping[str, Any] = error.shown
            raise ModelError(error.message, file=self._file, node=label, clause=clause, **shown) from error
        node.domain, node.op_type = DOMAIN, f"{row.name}_{output.type}"
        del node.attribute[:]
        node.attribute.extend(_told(row, attributes))
        return _info(node.output[0], output)

    def _operand(self, name: str, types: _Types, label: str) -> TensorType:
        if name not in types:
            raise _Untyped(name, label)
        value = declared(onnx.ValueInfoProto(name=name, type=types[name]), self._file)
        if value.kind != "tensor" or value.type is None:
            raise HalfulpError("an operand is not a tensor", got=str(value))
        return TensorType(value.type, value.shape)


def _value(attribute: AttributeProto) -> Any:
    try:
        return helper.get_attribute_value(attribute)
    except ValueError:
        raise HalfulpError(f"its attribute {printable(attribute.name)!r} has no value") from None


def _told(row: OpVersion, attributes: Mapping[str, Any]) -> Iterator[AttributeProto]:
    """Yield the attributes of a custom operator: what its kernel must know of the version."""
    yield helper.make_attribute("version", row.id)
    yield helper.make_attribute("broadcasting", row.broadcasting.name)
    enforced = {check for clause in row.clauses for check in clause.enforces}
    for check in _SHAPE_CHECKS:
        if check in enforced:
            name = "clause_" + check.replace(" ", "_").replace("-", "_")
            yield helper.make_attribute(name, f"{row.id}.{row.clause(check).id}")
    for name, value in row.check_attributes(attributes).items():
        if isinstance(value, int):
            yield helper.make_attribute(name, value)


def _is_ours(node: NodeProto) -> bool:
    return bool(node.domain == RESOLVED)


def _inferred(model: ModelProto, file: str) -> GraphProto:
    """Return a resolved model's graph with the types that the onnx package infers."""
    scratch = ModelProto()
    scratch.CopyFrom(model)
    for node in filter(_is_ours, all_nodes(scratch.graph.node)):
        row = find(node.op_type)
        if row.shape_inference:
            node.domain, node.op_type = "", row.name
        else:
            _make_identity(node)
    for sparse in scratch.graph.sparse_initializer:
        tensor = sparse.values
        scratch.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, sparse.dims))
    del scratch.graph.sparse_initializer[
        :
    ]  # they would count as of another kind, which the runtime makes dense
    try:
        return onnx.shape_inference.infer_shapes(scratch).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        reason = printable((str(error).strip() or type(error).__name__).splitlines()[0])
        raise ModelError(f"its types can't be inferred: {reason}", file=file) from None


def _add_types_of_onnxruntime(model: ModelProto) -> None:
    """Declare what ONNX Runtime infers of the values of a resolved model's graph; nothing where it can't."""
    probe = ModelProto()
    probe.CopyFrom(model)
    for node in filter(_is_ours, all_nodes(probe.graph.node)):
        _make_identity(node)  # it may refuse Pow and PRelu
    found = {info.name: info for info in types_of_onnxruntime(probe)}
    for output in model.graph.output:
        if output.name in found and output.type.WhichOneof("value") is None:
            output.type.CopyFrom(found[output.name].type)
    stated = {info.name for info in (*model.graph.value_info, *model.graph.output)}
    model.graph.value_info.extend(info for name, info in found.items() if name not in stated)


def types_of_onnxruntime(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the element types that ONNX Runtime infers of what the nodes of a graph make; nothing where it can't.

    Args:
        model: with Identity in the place of Pow and PRelu, which ONNX Runtime may refuse; its outputs are changed.

    Returns:
        Types without shapes, for those would be the first operand's.
    """
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError:
        return []
    del model.graph.output[:]
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # whatever it refuses: the caller says which type is missing
        return []
    names_of = {f"tensor({row.onnx})": row.name for row in TYPES.values() if row.onnx}
    typed = ((output.name, names_of.get(output.type)) for output in session.get_outputs())
    return [_info(name, TensorType(kind, None)) for name, kind in typed if kind is not None]


def _make_identity(node: NodeProto) -> None:
    """Replace a node of ours by one whose output has X's type, too."""
    node.domain, node.op_type = "", "Identity"
    del node.input[1:], node.attribute[:]


def _info(name: str, tensor: TensorType) -> onnx.ValueInfoProto:
    number = TYPES[tensor.type].onnx_enum
    assert number is not None, f"{tensor.type} is no type of ONNX"
    return helper.make_tensor_value_info(name, number, tensor.shape)
