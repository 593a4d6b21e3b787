"""The types, shapes and constants of a model's values, inferred before anything runs.

The onnx package infers types and shapes, and ONNX Runtime those of operators that the package does not know. Both
would refuse some Pow and PRelu nodes, or infer too little. For inference, Identity nodes replace these. Shapes that are
still unknown follow from the weights of a Conv that reads the value.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import ChainMap, defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, reduce
from graphlib import TopologicalSorter
from importlib import import_module
from itertools import chain, product, starmap
from operator import index
from typing import Any, Literal, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.checker import ValidationError
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError

from halfulp.errors import ModelError
from halfulp.models.graph import Array, Value
from halfulp.models.onnx import walk
from halfulp.models.onnx.checks import is_foreign, label
from halfulp.models.onnx.inline import RESOLVED
from halfulp.models.onnx.tensors import TensorReader, declaration, declared, enum_of, type_of, without_tensors
from halfulp.specs import find
from halfulp.types import TYPES, Shape

Ask = Literal["foreign", "all", "none"]
Types = dict[str, Value]  # of one graph, by name
ByPath = dict[str, Types]  # of all graphs

# The element types by the names that schemas and ONNX Runtime give them.
TYPE_NAMES = {f"tensor({row.onnx})": row.name for row in TYPES.values() if row.onnx}
TYPE_NAMES["tensor(bool)"] = "bool"

_SMALL = 1024  # elements; inference reads only small tensors (axes, shapes)

# These have the type and shape of the first input in every opset. The onnx package does not infer GroupNormalization,
# nor the others in an opset before their own, where some tools write them.
_KEEPS_FIRST = {"PRelu", "GroupNormalization", "LayerNormalization", "RMSNormalization"}
_KEEPS_FIRST |= {"Celu", "Gelu", "HardSwish", "Mish", "Swish"}

# The output of these has the shape of the first input, or its first two dims.
_KEEPS_SHAPE = {
    *("BatchNormalization", "InstanceNormalization", "PRelu", "Relu", "LeakyRelu", "Elu", "Selu", "Clip"),
    *("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Identity", "Cast", "Dropout", "Neg", "Abs"),
}

# Before opset 7 their output has the type and shape of the first input. The onnx package infers that for few of them.
_SAME_AS_FIRST = _KEEPS_SHAPE - {"Cast"} | {
    *("Add", "Sub", "Mul", "Div", "Pow", "Ceil", "Exp", "Floor", "Log", "Max", "Mean", "Min", "Reciprocal"),
    *("Sqrt", "Sum"),
}

# The axis of the weights that has the channels of the first input, and the attribute by which they are multiplied.
_KERNELS = {"Conv": (1, "group"), "ConvTranspose": (0, "")}
_KEEPS_CHANNELS = {"MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool"}

OLDEST_IR_OF_DEFAULTS = 4  # before, an initializer had to be an input too


@dataclass(eq=False, repr=False)
class Scope:
    """A graph, a subgraph or the body of a function, and the values that its nodes can read."""

    owner: walk.Owner
    types: Types  # and shapes of this graph's values
    reader: TensorReader
    path: str = ""  # as walk.graphs has it
    where: str = ""  # its name in messages; empty for a model's own graph
    outer: Scope | None = None  # the graph around this one
    opset: int = 1  # of ONNX's own operators

    def __post_init__(self) -> None:
        self.constants: dict[str, TensorProto] = {}  # of initializers and of Constant nodes, by name
        # Constants that are inputs too, so that a caller may replace them. Before IR version 4, each initializer
        # had to be an input, and runtimes take these for constants.
        self.defaults: set[str] = set()
        self.has_bodies = False  # whether there are, or were, graphs within its nodes
        self._made = set[str]()  # the outputs of this graph's nodes, which hide outer values of their names
        self._makers: dict[str, NodeProto] = {}  # nodes that may give constants and are not yet folded
        self._measured: dict[str, str] = {}  # values by the outputs of the Shape nodes that read them
        owner = self.owner
        for node in owner.node:
            self.add_node(node)
        if isinstance(owner, GraphProto):
            for tensor in owner.initializer:
                self.add_tensor(tensor.name, tensor)
            self.defaults = {info.name for info in owner.input} & self.constants.keys()

    @cached_property
    def labels(self) -> dict[str, str]:
        """The names of the nodes in messages, by their outputs, as they are numbered when this is first read."""
        names = ((node.output, label(node, index, self.where)) for index, node in enumerate(self.owner.node))
        return {output: name for outputs, name in names for output in outputs}

    def label(self, node: NodeProto) -> str:
        """Return the name of a node in messages."""
        return next((self.labels[output] for output in node.output if output in self.labels), node.op_type)

    def add_node(self, node: NodeProto) -> None:
        """Add a Constant node's tensor, or a node that may give a constant."""
        op_type, outputs, domain = node.op_type, node.output, walk.plain_domain(node.domain)
        self._made.update(outputs)
        self.has_bodies |= bool(walk.subgraphs(node))
        if (tensor := held_tensor(node)) is not None:
            for name in outputs:
                self.add_tensor(name, tensor)
        elif op_type == "Shape" and not (node.attribute or domain):
            self._measured.update(zip(outputs, node.input, strict=False))
        elif (
            not domain
            and op_type in _OPERATORS
            and _OLD.isdisjoint((op_type, a.name) for a in node.attribute)
        ):
            self._makers.update(dict.fromkeys(outputs, node))

    def add_tensor(self, name: str, tensor: TensorProto) -> None:
        """Add a constant."""
        self.constants[name] = tensor
        self.types[name] = Value(tensor.name, type_of(tensor.data_type), tuple(tensor.dims))

    def value(self, name: str) -> Value:
        """Return the type and shape of a value; each is None if it is not known."""
        if name in self.types or name in self._made or self.outer is None:
            return self.types.get(name, Value(name))
        return self.outer.value(name)

    def tensor(self, name: str, *, or_default: bool = False) -> TensorProto | None:
        """Return a constant's tensor, else None; with ``or_default`` also that of an input with a default."""
        if name in self._makers:
            self._fold(self._makers.pop(name))
        if name in self._measured and (dims := self._dims(name)) is not None:
            del self._measured[name]
            self.add_tensor(name, dims)
        if name in self.constants:
            return self.constants[name] if or_default or name not in self.defaults else None
        if name in self.types or name in self._made or self.outer is None:
            return None
        return self.outer.tensor(name, or_default=or_default)

    def _fold(self, node: NodeProto) -> None:
        """Add the result of a node whose inputs are constants; its inputs are folded first, without recursion."""
        todo = [node]
        while todo:
            makers = [self._makers.pop(name) for name in todo[-1].input if name in self._makers]
            todo += makers
            if not makers:
                self._fold_one(self.as_cast(todo.pop()))

    def _fold_one(self, node: NodeProto) -> None:
        tensors = {name: self.tensor(name) for name in filter(None, node.input)}
        if node.op_type in ("Gather", "Size") and node.input[0] in self._measured:
            # These need only some of the dims, and a Size only their number.
            places = np.empty(0, np.int64) if node.op_type == "Size" else self.array(node.input[1])
            tensors[node.input[0]] = self._dims(node.input[0], places)
        known = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        if len(known) == len(tensors):
            where = f"the constants of {node.output[0]!r}"
            result = folded(node, {name: self.reader.read(tensor, where) for name, tensor in known.items()})
            if result is not None:
                self.add_tensor(node.output[0], onnx.numpy_helper.from_array(result, node.output[0]))

    def _dims(self, name: str, places: Array | None = None) -> TensorProto | None:
        """Return the output of a Shape node if the dims at some places are known, by default all; others are 0."""
        shape = self.value(self._measured[name]).shape
        if shape is None:
            return None
        at = dict(enumerate(shape)) | {place - len(shape): dim for place, dim in enumerate(shape)}
        known = all(isinstance(at.get(place), int) for place in (at if places is None else places.flat))
        dims = [dim if isinstance(dim, int) else 0 for dim in shape]
        return onnx.helper.make_tensor(name, TensorProto.INT64, [len(dims)], dims) if known else None

    def as_cast(self, node: NodeProto) -> NodeProto:
        """Return a CastLike as the Cast that it is, where the type of its second input is known."""
        kind = self.value([*node.input, "", ""][1]).type if node.op_type == "CastLike" else None
        if kind is None:
            return node
        cast = onnx.helper.make_node("Cast", node.input[:1], node.output, to=enum_of(kind))
        cast.attribute.extend(node.attribute)
        return cast

    def is_default(self, name: str) -> bool:
        """Return whether a value is an input with a default."""
        return self.tensor(name) is not self.tensor(name, or_default=True)

    def array(self, name: str, *, or_default: bool = False) -> Array | None:
        """Return the array of a constant, None for any other value."""
        tensor = self.tensor(name, or_default=or_default)
        return None if tensor is None else self.reader.read(tensor, f"constant {name!r}")


