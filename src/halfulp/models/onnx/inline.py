"""Inlining of a model's functions: all of them, or those that contain a Pow or PRelu.

A function's body has types only at a call, and ONNX Runtime infers no types through custom operators in functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import zip_longest

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from halfulp.errors import UnsupportedError, printable
from halfulp.models.onnx.checks import Checks, schema_in_force
from halfulp.models.onnx.walk import (
    SUPPORTED_OPS,
    Identity,
    Owner,
    bind,
    every_name,
    every_node,
    identity,
    is_ours,
    opsets_of,
    plain_domain,
    reached,
    subgraphs,
)
from halfulp.specs import in_force

RESOLVED = "halfulp.resolved"
"""The domain of Pow and PRelu nodes whose op_type is the id of their version."""


def inlined(model: ModelProto, file: str) -> ModelProto:
    """Return a copy of a model without functions; ``file`` is its name in messages.

    Raises:
        ModelError: a function calls itself, or its functions nest too deep or expand to too many nodes.
        UnsupportedError: a function imports another opset than the model, and one of its operators differs there.
    """
    return _Inliner(model, file, every=True).result


def resolved(model: ModelProto, file: str) -> ModelProto:
    """Return a copy in which Pow nodes have the domain RESOLVED and an op_type such as ``onnx.Pow-13``; so do PRelu's.

    Functions that contain such nodes are inlined, and the others stay. Errors are those of :func:`inlined`.
    """
    return _Inliner(model, file, every=False).result


def check_calls(model: ModelProto, file: str) -> None:
    """Refuse functions that :func:`inlined` refuses for their calls, without inlining them."""
    check = Checks(file, model.ir_version)
    functions = {identity(function): function for function in reached(model)}
    # The nodes that a call of each function expands to, and how deep its calls nest.
    measures: dict[Identity, tuple[int, int]] = {}

    def measure(owner: Owner, callers: tuple[Identity, ...]) -> tuple[int, int]:
        check.depth(len(callers))
        size = height = 0
        for node in every_node(owner):
            key = identity(node)
            if key in callers:
                check.recursive((*callers, key))
            if key in functions and key not in measures:
                measures[key] = measure(functions[key], (*callers, key))
            inner = measures.get(key, (0, -1))
            size, height = size + inner[0] + 1, max(height, inner[1] + 1)
        return size, height

    size, height = measure(model.graph, ())
    check.depth(height)
    check.count(size)


class _Inliner:
    def __init__(self, model: ModelProto, file: str, *, every: bool) -> None:
        self._file = file
        self._every = every
        check_calls(model, file)
        self._check = Checks(file, model.ir_version)
        self._check.text(every_name(model))
        self._functions = {identity(function): function for function in reached(model)}
        for function in self._functions.values():
            self._check.opsets(function.opset_import, f"the function {function.name!r}")
        self._goes: dict[Identity, bool] = {}
        for key in self._functions:
            self._is_inlined(key)
        self.result = deepcopy(model)
        self._opsets = opsets_of(model.opset_import)
        for key in filter(self._goes.get, self._functions):
            for domain, version in opsets_of(self._functions[key].opset_import).items():
                if domain not in self._opsets:
                    self._opsets[domain] = version
                    self.result.opset_import.append(helper.make_opsetid(domain, version))
        self._replace(self.result.graph, self._opsets, depth=0)
        functions = [f for f in self.result.functions if not self._goes.get(identity(f), True)]
        del self.result.functions[:]
        self.result.functions.extend(functions)

    def _is_inlined(self, key: Identity) -> bool:
        """Return whether an operator is Pow, PRelu or an inlined function."""
        if key not in self._functions:
            return key[0] == "" and key[1] in SUPPORTED_OPS
        if key not in self._goes:
            called = {identity(node) for node in every_node(self._functions[key])}
            self._goes[key] = self._every or any(map(self._is_inlined, called))
        return self._goes[key]

    def _replace(self, owner: GraphProto, opsets: Mapping[str, int], depth: int) -> None:
        """Replace the nodes of a graph in place."""
        before, nodes = len(owner.node), self._expanded(owner.node, opsets, depth)
        owner.node.extend(nodes)
        del owner.node[:before]

    def _expanded(self, nodes: Iterable[NodeProto], opsets: Mapping[str, int], depth: int) -> list[NodeProto]:
        """Return the nodes that replace some nodes."""
        self._check.depth(depth)
        result = []
        for node in nodes:
            self._check.count(1)
            for _, graph in subgraphs(node):
                self._replace(graph, opsets, depth)
            key = identity(node)
            if self._goes.get(key):
                function = self._functions[key]
                body = self._body(function, node)
                result += self._expanded(body, opsets_of(function.opset_import), depth + 1)
                continue
            if key not in self._functions:
                self._resolve(node, opsets, depth)
            result.append(node)
        return result

    def _resolve(self, node: NodeProto, opsets: Mapping[str, int], depth: int) -> None:
        """Give a Pow or PRelu its version. Refuse other operators whose version differs in the model."""
        if is_ours(node) and not self._every:
            node.op_type = in_force("onnx", node.op_type, opsets.get("", 1)).id
            node.domain, node.overload = RESOLVED, ""
        elif depth and _version(node, opsets) != _version(node, self._opsets):
            differs = (
                f"a function of the model is of another opset, in which {printable(node.op_type)} differs"
            )
            expected, got = (f"opset {all.get(plain_domain(node.domain))}" for all in (self._opsets, opsets))
            raise UnsupportedError(f"{self._file}: {differs}", expected=expected, got=got)

    def _body(self, function: FunctionProto, call: NodeProto) -> list[NodeProto]:
        """Return copies of a function's nodes with the call's names and attributes."""
        prefix = f"{call.name or function.name}/{self._check.nodes}/"
        names = dict(zip_longest(("", *function.input), ("", *call.input), fillvalue=""))
        passed = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if formal in names:  # an input that is also an output
                passed.append(helper.make_node("Identity", [names[formal]], [actual]))
            elif actual:
                names[formal] = actual
        body = deepcopy(function)
        bind(body, function, call)
        for node in every_node(body):
            if node.name:
                node.name = prefix + node.name
        _rename(body.node, names, prefix)
        return [*body.node, *passed]


def _rename(nodes: Sequence[NodeProto], names: dict[str, str], prefix: str) -> None:
    """Rename the values of nodes and their subgraphs; values that a function's body defines get the prefix."""
    for node in nodes:
        for field in (node.input, node.output):
            field[:] = [names.setdefault(name, prefix + name) for name in field]
        for _, graph in subgraphs(node):
            rename(graph, names, prefix)


def rename(graph: GraphProto, names: dict[str, str], prefix: str) -> None:
    """Rename all values of a graph and its subgraphs: as ``names`` says, which grows, or by a prefix."""
    for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        info.name = names.setdefault(info.name, prefix + info.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.setdefault(sparse.values.name, prefix + sparse.values.name)
    _rename(graph.node, names, prefix)


def _version(node: NodeProto, opsets: Mapping[str, int]) -> int | None:
    """Return the version of a node's operator at these opsets; None if the onnx package does not know it."""
    domain = plain_domain(node.domain)
    schema = schema_in_force(domain, node.op_type, opsets.get(domain, 1))
    return None if schema is None else int(schema.since_version)
