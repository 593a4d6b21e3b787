"""The types within a model's own functions: what all the calls of one agree on."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.conversion.rewrite.editor import enum_of
from halfulp.conversion.rewrite.value_info import Types, graphs, infer_types
from halfulp.models.graph import Value
from halfulp.models.onnx.nodes import plain_domain

Identity = tuple[str, str, str]


def identity(owner: FunctionProto | NodeProto) -> Identity:
    """Return what names a function: of the function, or of a node that calls it."""
    name = owner.name if isinstance(owner, FunctionProto) else owner.op_type
    return plain_domain(owner.domain), name, owner.overload


class FunctionTypes:
    """Finds the types of the values in each function of one model.

    Args:
        model: the model.
        types: of the values in its graphs, by path.
        file: its name in messages.
    """

    def __init__(self, model: ModelProto, types: dict[str, Types], file: str) -> None:
        self._model = model
        self._functions = {identity(function): function for function in model.functions}
        self._graph_types = types
        self._file = file
        self._found: dict[Identity, dict[str, Types]] = {}

    def of(self, function: FunctionProto) -> dict[str, Types]:
        """Return the types in a function by path, as :func:`infer_types` does; "" is its body."""
        key = identity(function)
        if key not in self._found:
            joined: dict[str, Types] | None = None
            for call, types in self._calls(key):
                inside = self._inferred(function, call, types)
                joined = inside if joined is None else _joined(joined, inside)
            self._found[key] = joined or {"": {}}
        return self._found[key]

    def _calls(self, key: Identity) -> Iterator[tuple[NodeProto, Types]]:
        for path, graph in graphs(self._model.graph, ""):
            types = self._graph_types.get(path, {})
            yield from ((node, types) for node in graph.node if identity(node) == key)
        for caller in self._model.functions:
            calls = [node for node in caller.node if identity(node) == key]
            if calls:
                types = self.of(caller)[""]
                yield from ((node, types) for node in calls)

    def _inferred(self, function: FunctionProto, call: NodeProto, types: Types) -> dict[str, Types]:
        bound = {attribute.name: attribute for attribute in function.attribute_proto}
        bound |= {attribute.name: attribute for attribute in call.attribute}
        graph = GraphProto(name=function.name, node=function.node, value_info=function.value_info)
        for name, given in zip(function.input, call.input, strict=False):
            graph.input.append(_info(name, types.get(given, Value(given))))
        graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in function.output)
        for _, each in graphs(graph, ""):
            for node in each.node:
                _bind(node, bound)
        model = ModelProto(
            ir_version=self._model.ir_version,
            opset_import=function.opset_import,
            functions=self._model.functions,
            graph=graph,
        )
        return infer_types(model, self._file)


def _bind(node: NodeProto, bound: dict[str, AttributeProto]) -> None:
    attributes = []
    for attribute in node.attribute:
        value = AttributeProto()
        value.CopyFrom(bound.get(attribute.ref_attr_name, attribute))
        value.name = attribute.name
        if not value.ref_attr_name:
            attributes.append(value)
    del node.attribute[:]
    node.attribute.extend(attributes)


def _joined(a: dict[str, Types], b: dict[str, Types]) -> dict[str, Types]:
    return {
        path: {name: _agreed(a[path][name], b[path][name]) for name in a[path].keys() & b[path].keys()}
        for path in a.keys() & b.keys()
    }


def _agreed(a: Value, b: Value) -> Value:
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    kind = a.kind if a.kind == b.kind else "undeclared"
    return Value(a.name, a.type if a.type == b.type else None, shape, kind)


def _info(name: str, value: Value) -> onnx.ValueInfoProto:
    if value.kind != "tensor" or value.type is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    return onnx.helper.make_tensor_value_info(name, enum_of(value.type), value.shape)
