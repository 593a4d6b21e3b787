"""ONNX files to graphs: every opset, subgraphs, the model's own functions, external data.

The file is untrusted. Faults are found here, before anything runs, and reported in one line that names the file and
the node. The ``onnx`` package's checker looks at each node. Names, order, cycles, functions, tensors and versions are
checked here, because the checker leaves gaps there.
"""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from halfulp.errors import REPAIR, HalfulpError, HalfulpWarning, ModelError, UnsupportedError, printable
from halfulp.models.files import Source, read_source, refuse_misnamed
from halfulp.models.graph import Array, Graph, Model, Node, Value, describe, type_name
from halfulp.models.onnx.checks import Checks, is_known, label, schema_in_force
from halfulp.models.onnx.infer import Ask, FunctionTypes, Scope, Types, infer_types
from halfulp.models.onnx.tensors import LARGEST_FILE, TensorReader, declared, mapped
from halfulp.models.onnx.walk import (
    Identity,
    Owner,
    bound,
    every_name,
    identity,
    in_order,
    inner_path,
    is_ours,
    opset_in_force,
    owners_of,
    plain_domain,
    reached,
    root,
    subgraphs,
    with_attributes,
)

_SORTED = (
    "its nodes were not in order and have been sorted; a node without a name has its number in the new order"
)


class Onnx(Model):
    """An ONNX model: what it says of itself, its nodes and its values, loaded once.

    Args:
        proto: the message, which nothing here changes.
        file: its name in messages.
        folder: the folder of its external data; None for a model that came without a file.
        ask: the nodes whose types ONNX Runtime may infer, as for :func:`infer_types`.
    """

    def __init__(
        self,
        proto: ModelProto,
        file: str = "<ModelProto>",
        folder: Path | None = None,
        *,
        ask: Ask = "foreign",
    ) -> None:
        self.proto, self.file, self.folder = proto, file, folder
        self._ask, self._reader = ask, TensorReader(file, folder)
        self._scopes: dict[str, Scope] = {}  # by path

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]  # it can be set, too
        """The graph to evaluate; operators may be unknown. Errors are those of :meth:`check`."""
        return _Builder(self, keep_unknown=True, check_ours=True).graph()

    def check(self, *, keep_unknown: bool = True, check_ours: bool = True) -> Self:
        """Refuse a model that is broken, and return it otherwise.

        Args:
            keep_unknown: accept operators that the onnx package does not know, of any domain: some runtimes have them.
                Use this when the model will not be evaluated here.
            check_ours: check Pow and PRelu nodes; an audit reports their faults itself.

        Raises:
            ModelError: the file is broken or unsafe: truncated, cyclic, with names that are missing or defined twice,
                versions or operators that do not exist, tensors whose dims contradict their data, or external data
                outside the model's folder.
            UnsupportedError: an operator belongs to an unknown domain.
        """
        self.graph = _Builder(self, keep_unknown, check_ours).graph()
        return self

    @cached_property
    def fault_of_ours(self) -> HalfulpError | None:
        """The error of a Pow or PRelu node, None if there is none; that of any other part of the model is raised.

        Operators may be unknown.
        """
        try:
            _Builder(self, keep_unknown=True, check_ours=True).graph()  # not kept: it copies weights
        except (ModelError, UnsupportedError) as error:
            _Builder(self, keep_unknown=True, check_ours=False).graph()
            return error
        return None

    def of(self, proto: ModelProto) -> Onnx:
        """Return another message as a model of this file and folder."""
        return Onnx(proto, self.file, self.folder)

    def copy(self) -> Onnx:
        """Return a copy, which may be changed."""
        return self.of(deepcopy(self.proto))

    def with_outputs(self, names: Sequence[str]) -> Onnx:
        """Return the model with tensors of the graph as outputs, and no others."""
        model = self.copy()
        del model.proto.graph.output[:]
        model.proto.graph.output.extend(ValueInfoProto(name=name) for name in names)
        model.graph = super().with_outputs(names).graph
        return model

    @contextmanager
    def mapped(self) -> Iterator[Onnx]:
        """Yield the model with its weights in a file that all sessions map."""
        with mapped(self.proto, self.file, self.folder) as (proto, folder):
            light = Onnx(proto, self.file, folder)
            del self
            yield light

    @cached_property
    def types(self) -> dict[str, Types]:
        """The types of the values of each graph by the graph's path, also in functions that are called."""
        types = infer_types(self.proto, self.file, ask=self._ask)
        inside = FunctionTypes(self.proto, types, self.file, self._ask)
        return reduce(or_, map(inside.of, reached(self.proto)), types)

    def scopes(self, only: Owner | None = None) -> Iterator[Scope]:
        """Yield functions that use ONNX's own operators, then the graph, or one of these; each before those within."""
        for owner, opset in owners_of(self.proto):
            todo = [self.scope(owner, opset)] if only is None or only is owner else []
            while todo:
                scope = todo.pop()
                yield scope
                nodes = enumerate(scope.owner.node if scope.has_bodies else ())
                todo += chain.from_iterable(self.within(scope, *each) for each in nodes)

    def scope(self, owner: Owner | None = None, opset: int | None = None) -> Scope:
        """Return a function's body, or the graph, with the values that its nodes can read."""
        owner = self.proto.graph if owner is None else owner
        opset = opset or opset_in_force(self.proto.opset_import)
        path, where = (root(owner), owner.name) if isinstance(owner, FunctionProto) else ("", "")
        return self._scope(owner, opset, path, where, None)

    def within(self, scope: Scope, index: int, node: NodeProto) -> Iterator[Scope]:
        """Yield the graphs within a node of a graph, which has this number."""
        for name, graph in subgraphs(node):
            where = f"{label(node, index, scope.where)}.{name}"
            yield self._scope(graph, scope.opset, inner_path(scope.path, node, name), where, scope)

    def _scope(self, owner: Owner, opset: int, path: str, where: str, outer: Scope | None) -> Scope:
        if path not in self._scopes:
            types = self.types.setdefault(path, {})
            self._scopes[path] = Scope(
                owner, types, self._reader, path, where, outer, ir_version=self.proto.ir_version
            )
        scope = self._scopes[path]
        scope.owner, scope.opset = owner, opset  # a rewriting copies nodes
        return scope


