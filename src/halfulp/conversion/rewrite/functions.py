"""The types within a model's own functions: what all the calls of one agree on."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from typing import NamedTuple

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.conversion.rewrite.editor import enum_of
from halfulp.conversion.rewrite.value_info import Types, infer_types, inner_path
from halfulp.models.graph import Value
from halfulp.models.onnx.functions import Identity, every_node, identity, reached


class _Call(NamedTuple):
    """A node, the function that it is in, and the paths of the graphs around it, the innermost first."""

    node: NodeProto
    caller: FunctionProto | None
    paths: tuple[str, ...]


def root(function: FunctionProto) -> str:
    """Return the path of a function's body; those of a model's own graphs are empty or begin with a slash."""
    return "function:" + "/".join(identity(function))


class FunctionTypes:
    """Finds the types of the values in each function of one model.

    Args:
        model: one that the front end accepts: no function calls itself.
        types: of the values in its graphs, by path.
        file: its name in messages.
    """

    def __init__(self, model: ModelProto, types: dict[str, Types], file: str) -> None:
        self._model = model
        self._types = types
        self._file = file
        self._found: dict[Identity, dict[str, Types]] = {}
        self._calls: dict[Identity, list[_Call]] = defaultdict(list)
        self._note_calls(None, model.graph, ("",))
        for function in reached(model):
            self._note_calls(function, function, (root(function),))

    def _note_calls(
        self, caller: FunctionProto | None, owner: GraphProto | FunctionProto, paths: tuple[str, ...]
    ) -> None:
        for node in owner.node:
            self._calls[identity(node)].append(_Call(node, caller, paths))
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inner = inner_path(paths[0], node, attribute)
                    self._note_calls(caller, attribute.g, (inner, *paths))

    def of(self, function: FunctionProto) -> dict[str, Types]:
        """Return the types in a function's body and the graphs within it, by path from its :func:`root` on."""
        key = identity(function)
        if key not in self._found:
            seen: set[tuple[bytes, ...]] = set()
            joined: dict[str, Types] | None = None
            for call in self._calls[key]:
                inputs = self._inputs(function, call)
                equal = (*(m.SerializeToString(deterministic=True) for m in (*inputs, *call.node.attribute)),)
                if equal not in seen:
                    seen.add(equal)
                    inside = self._inferred(function, call.node, inputs)
                    joined = inside if joined is None else _joined(joined, inside)
            start = root(function)
            self._found[key] = {start + path: types for path, types in (joined or {"": {}}).items()}
        return self._found[key]

    def _inputs(self, function: FunctionProto, call: _Call) -> list[onnx.ValueInfoProto]:
        """Return a function's inputs with the types that a call gives them."""
        found = self._types if call.caller is None else self.of(call.caller)
        types = ChainMap(*(found.get(path, {}) for path in call.paths))
        given = zip(function.input, call.node.input, strict=False)
        return [_info(name, types.get(outer, Value(outer))) for name, outer in given]

    def _inferred(
        self, function: FunctionProto, call: NodeProto, inputs: list[onnx.ValueInfoProto]
    ) -> dict[str, Types]:
        bound = {attribute.name: attribute for attribute in function.attribute_proto}
        bound |= {attribute.name: attribute for attribute in call.attribute}
        graph = GraphProto(
            name=function.name, node=function.node, value_info=function.value_info, input=inputs
        )
        graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in function.output)
        for node in every_node(graph):
            _bind(node, bound)
        model = ModelProto(
            ir_version=self._model.ir_version,
            opset_import=function.opset_import,
            functions=reached(self._model, function),
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
