"""The parts of an ONNX model, and the names of operators, domains and functions: each is said once, here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto

SUPPORTED_OPS = ("Pow", "PRelu")

DEEPEST = 64
"""How deep functions may call functions, and graphs be within graphs."""

MOST_NODES = 1_000_000
"""How many nodes a model may have once its functions are expanded.

A function may call another twice, and that one a third twice: a small file can stand for more nodes than a computer
can hold.
"""

Identity = tuple[str, str, str]
Owner = GraphProto | FunctionProto


def plain_domain(domain: str) -> str:
    """Return a domain's one name: ``ai.onnx`` is the empty one."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version that is imported of each domain."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


def default_opset(imports: Iterable[OperatorSetIdProto]) -> int | None:
    """Return the version that is imported of ONNX's own operators, if any."""
    return opsets_of(imports).get("")


def identity(owner: FunctionProto | NodeProto) -> Identity:
    """Return the domain, name and overload of a function, or those that a node calls."""
    name = owner.name if isinstance(owner, FunctionProto) else owner.op_type
    return plain_domain(owner.domain), name, owner.overload


def is_ours(node: NodeProto) -> bool:
    """Tell whether a node is a Pow or PRelu of ONNX's own domain."""
    return node.op_type in SUPPORTED_OPS and not plain_domain(node.domain)


def subgraphs(node: NodeProto) -> list[tuple[str, GraphProto]]:
    """Return the graphs among a node's attributes, with the attributes' names."""
    found: list[tuple[str, GraphProto]] = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append((attribute.name, attribute.g))
        elif attribute.type == AttributeProto.GRAPHS:  # no operator of ONNX has one
            found += [(attribute.name, graph) for graph in attribute.graphs]
    return found


def graphs(owner: Owner, path: str = "") -> Iterator[tuple[str, Owner]]:
    """Yield a graph or function and the graphs within it, the outer ones first, with their paths.

    Args:
        owner: the graph or function.
        path: its path: that of a model's own graph is empty, that of a function :func:`root`.
    """
    todo: list[tuple[str, Owner]] = [(path, owner)]
    while todo:
        path, owner = todo.pop()
        yield path, owner
        nodes = (node for node in owner.node if node.attribute)
        todo += reversed([(inner_path(path, node, name), g) for node in nodes for name, g in subgraphs(node)])


def inner_path(path: str, node: NodeProto, attribute: str) -> str:
    """Return the path of a subgraph; a node's outputs are the one thing that no conversion changes."""
    return f"{path}/{','.join(node.output)}.{attribute}"


def root(function: FunctionProto) -> str:
    """Return the path of a function's body; those of a model's own graphs are empty or begin with a slash."""
    return "function:" + "/".join(identity(function))


def every_node(*owners: Owner) -> Iterator[NodeProto]:
    """Yield the nodes of graphs and functions and those of the graphs within them, each before what is within it."""
    todo = [iter(owner.node) for owner in reversed(owners)]
    while todo:
        node = next(todo[-1], None)
        if node is None:
            todo.pop()
        else:
            yield node
            if node.attribute:
                todo += reversed([iter(graph.node) for _, graph in subgraphs(node)])


def reached(model: ModelProto, *owners: Owner) -> list[FunctionProto]:
    """Return the functions that a graph calls, itself or by other functions, in the file's order.

    Every verb leaves the other functions out: they have no part in the meaning of the model.

    Args:
        model: the model.
        owners: graphs or functions that call; the model's graph where none are given.
    """
    functions = {identity(function): function for function in model.functions}
    found: set[Identity] = set()
    todo: list[Owner] = [*owners] or [model.graph]
    while todo and functions:
        for node in every_node(todo.pop()):
            key = identity(node)
            if key in functions and key not in found:
                found.add(key)
                todo.append(functions[key])
    return [function for key, function in functions.items() if key in found]


def value_names(*owners: Owner) -> Iterator[str]:
    """Yield the names of all values in graphs and functions, and in the graphs within them."""
    for owner in owners:
        for _, each in graphs(owner):
            if isinstance(each, FunctionProto):
                yield from (*each.input, *each.output)
            else:
                for info in (*each.input, *each.output, *each.value_info, *each.initializer):
                    yield info.name
                yield from (sparse.values.name for sparse in each.sparse_initializer)
            for node in each.node:
                yield from node.input
                yield from node.output


def read_names(owner: Owner) -> Iterator[str]:
    """Yield each name that a graph or function reads, or one within it: as often as it does, and as an output."""
    for _, each in graphs(owner):
        if isinstance(each, FunctionProto):
            yield from each.output
        else:
            yield from (info.name for info in each.output)
        for node in each.node:
            yield from node.input


def bind(owner: Owner, function: FunctionProto, call: NodeProto) -> None:
    """Replace references to a function's attributes by the values of a call, or their defaults, in nodes of its body.

    A reference without a value goes: the attribute has its operator's default.
    """
    given = (*function.attribute_proto, *call.attribute)
    values: Mapping[str, AttributeProto] = {attribute.name: attribute for attribute in given}
    for node in every_node(owner):
        if any(attribute.ref_attr_name for attribute in node.attribute):
            before = len(node.attribute)
            found = (bound(attribute, values) for attribute in node.attribute[:before])
            node.attribute.extend([attribute for attribute in found if attribute is not None])
            del node.attribute[:before]


def bound(attribute: AttributeProto, values: Mapping[str, AttributeProto]) -> AttributeProto | None:
    """Return an attribute, or a copy of that which it refers to under its name; None where that has no value."""
    if not attribute.ref_attr_name:
        return attribute
    if attribute.ref_attr_name not in values:
        return None
    copy = AttributeProto()
    copy.CopyFrom(values[attribute.ref_attr_name])
    copy.name = attribute.name
    return copy
