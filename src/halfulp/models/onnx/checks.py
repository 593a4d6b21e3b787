"""The checks of an ONNX model before anything runs, and the graph that is made meanwhile.

The file is untrusted. The ``onnx`` package's checker looks at each node. Names, order, cycles, functions, tensors and
versions are checked here, because the checker leaves gaps there.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import REPAIR, HalfulpError, ModelError, UnsupportedError, printable, within
from halfulp.models.graph import Graph, Node, Value, describe
from halfulp.models.onnx import walk
from halfulp.models.onnx.tensors import TensorReader, declared
from halfulp.specs import in_force
from halfulp.types import type_name

Port: TypeAlias = onnx.defs.OpSchema.FormalParameter

# If each function calls the next one twice, a small file expands to more nodes than a computer can hold.
_MOST_NODES = 1_000_000
_MOST_BYTES = 1 << 30  # of copied attributes: each node that refers to a function's attribute copies it
_LARGEST_OPSET = (1 << 31) - 1  # the onnx package's checker takes no larger one
_NEWER = "or a newer onnx package: pip install --upgrade onnx"
_NAME = attrgetter("name")
_MOST_KEPT = 4096  # bytes of attributes of a checked node that are remembered


def label(proto: NodeProto, index: int, where: str) -> str:
    """Return a node's name in messages: the graph around it, its name or number, and its operator."""
    name = f"'{printable(proto.name)}'" if proto.name else f"#{index}"
    return f"{where and where + '.'}{name} ({printable(proto.op_type)})"


def check_text(model: ModelProto, file: str) -> None:
    """Refuse names that are not UTF-8: protobuf returns them as bytes."""
    names: Iterable[object] = walk.every_name(model)
    for name in names:
        if isinstance(name, bytes):
            raise ModelError("a name is not UTF-8", file=file, got=repr(name)[:80])


def checked_opsets(imports: Iterable[onnx.OperatorSetIdProto], whose: str, file: str) -> dict[str, int]:
    """Return the imported version of each domain; refuse two versions of one, and versions that do not exist."""
    opsets: dict[str, int] = {}
    for entry in imports:
        domain, version = walk.plain_domain(entry.domain), entry.version
        if opsets.setdefault(domain, version) != version:
            message = f"{whose} imports two versions of the domain {domain or 'ai.onnx'!r}"
            raise ModelError(message, file=file, expected="one", got=f"{opsets[domain]} and {version}")
        oldest, newest = (0, _LARGEST_OPSET) if domain else (1, onnx.defs.onnx_opset_version())
        if not oldest <= version <= newest:
            message = f"{whose} asks for an unknown opset of {domain or 'ai.onnx'!r}"
            newer = f", {_NEWER}" if version > newest else ""
            raise ModelError(message, file=file, expected=f"{oldest} to {newest}{newer}", got=version)
    return opsets


def check_calls(model: ModelProto, file: str) -> None:
    """Refuse functions that call themselves or expand to too many nodes, and graphs and calls that nest too deep."""
    functions = {walk.identity(function): function for function in walk.reached(model)}
    # The nodes that a call of each function expands to, and the levels of graphs and calls from its body on.
    measures: dict[walk.Identity, tuple[int, int]] = {}

    def measure(nodes: Any, where: str, depth: int, *callers: walk.Identity) -> tuple[int, int]:
        size, height = len(nodes), 0
        for index, node in enumerate(nodes):
            key = walk.identity(node) if functions else ("", "", "")
            bodies = walk.subgraphs(node) if node.attribute else []
            if not bodies and key not in functions:
                continue
            name = label(node, index, where)
            if key in callers:
                cycle = (*callers[callers.index(key) :], key)
                names = ", ".join(printable(function) for _, function, _ in cycle)
                message = f"the function {printable(key[1])!r} calls itself: {names}"
                raise ModelError(message, file=file, node=name)
            if depth + measures.get(key, (0, 1))[1] > walk.DEEPEST:
                message = "its graphs and functions nest too deep"
                raise ModelError(message, file=file, node=name, expected=f"at most {walk.DEEPEST}")
            inner = [measure(graph.node, f"{name}.{each}", depth + 1, *callers) for each, graph in bodies]
            if key in functions and key not in measures:
                body, called = functions[key].node, printable(key[1])
                measures[key] = measure(body, called, depth + 1, *callers, key)
            inner += [measures[key]] if key in functions else []
            sizes, heights = zip(*inner, strict=True)
            size, height = size + sum(sizes), max(height, *heights)
        return size, height + 1

    size, _ = measure(model.graph.node, "", 0)
    if size > _MOST_NODES:
        message = "its functions expand to too many nodes"
        raise ModelError(message, file=file, expected=f"at most {_MOST_NODES}", got=size)


