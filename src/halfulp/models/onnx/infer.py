"""What is known of a model's values before anything runs: types, shapes, constants.

The onnx package infers types and shapes from inputs to outputs, and ONNX Runtime infers those that operators of other
domains make. Both would refuse some Pow and PRelu nodes, or know too little of them; those are replaced by Identity
nodes for it. Shapes that are still unknown follow from the weights of a Conv that reads the value.
"""

from __future__ import annotations

import contextlib
import math
from collections import ChainMap, defaultdict
from importlib import import_module
from typing import Any, Literal, NamedTuple

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import ModelError
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.checks import schema_in_force
from halfulp.models.onnx.fold import folded, is_foldable
from halfulp.models.onnx.inline import RESOLVED
from halfulp.models.onnx.tensors import TensorReader, declaration, declared, enum_of, type_of
from halfulp.models.onnx.walk import (
    Identity,
    Owner,
    bind,
    default_opset,
    every_node,
    graphs,
    identity,
    inner_path,
    plain_domain,
    reached,
    root,
    subgraphs,
)
from halfulp.specs import find
from halfulp.specs.tensor import Shape
from halfulp.types import TYPES

Ask = Literal["foreign", "all", "none"]
Types = dict[str, Value]
"""The values of one graph by name."""

_SMALL = 1024  # elements; inference looks at small tensors only (axes, shapes)

# Their outputs have the type and shape of the first input until opset 7; inference says so of few.
_SAME_AS_FIRST = {"Add", "Sub", "Mul", "Div", "Pow"}

# The output of these has the shape of the first input, or its first two dims.
_KEEPS_SHAPE = {
    *("BatchNormalization", "InstanceNormalization", "PRelu", "Relu", "LeakyRelu", "Elu", "Selu", "Clip"),
    *("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Identity", "Cast", "Dropout", "Neg", "Abs"),
}
_KEEPS_CHANNELS = {"MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool"}


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

    def add_constants(self, owner: Owner) -> None:
        """Take note of the constants of a graph or function."""
        for node in owner.node:
            self.add_node(node)
        if isinstance(owner, GraphProto):
            for tensor in owner.initializer:
                self.add_tensor(tensor.name, tensor)
            self.defaults |= {info.name for info in owner.input} & self.constants.keys()

    def add_node(self, node: NodeProto) -> None:
        """Take note of what a Constant node holds, and of a node that may give a constant."""
        tensor = held_tensor(node)
        if tensor is not None:
            self.add_tensor(node.output[0], tensor)
        elif is_foldable(node):
            self._makers[node.output[0]] = node

    def add_tensor(self, name: str, tensor: TensorProto) -> None:
        """Take note of a constant."""
        self.constants[name] = tensor
        try:
            kind = type_of(tensor.data_type)
        except KeyError:  # in a model that was not checked
            kind = None
        self.types[name] = Value(tensor.name, kind, tuple(tensor.dims))

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
            last = self._as_cast(todo.pop())
            tensors = [self.tensor(name) for name in last.input]
            if any(tensor is None for name, tensor in zip(last.input, tensors, strict=True) if name):
                continue
            where = f"the constants of {last.output[0]!r}"
            result = folded(
                last, [None if tensor is None else self._reader.read(tensor, where) for tensor in tensors]
            )
            if result is not None:
                self.add_tensor(last.output[0], onnx.numpy_helper.from_array(result, last.output[0]))

    def _as_cast(self, node: NodeProto) -> NodeProto:
        """Return a CastLike as the Cast that it is, where the type of its second input is known."""
        kind = self.value(node.input[1]).type if node.op_type == "CastLike" and len(node.input) == 2 else None
        if kind is None:
            return node
        cast = onnx.helper.make_node("Cast", node.input[:1], node.output, to=enum_of(kind))
        cast.attribute.extend(node.attribute)
        return cast

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
    if node.op_type != "Constant" or plain_domain(node.domain):
        return None
    if len(node.attribute) != 1 or len(node.output) != 1:
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


