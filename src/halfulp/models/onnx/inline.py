"""Inlining of a model's functions: all of them, or those that contain a Pow or PRelu.

A function's body has types only at a call, and ONNX Runtime infers no types through custom operators in functions.
"""

from collections.abc import Mapping
from copy import deepcopy
from itertools import zip_longest

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from halfulp.errors import UnsupportedError, printable
from halfulp.models.onnx import walk
from halfulp.models.onnx.checks import check_calls, check_text, checked_opsets, schema_in_force
from halfulp.specs import in_force

RESOLVED = "halfulp.resolved"  # the domain of Pow and PRelu nodes whose op_type is the id of their version


def inlined(model: ModelProto, file: str, *, every: bool = True) -> ModelProto:
    """Return a copy of a model without functions; ``file`` is its name in messages.

    If not ``every`` function, those that contain a Pow or PRelu are inlined, and these nodes get the domain RESOLVED
    and an op_type such as ``onnx.Pow-13``.

    Raises:
        ModelError: a function calls itself, or its functions nest too deep or expand to too many nodes.
        UnsupportedError: a function imports another opset than the model, and one of its operators differs there.
    """
    return _Inliner(model, file, every).result


class _Inliner:
    def __init__(self, model: ModelProto, file: str, every: bool) -> None:
        check_text(model, file)
        check_calls(model, file)
        self._file, self._every = file, every
        self._functions = {walk.identity(function): function for function in walk.reached(model)}
        self._imports = {
            key: checked_opsets(function.opset_import, f"the function {function.name!r}", file)
            for key, function in self._functions.items()
        }
        self._count = 0  # of the nodes so far
        self._goes: dict[walk.Identity, bool] = {}
        kept = [function for key, function in self._functions.items() if not self._is_inlined(key)]
        self.result = deepcopy(model)
        self._opsets = walk.opsets_of(model.opset_import)
        for key in filter(self._goes.get, self._functions):
            for domain, version in self._imports[key].items():
                if domain not in self._opsets:
                    self._opsets[domain] = version
                    self.result.opset_import.append(helper.make_opsetid(domain, version))
        self._replace(self.result.graph, self._opsets)
        del self.result.functions[:]
        self.result.functions.extend(kept)

    def _is_inlined(self, key: walk.Identity) -> bool:
        """Return whether an operator is Pow, PRelu or an inlined function."""
        if key not in self._functions:
            return key[0] == "" and key[1] in walk.SUPPORTED_OPS
        if key not in self._goes:
            called = {walk.identity(node) for node in walk.every_node(self._functions[key])}
            self._goes[key] = self._every or any(map(self._is_inlined, called))
        return self._goes[key]

    def _replace(self, owner: walk.Owner, opsets: Mapping[str, int]) -> None:
        """Replace the nodes of a graph or of a function's body in place."""
        nodes = []
        before = len(owner.node)
        for node in owner.node:
            self._count += 1
            for _, graph in walk.subgraphs(node):
                self._replace(graph, opsets)
            key = walk.identity(node)
            if self._goes.get(key):
                body = self._body(self._functions[key], node)
                self._replace(body, self._imports[key])
                nodes += body.node
                continue
            if key not in self._functions:
                self._resolve(node, opsets)
            nodes.append(node)
        owner.node.extend(nodes)
        del owner.node[:before]

    def _resolve(self, node: NodeProto, opsets: Mapping[str, int]) -> None:
        """Give a Pow or PRelu its version. Refuse other operators whose version differs in the model."""
        if walk.is_ours(node) and not self._every:
            node.op_type = in_force("onnx", node.op_type, opsets.get("", 1)).id
            node.domain, node.overload = RESOLVED, ""
            return
        domain, op_type = walk.plain_domain(node.domain), node.op_type
        versions = [each.get(domain) for each in (self._opsets, opsets)]
        schemas = [schema_in_force(domain, op_type, 1 if each is None else each) for each in versions]
        if len({schema and schema.since_version for schema in schemas}) > 1:
            differs = f"a function of the model is of another opset, in which {printable(op_type)} differs"
            expected, got = (f"opset {version}" for version in versions)
            raise UnsupportedError(f"{self._file}: {differs}", expected=expected, got=got)

    def _body(self, function: FunctionProto, call: NodeProto) -> FunctionProto:
        """Return a copy of a function with the names and attributes of a call in its nodes."""
        prefix = f"{call.name or function.name}/{self._count}/"
        names = dict(zip_longest(("", *function.input), ("", *call.input), fillvalue=""))
        passed = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if formal in names:  # an input that is also an output
                passed.append(helper.make_node("Identity", [names[formal]], [actual]))
            elif actual:
                names[formal] = actual
        body = deepcopy(function)
        walk.bind(body, function, call)
        for node in walk.every_node(body):
            if node.name:
                node.name = prefix + node.name
        rename(body, names, prefix)
        body.node.extend(passed)
        return body


def rename(owner: walk.Owner, names: dict[str, str], prefix: str) -> None:
    """Rename all values of nodes and graphs: as ``names`` says, which grows, or by a prefix."""
    for _, graph in walk.graphs(owner):
        if isinstance(graph, GraphProto):
            weights = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
            for named in (*graph.input, *graph.output, *graph.value_info, *weights):
                named.name = names.setdefault(named.name, prefix + named.name)
        for node in graph.node:
            for field in (node.input, node.output):
                field[:] = [names.setdefault(name, prefix + name) for name in field]