def scalar(name: str, known: Scope) -> float | None:
    """Return the number of a constant of one element; None for any other value, as complex ones and strings."""
    is_long = any(isinstance(dim, int) and dim != 1 for dim in known.value(name).shape or ())
    array = None if is_long else known.array(name)  # the data of a large weight need not be read
    if array is None or array.size != 1 or array.dtype.kind in "cO":
        return None
    return float(array.reshape(-1)[0])


# The types of the numbers in attributes of Constant nodes.
_HELD: dict[int, type] = dict.fromkeys((AttributeProto.FLOAT, AttributeProto.FLOATS), np.float32)
_HELD |= dict.fromkeys((AttributeProto.INT, AttributeProto.INTS), np.int64)


def held_tensor(node: NodeProto) -> TensorProto | None:
    """Return the tensor of a Constant node; None for other nodes and for sparse, text and broken constants."""
    if node.op_type != "Constant" or walk.plain_domain(node.domain) or len(node.attribute) != 1:
        return None
    (attribute,) = node.attribute
    if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
        tensor: TensorProto = attribute.t
        return tensor
    if attribute.type not in _HELD or attribute.ref_attr_name:
        return None
    numbers: Array = np.array(onnx.helper.get_attribute_value(attribute), _HELD[attribute.type])
    return onnx.numpy_helper.from_array(numbers, [*node.output, ""][0])


