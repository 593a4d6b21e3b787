"""What is known of a model's values before anything runs: types, shapes, constants.

The onnx package infers types and shapes; what it leaves out for old operators is filled in here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import ModelError
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.fold import folded, is_foldable
from halfulp.models.onnx.nodes import plain_domain, schema_in_force
from halfulp.models.onnx.tensors import TensorReader, declared, dtype_of
from halfulp.types import type_name

Types = dict[str, Value]

# Inference looks at small tensors only (axes, shapes); the others need not be copied for it.
_SMALL = 1024

# Their outputs have the type and shape of the first input until opset 7; inference says so of few.
_SAME_AS_FIRST = {"Add", "Sub", "Mul", "Div", "Pow"}


class ValueInfo:
    """The values that a node of one graph can see.

    Attributes:
        types: of the values of this graph, by name.
        constants: tensors by name: initializers, and what Constant nodes hold.
        defaults: names of constants that a caller may replace, for they are inputs too.
    """

    def __init__(self, types: Types, reader: TensorReader, outer: ValueInfo | None = None) -> None:
        self.types = types
        self.constants: dict[str, TensorProto] = {}
        self.defaults: set[str] = set()
        self._reader = reader
        self._outer = outer
        self._makers: dict[str, NodeProto] = {}  # of values that may be constants, too: those not yet folded

    def inside(self, types: Types) -> ValueInfo:
        """Return what a subgraph sees."""
        return ValueInfo(types, self._reader, self)

    def add_constants(self, graph: GraphProto) -> None:
        """Take note of the constants of a graph."""
        self.add_nodes(graph.node)
        for tensor in graph.initializer:
            self.constants[tensor.name] = tensor
            self.types[tensor.name] = type_of_tensor(tensor)
        self.defaults |= {info.name for info in graph.input} & self.constants.keys()

    def add_nodes(self, nodes: Iterable[NodeProto]) -> None:
        """Take note of what Constant nodes hold."""
        for node in nodes:
            tensor = held_tensor(node)
            if tensor is not None:
                self.constants[node.output[0]] = tensor
                self.types[node.output[0]] = type_of_tensor(tensor)
            elif is_foldable(node):
                self._makers[node.output[0]] = node

    def value(self, name: str) -> Value:
        """Return what is known of a value: a type or shape of None where nothing is."""
        if name in self.types:
            return self.types[name]
        return self._outer.value(name) if self._outer is not None else Value(name)

    def tensor(self, name: str, *, or_default: bool = False) -> TensorProto | None:
        """Return the tensor that a value always is (``or_default``: or is unless a caller says otherwise)."""
        if name in self._makers:
            self._fold(self._makers.pop(name))
        if name in self.constants:
            return self.constants[name] if or_default or name not in self.defaults else None
        if name in self.types or self._outer is None:
            return None
        return self._outer.tensor(name, or_default=or_default)

    def _fold(self, node: NodeProto) -> None:
        """Take note of what a node of constants gives; constants of constants first, without recursion."""
        todo = [node]
        while todo:
            made = [self._makers.pop(name) for name in todo[-1].input if name in self._makers]
            if made:
                todo += made
                continue
            last = todo.pop()
            tensors = [self.tensor(name) for name in last.input]
            if any(tensor is None for name, tensor in zip(last.input, tensors, strict=True) if name):
                continue
            where = f"the constants of {last.output[0]!r}"
            arrays = [None if tensor is None else self._reader.read(tensor, where) for tensor in tensors]
            result = folded(last, arrays)
            if result is not None:
                tensor = onnx.numpy_helper.from_array(result, last.output[0])
                self.constants[last.output[0]] = tensor
                self.types[last.output[0]] = type_of_tensor(tensor)

    def is_default(self, name: str) -> bool:
        """Tell whether a value is an input with a default."""
        if name in self.types:
            return name in self.defaults
        return self._outer is not None and self._outer.is_default(name)

    def array(self, name: str, *, or_default: bool = False) -> Array | None:
        """Return the array of a constant, None for any other value."""
        tensor = self.tensor(name, or_default=or_default)
        return None if tensor is None else self._reader.read(tensor, f"constant {name!r}")


def held_tensor(node: NodeProto) -> TensorProto | None:
    """Return the tensor of a Constant node; None for any other node, and for sparse and text constants."""
    if node.op_type != "Constant" or plain_domain(node.domain) or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    kinds = {
        "value_float": (TensorProto.FLOAT, (), "f"),
        "value_floats": (TensorProto.FLOAT, None, "floats"),
        "value_int": (TensorProto.INT64, (), "i"),
        "value_ints": (TensorProto.INT64, None, "ints"),
    }
    if attribute.ref_attr_name:
        return None
    if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
        held: TensorProto = attribute.t
        return held
    if attribute.name not in kinds:
        return None
    kind, dims, field = kinds[attribute.name]
    value = getattr(attribute, field)
    values = [value] if dims == () else list(value)
    tensor: TensorProto = onnx.helper.make_tensor(
        node.output[0], kind, () if dims == () else (len(values),), values
    )
    return tensor


def type_of_tensor(tensor: TensorProto) -> Value:
    """Return a tensor's type and shape."""
    return Value(tensor.name, type_name(dtype_of(tensor.data_type)), tuple(tensor.dims))


