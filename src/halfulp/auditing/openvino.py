"""The Power and PReLU layers of an OpenVINO IR file, including those in the bodies of loops and branches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from halfulp.auditing.halves import Net, Step
from halfulp.auditing.node import Operand, Use, breach_of
from halfulp.errors import ModelError, printable
from halfulp.models.graph import Graph, Node, Value
from halfulp.models.openvino import LARGEST_FILE
from halfulp.models.openvino.reader import Weights, build, elements
from halfulp.models.source import read_source
from halfulp.specs import in_force

_DEEPEST = 16
_BODIES = ("body", "then_body", "else_body")
_OURS = ("Power", "PReLU")


def uses(source: Path | bytes, file: str) -> list[Use]:
    """Return the Power and PReLU layers of an IR file, in the file's order; a body's follow their loop or branch.

    If the front end refuses the file because such a layer breaks a clause, only that layer is returned.

    Args:
        source: a path, whose weights are the .bin beside it, or the bytes of an .xml file.
        file: its name in messages.

    Raises:
        ModelError, UnsupportedError: as the front end's, unless a broken clause of Power or PReLU is the reason.
    """
    data, _, path = read_source(source, LARGEST_FILE, file)
    weights = Weights(None if path is None else path.with_suffix(".bin"))
    return list(_net(elements(data, file), weights, file, "", 0))


def _net(net: Element, weights: Weights, file: str, where: str, depth: int) -> Iterator[Use]:
    try:
        graph = build(net, weights, file, is_body=depth > 0).graph
    except ModelError as error:
        if error.clause is None or error.node is None:
            raise
        operator = error.clause.rpartition(".")[0]
        yield Use(where + error.node, operator, "opset1", (), Operand(""), {}, breach_of(error, error.clause))
        return
    around = _around(graph, where)
    for node in graph.nodes:
        if node.standard == "openvino" and not node.domain and node.type in _OURS:
            yield _use(node, graph, where, around)
    for layer, body in _bodies(net):
        name = f"{where}'{printable(layer.get('name', ''))}' ({printable(layer.get('type', ''))}).{body.tag}."
        if depth == _DEEPEST:
            raise ModelError("its bodies nest too deep", file=file, node=name, expected=f"at most {_DEEPEST}")
        yield from _net(_as_net(body), weights, file, name, depth + 1)


def _bodies(net: Element) -> Iterator[tuple[Element, Element]]:
    """Give each body, with the layer that it belongs to."""
    for layer in net.iterfind("layers/layer"):
        yield from ((layer, body) for body in layer if body.tag in _BODIES)


def _as_net(body: Element) -> Element:
    net = Element("net", name=body.tag, version="11")
    net.extend(child for child in body if child.tag in ("layers", "edges"))
    if net.find("layers") is None:
        SubElement(net, "layers")
    return net


def _around(graph: Graph, where: str) -> Net:
    def steps() -> Iterator[Step]:
        for node in graph.nodes:
            yield Step(where + node.label, node.type, node.inputs, node.outputs)

    def type_of(name: str) -> str | None:
        return graph.declared[name].type if name in graph.declared else None

    return Net(steps, type_of, (value.name for value in graph.outputs), lambda name: name in graph.constants)


def _use(node: Node, graph: Graph, where: str, around: Net) -> Use:
    inputs = tuple(_operand(name, graph) for name in node.inputs)
    operator = in_force("openvino", node.type, "1").id
    output = _operand(node.outputs[0], graph)
    return Use(
        where + node.label, operator, f"opset{node.opset}", inputs, output, node.attributes, net=around
    )


def _operand(name: str, graph: Graph) -> Operand:
    value = graph.declared.get(name, Value(name))
    return Operand(name, value.type, value.shape, graph.constants.get(name))