def infer_types(model: ModelProto, file: str, *, ask: Ask = "foreign", declared_too: bool = True) -> ByPath:
    """Return the types of the values of each graph of a model, by the graph's path (:func:`graphs`).

    Args:
        model, file: a checked model, or one whose Pow and PRelu nodes are resolved, and its name in messages.
        ask: the nodes whose types ONNX Runtime may infer, if it is installed and the onnx package does not: those of
            operators that the package does not know, all, or none.
        declared_too: use the types that the model declares for the outputs of nodes.
    """
    light = _light(model)
    if not declared_too:
        for _, graph in walk.graphs(light.graph):
            del graph.value_info[:]
            for info in graph.output:
                info.ClearField("type")
    typed = inferred(light)
    if ask != "none" and _ask_onnxruntime(typed, ask):
        typed = inferred(typed)
    types = _types(typed, file)
    return _types(inferred(typed), file) if _declare_by_readers(typed, types) else types


def _types(model: ModelProto, file: str) -> ByPath:
    """Return the types that a model declares for the values of each graph, by the graph's path."""
    types_by_path: ByPath = {}
    for path, graph in walk.graphs(model.graph):
        types: Types = {}
        for tensor in graph.initializer:
            if (kind := type_of(tensor.data_type)) is None:
                message = f"initializer {tensor.name!r} has an unknown element type"
                raise ModelError(message, file=file, got=tensor.data_type)
            types[tensor.name] = Value(tensor.name, kind, tuple(tensor.dims))
        for info in (*graph.value_info, *graph.output, *graph.input):
            with contextlib.suppress(ModelError):  # inference failed
                value = declared(info, file)
                before = types.get(value.name, value)
                shape = before.shape if value.shape is None else value.shape
                types[value.name] = Value(value.name, value.type or before.type, shape, value.kind)
        types_by_path[path] = types
    return types_by_path


REFUSALS = (InferenceError, ValidationError, ValueError, RuntimeError, DecodeError)
"""The errors of the onnx package's inference and checker, and of protobuf, whose messages nest 100 deep at most."""


def inferred(model: ModelProto) -> ModelProto:
    """Return a model with the types and shapes that the onnx package infers; the model itself if it refuses it."""
    with contextlib.suppress(*REFUSALS):
        typed = onnx.shape_inference.infer_shapes(model)
        if _propagates(typed):
            # Of the model, because dims that are found stay as they are.
            return onnx.shape_inference.infer_shapes(model, data_prop=True)
        return typed
    return model  # with its declared types only


def without_made_up(shape: Shape) -> Shape:
    """Return a shape without the names that the package makes up for unknown dims."""
    return None if shape is None else tuple(None if str(dim).startswith("unk__") else dim for dim in shape)