def load(source: Source, *, file: str | None = None, keep_unknown: bool = False) -> Model:
    """Read an ONNX model and check it. Nodes that are not in order are sorted, with a ``HalfulpWarning``.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``, which is not changed.
        file: the model's name in messages; by default the path, or the kind of the source.
        keep_unknown: as for :meth:`Onnx.check`, which has the errors.
    """
    model = parse(source, file=file)
    return Model(model.file, model.check(keep_unknown=keep_unknown).graph)


def declared_inputs(source: Source) -> Model:
    """Return a model's inputs without its nodes and weights. These are not checked: a broken model has inputs, too."""
    model = parse(source, report=lambda line: None)
    graph = model.proto.graph
    inputs = tuple(declared(info, model.file) for info in graph.input)
    defaults = dict.fromkeys((tensor.name for tensor in graph.initializer), np.empty(0))
    return Model(model.file, Graph(graph.name, inputs, (), defaults, (), {}))


def parse(source: Source, *, file: str | None = None, report: Callable[[str], None] | None = None) -> Onnx:
    """Return an unchecked model.

    The nodes are in order: those of the source are sorted in a copy if they are not. ``report`` receives a line if they
    were sorted; without it, a ``HalfulpWarning`` says so.

    Raises:
        ModelError: the file can't be read, or is not an ONNX model.
        HalfulpError: the source is of another class.
    """
    model = _message(source, file)
    ordered, was_sorted = in_order(model.proto)
    if was_sorted:
        if report is None:
            line = f"{printable(model.file)}: {_SORTED}; halfulp repair writes it in order"
            warnings.warn(line, HalfulpWarning, stacklevel=2)
        else:
            report(_SORTED)
    return model.of(ordered)


def _message(source: Source, file: str | None) -> Onnx:
    if isinstance(source, ModelProto):
        return Onnx(source, file or "<ModelProto>")
    data, name, path = read_source(source, LARGEST_FILE, file)
    refuse_misnamed(data, name)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        is_deep = "Depth" in str(error)
        reason = "its graphs nest too deep" if is_deep else "truncated, or not an ONNX model"
        expected = None if is_deep else "the whole file: download or export it again"
        raise ModelError(reason, file=name, expected=expected) from None
    # The file may be a link. Its external data is in the folder that the caller names.
    return Onnx(proto, name, None if path is None else path.parent)


_Operands = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a node's inputs and of its outputs."""


class _Around(NamedTuple):
    """The surroundings of nodes.

    Attributes:
        opsets: the version of each domain.
        names: the values of the graph and of the graphs around it, and whether each is defined yet.
        binding: the attributes of the function around the nodes.
        where: the name of the graph or function in messages.
    """

    opsets: Mapping[str, int]
    names: ChainMap[str, bool]
    binding: Mapping[str, AttributeProto]
    where: str


