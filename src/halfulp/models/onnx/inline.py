"""Inlining of a model's functions: all of them, or those that contain a Pow or PRelu.

A function's body has types only at a call, and ONNX Runtime infers no types through custom operators in functions.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from itertools import count, zip_longest

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
    check_text(model, file)
    check_calls(model, file)
    functions = {walk.identity(function): function for function in walk.reached(model)}
    imports = {
        k: checked_opsets(f.opset_import, f"the function {f.name!r}", file) for k, f in functions.items()
    }

    @cache
    def is_inlined(key: walk.Identity) -> bool:
        """Return whether an operator is Pow, PRelu or an inlined function."""
        if key not in functions:
            return key[0] == "" and key[1] in walk.SUPPORTED_OPS
        return every or any(map(is_inlined, set(map(walk.identity, walk.every_node(functions[key])))))

    result, opsets_of_model = deepcopy(model), walk.opsets_of(model.opset_import)
    for key in filter(is_inlined, functions):
        for domain, version in imports[key].items():
            if domain not in opsets_of_model:
                opsets_of_model[domain] = version
                result.opset_import.append(helper.make_opsetid(domain, version))
    numbers = count(1)  # of the nodes

    def replace(owner: walk.Owner, opsets: Mapping[str, int]) -> None:
        """Replace the nodes of a graph or of a function's body in place."""
        nodes, before = list[NodeProto](), len(owner.node)
        for node, number in zip(owner.node, numbers, strict=False):
            for _, graph in walk.subgraphs(node):
                replace(graph, opsets)
            key = walk.identity(node)
            if key in functions and is_inlined(key):
                body = _body(functions[key], node, f"{node.name or key[1]}/{number}/")
                replace(body, imports[key])
                nodes += body.node
                continue
            if walk.is_ours(node) and key not in functions and not every:
                node.op_type = in_force("onnx", node.op_type, opsets.get("", 1)).id
                node.domain, node.overload = RESOLVED, ""
            elif key not in functions:
                _check_version(key, opsets_of_model, opsets, file=file)
            nodes.append(node)
        owner.node.extend(nodes)
        del owner.node[:before]

    replace(result.graph, opsets_of_model)
    del result.functions[:]
    result.functions.extend(function for key, function in functions.items() if not is_inlined(key))
    return result


def _check_version(key: walk.Identity, *opsets: Mapping[str, int], file: str) -> None:
    """Refuse an operator whose version in a model, which has the first opsets, and in a function differs."""
    domain, op_type, _ = key
    versions = [each.get(domain) for each in opsets]
    schemas = [schema_in_force(domain, op_type, 1 if version is None else version) for version in versions]
    if len({schema and schema.since_version for schema in schemas}) > 1:
        differs = f"a function of the model is of another opset, in which {printable(op_type)} differs"
        expected, got = (f"opset {version}" for version in versions)
        raise UnsupportedError(f"{file}: {differs}", expected=expected, got=got)


def _body(function: FunctionProto, call: NodeProto, prefix: str) -> FunctionProto:
    """Return a copy of a function with the names and attributes of a call in its nodes."""
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
