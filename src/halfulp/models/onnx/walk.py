"""The parts of an ONNX model: nodes, graphs within graphs, functions, names of domains; and the order of nodes."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, helper

from halfulp.errors import HalfulpError

SUPPORTED_OPS = ("Pow", "PRelu")

DEEPEST = 64  # the deepest nesting of function calls and of graphs within graphs that is accepted

Identity = tuple[str, str, str]
Owner = GraphProto | FunctionProto


def plain_domain(domain: str) -> str:
    """Return a domain's name in its one form: empty for ``ai.onnx``."""
    return "" if domain == "ai.onnx" else domain


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the imported version of each domain."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


def default_opset(imports: Iterable[OperatorSetIdProto]) -> int | None:
    """Return the imported version of ONNX's own operators, if any. Without it, as before IR version 3, it is 1."""
    return opsets_of(imports).get("")


def identity(owner: FunctionProto | NodeProto) -> Identity:
    """Return the domain, name and overload of a function, or of the operator or function that a node calls."""
    name = owner.name if isinstance(owner, FunctionProto) else owner.op_type
    return plain_domain(owner.domain), name, owner.overload


def is_ours(node: NodeProto) -> bool:
    """Return whether a node is a Pow or PRelu of ONNX's own domain."""
    return node.op_type in SUPPORTED_OPS and not plain_domain(node.domain)


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the values of a node's attributes by name, without those that depend on the call of a function."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name}


def subgraphs(node: NodeProto) -> list[tuple[str, GraphProto]]:
    """Return the graphs among a node's attributes, with the attributes' names."""
    return [(each.name, each.g) for each in node.attribute if each.type == AttributeProto.GRAPH]


_Owner = TypeVar("_Owner", bound=Owner)


def graphs(owner: _Owner, path: str = "") -> Iterator[tuple[str, _Owner | GraphProto]]:
    """Yield a graph or function and the graphs within it, outer ones first, with their paths.

    The path of a model's own graph is empty, and that of a function is its :func:`root`.
    """
    todo: list[tuple[str, _Owner | GraphProto]] = [(path, owner)]
    while todo:
        path, graph = todo.pop()
        yield path, graph
        nodes = [node for node in graph.node if node.attribute]
        todo += reversed([(inner_path(path, node, name), g) for node in nodes for name, g in subgraphs(node)])


def inner_path(path: str, node: NodeProto, attribute: str) -> str:
    """Return the path of a subgraph. It names the node by its outputs, which no conversion changes."""
    outputs = ",".join(map(str, node.output))  # names that are not UTF-8 are bytes, and are refused later
    return f"{path}/{outputs}.{attribute}"


def root(owner: Owner) -> str:
    """Return the path of a model's graph or a function's body. (Others of a model's own graphs begin with a slash.)"""
    return "function:" + "/".join(identity(owner)) if isinstance(owner, FunctionProto) else ""


def every_node(*owners: Owner) -> Iterator[NodeProto]:
    """Yield the nodes of graphs and functions, each followed by the nodes of the graphs within it."""
    todo = [node for owner in reversed(owners) for node in reversed([*owner.node])]
    while todo:
        node = todo.pop()
        yield node
        if node.attribute:
            todo += [inner for _, graph in reversed(subgraphs(node)) for inner in reversed(graph.node)]


def readers_of(nodes: Iterable[NodeProto]) -> dict[str, list[NodeProto]]:
    """Return the nodes that read each value, which has none if it is not among the keys."""
    readers: dict[str, list[NodeProto]] = defaultdict(list)
    for node in nodes:
        for name in dict.fromkeys(node.input):
            readers[name].append(node)
    return readers


def reached(model: ModelProto, *owners: Owner) -> list[FunctionProto]:
    """Return the functions that some graphs or functions call, directly or not, in the file's order.

    By default these are the calls of the model's graph. Other functions do not affect the meaning of the model, and
    every verb leaves them out.
    """
    functions = {identity(function): function for function in model.functions}
    called: set[Identity] = set()
    todo: list[Owner] = ([*owners] or [model.graph]) if functions else []
    while todo:
        for node in every_node(todo.pop()):
            key = identity(node)
            if key in functions and key not in called:
                called.add(key)
                todo.append(functions[key])
    return [function for key, function in functions.items() if key in called]


def owners_of(model: ModelProto) -> Iterator[tuple[Owner, int]]:
    """Yield the called functions that use ONNX's own operators, then the graph, each with its opset."""
    for function in reached(model):
        opset = default_opset(function.opset_import)
        if opset is not None:
            yield function, opset
    yield model.graph, default_opset(model.opset_import) or 1