_PROPAGATING = {"Add", "Cast", "Concat", "Gather", "Mul", "Shape", "Size", "Slice"}
_PROPAGATING |= {"Squeeze", "Sub", "Unsqueeze"}
"""The operators through which the package follows the numbers that a vector holds."""

# The package keeps 150 bytes for each element of a vector that a sum, a product or a Gather reads, even of floats.
_MOST_PROPAGATED = 1 << 18


def _propagates(model: ModelProto) -> bool:
    """Tell whether an operator of ``_PROPAGATING`` makes a vector or a number in a typed model without long vectors."""
    nodes = walk.every_node(model.graph, *model.functions)
    results = {name for node in nodes if node.op_type in _PROPAGATING for name in node.output}
    matrices, others, longest = set[str](), set[str](), 0
    for _, graph in walk.graphs(model.graph) if results else ():
        for info in (*graph.input, *graph.value_info, *graph.output):
            dims = info.type.tensor_type.shape.dim
            (matrices if len(dims) > 1 else others).add(info.name)
            longest = max(longest, dims[0].dim_value if len(dims) == 1 else 0)
        longest = max([longest, *(tensor.dims[0] for tensor in graph.initializer if len(tensor.dims) == 1)])
    return not results <= matrices - others and longest <= _MOST_PROPAGATED


def _ask_onnxruntime(model: ModelProto, ask: Ask) -> bool:
    """Declare what ONNX Runtime infers of values without a type or shape; tell whether it infers any."""
    graph, opset = model.graph, walk.default_opset(model.opset_import) or 1
    asked = [node.output for node in graph.node if ask == "all" or is_foreign(node, opset)]
    infos = {info.name: info for info in (*graph.value_info, *graph.output)} if asked else {}
    shaped = {name for name, info in infos.items() if info.type.tensor_type.HasField("shape")}
    answers = [] if shaped.issuperset(chain.from_iterable(asked)) else _types_of_onnxruntime(model)
    found = [info for info in answers if info.name not in shaped]
    for info in found:
        (infos.get(info.name) or graph.value_info.add()).MergeFrom(info)
    return bool(found)


def _types_of_onnxruntime(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the types of a model's values by ONNX Runtime, and the shapes if it takes all nodes as they are."""
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError:
        return []
    probe = deepcopy(model)
    shapes = _shapes(_types(model, ""))
    # ONNX Runtime may refuse a Pow.
    exact = True
    for node in filter(walk.is_ours, walk.every_node(probe.graph)):
        x, z = [*node.input, ""][0], [*node.output, ""][0]
        exact &= shapes.get(z) is not None and shapes[z] == shapes.get(x)
        _make_identity(node)
    del probe.graph.output[:]
    names = chain.from_iterable(node.output for node in probe.graph.node)
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in filter(None, names))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime refuses the model: the caller reports the missing type
        return []
    declarations = []
    for output in (output for output in session.get_outputs() if output.type in TYPE_NAMES):
        # It says [] of a scalar and of a value whose rank it does not know.
        shape = tuple(dim if isinstance(dim, int) else None for dim in output.shape) or None
        declarations.append(declaration(output.name, TYPE_NAMES[output.type], shape if exact else None))
    return declarations


def _shapes(types_by_path: ByPath) -> dict[str, Shape]:
    return {name: value.shape for values in types_by_path.values() for name, value in values.items()}


def _declare_by_readers(model: ModelProto, types: ByPath) -> bool:
    """Declare the shapes that follow from the nodes that read a value, as a Conv; tell whether there are any."""
    owners, unknown = dict(walk.graphs(model.graph)), set[str]()
    defined = {
        path: {info.name for info in graph.input}.union(*(node.output for node in graph.node)) - {""}
        for path, graph in owners.items()
    }
    for path, names in defined.items():
        unknown |= names - {name for name, value in types[path].items() if value.shape is not None}
    known_shapes, shapes = _shapes(types), dict[str, Shape]()
    for node in reversed([*walk.every_node(model.graph)] if unknown else []):
        if [*node.input, ""][0] in unknown and not walk.plain_domain(node.domain):
            output = [*node.output, ""][0]
            shape = _shape_read(node, known_shapes, known_shapes.get(output) or shapes.get(output))
            if shape is not None:
                shapes.setdefault(node.input[0], shape)
    for path, graph in owners.items():
        infos = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
        for name in defined[path] & shapes.keys():
            info = infos.get(name) or graph.value_info.add(name=name)
            declared_shape = onnx.helper.make_tensor_type_proto(TensorProto.UNDEFINED, shapes[name])
            info.type.tensor_type.shape.CopyFrom(declared_shape.tensor_type.shape)
    return bool(shapes)