# --- operators and nodes ----------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def is_known(domain: str) -> bool:
    """Return whether the onnx package has operators of a domain."""
    return any(schema.domain == domain for schema in onnx.defs.get_all_schemas())


@lru_cache(maxsize=4096)
def schema_in_force(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema of an operator at an opset, if any."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: an opset of more than 32 bits
        return None


class Ports(NamedTuple):
    """The inputs, outputs and attributes of an operator, and the types of type variables as schemas spell them."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]
    allowed: Mapping[str, frozenset[str]]
    numbers: tuple[range, range]  # of inputs and of outputs
    attributes: Mapping[str, bool]  # whether each is required
    is_deprecated: bool


def port_at(ports: Sequence[Port], index: int) -> Port:
    """Return the input or output of a place; the last one may stand for many."""
    return ports[min(index, len(ports) - 1)]


@lru_cache(maxsize=4096)  # because reading a schema is slow
def ports(op_type: str, opset: int) -> Ports | None:
    """Return the inputs, outputs and attributes of one of ONNX's own operators at an opset, if it exists."""
    schema = schema_in_force("", op_type, opset)
    if schema is None:
        return None
    allowed = {row.type_param_str: frozenset(row.allowed_type_strs) for row in schema.type_constraints}
    numbers = range(schema.min_input, schema.max_input + 1), range(schema.min_output, schema.max_output + 1)
    attributes = {name: attribute.required for name, attribute in schema.attributes.items()}
    return Ports(schema.inputs, schema.outputs, allowed, numbers, attributes, schema.deprecated)


_RUN_DEPRECATED = {"GroupNormalization"}  # in opset 18; that of opset 21 takes other shapes


def _refused(
    node: NodeProto, attributes: Iterable[AttributeProto], opsets: Mapping[str, int], ir_version: int
) -> str | None:
    """Return why the onnx package's checker refuses a node with these attributes; None if it accepts it."""
    bare = walk.with_attributes(node, map(_without_data, attributes))
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(opsets)
    if node.op_type in _RUN_DEPRECATED and opsets.get("", 0) in range(18, 21):
        context.opset_imports = {**opsets, "": 21}
    try:
        onnx.checker.check_node(bare, context)
    except onnx.checker.ValidationError as error:
        return printable(str(error).strip().splitlines()[0].rstrip("."))
    return None


def version_of(node: NodeProto, opset: int) -> int | None:
    """Return the opset nearest to this one in which a node is valid; None if it is valid in this one, or in none.

    Older ones come first: attributes that have become inputs are more frequent than the reverse.
    """
    if walk.plain_domain(node.domain) or walk.is_ours(node) or opset < 1:
        return None
    given = {attribute.name for attribute in node.attribute}

    def is_valid(version: int) -> bool:
        row = ports(node.op_type, version)
        if row is None or (row.is_deprecated and node.op_type not in _RUN_DEPRECATED):
            return False
        needed = {name for name, is_required in row.attributes.items() if is_required}
        fits = needed <= given <= row.attributes.keys()
        fits &= len(node.input) in row.numbers[0] and len(node.output) in row.numbers[1]
        is_tried = fits and version != opset
        return fits and not (is_tried and _refused(node, node.attribute, {"": version}, onnx.IR_VERSION))

    if is_valid(opset) or opset > (newest := onnx.defs.onnx_opset_version()):
        return None
    return next(filter(is_valid, (*range(opset - 1, 0, -1), *range(opset + 1, newest + 1))), None)


def is_foreign(node: NodeProto, opset: int) -> bool:
    """Tell whether the onnx package does not know a node's operator. Runtimes have some of their own, in any domain."""
    return bool(walk.plain_domain(node.domain)) or schema_in_force("", node.op_type, opset) is None


def _without_data(attribute: AttributeProto) -> AttributeProto:
    """Return an attribute without its tensors' data and its subgraph, whose files and outer names the checker lacks."""
    bare = AttributeProto(name=attribute.name, type=attribute.type)
    if attribute.type == AttributeProto.TENSOR:
        bare.t.MergeFrom(TensorProto(data_type=attribute.t.data_type, dims=[0]))
    elif attribute.type == AttributeProto.GRAPH:
        bare.g.name = "body"
    elif attribute.type == AttributeProto.SPARSE_TENSOR:
        values = TensorProto(name="v", data_type=attribute.sparse_tensor.values.data_type, dims=[0])
        indices = TensorProto(name="i", data_type=TensorProto.INT64, dims=[0])
        bare.sparse_tensor.MergeFrom(onnx.SparseTensorProto(values=values, indices=indices, dims=[1]))
    else:
        return attribute
    return bare


# --- the graph --------------------------------------------------------------------------------------


class _Around(NamedTuple):
    """The surroundings of nodes."""

    opsets: Mapping[str, int]  # the version of each domain
    names: ChainMap[str, bool]  # the values of this graph and of those around it; whether each is defined yet
    binding: Mapping[str, AttributeProto] | None  # the attributes of the function around, if there is one
    where: str  # the name of the graph or function in messages


class Builder:
    """Checks a model and makes its graph, with the options of :meth:`Onnx.check`, which has the errors.

    Errors of nodes name them. The caller names the file in all others.
    """

    def __init__(
        self, proto: ModelProto, file: str, tensors: TensorReader, keep_unknown: bool, check_ours: bool
    ) -> None:
        self._proto, self._file, self._tensors = proto, file, tensors
        self._keep_unknown, self._check_ours = keep_unknown, check_ours
        self._functions: dict[walk.Identity, FunctionProto] = {}
        self._bodies: dict[tuple[int, tuple[tuple[str, bytes], ...]], Graph] = {}
        self._copied = 0  # bytes of attributes that functions copy
        self._passed: set[Hashable] = set()

    def graph(self) -> Graph:
        """Return the model's graph."""
        proto = self._proto
        if not proto.HasField("ir_version") or proto.ir_version < 1:
            raise HalfulpError("not an ONNX model: it has no IR version")
        if proto.ir_version > onnx.IR_VERSION:
            newest = f"at most {onnx.IR_VERSION}, {_NEWER}"
            message = "its IR version is newer than the onnx package"
            raise HalfulpError(message, expected=newest, got=proto.ir_version)
        if not proto.HasField("graph"):
            raise HalfulpError("has no graph")
        check_text(proto, self._file)
        for function in proto.functions:
            if walk.identity(function) in self._functions:
                raise HalfulpError(f"defines the function {function.name!r} twice")
            self._functions[walk.identity(function)] = function
        opsets = checked_opsets(proto.opset_import, "the model", self._file)
        if not opsets and proto.ir_version < 3:
            opsets = {"": 1}  # before IR version 3 there was one opset and no import
        if not proto.graph.output:
            raise HalfulpError("the graph has no output")
        check_calls(proto, self._file)
        return self._graph(proto.graph, _Around(opsets, ChainMap(), None, ""))

    def _graph(self, proto: GraphProto, around: _Around) -> Graph:
        inside = around.where and f" of {around.where}"
        fields = proto.input, proto.output, proto.value_info
        inputs, outputs, others = (tuple([declared(info, self._file) for info in infos]) for infos in fields)
        _check_distinct(map(_NAME, inputs), f"input{inside}")
        weights = [*proto.initializer, *(sparse.values for sparse in proto.sparse_initializer)]
        _check_distinct(map(_NAME, weights), f"initializer{inside}")
        constants = {
            tensor.name: self._tensors.read(tensor, f"initializer {tensor.name!r}{inside}")
            for tensor in proto.initializer
        }
        for sparse in proto.sparse_initializer:
            what = f"sparse initializer {sparse.values.name!r}{inside}"
            constants[sparse.values.name] = self._tensors.read_sparse(sparse, what)
        around.names.update(dict.fromkeys((*constants, *map(_NAME, inputs)), True))
        nodes = self._nodes(proto, around, inside)
        known = {value.name: value for value in (*others, *inputs, *outputs)}
        for name in filter(known.__contains__, constants):
            if not known[name].fits(array := constants[name]):
                message = f"initializer {name!r}{inside} contradicts its declaration"
                got = describe(type_name(array.dtype), array.shape)
                raise HalfulpError(message, expected=known[name], got=got, run=REPAIR)
        return Graph(inputs, outputs, constants, nodes, known)

    def _nodes(self, owner: walk.Owner, around: _Around, inside: str) -> tuple[Node, ...]:
        """Build the nodes of a graph or function, and check that each name is defined once, before it is read."""
        names, defined = around.names, around.names.maps[0]
        labelled = [(label(proto, index, around.where), proto) for index, proto in enumerate(owner.node)]
        for node, proto in labelled:
            for name in filter(None, proto.output):
                if name in defined:
                    raise ModelError(f"its output {name!r} is defined before", file=self._file, node=node)
                defined[name] = False
        nodes = []
        for node, proto in labelled:
            try:  # a context for each of many nodes would take time
                for name in filter(None, proto.input):
                    if not (defined if name in defined else names).get(name):
                        message = f"it reads {name!r}, which nothing defines"
                        if name in names:  # its maker comes later: the nodes are sorted (in_order)
                            message = f"the graph has a cycle through its input {name!r}"
                        raise HalfulpError(message)
                nodes.append(self._node(node, proto, around))
            except (HalfulpError, MemoryError):
                with within(self._file, node):
                    raise
            defined.update(dict.fromkeys(filter(None, proto.output), True))
        for name in owner.output if isinstance(owner, FunctionProto) else map(_NAME, owner.output):
            if not names.get(name):
                raise HalfulpError(f"output {name!r}{inside} is made by no node")
        return tuple(nodes)

    def _node(self, name: str, proto: NodeProto, around: _Around) -> Node:
        domain, op_type = walk.plain_domain(proto.domain), proto.op_type
        function = self._functions.get(walk.identity(proto)) if self._functions else None
        # ONNX Runtime takes nodes of its own domains without an import.
        is_foreign = function is not None or (self._keep_unknown and not is_known(domain))
        opset = around.opsets.get(domain, 1 if is_foreign else None)
        if opset is None:
            asked = f"domain={domain!r}, version=N" if domain else "version=N"
            way_out = f"the exporter's version: in Python, model.opset_import.add({asked}), then onnx.save"
            raise HalfulpError(f"the domain {domain or 'ai.onnx'!r} is not imported", expected=way_out)
        given, values = self._attributes(proto, around, name) if proto.attribute else ([], {})
        ends = tuple(proto.input), tuple(proto.output)
        node = Node(name, "onnx", domain, op_type, str(opset), opset, *ends, values)
        if function is not None:
            node.function = self._call(function, proto, given)
        elif self._check_ours or not walk.is_ours(proto):
            schema = schema_in_force(domain, op_type, opset)
            if schema is not None:
                node.version = str(schema.since_version)
                self._check_node(node, proto, given, around.opsets)
            elif not self._keep_unknown:
                if is_known(domain):
                    where = f"opset {opset}" if domain == "" else f"version {opset} of {domain!r}"
                    raise HalfulpError(f"no operator {op_type!r} in {where}")
                expected = "the operators of ONNX, or a function in the model"
                raise UnsupportedError(f"no operator {op_type!r} of the domain {domain!r}", expected=expected)
        if (domain, op_type) != ("", "Constant"):  # whose tensor need not be kept twice
            node.source = walk.with_attributes(proto, (a for a in given if a.type != AttributeProto.GRAPH))
        return node

    def _attributes(
        self, proto: NodeProto, around: _Around, node: str
    ) -> tuple[list[AttributeProto], dict[str, Any]]:
        """Return a node's attributes, with references to a function's own replaced, and their values by name."""
        attributes: list[AttributeProto] = []
        values: dict[str, Any] = {}
        for given in proto.attribute:
            if given.ref_attr_name and around.binding is None:
                raise HalfulpError(f"its attribute {given.name!r} refers to a function")
            attribute = walk.bound(given, around.binding or {})
            if attribute is None:
                continue
            if attribute is not given:
                self._copy(attribute.ByteSize())
            name = attribute.name
            if name in values:
                raise HalfulpError(f"its attribute {name!r} is given twice")
            if attribute.type == AttributeProto.GRAPH:
                inner = around._replace(names=around.names.new_child(), where=f"{node}.{name}")
                with within(self._file):
                    values[name] = self._graph(attribute.g, inner)
            else:
                values[name] = self._value(attribute)
            attributes.append(attribute)
        return attributes, values

    def _copy(self, size: int) -> None:
        """Add to the bytes of attributes that functions copy."""
        self._copied += size
        if self._copied > _MOST_BYTES:
            message, most = "its functions copy too much of their attributes", f"at most {_MOST_BYTES} bytes"
            raise ModelError(message, file=self._file, expected=most)

    def _value(self, attribute: AttributeProto) -> Any:
        """Return an attribute as a Python value: number, text, list, or array for a tensor."""
        what = f"attribute {attribute.name!r}"
        if attribute.type in _UNREAD:
            raise HalfulpError(f"{what} {_UNREAD[attribute.type]}")

        def read(held: Any) -> Any:
            if isinstance(held, bytes):
                return held.decode()
            if isinstance(held, TensorProto):
                return self._tensors.read(held, what)
            if isinstance(held, onnx.SparseTensorProto):
                return self._tensors.read_sparse(held, what)
            # A part of a message would keep the whole message alive.
            return deepcopy(held) if isinstance(held, onnx.TypeProto) else held

        held = onnx.helper.get_attribute_value(attribute)
        try:
            return [*map(read, held)] if attribute.type in _LISTS else read(held)
        except UnicodeDecodeError:
            raise HalfulpError(f"{what} is not UTF-8") from None

    def _call(self, function: FunctionProto, proto: NodeProto, attributes: list[AttributeProto]) -> Graph:
        """Return the function's body with this call's attributes; equal calls share one body."""
        name = function.name
        if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
            raise HalfulpError(f"the function {name!r} has fewer inputs or outputs")
        binding = {attribute.name: attribute for attribute in function.attribute_proto}
        allowed = {*function.attribute, *binding}
        for attribute in attributes:
            if attribute.name not in allowed:
                raise HalfulpError(f"the function {name!r} has no {attribute.name!r}")
            binding[attribute.name] = attribute
        given = [(k, v.SerializeToString(deterministic=True)) for k, v in sorted(binding.items())]
        call = id(function), tuple(given)
        if call not in self._bodies:
            self._copy(sum(len(text) for _, text in given))
            with within(self._file):
                self._bodies[call] = self._body(function, binding)
        return self._bodies[call]

    def _body(self, function: FunctionProto, binding: Mapping[str, AttributeProto]) -> Graph:
        what = f"the function {function.name!r}"
        opsets = checked_opsets(function.opset_import, what, self._file)
        _check_distinct(function.input, f"input of {what}")
        names = ChainMap(dict.fromkeys(function.input, True))
        around = _Around(opsets, names, binding, printable(function.name))
        nodes = self._nodes(function, around, f" of {what}")
        known = {info.name: declared(info, self._file) for info in function.value_info}
        inputs, outputs = (tuple(map(Value, names)) for names in (function.input, function.output))
        return Graph(inputs, outputs, {}, nodes, known)

    def _check_node(
        self, node: Node, proto: NodeProto, given: Sequence[AttributeProto], opsets: Mapping[str, int]
    ) -> None:
        """Check a node's numbers of inputs and outputs, its attributes, and that its operator is not deprecated.

        The onnx package's checker does so by the operator's schema. Nodes that differ only in the names of their
        values are checked once. The clauses of a Pow or PRelu come first, because the checker does not name them.
        """
        key = node.domain, node.type, node.opset, *map(bool, node.inputs), None, *map(bool, node.outputs)
        texts = tuple([_without_data(attribute).SerializeToString() for attribute in given])
        if (key, texts) in self._passed:
            return
        if walk.is_ours(proto):
            row = in_force("onnx", node.type, node.opset)
            row.check_attributes(node.attributes)
            # Every version allows float32 of any shape.
            row.infer(*[("float32", None)] * len(node.inputs))
        if (message := _refused(proto, given, opsets, self._proto.ir_version)) is not None:
            run = None
            if (version := version_of(proto, opsets.get("", 0))) is not None:
                message += f"; it is written as in opset {version}"
                run = REPAIR if node.type == "BatchNormalization" else None
            raise HalfulpError(message, run=run)
        most = node.attributes.get("num_outputs", len(node.outputs))
        if not node.domain and most < len(node.outputs):
            # Of a Split. The onnx package's inference would end the process.
            message = "it names more outputs than num_outputs says"
            raise HalfulpError(message, expected=most, got=len(node.outputs))
        if sum(map(len, texts)) <= _MOST_KEPT:
            self._passed.add((key, texts))


def _check_distinct(names: Iterable[str], what: str) -> None:
    """Refuse names that are empty or repeated."""
    seen: set[str] = set()
    for name in names:
        if not name or name in seen:
            raise HalfulpError(f"{what} {name!r} is defined twice" if name else f"{what} has no name")
        seen.add(name)


_UNREAD = dict.fromkeys((AttributeProto.GRAPHS, AttributeProto.SPARSE_TENSORS), "has an unsupported type")
_UNREAD[AttributeProto.UNDEFINED] = "states no type"
_LISTS = (AttributeProto.STRINGS, AttributeProto.TENSORS, AttributeProto.TYPE_PROTOS)  # not of numbers
