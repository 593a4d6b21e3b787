"""The conversions and repairs that help a node or a whole model. Each is tried before it is advised."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx
from onnx import ModelProto

from halfulp.auditing.uses import Use
from halfulp.conversion.editor import Change
from halfulp.conversion.passes import is_harmless, refusal, run_passes
from halfulp.conversion.repair import contradicted, of_one_type
from halfulp.conversion.spellings import fuse_norms
from halfulp.conversion.targets import TARGET, known_targets
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, printable
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import declaration, type_of
from halfulp.models.onnx.walk import every_node, graphs, is_ours, reached


@dataclass(frozen=True)
class Conversion:
    """The changes that a conversion makes to a node, in order; or the reason that it refuses the node."""

    steps: tuple[Change, ...] = ()  # empty if the target takes the node unchanged
    refused: str | None = None

    @property
    def helps(self) -> bool:
        """Whether it changes the node into what the target takes."""
        return any(step.what != "stays unchanged" for step in self.steps)


def conversion(use: Use, target: str) -> Conversion | None:
    """Return the changes that a target needs in a node of an ONNX model; None for any other node or target.

    The node is converted alone, in a model of its own, with the known types and shapes of its operands.
    """
    if target not in known_targets() or use.row.standard != "onnx":
        return None
    if use.types is None:
        return Conversion(refused="the type of an input is not known")
    try:
        walk = Walk(Onnx(_alone(use), "model"), check=True)
        changes = run_passes(walk, *((each, target) for each in TARGET))
    except HalfulpError as error:
        reason = error.message.partition(": no exact form in ")[2].partition(": ")[2] or error.message
        return Conversion(refused=printable(reason, most=None))
    return Conversion(tuple(Change("", printable(each.what, most=None), each.differs) for each in changes))


def heeds_constants(use: Use, target: str) -> bool:
    """Tell whether the conversion of a node may depend on the values of its constants."""
    row = known_targets().get(target)
    return row is not None and not (use.types is not None and row.takes(use.row.name, use.types))


def _alone(use: Use) -> ModelProto:
    inputs, initializers = [], []
    names = [f"i{index}" for index in range(len(use.inputs))]
    for name, operand in zip(names, use.inputs, strict=True):
        if operand.constant is not None:
            initializers.append(onnx.numpy_helper.from_array(operand.constant, name))
        else:
            inputs.append(declaration(name, operand.type, operand.shape))
    attributes = {key: value for key, value in use.attributes.items() if value is not None}
    node = onnx.helper.make_node(use.row.name, names, ["o"], **attributes)
    output = declaration("o", use.inputs[0].type, use.output.shape)
    graph = onnx.helper.make_graph([node], "alone", inputs, [output], initializers)
    imports = [onnx.helper.make_opsetid("", int(use.asked))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


# --- the whole model -----------------------------------------------------------------------------


def fused(model: Onnx) -> frozenset[str]:
    """Return the results of the nodes that become part of one operator if norms are fused."""
    copy = model.copy()
    run_passes(Walk(copy), (fuse_norms, "norms"))
    if refusal(copy.proto) is not None and refusal(model.proto) is None:
        return frozenset()
    before, after = (
        {name for node in every_node(each.proto.graph) for name in node.output} for each in (model, copy)
    )
    return frozenset(before - after)


def invalid(model: Onnx, uses: Sequence[Use], *, is_broken: bool) -> dict[str, str]:
    """Return the findings about a model's other nodes, by node; without any, that of the onnx package's checker.

    The checker stops at a Pow or PRelu that breaks a clause, which is a finding by itself, and looks into functions
    that nothing calls.
    """
    proto, scopes = model.proto, dict.fromkeys(use.scope for use in uses if use.scope is not None)
    texts = {**dict(_declared(proto)), **dict(_renamed(proto)), **dict(_mixed(scopes))}
    if texts or is_broken or len(reached(proto)) != len(proto.functions):
        return texts
    refused = refusal(proto, with_weights=False)
    if refused is None:
        return texts
    if not scopes:
        texts = dict(_mixed([model.scope()]))
    if not texts and not is_harmless(refused, proto):
        texts[refused.node or "the model"] = f"the onnx package's checker refuses it: {refused.reason}"
    return texts


_REFUSED = "runtimes refuse to load the model"


def _declared(proto: ModelProto) -> Iterator[tuple[str, str]]:
    """Give the Cast nodes whose outputs the file declares in another type."""
    for name, node, made, declared in contradicted(proto):
        if node.op_type == "Cast":
            yield name, f"its output is declared as {declared}, and is {type_of(made.i)}: {_REFUSED}"


def _renamed(proto: ModelProto) -> Iterator[tuple[str, str]]:
    """Give the nodes of a graph that have one name."""
    for _, graph in graphs(proto.graph):
        names = Counter(node.name for node in graph.node if node.name)
        for index, node in enumerate(graph.node):
            if names[node.name] > 1:
                text = "another node of its graph has the same name: ONNX Runtime refuses to load the model"
                yield label(node, index, ""), text


def _mixed(scopes: Iterable[Scope]) -> Iterator[tuple[str, str]]:
    """Give the nodes of these graphs whose operator does not take their inputs' types, and why."""
    for scope in scopes:
        for node in scope.owner.node:
            is_mixed = len({scope.value(name).type for name in node.input}) > 1 and not is_ours(node)
            for inputs, _ in of_one_type(node, scope.opset) if is_mixed else ():
                types = list(dict.fromkeys(scope.value(name).type for name in inputs.values()))
                if None not in types and len(types) > 1:
                    said = " and ".join(map(str, types))
                    text = f"its inputs are {said}, and {node.op_type} takes one type: {_REFUSED}"
                    yield scope.label(node), text