def _shape_read(node: NodeProto, shapes: dict[str, Shape], output: Shape) -> Shape:
    """Return the shape of a node's first input by its other inputs and its output; None where these do not tell."""
    weights = shapes.get([*node.input, ""][1]) if node.op_type in _KERNELS else None
    if weights is not None and len(weights) > 2:
        axis, factor = _KERNELS[node.op_type]
        channels = weights[axis]
        known = channels * walk.attributes_of(node).get(factor, 1) if isinstance(channels, int) else None
        return (None, known, *[None] * (len(weights) - 2))
    if output is not None and node.op_type in _KEEPS_CHANNELS:
        return (*output[:2], *[None] * (len(output) - 2))
    return output if node.op_type in _KEEPS_SHAPE else None


def _make_identity(node: NodeProto) -> None:
    """Turn a node into an Identity of its first operand: the output type stays the same."""
    node.domain, node.op_type = "", "Identity"
    del node.input[1:], node.attribute[:]


def _light(model: ModelProto) -> ModelProto:
    """Return a copy for inference: without large tensors, and with Identity nodes for some operators."""
    light = without_tensors(
        model, lambda tensor: math.prod(tensor.dims) > _SMALL or tensor.data_location == TensorProto.EXTERNAL
    )
    graph = light.graph
    del graph.sparse_initializer[:], light.functions[:]
    light.functions.extend(walk.reached(model))
    light.ir_version = max(model.ir_version, OLDEST_IR_OF_DEFAULTS)
    for info in graph.output:
        if info.type.HasField("tensor_type") and not info.type.tensor_type.shape.dim:
            # Some exporters declare a scalar when they do not know the shape.
            info.type.tensor_type.ClearField("shape")
    for sparse in model.graph.sparse_initializer:
        tensor = sparse.values
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, sparse.dims))
    opset = walk.opsets_of(model.opset_import).get("", 1)
    if not light.opset_import:
        light.opset_import.append(onnx.helper.make_opsetid("", opset))
    for node in walk.every_node(graph):
        version = opset
        if node.domain == RESOLVED:
            row = find(node.op_type)
            node.domain, node.op_type, version = "", row.name, int(row.since_version)
        is_like_first = node.op_type in _KEEPS_FIRST or (version < 7 and node.op_type in _SAME_AS_FIRST)
        if is_like_first and len(node.output) == 1 and not walk.plain_domain(node.domain):
            _make_identity(node)
    return light


# The calls of a function that agree in types and attributes: its inputs' types there, and the nodes.
Kind = tuple[list[onnx.ValueInfoProto], list[NodeProto]]
_Call = tuple[NodeProto, Mapping[str, Value]]  # and the values around it


def infer_functions(
    model: ModelProto, file: str, ask: Ask = "foreign"
) -> tuple[ByPath, dict[walk.Identity, list[Kind]]]:
    """Return what :func:`infer_types` does, with the bodies of called functions, and the calls of each function."""
    found: ByPath = defaultdict(dict, infer_types(model, file, ask=ask))
    functions = {walk.identity(function): function for function in walk.reached(model)}
    calls: dict[walk.Identity, list[_Call]] = defaultdict(list)

    def note_calls(path: str, owner: walk.Owner, outer: ChainMap[str, Value]) -> None:
        known = outer.new_child(found[path])  # which is filled before it is read
        for node in owner.node:
            calls[walk.identity(node)].append((node, known))
            for name, graph in walk.subgraphs(node):
                note_calls(walk.inner_path(path, node, name), graph, known)

    owners: list[walk.Owner] = [model.graph, *functions.values()] if functions else []
    for owner in owners:
        note_calls(walk.root(owner), owner, ChainMap())
    called = {key: {*map(walk.identity, walk.every_node(each))} for key, each in functions.items()}
    kinds: dict[walk.Identity, list[Kind]] = {}
    for key in reversed([*TopologicalSorter(called).static_order()]):  # callers first
        if (function := functions.get(key)) is None:
            continue
        kinds[key], per_kind = _kinds(function, calls[key]), []
        for inputs, (call, *_) in kinds[key]:
            graph = GraphProto(name=key[1], node=function.node, value_info=function.value_info, input=inputs)
            graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, function.output))
            walk.bind(graph, function, call)
            body = ModelProto(ir_version=model.ir_version, opset_import=function.opset_import, graph=graph)
            body.functions.extend(walk.reached(model, function))
            per_kind.append(infer_types(body, file, ask=ask))
        for path, inside in reduce(_joined, per_kind).items():
            found[walk.root(function) + path].update(inside)
    return dict(found), kinds


