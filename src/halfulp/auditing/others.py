"""The Pow and PRelu nodes of the other formats: OpenVINO IR (loops and branches included) and DxDispatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from halfulp.auditing.halves import Body, Net, Step
from halfulp.auditing.node import Operand, Use, breach_of
from halfulp.errors import ModelError, SpecError, printable
from halfulp.models.directml import FEATURE_LEVELS, OperatorDesc, attributes, tensors, validate
from halfulp.models.directml.dxdispatch import Program, load
from halfulp.models.graph import Graph, Node, Value
from halfulp.models.openvino import LARGEST_FILE
from halfulp.models.openvino.reader import Weights, build, elements
from halfulp.models.run.api import evaluate_openvino
from halfulp.models.source import read_source
from halfulp.specs import in_force

_DEEPEST = 16
_BODIES = ("body", "then_body", "else_body")
_OURS = ("Power", "PReLU")


def of_openvino(source: Path | bytes, file: str) -> list[Use]:
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


def _net(
    net: Element,
    weights: Weights,
    file: str,
    where: str,
    depth: int,
    place: Callable[[Element, Graph], Body] | None = None,
) -> Iterator[Use]:
    try:
        graph = build(net, weights, file, is_body=depth > 0).graph
    except ModelError as error:
        if error.clause is None or error.node is None:
            raise
        operator = error.clause.rpartition(".")[0]
        yield Use(where + error.node, operator, "opset1", (), Operand(""), {}, breach_of(error, error.clause))
        return
    around = _around(graph, where, None if place is None else place(net, graph))
    nodes = {node.label: node for node in graph.nodes}
    own = [node for node in graph.nodes if node.standard == "openvino" and not node.domain]
    # A compressed file stores constants in float16, each with a Convert to float32.
    converts = {node.outputs[0]: node for node in own if node.type == "Convert"}
    yield from (_use(node, graph, converts, where, around) for node in own if node.type in _OURS)
    for layer, body in _bodies(net):
        owner = f"'{printable(layer.get('name', ''))}' ({printable(layer.get('type', ''))})"
        name = f"{where}{owner}.{body.tag}."
        if depth == _DEEPEST:
            raise ModelError("its bodies nest too deep", file=file, node=name, expected=f"at most {_DEEPEST}")
        inner = partial(_body, layer, body.tag, nodes[owner], around)
        yield from _net(_as_net(body), weights, file, name, depth + 1, inner)


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


def _body(layer: Element, tag: str, node: Node, around: Net, net: Element, graph: Graph) -> Body:
    """Return the place of a body: how the values of its layer enter and leave it, by the layer's port map."""
    ports = [port.get("id") for side in ("input", "output") for port in layer.iterfind(f"{side}/port")]
    outer = dict(zip(ports, (*node.inputs, *node.outputs), strict=False))
    inner: dict[str | None, str] = {}
    for kind, values in (("Parameter", graph.inputs), ("Result", graph.outputs)):
        ids = [each.get("id") for each in net.iterfind("layers/layer") if each.get("type") == kind]
        inner |= dict(zip(ids, (value.name for value in values), strict=False))

    def mapped(side: str) -> list[tuple[str, str, str]]:
        """Give the body's layer of each mapped port with the names inside and outside."""
        found = layer.iterfind(f"{tag.replace('body', 'port_map')}/{side}")
        pairs = ((each.get("internal_layer_id"), each.get("external_port_id")) for each in found)
        return [(id or "", inner.get(id, ""), outer.get(port, "")) for id, port in pairs]

    edges = layer.iterfind("back_edges/edge")
    backs = {edge.get("to-layer"): inner.get(edge.get("from-layer"), "") for edge in edges}
    inputs = [(name, value, backs.get(id, "")) for id, name, value in mapped("input")]
    return Body(around, node.type, inputs, [(name, value) for _, name, value in mapped("output")], False)


def _around(graph: Graph, where: str, body: Body | None) -> Net:
    def steps() -> Iterator[Step]:
        for node in graph.nodes:
            yield Step(where + node.label, node.type, node.inputs, node.outputs)

    def type_of(name: str) -> str | None:
        return graph.declared[name].type if name in graph.declared else None

    outputs = (value.name for value in graph.outputs)
    return Net(steps, type_of, outputs, lambda name: name in graph.constants, body=body)


def _use(node: Node, graph: Graph, converts: Mapping[str, Node], where: str, around: Net) -> Use:
    *inputs, output = (_operand(name, graph, converts) for name in (*node.inputs, *node.outputs))
    operator = in_force("openvino", node.type, "1").id
    return Use(
        where + node.label, operator, f"opset{node.opset}", tuple(inputs), output, node.attributes, net=around
    )


def _operand(name: str, graph: Graph, converts: Mapping[str, Node]) -> Operand:
    value, constant = graph.declared.get(name, Value(name)), graph.constants.get(name)
    if name in converts and (stored := graph.constants.get(converts[name].inputs[0])) is not None:
        constant = evaluate_openvino(converts[name], [stored], "")
    return Operand(name, value.type, value.shape, constant)


# --- DxDispatch ----------------------------------------------------------------------------------


def of_dxdispatch(source: Path | bytes, file: str) -> tuple[list[Use], tuple[str, ...]]:
    """Return the dispatchables of a DxDispatch file that are Pow or PRelu, and those that may contain such.

    The latter are ONNX models and shaders (HLSL).

    A file does not name a feature level, so the newest level's version is in force. If the front end refuses
    the file because a description breaks a clause, only that description is returned.

    Args:
        source: a path, or the bytes of a file.
        file: its name in messages.

    Raises:
        ModelError, UnsupportedError: as the front end's, unless a broken clause of Pow or PRelu is the reason.
    """
    try:
        program = load(source, file=file)
    except ModelError as error:
        if error.clause is None or error.node is None or not error.clause.startswith("directml."):
            raise
        operator = error.clause.rpartition(".")[0]
        refused = breach_of(error, error.clause)
        return [Use(error.node, operator, FEATURE_LEVELS[-1], (), Operand(""), {}, refused)], ()
    unread = (each for each in program.dispatchables.values() if each.type.lower() in ("onnx", "hlsl"))
    return list(_dispatchables(program)), tuple(f"'{printable(each.name)}' ({each.type})" for each in unread)


def _dispatchables(program: Program) -> Iterator[Use]:
    for dispatchable in program.dispatchables.values():
        desc = dispatchable.desc
        if not isinstance(desc, OperatorDesc):
            continue
        *inputs, output = (
            Operand(point, tensor.element_type.name, tensor.Sizes) for point, tensor in tensors(desc).items()
        )
        label = f"'{printable(dispatchable.name)}' ({desc.type})"
        row = in_force("directml", desc.type, FEATURE_LEVELS[-1])
        given = {name: value for name, value in attributes(desc).items() if value is not None}
        yield Use(label, row.id, f"{_least_level(desc)} or later", tuple(inputs), output, given)


def _least_level(desc: OperatorDesc) -> str:
    """Return the oldest feature level that takes a description."""
    for level in FEATURE_LEVELS[:-1]:
        try:
            validate(desc, level)
        except SpecError:
            continue
        except ValueError:  # this feature level lacks the operator
            continue
        return level
    return FEATURE_LEVELS[-1]