def infer_types(
    model: ModelProto, file: str, *, ask: Ask = "foreign", declared_too: bool = True
) -> dict[str, Types]:
    """Return the types of the values of each graph of a model, by the graph's path (:func:`graphs`).

    Args:
        model: one that the front end accepts, or one whose Pow and PRelu nodes are resolved.
        file: its name in messages.
        ask: of which nodes ONNX Runtime, if it is installed, is asked for the types that are not inferred: of those of
            other domains, of all, or of none.
        declared_too: whether what the model declares of the outputs of nodes counts.
    """
    light = _light(model)
    if not declared_too:
        for _, graph in graphs(light.graph):
            assert isinstance(graph, GraphProto)
            del graph.value_info[:]
            for info in graph.output:
                info.ClearField("type")
    inferred = _inferred(light)
    if ask != "none" and _ask_onnxruntime(inferred, ask):
        inferred = _inferred(inferred)
    if _declare_by_readers(inferred):
        inferred = _inferred(inferred)
    found: dict[str, Types] = {}
    for path, graph in graphs(inferred.graph):
        assert isinstance(graph, GraphProto)
        types: Types = {
            tensor.name: Value(tensor.name, type_of(tensor.data_type), tuple(tensor.dims))
            for tensor in graph.initializer
        }
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


def _ask_onnxruntime(model: ModelProto, ask: Ask) -> bool:
    """Declare what ONNX Runtime infers of values without a type or shape; tell whether it infers any."""
    graph = model.graph
    known = {
        info.name for info in (*graph.value_info, *graph.output) if info.type.tensor_type.HasField("shape")
    }
    typed = {info.name: info for info in (*graph.value_info, *graph.output) if info.type.WhichOneof("value")}
    asked = [node for node in graph.node if ask == "all" or plain_domain(node.domain)]
    if all(name in known for node in asked for name in node.output):
        return False
    probe = ModelProto()
    probe.CopyFrom(model)
    shapes = _shapes(model)
    exact = True  # whether it is asked about the very shapes of the model
    for node in every_node(probe.graph):
        if node.op_type == "Pow" and not plain_domain(node.domain):
            shape = shapes.get(node.output[0] if node.output else "")
            exact = exact and shape is not None and shape == shapes.get(node.input[0])
            _make_identity(node)  # it may refuse this one
    outputs = {info.name: info for info in graph.output}
    found = False
    for info in _types_of_onnxruntime(probe):
        if not exact:
            info.type.tensor_type.ClearField("shape")
        if info.name in known or (info.name in typed and not info.type.tensor_type.HasField("shape")):
            continue
        found = True
        before = outputs.get(info.name) or typed.get(info.name)
        if before is None:
            graph.value_info.append(info)
        elif before.type.WhichOneof("value") is None:
            before.type.CopyFrom(info.type)
        else:
            before.type.tensor_type.shape.CopyFrom(info.type.tensor_type.shape)
    return found


