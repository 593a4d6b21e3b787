"""The conversions and repairs that help a node or a whole model. Each is tried before it is advised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import ModelProto

from halfulp.auditing.data import in_main
from halfulp.auditing.node import Use
from halfulp.conversion.editor import Change
from halfulp.conversion.norms import FUSED, fuse_norms
from halfulp.conversion.output import is_harmless, refusal
from halfulp.conversion.repair import contradicted, of_one_type
from halfulp.conversion.targets import for_target, known_targets
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, printable
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.tensors import declaration, type_of
from halfulp.models.onnx.walk import every_node, graphs, is_ours, reached

_MOST = 1 << 16  # the most elements of a constant that the trial copies


@dataclass(frozen=True)
class Conversion:
    """The changes that a conversion makes to a node, in order; or the reason that it refuses the node."""

    steps: tuple[Change, ...] = ()  # empty if the target takes the node unchanged
    refused: str | None = None

    @property
    def needed(self) -> bool:
        """Whether the target requires changes to the node."""
        return self.refused is not None or any(step.what != "stays unchanged" for step in self.steps)


def conversion(use: Use, target: str) -> Conversion | None:
    """Return the changes that a target needs in a node of an ONNX model; None for any other node or target.

    The node is converted alone, in a model of its own, with the known types and shapes of its operands.
    """
    if target not in known_targets() or use.row.standard != "onnx":
        return None
    if use.types is None:
        return Conversion(refused="the type of an input is not known")
    try:
        changes = for_target(check_clauses(Walk(_alone(use), "model", None)), target)
    except HalfulpError as error:
        reason = error.message.partition(": no exact form in ")[2].partition(": ")[2] or error.message
        return Conversion(refused=printable(reason, most=None))
    return Conversion(tuple(Change("", printable(each.what, most=None), each.differs) for each in changes))


def heeds_constants(use: Use, target: str) -> bool:
    """Tell whether the conversion of a node may depend on the values of its constants."""
    row = known_targets().get(target)
    return row is not None and (use.types is None or not row.takes(use.row.name, use.types))


def _alone(use: Use) -> ModelProto:
    inputs, initializers = [], []
    names = [f"i{index}" for index in range(len(use.inputs))]
    for name, operand in zip(names, use.inputs, strict=True):
        constant = operand.constant
        if constant is not None and constant.size <= _MOST:
            initializers.append(onnx.numpy_helper.from_array(constant, name))
        else:
            inputs.append(declaration(name, operand.type, operand.shape))
    attributes = {key: value for key, value in use.attributes.items() if value is not None}
    node = onnx.helper.make_node(use.row.name, names, ["o"], **attributes)
    output = declaration("o", use.inputs[0].type, use.output.shape)
    graph = onnx.helper.make_graph([node], "alone", inputs, [output], initializers)
    imports = [onnx.helper.make_opsetid("", int(use.asked))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


# --- the whole model -----------------------------------------------------------------------------


@dataclass
class Ways:
    """The repairs and conversions tried on a whole model before they are advised."""

    repaired: Mapping[str, str] = field(default_factory=dict)  # the changes of hu.repair, by node
    left: Mapping[str, str] = field(default_factory=dict)  # the reasons for nodes that it does not repair
    is_valid: bool = False  # whether the repaired model is valid
    error: str = ""  # why the model can't be repaired at all
    declared: Mapping[str, str] = field(default_factory=dict)  # by node: the finding about its types
    refused: dict[str, str] = field(default_factory=dict)  # by target: why the model can't be converted
    converted: dict[str, Sequence[Change]] = field(
        default_factory=dict
    )  # by target: the changes to the model
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # options of a conversion for any runtime
    fused: frozenset[str] = frozenset()  # the results of the Pow nodes that fusing norms takes away


def fused(proto: ModelProto, file: str, folder: Path | None) -> frozenset[str]:
    """Return the results of the Pow nodes that become part of one operator if norms are fused."""
    copy = deepcopy(proto)
    fuse_norms(Walk(copy, file, folder))
    if refusal(copy) is not None and refusal(proto) is None:
        return frozenset()
    before, after = (
        {node.output[0]: node.op_type for node in every_node(each.graph) if node.output}
        for each in (proto, copy)
    )
    gone = frozenset(name for name, op_type in before.items() if op_type == "Pow" and name not in after)
    is_fused = any(after[name] != before.get(name) and after[name] in FUSED for name in after)
    return gone if is_fused else frozenset()


def invalid(
    proto: ModelProto, file: str, folder: Path | None, uses: Sequence[Use], *, is_broken: bool
) -> dict[str, str]:
    """Return the findings about a model's other nodes, by node; without any, that of the onnx package's checker.

    The checker stops at a Pow or PRelu that breaks a clause, which is a finding by itself, and looks into functions
    that nothing calls.
    """
    found = {**dict(_declared(proto)), **dict(_mixed(uses))}
    is_checked = not (found or is_broken) and len(reached(proto)) == len(proto.functions)
    refused = refusal(proto, with_weights=False) if is_checked else None
    if refused is not None and not any(use.site for use in uses):
        found = dict(_mixed([in_main(proto, file, folder)]))
    if not found and refused is not None and not is_harmless(refused, proto):
        found[refused.node or "the model"] = f"the onnx package's checker refuses it: {refused.reason}"
    return found


def _declared(proto: ModelProto) -> Iterator[tuple[str, str]]:
    """Give the Cast nodes whose outputs the file declares in another type, and how, and nodes of one name."""
    for name, node, cast, declared in contradicted(proto):
        if node is cast and node.op_type == "Cast":
            to = next(attribute.i for attribute in node.attribute if attribute.name == "to")
            text = f"its output is declared as {declared}, and is {type_of(to)}: runtimes refuse to load the model"
            yield name, text
    for _, graph in graphs(proto.graph):
        names = Counter(node.name for node in graph.node)
        for index, node in enumerate(graph.node):
            if node.name and names[node.name] > 1:
                text = "another node of its graph has the same name: ONNX Runtime refuses to load the model"
                yield label(node, index, ""), text


def _mixed(uses: Iterable[Use]) -> Iterator[tuple[str, str]]:
    """Give the nodes, in graphs with a Pow or PRelu, whose operator does not take their inputs' types, and why."""
    places = {id(use.site.owner): (use.site, int(use.asked)) for use in uses if use.site is not None}
    for (owner, _, where, values), opset in places.values():
        for index, node in enumerate(owner.node):
            for indices, _ in () if is_ours(node) else of_one_type(node, opset):
                kinds = dict.fromkeys(values.value(node.input[each]).type for each in indices)
                told = " and ".join(kind for kind in kinds if kind is not None)
                if None in kinds or len(kinds) < 2:
                    continue
                text = f"its inputs are {told}, and {node.op_type} takes one type"
                yield label(node, index, where), f"{text}: runtimes refuse to load the model"