def _kinds(function: FunctionProto, calls: list[_Call]) -> list[Kind]:
    kinds: dict[tuple[bytes, ...], Kind] = {}
    for call, known in calls:
        given = zip(function.input, (known.get(name, Value(name)) for name in call.input), strict=False)
        inputs = [declaration(n, v.type if v.kind == "tensor" else None, v.shape) for n, v in given]
        texts = [m.SerializeToString(deterministic=True) for m in (*inputs, *call.attribute)]
        kinds.setdefault(tuple(texts), (inputs, []))[1].append(call)
    return [*kinds.values()]


def _joined(a: ByPath, b: ByPath) -> ByPath:
    """Return what two calls of a function agree on."""
    joined: ByPath = {path: {} for path in a.keys() & b.keys()}
    for path, types in joined.items():
        for name in a[path].keys() & b[path].keys():
            x, y = a[path][name], b[path][name]
            shape = None
            if x.shape is not None and y.shape is not None and len(x.shape) == len(y.shape):
                shape = tuple(starmap(_agreed, zip(x.shape, y.shape, strict=True)))
            kind = _agreed(x.kind, y.kind) or "undeclared"
            types[name] = Value(name, _agreed(x.type, y.type), shape, kind)
    return joined


def _agreed(a: Any, b: Any) -> Any:
    return a if a == b else None


# --- nodes of constants -----------------------------------------------------------------------------

_MOST_FOLDED = 4096  # elements of a result
_NEWEST = 21
_AXES_AS_ATTRIBUTE = 11

# Each of these moves values, or rounds an exact result once, so that every runtime gives the same result.
# ConstantOfShape, Expand and Reshape may claim any size.
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min")
_OPERATORS = {
    *_ARITHMETIC,
    *("Abs", "Cast", "CastLike", "Ceil", "Concat", "ConstantOfShape", "DequantizeLinear", "Expand"),
    *("Flatten", "Floor", "Gather", "Identity", "Neg", "QuantizeLinear", "Range", "Reciprocal"),
    *("Reshape", "Size", "Slice", "Sqrt", "Squeeze", "Transpose", "Unsqueeze", "Where"),
}
# A node with one of these attributes belongs to an opset before 7 and has another meaning.
_OLD = {*product(_ARITHMETIC, ("axis", "broadcast")), ("Reshape", "shape")}


def folded(node: NodeProto, given: dict[str, Array]) -> Array | None:
    """Return the result of a foldable node for constants by name; None if it is too large or the node is broken."""
    old = any(attribute.name in ("axes", "starts") for attribute in node.attribute)
    try:
        if _most_elements(node.op_type, [given[name] for name in node.input if name]) > _MOST_FOLDED:
            return None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            graph = GraphProto(node=[node], output=[onnx.ValueInfoProto(name=node.output[0])])
            evaluator = ReferenceEvaluator(graph, {"": _AXES_AS_ATTRIBUTE if old else _NEWEST})
            (result,) = cast("list[object]", evaluator.run(None, given))
    except Exception:  # the bounds and the evaluator check little, and NumPy raises errors of many classes
        return None
    return result if isinstance(result, np.ndarray) else None


def _most_elements(op_type: str, arrays: Sequence[Array]) -> int:
    """Return an upper bound for the number of elements of a result, or fail."""
    sizes = [array.size for array in arrays]
    if op_type == "Range":  # not of floats, whose steps the evaluator may sum or multiply
        start, limit, step = (index(array.item()) for array in arrays)
        return -(-abs(limit - start) // abs(step))
    if op_type in ("ConstantOfShape", "Expand"):  # whose last input is the shape
        dims = arrays[-1].reshape(-1)[:64].tolist()
        return max(abs(math.prod(map(index, dims))), *sizes[:-1], 1)
    return math.prod(sizes) if op_type in (*_ARITHMETIC, "Where") else max(sum(sizes), 1)
