"""A model's own functions: their names, their calls, and which of them the graph reaches."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.models.onnx.nodes import plain_domain

Identity = tuple[str, str, str]


def identity(owner: FunctionProto | NodeProto) -> Identity:
    """Return the domain, name and overload of a function, or those that a node calls."""
    name = owner.name if isinstance(owner, FunctionProto) else owner.op_type
    return plain_domain(owner.domain), name, owner.overload


def every_node(*owners: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Give the nodes of graphs and functions, and those of the graphs within them."""
    todo = [*owners]
    while todo:
        for node in todo.pop().node:
            yield node
            todo.extend(a.g for a in node.attribute if a.type == AttributeProto.GRAPH)


def reached(model: ModelProto, *owners: GraphProto | FunctionProto) -> list[FunctionProto]:
    """Return the functions that a graph calls, itself or by other functions, in the file's order.

    Every verb leaves the other functions out: they have no part in the meaning of the model.

    Args:
        model: the model.
        owners: graphs or functions that call; the model's graph where none are given.
    """
    functions = {identity(function): function for function in model.functions}
    found: set[Identity] = set()
    todo: list[GraphProto | FunctionProto] = [*owners] or [model.graph]
    while todo and functions:
        for node in every_node(todo.pop()):
            key = identity(node)
            if key in functions and key not in found:
                found.add(key)
                todo.append(functions[key])
    return [function for key, function in functions.items() if key in found]