def infer_types(model: ModelProto, file: str, *, declared_too: bool = True) -> dict[str, Types]:
    """Return the types of the values of each graph of a model, by the graph's path.

    A graph's path is empty for the model's own, otherwise that of the graph around it and of the
    attribute that it is (:func:`inner_path`). Without ``declared_too`` what the model declares of outputs of nodes
    does not count.
    """
    light = _light(model)
    if not declared_too:
        for _, graph in graphs(light.graph, ""):
            del graph.value_info[:]
            for info in graph.output:
                info.ClearField("type")
    light = _inferred(light)
    if _declare_foreign(light):
        light = _inferred(light)
    found: dict[str, Types] = {}
    for path, graph in graphs(light.graph, ""):
        types: Types = {tensor.name: type_of_tensor(tensor) for tensor in graph.initializer}
        for info in (*graph.value_info, *graph.output, *graph.input):
            try:
                value = declared(info, file)
            except ModelError:
                continue  # inference has gone wrong
            types[value.name] = _more(types.get(value.name), value)
        found[path] = types
    return found


def _inferred(model: ModelProto) -> ModelProto:
    refusals = onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError
    with contextlib.suppress(*refusals):
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    return model  # only what it declares is known


def _declare_foreign(model: ModelProto) -> bool:
    """Declare what ONNX Runtime infers of operators of other domains, its own among them; tell whether it does any."""
    graph = model.graph
    known = {info.name for info in (*graph.value_info, *graph.output)}
    foreign = [node for node in graph.node if plain_domain(node.domain)]
    if all(name in known for node in foreign for name in node.output):
        return False
    from halfulp.integrations.onnxruntime.rewrite import types_of_onnxruntime

    probe = ModelProto()
    probe.CopyFrom(model)
    for _, each in graphs(probe.graph, ""):
        for node in each.node:
            if node.op_type == "Pow" and not plain_domain(node.domain):
                _make_identity(node)  # it may refuse this one
    found = [info for info in types_of_onnxruntime(probe) if info.name not in known]
    graph.value_info.extend(found)
    return bool(found)


def _make_identity(node: NodeProto) -> None:
    """Replace a node by one whose output has the type of its first operand, too."""
    node.op_type = "Identity"
    del node.input[1:], node.attribute[:]


def _more(a: Value | None, b: Value) -> Value:
    if a is None:
        return b
    return Value(b.name, b.type or a.type, a.shape if b.shape is None else b.shape, b.kind)


def graphs(graph: GraphProto, path: str) -> Iterator[tuple[str, GraphProto]]:
    """Give a graph and those within it, with their paths."""
    yield path, graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs(attribute.g, inner_path(path, node, attribute))


def inner_path(path: str, node: NodeProto, attribute: AttributeProto) -> str:
    """Return the path of a subgraph; a node's outputs are the one thing that no conversion changes."""
    return f"{path}/{','.join(node.output)}.{attribute.name}"


def _light(model: ModelProto) -> ModelProto:
    """Return a copy for inference: no large tensors, and old operators as others that inference knows."""
    graph = GraphProto(
        name=model.graph.name,
        node=model.graph.node,
        input=model.graph.input,
        output=model.graph.output,
        value_info=model.graph.value_info,
    )
    for info in graph.output:
        if info.type.HasField("tensor_type") and not info.type.tensor_type.shape.dim:
            # Some exporters declare a scalar where they know no shape.
            info.type.tensor_type.ClearField("shape")
    inputs = {info.name for info in graph.input}
    for tensor in model.graph.initializer:
        count = 1
        for dim in tensor.dims:
            count *= dim
        if count <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for sparse in model.graph.sparse_initializer:
        tensor = sparse.values
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, sparse.dims))
    light = ModelProto(
        ir_version=max(model.ir_version, 4),
        opset_import=model.opset_import,
        functions=model.functions,
        graph=graph,
    )
    opset = default_opset(model.opset_import) or 1
    if not light.opset_import:
        light.opset_import.append(onnx.helper.make_opsetid("", opset))
    for _, each in graphs(light.graph, ""):
        for node in each.node:
            if not plain_domain(node.domain) and _keeps_first(node, opset):
                _make_identity(node)
    return light


def _keeps_first(node: NodeProto, opset: int) -> bool:
    if len(node.output) != 1 or not node.input:
        return False
    if node.op_type == "PRelu":
        return True
    if opset >= 7:
        return False
    # Before opset 6, what may write over its input has that input's type and shape.
    schema = schema_in_force("", node.op_type, opset)
    consumes = schema is not None and "consumed_inputs" in schema.attributes
    return consumes or node.op_type in _SAME_AS_FIRST


def default_opset(imports: Iterable[onnx.OperatorSetIdProto]) -> int | None:
    """Return the version that is imported of ONNX's own operators, if any."""
    versions: Mapping[str, int] = {plain_domain(entry.domain): entry.version for entry in imports}
    return versions.get("")