def value_names(*owners: Owner) -> set[str]:
    """Return the names of all values of graphs and functions, and of the graphs within them."""
    names = set[str]()
    for _, graph in chain.from_iterable(map(graphs, owners)):
        values = [*graph.input, *graph.output, *graph.value_info]  # or a function's names
        if isinstance(graph, GraphProto):
            values += [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
        names.update(getattr(value, "name", value) for value in values)
        for node in graph.node:
            names.update(node.input, node.output)
    return names


def every_name(model: ModelProto) -> Iterator[str]:
    """Yield the names in a model, except those in the bodies of functions that nothing calls."""
    owners: list[Owner] = [model.graph, *reached(model)]
    yield from value_names(*owners)
    for _, owner in chain.from_iterable(map(graphs, owners)):
        names = {owner.name}
        for node in owner.node:
            names |= {node.domain, node.op_type, node.overload, node.name}
            for attribute in node.attribute:
                names |= {attribute.name, attribute.ref_attr_name}
        yield from names
    for holder in (model, *model.functions):
        yield from (entry.domain for entry in holder.opset_import)
    for function in model.functions:
        yield from (function.domain, function.name, function.overload, *function.attribute)
        yield from (*function.input, *function.output, *(given.name for given in function.attribute_proto))


def read_names(owner: Owner) -> Iterator[str]:
    """Yield the inputs of all nodes of a graph or function and of the graphs within it, and their outputs."""
    for _, graph in graphs(owner):
        yield from (getattr(output, "name", output) for output in graph.output)  # a function's are names
        yield from chain.from_iterable(node.input for node in graph.node)


def bind(owner: Owner, function: FunctionProto, call: NodeProto) -> None:
    """Replace references to a function's attributes, in the nodes of its body, with a call's values or the defaults.

    A reference without a value is removed: the attribute then has its operator's default.
    """
    given = (*function.attribute_proto, *call.attribute)
    values: Mapping[str, AttributeProto] = {attribute.name: attribute for attribute in given}
    for node in every_node(owner):
        if any(attribute.ref_attr_name for attribute in node.attribute):
            before = len(node.attribute)
            attributes = (bound(attribute, values) for attribute in node.attribute[:before])
            node.attribute.extend([attribute for attribute in attributes if attribute is not None])
            del node.attribute[:before]


def bound(attribute: AttributeProto, values: Mapping[str, AttributeProto]) -> AttributeProto | None:
    """Return an attribute, or a renamed copy of the one that it refers to; None if that has no value."""
    if not attribute.ref_attr_name:
        return attribute
    if attribute.ref_attr_name not in values:
        return None
    copy = deepcopy(values[attribute.ref_attr_name])
    copy.name = attribute.name
    return copy


def copy_fields(source: Message, target: Message, *, without: Container[str]) -> None:
    """Copy the fields of a message, without some of them."""
    for field, value in source.ListFields():
        if field.name in without:
            continue
        to: Any = getattr(target, field.name)
        if hasattr(to, "MergeFrom"):  # a message, or several values
            to.MergeFrom(value)
        elif isinstance(value, bytes):  # as protobuf returns such a text
            raise HalfulpError("a name is not UTF-8", got=repr(value)[:80])
        else:
            setattr(target, field.name, value)


def with_attributes(node: NodeProto, attributes: Iterable[AttributeProto]) -> NodeProto:
    """Return a copy of a node with its domain in the one form, and with other attributes."""
    copy = NodeProto()
    if node.attribute:
        copy_fields(node, copy, without={"attribute"})
        copy.attribute.extend(attributes)
    else:
        copy.CopyFrom(node)  # which is faster
    copy.domain = plain_domain(node.domain)
    return copy


# --- the order of nodes -----------------------------------------------------------------------------


def in_order(model: ModelProto) -> tuple[ModelProto, bool]:
    """Return a model with all nodes in topological order, and whether they had to be sorted.

    A model in order is returned itself, any other as a sorted copy. A node that comes too late moves to just before
    its first reader; otherwise the file's order is kept. Nodes on a cycle stay, and the front end reports the cycle.
    """
    if not _late(model):
        return model, False
    copy = deepcopy(model)
    late = _late(copy)
    for nodes, places, _ in late:
        nodes.sort(key=partial(next, iter(places)))  # the places are in the order of the nodes
    return copy, not any(is_cyclic for _, _, is_cyclic in late)


def _late(model: ModelProto) -> list[tuple[Any, list[int], bool]]:
    """Return the lists of nodes, inner ones first, in which a node precedes the maker of one of its inputs.

    With each are the nodes' places in order, and whether some of them depend on each other.
    """
    late: list[tuple[Any, list[int], bool]] = []

    def note(nodes: Any, depth: int) -> list[list[str]]:
        """Add the lists among some nodes, and return the names that each node reads."""
        reads, read, is_late = list[list[str]](), set[str](), False
        for node in nodes if depth <= DEEPEST else ():  # the front end refuses deeper ones
            reads.append(list(node.input))
            for _, graph in subgraphs(node):
                captured = {value.name for value in graph.output}.union(*note(graph.node, depth + 1))
                weights = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
                captured.difference_update(value.name for value in (*graph.input, *weights))
                reads[-1] += captured.difference(*(inner.output for inner in graph.node))
            read.update(reads[-1])
            is_late |= not read.isdisjoint(filter(None, node.output))
        places, is_cyclic = _places(nodes, reads) if is_late else ([], False)
        if is_cyclic or places != [*range(len(places))]:  # which differ unless a name is defined twice
            late.append((nodes, places, is_cyclic))
        return reads

    for owner in (model.graph, *model.functions):
        note(owner.node, 0)
    return late


def _places(nodes: Sequence[NodeProto], reads: Sequence[Sequence[str]]) -> tuple[list[int], bool]:
    """Return each node's place, depth first, after the makers of its inputs; and whether there is a cycle."""
    makers = {name: index for index, node in reversed([*enumerate(nodes)]) for name in node.output}
    makers.pop("", None)
    places, entered, is_cyclic = dict[int, int](), set[int](), False
    todo = [*reversed(range(len(nodes)))]
    while todo:
        index = todo.pop()
        if index in entered:  # all that it reads has its place
            places.setdefault(index, len(places))
            continue
        entered.add(index)
        needed = [makers[name] for name in reads[index] if name in makers]
        is_cyclic |= not entered.intersection(needed) <= places.keys()
        todo += [index, *(maker for maker in reversed(needed) if maker not in entered)]
    return [*map(places.__getitem__, range(len(nodes)))], is_cyclic
