"""Give every Pow and PRelu node of a model its version, and put the model's functions that hold some into the graph.

A function's body has types only where it is called, and ONNX Runtime infers none through custom operators
in functions. The other functions stay.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NoReturn

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.models.onnx.checks import Checks
from halfulp.models.onnx.functions import Identity, identity, reached
from halfulp.models.onnx.nodes import plain_domain
from halfulp.specs import in_force

RESOLVED = "halfulp.resolved"
"""The domain of Pow and PRelu nodes whose op_type is the id of their version."""

_OURS = ("Pow", "PRelu")
_DEEPEST = 64  # functions calling functions
_MOST_NODES = 1_000_000  # a small file can stand for more than a computer can hold


def resolved(model: ModelProto, file: str) -> ModelProto:
    """Return a copy in which a Pow node is, say, ``onnx.Pow-13`` of the domain RESOLVED, and no function holds any.

    Args:
        model: is left as it is.
        file: its name in messages.

    Raises:
        ModelError: a function calls itself.
        UnsupportedError: a function imports another opset than the model, and one of its operators differs there.
    """
    return _Resolver(model, file).result


class _Resolver:
    def __init__(self, model: ModelProto, file: str) -> None:
        self._file = file
        if any(isinstance(name, bytes) for name in _names(model)):
            self._fail("a name is not UTF-8")  # protobuf hands those out as bytes
        self._functions = {identity(function): function for function in reached(model)}
        for function in self._functions.values():
            Checks(file).opsets(function.opset_import, f"the function {function.name!r}")
        self._holds: dict[Identity, bool] = {}
        for key in self._functions:
            self._holds_ours(key, ())
        self._made = 0
        self.result = ModelProto()
        self.result.CopyFrom(model)
        self._opsets = _opsets(model.opset_import)
        for key in (key for key, holds in self._holds.items() if holds):
            for domain, version in _opsets(self._functions[key].opset_import).items():
                if domain not in self._opsets:
                    self._opsets[domain] = version
                    self.result.opset_import.append(helper.make_opsetid(domain, version))
        self._graph(self.result.graph, self._opsets, 0)
        kept = [f for f in self.result.functions if not self._holds.get(identity(f), True)]
        del self.result.functions[:]
        self.result.functions.extend(kept)

    def _holds_ours(self, key: Identity, callers: tuple[Identity, ...]) -> bool:
        """Whether an operator is ours, or a function that has ours in its body or in what it calls."""
        if key not in self._functions:
            return key[0] == "" and key[1] in _OURS
        if key in callers:
            cycle = ", ".join(printable(name) for _, name, _ in (*callers[callers.index(key) :], key))
            self._fail(f"the function {printable(key[1])!r} calls itself: {cycle}")
        self._check_depth(len(callers))
        if key not in self._holds:
            called = {identity(node) for node in all_nodes(self._functions[key].node)}
            # All are asked, so that no cycle is missed.
            self._holds[key] = True in {self._holds_ours(other, (*callers, key)) for other in called}
        return self._holds[key]

    def _graph(self, graph: GraphProto, opsets: Mapping[str, int], depth: int) -> None:
        nodes = list(self._nodes(graph.node, opsets, depth))
        del graph.node[:]
        graph.node.extend(nodes)

    def _nodes(
        self, nodes: Sequence[NodeProto], opsets: Mapping[str, int], depth: int
    ) -> Iterator[NodeProto]:
        """Yield the nodes that take the place of some nodes."""
        self._check_depth(depth)
        for node in list(nodes):
            self._made += 1
            if self._made > _MOST_NODES:
                self._fail("its functions expand to too many nodes")
            for attribute in node.attribute:
                for graph in subgraphs(attribute):
                    self._graph(graph, opsets, depth)
            key = identity(node)
            if key in self._functions:
                if self._holds[key]:
                    function = self._functions[key]
                    body = self._body(function, node)
                    yield from self._nodes(body, _opsets(function.opset_import), depth + 1)
                    continue
            elif key[0] == "" and key[1] in _OURS:
                node.op_type = in_force("onnx", node.op_type, opsets.get("", 1)).id
                node.domain, node.overload = RESOLVED, ""
            elif depth and _version(node, opsets) != _version(node, self._opsets):
                raise UnsupportedError(
                    f"{self._file}: a function of the model is of another opset, in which"
                    f" {printable(node.op_type)} differs",
                    expected=f"opset {self._opsets.get(key[0])}",
                    got=f"opset {opsets.get(key[0])}",
                )
            yield node

    def _body(self, function: FunctionProto, call: NodeProto) -> list[NodeProto]:
        """Return copies of a function's nodes, with the call's names and attributes for the function's."""
        prefix = f"{call.name or function.name}/{self._made}/"
        names = dict(zip_longest(("", *function.input), ("", *call.input), fillvalue=""))
        passed = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if formal in names:  # an input, handed through
                passed.append(helper.make_node("Identity", [names[formal]], [actual]))
            elif actual:
                names[formal] = actual
        body = copy.deepcopy(list(function.node))
        bound = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.attribute)}
        for node in all_nodes(body):
            _bind(node, bound)
            if node.name:
                node.name = prefix + node.name
        _rename(body, names, prefix)
        return [*body, *passed]

    def _check_depth(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise ModelError(
                "its functions nest too deep", file=self._file, expected=f"at most {_DEEPEST}", got=depth
            )

    def _fail(self, message: str) -> NoReturn:
        raise ModelError(message, file=self._file)


def _names(model: ModelProto) -> Iterator[str]:
    """Yield every name that is read here."""
    bodies: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    for holder in (model, *model.functions):
        yield from (entry.domain for entry in holder.opset_import)
    for function in model.functions:
        yield from (function.domain, function.name, function.overload, *function.input, *function.output)
        yield from (attribute.name for attribute in function.attribute_proto)
    for node in (node for body in bodies for node in all_nodes(body.node)):
        yield from (node.domain, node.op_type, node.overload, node.name, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            for graph in subgraphs(attribute):
                for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
                    yield info.name
                yield from (sparse.values.name for sparse in graph.sparse_initializer)


def _bind(node: NodeProto, bound: Mapping[str, AttributeProto]) -> None:
    """Replace references to a function's attributes by their values; one without a value goes."""
    attributes = list(node.attribute)
    del node.attribute[:]
    for attribute in attributes:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in bound:
                continue
            name, attribute = attribute.name, copy.deepcopy(bound[attribute.ref_attr_name])
            attribute.name = name
        node.attribute.append(attribute)


def _rename(nodes: Sequence[NodeProto], names: dict[str, str], prefix: str) -> None:
    """Rename all values; what a function's body defines has the prefix, in its subgraphs too."""

    def new(name: str) -> str:
        return names.setdefault(name, prefix + name)

    for node in nodes:
        for field in (node.input, node.output):
            field[:] = [new(name) for name in field]
        for graph in (graph for attribute in node.attribute for graph in subgraphs(attribute)):
            for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
                info.name = new(info.name)
            for sparse in graph.sparse_initializer:
                sparse.values.name = new(sparse.values.name)
            _rename(graph.node, names, prefix)


def _version(node: NodeProto, opsets: Mapping[str, int]) -> int | None:
    """Return the version of an operator in force; None where the onnx package does not know it."""
    domain = plain_domain(node.domain)
    try:
        return int(onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain).since_version)
    except onnx.defs.SchemaError:
        return None


def subgraphs(attribute: AttributeProto) -> list[GraphProto]:
    """Return the graphs of an attribute."""
    return [attribute.g] if attribute.type == AttributeProto.GRAPH else list(attribute.graphs)


def all_nodes(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in subgraphs(attribute):
                yield from all_nodes(graph.node)


def _opsets(imports: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {plain_domain(entry.domain): entry.version for entry in imports}