class _Builder:
    """Turns one ModelProto into a graph."""

    def __init__(self, model: Onnx, keep_unknown: bool, check_ours: bool) -> None:
        self._proto = model.proto
        self._keep_unknown = keep_unknown
        self._check_ours = check_ours
        self._file = model.file
        self._check = Checks(model.file, model.proto.ir_version)
        self._tensors = TensorReader(model.file, model.folder)
        self._functions: dict[Identity, FunctionProto] = {}
        self._bodies: dict[tuple[int, tuple[tuple[str, bytes], ...]], tuple[Graph, int, int]] = {}
        self._calling: list[Identity] = []

    def graph(self) -> Graph:
        proto = self._proto
        self._check.model(proto)
        self._check.text(every_name(proto))
        for function in proto.functions:
            if identity(function) in self._functions:
                self._check.fail(f"defines the function {function.name!r} twice")
            self._functions[identity(function)] = function
        opsets = self._check.opsets(proto.opset_import, "the model")
        if not opsets and proto.ir_version < 3:
            opsets = {"": 1}  # before IR version 3 there was one opset and no import
        if not proto.graph.output:
            self._check.fail("the graph has no output")
        return self._graph(proto.graph, _Around(opsets, ChainMap(), {}, ""))

    def _graph(self, proto: GraphProto, around: _Around) -> Graph:
        """Build a graph or subgraph."""
        names, inside = around.names, around.where and f" of {around.where}"
        inputs = tuple(declared(info, self._file) for info in proto.input)
        input_names = [value.name for value in inputs]
        self._check.distinct(input_names, f"input{inside}")
        constants = self._constants(proto, inside)
        names.update(dict.fromkeys((*constants, *input_names), True))
        outputs = tuple(declared(info, self._file) for info in proto.output)
        nodes = self._body(proto.node, around)
        self._check_made((value.name for value in outputs), names, inside)
        known = {info.name: declared(info, self._file) for info in proto.value_info}
        known |= {value.name: value for value in (*inputs, *outputs)}
        for name in filter(known.__contains__, constants):
            if not known[name].fits(array := constants[name]):
                message = f"initializer {name!r}{inside} contradicts its declaration"
                got = describe(type_name(array.dtype), array.shape)
                self._check.fail(message, expected=known[name], got=got, run=REPAIR)
        return Graph(proto.name, inputs, outputs, constants, nodes, known)

    def _constants(self, proto: GraphProto, inside: str) -> dict[str, Array]:
        weights = [*proto.initializer, *(sparse.values for sparse in proto.sparse_initializer)]
        self._check.distinct((tensor.name for tensor in weights), f"initializer{inside}")
        constants = {}
        for tensor in proto.initializer:
            constants[tensor.name] = self._tensors.read(tensor, f"initializer {tensor.name!r}{inside}")
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            constants[name] = self._tensors.read_sparse(sparse, f"sparse initializer {name!r}{inside}")
        return constants

    def _check_made(self, outputs: Iterable[str], names: Mapping[str, bool], inside: str) -> None:
        for name in outputs:
            if not names.get(name):
                self._check.fail(f"output {name!r}{inside} is made by no node")

    def _body(self, protos: Iterable[NodeProto], around: _Around) -> tuple[Node, ...]:
        """Build the nodes of a graph or function, and check that each name is defined once, before it is read."""
        defined = around.names.maps[0]
        labelled = [
            (proto, (tuple(proto.input), tuple(proto.output)), label(proto, index, around.where))
            for index, proto in enumerate(protos)
        ]
        self._check.count(len(labelled))
        for _, (_, outputs), node in labelled:
            for name in filter(None, outputs):
                if name in defined:
                    self._check.fail(f"its output {name!r} is defined before", node=node)
                defined[name] = False
        nodes = []
        for proto, operands, node in labelled:
            for name in filter(None, operands[0]):
                if not (defined if name in defined else around.names).get(name):
                    # The nodes are sorted (in_order), so that the maker of an input comes later only on a cycle.
                    if name in around.names:
                        self._check.fail(f"the graph has a cycle through its input {name!r}", node=node)
                    self._check.fail(f"it reads {name!r}, which nothing defines", node=node)
            nodes.append(self._node(proto, operands, around, node))
            for name in filter(None, operands[1]):
                defined[name] = True
        return tuple(nodes)

    def _node(self, proto: NodeProto, operands: _Operands, around: _Around, node: str) -> Node:
        domain, op_type = plain_domain(proto.domain), proto.op_type
        attributes, values = [], {}
        function = self._functions.get(identity(proto)) if self._functions else None
        opset = self._opset(domain, function, around, node)
        if proto.attribute:
            attributes = self._bound(proto, around, node)
            values = self._values(attributes, around, node)
        body = None if function is None else self._call(function, proto, attributes, node)
        schema = None
        if body is None and (self._check_ours or not is_ours(proto)):
            schema = schema_in_force(domain, op_type, opset)
            if schema is None and not self._keep_unknown:
                self._check.unknown(domain, op_type, opset, node)
        if schema is not None:
            self._check.node(proto, operands, attributes, values, around.opsets, node)
        source = None
        if (domain, op_type) != ("", "Constant"):  # whose tensor need not be kept twice
            source = with_attributes(proto, (a for a in attributes if a.type != AttributeProto.GRAPH))
        version = str(opset if schema is None else schema.since_version)
        kind = domain, op_type, version, opset
        return Node(node, "onnx", *kind, *operands, values, function=body, source=source)

    def _opset(self, domain: str, function: FunctionProto | None, around: _Around, node: str) -> int:
        """Return the version of a node's domain."""
        is_foreign = function is not None or (self._keep_unknown and not is_known(domain))
        # ONNX Runtime takes nodes of its own domains without an import.
        opset = around.opsets.get(domain, 1 if is_foreign else None)
        if opset is None:
            asked = f"domain={domain!r}, version=N" if domain else "version=N"
            way_out = f"the exporter's version: in Python, model.opset_import.add({asked}), then onnx.save"
            message = f"the domain {domain or 'ai.onnx'!r} is not imported"
            self._check.fail(message, node=node, expected=way_out)
        return opset

    def _bound(self, proto: NodeProto, around: _Around, node: str) -> list[AttributeProto]:
        """Return the node's attributes with references to the function's own replaced."""
        for attribute in proto.attribute:
            if attribute.ref_attr_name in around.binding:
                self._check.copy(around.binding[attribute.ref_attr_name].ByteSize())
            elif attribute.ref_attr_name and not self._calling:
                self._check.fail(f"its attribute {attribute.name!r} refers to a function", node=node)
        attributes = (bound(attribute, around.binding) for attribute in proto.attribute)
        return [attribute for attribute in attributes if attribute is not None]

    def _values(self, attributes: list[AttributeProto], around: _Around, node: str) -> dict[str, Any]:
        """Return the attributes' values by name."""
        values: dict[str, Any] = {}
        for attribute in attributes:
            if attribute.name in values:
                self._check.fail(f"its attribute {attribute.name!r} is given twice", node=node)
            if attribute.type == AttributeProto.GRAPH:
                inner = around._replace(names=around.names.new_child(), where=f"{node}.{attribute.name}")
                with self._check.deeper(node):
                    values[attribute.name] = self._graph(attribute.g, inner)
            else:
                values[attribute.name] = self._check.value(attribute, self._tensors, node)
        return values

    def _call(
        self, function: FunctionProto, proto: NodeProto, attributes: list[AttributeProto], node: str
    ) -> Graph:
        """Return the function's body with this call's attributes; equal calls share one body."""
        name, key = function.name, identity(function)
        if key in self._calling:
            self._check.recursive((*self._calling, key), node)
        if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
            self._check.fail(f"the function {name!r} has fewer inputs or outputs", node=node)
        binding = {attribute.name: attribute for attribute in function.attribute_proto}
        allowed = set(function.attribute) | set(binding)
        for attribute in attributes:
            if attribute.name not in allowed:
                self._check.fail(f"the function {name!r} has no {attribute.name!r}", node=node)
            binding[attribute.name] = attribute
        given = [(k, v.SerializeToString(deterministic=True)) for k, v in sorted(binding.items())]
        call = id(function), tuple(given)
        if call in self._bodies:
            body, size, height = self._bodies[call]
            self._check.count(size)
            with self._check.deeper(node, height):
                return body
        self._check.copy(sum(len(text) for _, text in given))
        before = self._check.nodes
        self._calling.append(key)
        with self._check.deeper(node):
            body = self._expanded(function, binding)
        self._calling.pop()
        self._bodies[call] = body, self._check.nodes - before, self._check.height
        return body

    def _expanded(self, function: FunctionProto, binding: Mapping[str, AttributeProto]) -> Graph:
        """Build the body of a function with the attributes of a call."""
        what = f"the function {function.name!r}"
        opsets = self._check.opsets(function.opset_import, what)
        self._check.distinct(function.input, f"input of {what}")
        names = ChainMap(dict.fromkeys(function.input, True))
        nodes = self._body(function.node, _Around(opsets, names, binding, printable(function.name)))
        self._check_made(function.output, names, f" of {what}")
        known = {info.name: declared(info, self._file) for info in function.value_info}
        inputs, outputs = (tuple(map(Value, names)) for names in (function.input, function.output))
        return Graph(function.name, inputs, outputs, {}, nodes, known)
