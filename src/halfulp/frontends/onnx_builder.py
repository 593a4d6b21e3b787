"""ModelProto to Graph: names, order, versions, functions and subgraphs, each checked on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.errors import ModelError, UnsupportedError
from halfulp.frontends.graph import Graph, Model, Node, Value, describe, printable, type_name
from halfulp.frontends.onnx_nodes import (
    attribute_value,
    check_node,
    plain_domain,
    schema_in_force,
)
from halfulp.frontends.onnx_tensors import TensorReader, declared

# A function may call another twice, that one a third twice: a small file can stand for more nodes
# than a computer can hold.
_MOST_NODES = 1_000_000
_DEEPEST = 64  # functions calling functions, and graphs within graphs


class _Scope:
    """The names that a node can see: those of its graph, then of the graphs around it."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.names: set[str] = set()
        self._outer = outer

    def __contains__(self, name: str) -> bool:
        return name in self.names or (self._outer is not None and name in self._outer)


def build(proto: ModelProto, file: str, folder: Path | None) -> Model:
    """Return the graph of a parsed model.

    Args:
        proto: left as it is.
        file: the model's name in messages.
        folder: where its external data lies; None for a model that came without a file.

    Raises:
        ModelError, UnsupportedError: as :func:`halfulp.frontends.onnx.load`.
    """
    return _Builder(proto, file, folder).model()