def _types_of_onnxruntime(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the types and shapes that ONNX Runtime infers of a graph's values; nothing where it can't.

    Args:
        model: its outputs are changed.
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
    found = []
    for output in session.get_outputs():
        kind = names_of.get(output.type)
        # It says [] of a scalar and of a value whose rank it does not know.
        shape = tuple(dim if isinstance(dim, int) else None for dim in output.shape) or None
        if kind is not None:
            found.append(declaration(output.name, kind, shape))
    return found


def _shapes(model: ModelProto) -> dict[str, Shape]:
    """Return the shapes that a model declares of the values of all its graphs, weights included."""
    found: dict[str, Shape] = {}
    for _, graph in graphs(model.graph):
        assert isinstance(graph, GraphProto)
        for info in (*graph.value_info, *graph.output, *graph.input):
            with contextlib.suppress(ModelError):
                found[info.name] = declared(info, "").shape
        found.update((tensor.name, tuple(tensor.dims)) for tensor in graph.initializer)
    return found


def _declare_by_readers(model: ModelProto) -> bool:
    """Declare the shapes that follow from the nodes that read a value; tell whether there are any.

    A Conv reads a value with the rank of its kernel and as many channels; what reads the value before that may keep its
    shape, or its channels.
    """
    shapes = _shapes(model)
    owners = [graph for _, graph in graphs(model.graph) if isinstance(graph, GraphProto)]
    unknown = {name for graph in owners for name in _made(graph) if shapes.get(name) is None}
    found: dict[str, Shape] = {}
    for node in reversed([*every_node(model.graph)]) if unknown else ():
        if node.input and node.input[0] in unknown and not plain_domain(node.domain):
            output = node.output[0] if node.output else ""
            shape = _shape_read(node, shapes, shapes.get(output) or found.get(output))
            if shape is not None:
                found.setdefault(node.input[0], shape)
    for graph in owners if found else ():
        known = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
        for name in _made(graph):
            if name not in found:
                continue
            info = known.get(name) or graph.value_info.add(name=name)
            shape = onnx.helper.make_tensor_type_proto(TensorProto.UNDEFINED, found[name]).tensor_type.shape
            info.type.tensor_type.shape.CopyFrom(shape)
    return bool(found)


def _made(graph: GraphProto) -> set[str]:
    """Return the names of a graph's inputs and of what its nodes make."""
    return {*(info.name for info in graph.input), *(name for node in graph.node for name in node.output)} - {
        ""
    }


def _shape_read(node: NodeProto, shapes: dict[str, Shape], output: Shape) -> Shape:
    """Return the shape of a node's first input by its other inputs and its output; None where these do not tell."""
    weights = shapes.get(node.input[1]) if len(node.input) > 1 else None
    if node.op_type in ("Conv", "ConvTranspose") and weights is not None and len(weights) > 2:
        channels = weights[0] if node.op_type == "ConvTranspose" else weights[1]
        group = next((a.i for a in node.attribute if a.name == "group" and node.op_type == "Conv"), 1)
        known = channels * group if isinstance(channels, int) else None
        return (None, known, *(None for _ in weights[2:]))
    if output is None:
        return None
    if node.op_type in _KEEPS_CHANNELS:
        return (*output[:2], *(None for _ in output[2:]))
    return output if node.op_type in _KEEPS_SHAPE else None


def _make_identity(node: NodeProto) -> None:
    """Replace a node by one whose output has the type of its first operand, too."""
    node.domain, node.op_type = "", "Identity"
    del node.input[1:], node.attribute[:]


def _more(a: Value | None, b: Value) -> Value:
    if a is None:
        return b
    return Value(b.name, b.type or a.type, a.shape if b.shape is None else b.shape, b.kind)


def _light(model: ModelProto) -> ModelProto:
    """Return a copy for inference: no large tensors, and old operators as others that inference knows."""
    light = ModelProto(
        ir_version=max(model.ir_version, 4),
        opset_import=model.opset_import,
        functions=model.functions,
        graph=GraphProto(name=model.graph.name),
    )
    graph = light.graph
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    for info in graph.output:
        if info.type.HasField("tensor_type") and not info.type.tensor_type.shape.dim:
            # Some exporters declare a scalar where they know no shape.
            info.type.tensor_type.ClearField("shape")
    inputs = {info.name for info in graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for sparse in model.graph.sparse_initializer:
        tensor = sparse.values
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, sparse.dims))
    opset = default_opset(model.opset_import) or 1
    if not light.opset_import:
        light.opset_import.append(onnx.helper.make_opsetid("", opset))
    for node in every_node(light.graph):
        version = opset
        if node.domain == RESOLVED:
            row = find(node.op_type)
            node.domain, node.op_type, version = "", row.name, int(row.since_version)
        if not plain_domain(node.domain) and _keeps_first(node, version):
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


class _Call(NamedTuple):
    """A node, the function that it is in, and the paths of the graphs around it, the innermost first."""

    node: NodeProto
    caller: FunctionProto | None
    paths: tuple[str, ...]


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
        called = reached(model)
        if called:
            self._note_calls(None, model.graph, ("",))
        for function in called:
            self._note_calls(function, function, (root(function),))

    def _note_calls(self, caller: FunctionProto | None, owner: Owner, paths: tuple[str, ...]) -> None:
        for node in owner.node:
            self._calls[identity(node)].append(_Call(node, caller, paths))
            for name, graph in subgraphs(node):
                self._note_calls(caller, graph, (inner_path(paths[0], node, name), *paths))

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
        return [_declaration(name, types.get(outer, Value(outer))) for name, outer in given]

    def _inferred(
        self, function: FunctionProto, call: NodeProto, inputs: list[onnx.ValueInfoProto]
    ) -> dict[str, Types]:
        graph = GraphProto(
            name=function.name, node=function.node, value_info=function.value_info, input=inputs
        )
        graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in function.output)
        bind(graph, function, call)
        model = ModelProto(
            ir_version=self._model.ir_version,
            opset_import=function.opset_import,
            functions=reached(self._model, function),
            graph=graph,
        )
        return infer_types(model, self._file)


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


def _declaration(name: str, value: Value) -> onnx.ValueInfoProto:
    return declaration(name, value.type if value.kind == "tensor" else None, value.shape)
