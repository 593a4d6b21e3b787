"""The repairs and conversions that help a whole ONNX model.

Each is tried on the model before it is advised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from onnx import ModelProto

from halfulp.auditing.findings import NodeReport, Ways
from halfulp.auditing.target import Statement
from halfulp.conversion.repair import contradicted, repaired
from halfulp.conversion.targets import for_target
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, printable
from halfulp.models.onnx.tensors import type_of


def ways(nodes: tuple[NodeReport, ...], proto: ModelProto, file: str, folder: Path | None) -> Ways:
    """Return the repairs and conversions that help a model.

    Args:
        nodes: its Pow and PRelu nodes, with their results.
        proto: the model; left as it is.
        file: its name in messages.
        folder: where its external data lies.
    """
    found = Ways(declared=dict(_declared(proto)) if nodes else {})
    is_broken = any(node.breaks for node in nodes) or bool(found.declared)
    if is_broken or any(node.only_if for node in nodes):
        try:
            new, changes, left = repaired(proto, file, folder)
        except HalfulpError as error:  # the model needs more than a repair of these nodes
            found = replace(found, error=printable(error.message, most=None))
        else:
            is_valid = is_broken and bool(changes) and all(each.valid for each in left)
            found = replace(
                found,
                repaired={change.node: change.what for change in changes},
                left={each.node: each.why for each in left},
                is_valid=is_valid,
            )
            proto = new if is_valid else proto
    asked = {said.target for node in nodes for said in node.targets if _asks(said)}
    refused = {target: why for target in sorted(asked) if (why := _refusal(proto, target, file, folder))}
    return replace(found, refused=refused)


def _asks(said: Statement) -> bool:
    found = said.conversion
    return said.is_finding and found is not None and found.needed and found.refused is None


def _refusal(proto: ModelProto, target: str, file: str, folder: Path | None) -> str:
    """Return why a model can't be converted for a target; empty where it can."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    try:
        for_target(check_clauses(Walk(copy, file, folder)), target)
    except HalfulpError as error:
        return error.message
    return ""


def _declared(proto: ModelProto) -> Iterator[tuple[str, str]]:
    """Give the Cast nodes whose outputs the file declares in another type, and how."""
    for name, node, cast, declared in contradicted(proto):
        if node is cast and node.op_type == "Cast":
            to = next(attribute.i for attribute in node.attribute if attribute.name == "to")
            text = f"its output is declared as {declared}, and is {type_of(to)}: runtimes refuse to load the model"
            yield name, text