class _Builder:
    """Turns one ModelProto into a Model."""

    def __init__(self, proto: ModelProto, file: str, folder: Path | None) -> None:
        self._proto = proto
        self._file = file
        self._tensors = TensorReader(file, folder)
        self._functions: dict[tuple[str, str, str], FunctionProto] = {}
        self._bodies: dict[tuple[int, tuple[tuple[str, bytes], ...]], tuple[Graph, int]] = {}
        self._calling: list[tuple[str, str, str]] = []
        self._nodes = 0
        self._depth = 0

    def model(self) -> Model:
        proto = self._proto
        if not proto.HasField("ir_version") or proto.ir_version < 1:
            self._fail("not an ONNX model: it has no IR version")
        if proto.ir_version > onnx.IR_VERSION:
            self._fail(
                "of an IR version that this onnx package does not know",
                expected=f"at most {onnx.IR_VERSION}",
                got=proto.ir_version,
            )
        if not proto.HasField("graph"):
            self._fail("has no graph")
        for function in proto.functions:
            self._text(function.domain, function.name, function.overload, *function.attribute)
            self._text(*function.input, *function.output)
            key = (plain_domain(function.domain), function.name, function.overload)
            if key in self._functions:
                self._fail(f"defines the function {function.name!r} twice")
            self._functions[key] = function
        opsets = self._opsets(proto.opset_import, "the model")
        if not opsets and proto.ir_version < 3:
            opsets = {"": 1}  # before IR version 3 there was one opset and no import
        return Model(self._file, self._graph(proto.graph, opsets, _Scope(), {}, ""))

    def _opsets(self, imports: Iterable[onnx.OperatorSetIdProto], whose: str) -> dict[str, int]:
        opsets: dict[str, int] = {}
        for entry in imports:
            self._text(entry.domain)
            domain, version = plain_domain(entry.domain), entry.version
            if opsets.setdefault(domain, version) != version:
                self._fail(f"{whose} imports two versions of the domain {domain or 'ai.onnx'!r}")
            newest = onnx.defs.onnx_opset_version() if domain == "" else version
            if not 1 <= version <= newest:
                self._fail(
                    f"{whose} asks for an unknown opset of {domain or 'ai.onnx'!r}",
                    expected=f"1 to {newest}" if domain == "" else "1 or more",
                    got=version,
                )
        return opsets

    def _graph(
        self,
        proto: GraphProto,
        opsets: Mapping[str, int],
        scope: _Scope,
        binding: Mapping[str, AttributeProto],
        where: str,
    ) -> Graph:
        """Build a graph or subgraph; ``binding`` holds the attributes of the function around it."""
        inside = where and f" of {where}"
        self._text(proto.name, *(tensor.name for tensor in proto.initializer))
        self._text(*(sparse.values.name for sparse in proto.sparse_initializer))
        inputs = tuple(self._declared(info) for info in proto.input)
        self._distinct((value.name for value in inputs), f"input{inside}")
        constants = {}
        for tensor in proto.initializer:
            what = f"initializer {tensor.name!r}{inside}"
            if not tensor.name or tensor.name in constants:
                self._fail(f"{what} is defined twice" if tensor.name else f"{what} has no name")
            constants[tensor.name] = self._tensors.read(tensor, what)
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            if not name or name in constants:
                self._fail(f"sparse initializer {name!r}{inside} is defined twice or has no name")
            constants[name] = self._tensors.read_sparse(sparse, f"sparse initializer {name!r}")
        scope.names.update(constants, (value.name for value in inputs))
        outputs = tuple(self._declared(info) for info in proto.output)
        nodes = self._body(proto.node, opsets, scope, binding, where)
        for value in outputs:
            if value.name not in scope:
                self._fail(f"output {value.name!r}{inside} is made by no node")
        known = {value.name: value for value in map(self._declared, proto.value_info)}
        known |= {value.name: value for value in (*inputs, *outputs)}
        for name, array in constants.items():
            if name in known and not known[name].fits(array):
                self._fail(
                    f"initializer {name!r}{inside} contradicts what the model declares",
                    expected=str(known[name]),
                    got=describe(type_name(array.dtype), array.shape),
                )
        return Graph(proto.name, inputs, outputs, constants, nodes, known)

    def _body(
        self,
        protos: Iterable[NodeProto],
        opsets: Mapping[str, int],
        scope: _Scope,
        binding: Mapping[str, AttributeProto],
        where: str,
    ) -> tuple[Node, ...]:
        """Build the nodes of a graph or function, checking that names are defined, once, in order."""
        protos = list(protos)
        for proto in protos:
            self._text(proto.name, proto.domain, proto.op_type, proto.overload, *proto.input, *proto.output)
        makers: dict[str, int] = {}
        for index, proto in enumerate(protos):
            for name in filter(None, proto.output):
                if name in scope.names or name in makers:
                    label = _label(proto, index, where)
                    self._fail(f"its output {name!r} is defined before", node=label)
                makers[name] = index
        nodes = []
        for index, proto in enumerate(protos):
            label = _label(proto, index, where)
            for name in filter(None, proto.input):
                if name not in scope:
                    self._missing(name, index, protos, makers, label)
            self._count(1)
            nodes.append(self._node(proto, opsets, scope, binding, label))
            scope.names.update(filter(None, proto.output))
        return tuple(nodes)

    def _missing(
        self, name: str, reader: int, protos: list[NodeProto], makers: dict[str, int], label: str
    ) -> NoReturn:
        if name not in makers:
            self._fail(f"its input {name!r} is no input, initializer or output", node=label)
        # Does the maker in turn need what the reader makes?
        seen: set[int] = set()
        todo = [makers[name]]
        while todo:
            index = todo.pop()
            if index == reader:
                self._fail(f"the graph has a cycle through its input {name!r}", node=label)
            if index not in seen:
                seen.add(index)
                todo.extend(makers[other] for other in protos[index].input if other in makers)
        self._fail(f"it reads {name!r} before the node that makes it", node=label)

    def _node(
        self,
        proto: NodeProto,
        opsets: Mapping[str, int],
        scope: _Scope,
        binding: Mapping[str, AttributeProto],
        label: str,
    ) -> Node:
        domain = plain_domain(proto.domain)
        bound = self._bound(proto, binding, label)
        function = self._functions.get((domain, proto.op_type, proto.overload))
        opset = opsets.get(domain, 1 if function is not None else None)
        if opset is None:
            self._fail(f"the domain {domain or 'ai.onnx'!r} is not imported", node=label)
        attributes: dict[str, Any] = {}
        for attribute in bound:
            if attribute.name in attributes:
                self._fail(f"its attribute {attribute.name!r} is given twice", node=label)
            if attribute.type == AttributeProto.GRAPH:
                inner = f"{label}.{attribute.name}"
                with self._deeper(label):
                    attributes[attribute.name] = self._graph(
                        attribute.g, opsets, _Scope(scope), binding, inner
                    )
            else:
                attributes[attribute.name] = attribute_value(attribute, self._tensors, self._file, label)
        body = None
        if function is not None:
            version = str(opset)
            body = self._call(function, proto, bound, label)
        else:
            schema = schema_in_force(domain, proto.op_type, opset)
            if schema is None:
                self._unknown(domain, proto.op_type, opset, label)
            check_node(proto, domain, bound, opsets, self._proto.ir_version, self._file, label)
            version = str(schema.since_version)
        source = None
        if (domain, proto.op_type) != ("", "Constant"):  # whose tensor need not be kept twice
            source = NodeProto(
                name=proto.name,
                domain=domain,
                op_type=proto.op_type,
                input=proto.input,
                output=proto.output,
                attribute=[a for a in bound if a.type != AttributeProto.GRAPH],
            )
        return Node(
            label=label,
            standard="onnx",
            domain=domain,
            type=proto.op_type,
            version=version,
            opset=opset,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes=attributes,
            function=body,
            source=source,
        )

    def _bound(
        self, proto: NodeProto, binding: Mapping[str, AttributeProto], label: str
    ) -> list[AttributeProto]:
        """Return the node's attributes with references to the function's own replaced."""
        bound = []
        for attribute in proto.attribute:
            self._text(attribute.name, attribute.ref_attr_name)
            if not attribute.ref_attr_name:
                bound.append(attribute)
            elif attribute.ref_attr_name in binding:
                value = AttributeProto()
                value.CopyFrom(binding[attribute.ref_attr_name])
                value.name = attribute.name
                bound.append(value)
            elif not self._calling:
                self._fail(f"its attribute {attribute.name!r} refers to a function", node=label)
        return bound

    def _call(
        self, function: FunctionProto, proto: NodeProto, bound: list[AttributeProto], label: str
    ) -> Graph:
        """Return the function's body with this call's attributes; equal calls share one body."""
        name = function.name
        identity = (plain_domain(function.domain), name, function.overload)
        if identity in self._calling:
            self._fail(f"the function {name!r} calls itself", node=label)
        if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
            self._fail(f"the function {name!r} has fewer inputs or outputs", node=label)
        binding = {attribute.name: attribute for attribute in function.attribute_proto}
        allowed = set(function.attribute) | set(binding)
        for attribute in bound:
            if attribute.name not in allowed:
                self._fail(f"the function {name!r} has no {attribute.name!r}", node=label)
            binding[attribute.name] = attribute
        key = (
            id(function),
            tuple((k, v.SerializeToString(deterministic=True)) for k, v in sorted(binding.items())),
        )
        if key in self._bodies:
            body, size = self._bodies[key]
            self._count(size)
            return body
        before = self._nodes
        self._calling.append(identity)
        opsets = self._opsets(function.opset_import, f"the function {name!r}")
        self._distinct(function.input, f"input of the function {name!r}")
        scope = _Scope()
        scope.names.update(function.input)
        with self._deeper(label):
            nodes = self._body(function.node, opsets, scope, binding, printable(name))
        for output in function.output:
            if output not in scope:
                self._fail(f"output {output!r} of the function {name!r} is made by no node")
        self._calling.pop()
        known = {value.name: value for value in map(self._declared, function.value_info)}
        body = Graph(
            name,
            tuple(Value(value) for value in function.input),
            tuple(Value(value) for value in function.output),
            {},
            nodes,
            known,
        )
        self._bodies[key] = body, self._nodes - before
        return body

    @contextmanager
    def _deeper(self, label: str) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail("its graphs and functions nest too deep", node=label, expected=f"at most {_DEEPEST}")
        yield
        self._depth -= 1

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            self._fail("its functions expand to too many nodes", expected=f"at most {_MOST_NODES}")

    def _unknown(self, domain: str, op_type: str, opset: int, label: str) -> NoReturn:
        if domain in {schema.domain for schema in onnx.defs.get_all_schemas()}:
            where = f"opset {opset}" if domain == "" else f"version {opset} of {domain!r}"
            self._fail(f"no operator {op_type!r} in {where}", node=label)
        raise UnsupportedError(
            f"{self._file}, node {label}: no operator {op_type!r} of the domain {domain!r}",
            expected="the operators of ONNX, or a function in the model",
        )

    def _text(self, *names: object) -> None:
        """Refuse names that are not UTF-8, which protobuf hands out as bytes."""
        for name in names:
            if isinstance(name, bytes):
                self._fail("a name is not UTF-8", got=repr(name)[:80])

    def _declared(self, info: onnx.ValueInfoProto) -> Value:
        self._text(info.name)
        return declared(info, self._file)

    def _distinct(self, names: Iterable[str], what: str) -> None:
        seen: set[str] = set()
        for name in names:
            if not name or name in seen:
                self._fail(f"{what} {name!r} is defined twice" if name else f"{what} has no name")
            seen.add(name)

    def _fail(self, message: str, *, node: str | None = None, **shown: Any) -> NoReturn:
        raise ModelError(message, file=self._file, node=node, **shown)


def _label(proto: NodeProto, index: int, where: str) -> str:
    name = f"'{printable(proto.name)}'" if proto.name else f"#{index}"
    return f"{where and where + '.'}{name} ({printable(proto.op_type)})"
