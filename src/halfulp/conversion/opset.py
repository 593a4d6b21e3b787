"""A whole ONNX model from one opset to another, a step at a time, node by node.

Everything that no step touches is kept byte for byte: names, doc strings, metadata, functions, subgraphs,
opset imports of other domains, references to external data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.conversion.editor import Change, Editor, NoExactForm
from halfulp.conversion.output import OLDEST_IR, finish
from halfulp.conversion.steps import (
    STEPS,
    bodies,
    by_body,
    changes,
    check_attributes,
    check_values,
    says_the_same,
    stays,
    through_onnx,
    trimmed,
)
from halfulp.conversion.walk import Walk, drop_unreached
from halfulp.errors import HalfulpError, UnsupportedError, did_you_mean
from halfulp.models.graph import listed
from halfulp.models.onnx.checks import schema_in_force, version_of
from halfulp.models.onnx.inline import inlined
from halfulp.models.onnx.walk import Owner, default_opset, every_node, identity, plain_domain

NEWEST = onnx.defs.onnx_opset_version()


def to_opset(walk: Walk, opset: int) -> list[Change]:
    """Convert a model to a version of ONNX's own operators, and return the changes.

    Raises:
        UnsupportedError: nodes have no exact form there, or the onnx package no way to it: all of them are named.
        HalfulpError: the opset does not exist.
    """
    model, file = walk.model, walk.file
    if not 1 <= opset <= NEWEST:
        raise HalfulpError("no such opset", expected=f"1 to {NEWEST}", got=opset)
    if model.training_info:
        raise UnsupportedError(f"{file}: has training information, which is not converted")
    before = opset_of(model, file)
    for owner, own in walk.owners:
        _adapt(walk, owner, own, opset)
        _through(walk, owner, own, opset)
        _set_opset(model if isinstance(owner, GraphProto) else owner, opset)
    _refuse(walk, opset, before)
    return finish(walk)


def expand_operators(walk: Walk, named: str) -> list[Change]:
    """Write the nodes of operators, named with commas between them, in other operators; return the changes.

    A node goes to the opset in which the onnx package has a function body of its operator, and the nodes of the body
    back to the model's.

    Raises:
        HalfulpError: an operator has no function body.
        UnsupportedError: a node has no exact form on the way.
    """
    functions = {identity(function) for function in walk.model.functions}
    for name in dict.fromkeys(each.strip() for each in named.split(",")):
        versions = bodies().get(name)
        if versions is None:
            reason = "can't be written in other operators"
            raise HalfulpError(f"{name[:80]!r} {reason}; {did_you_mean(name, sorted(bodies()))}")
        before = len(walk.changes)
        for owner, opset in walk.owners:
            nodes = [n for n in every_node(owner) if n.op_type == name and not plain_domain(n.domain)]
            nodes = [n for n in nodes if identity(n) not in functions]
            version = max((each for each in versions if each <= opset), default=versions[0])
            _expand(walk, owner, opset, name, version, nodes)
        if len(walk.changes) == before:
            walk.changes.append(Change(walk.file, f"has no node {name}", is_notice=True))
    return finish(walk)


def _expand(walk: Walk, owner: Owner, opset: int, name: str, version: int, nodes: list[NodeProto]) -> None:
    """Write nodes of an operator as its function body in a version."""
    for node in nodes:
        walk.made.difference_update(node.output)  # those of an operator that was expanded before are told of
    wanted = _among(walk, nodes)

    def expand(node: NodeProto, edit: Editor) -> None:
        if node.op_type != name:
            edit.keep(node)
        elif not by_body(node, version, edit, Editor.keep):
            raise NoExactForm(f"{name} has no function body for these operands")

    _through(walk, owner, opset, version, wanted)
    walk.rewrite(owner, version, wanted, expand, collect=True)
    _through(walk, owner, version, opset, wanted)
    hint = "" if version == opset else f"; the function body of {name} is that of opset {version}"
    if any("float16" in why for _, _, why in walk.refused.values()):
        hint += f"{':' if hint else ';'} first halfulp convert IN OUT --float32 all"
    _refuse(walk, opset, opset, hint)


def late_nodes(owner: Owner, opset: int) -> list[NodeProto]:
    """Return the nodes of operators that came after an opset."""
    nodes = every_node(owner)
    return [n for n in nodes if schema_in_force("", n.op_type, opset) is None and version_of(n, opset)]


def _adapt(walk: Walk, owner: Owner, opset: int, to: int) -> None:
    """Bring nodes of operators that came after both opsets to the first, and the nodes that they become on the way."""
    by_version: dict[int, list[NodeProto]] = {}
    for node in late_nodes(owner, opset):
        by_version.setdefault(version_of(node, opset) or opset, []).append(node)
    for version, group in by_version.items():
        if version > to:
            _through(walk, owner, version, opset, _among(walk, group))


def _among(walk: Walk, nodes: list[NodeProto]) -> Callable[[NodeProto], bool]:
    """Return whether a node is one of these, or one that is made from now on."""
    names = {name for node in nodes for name in node.output if name}
    before = set(walk.made)
    return lambda node: not (names | walk.made - before).isdisjoint(node.output)


def _through(
    walk: Walk, owner: Owner, before: int, after: int, wanted: Callable[[NodeProto], bool] | None = None
) -> None:
    """Convert all nodes, or those that are wanted, from opset to opset."""
    by = 1 if after > before else -1
    for here in range(before, after, by):
        _step(walk, owner, here, here + by, wanted)


def _refuse(walk: Walk, opset: int, before: int, hint: str = "") -> None:
    """Raise UnsupportedError if nodes have no exact form: one error unchanged, several grouped by reason."""
    refused = dict.fromkeys(walk.refused.values())  # a node of several outputs counts once
    if not refused:
        return
    reached = max(int(where.removeprefix("opset ")) for _, where, _ in refused) + 1
    way = f"; every node reaches --opset {reached}" if opset < reached < before else hint
    if len(refused) == 1:
        ((name, where, reason),) = refused
        raise UnsupportedError(f"{walk.file}: node {name}: no exact form in {where}: {reason}{way}")
    by_reason: dict[str, list[str]] = {}
    for name, _, reason in refused:
        by_reason.setdefault(reason, []).append(name)
    told = "; ".join(f"{listed(names, most=4)}: {reason}" for reason, names in by_reason.items())
    raise UnsupportedError(
        f"{walk.file}: {len(refused)} nodes have no exact form in opset {opset}: {told}{way}"
    )


def inline(model: ModelProto, file: str, folder: Path | None) -> list[Change]:
    """Inline a model's functions in place, converted to the model's opset, and return the changes."""
    if not model.functions:
        return []
    changes = drop_unreached(model, file)
    opsets = {version for f in model.functions if (version := default_opset(f.opset_import)) is not None}
    if opsets and default_opset(model.opset_import) is None:
        _set_opset(model, max(opsets))
    if opsets - {default_opset(model.opset_import)}:
        changes += to_opset(Walk(model, file, folder), opset_of(model, file))
    model.CopyFrom(inlined(model, file))
    return [*changes, Change(file, "its functions are inlined")]


def opset_of(model: ModelProto, file: str) -> int:
    """Return the version that a model imports of ONNX's own operators; raise UnsupportedError if it imports none."""
    opset = default_opset(model.opset_import)
    if opset is None and model.ir_version >= OLDEST_IR:
        raise UnsupportedError(f"{file}: imports no operators of ONNX's own")
    return 1 if opset is None else opset


def _step(
    walk: Walk, owner: Owner, here: int, there: int, wanted: Callable[[NodeProto], bool] | None = None
) -> None:
    """Convert the nodes whose operators differ between two opsets: all, or those that are wanted."""

    def rewrite(node: NodeProto, edit: Editor) -> None:
        whole, made = node, len(edit.nodes)
        node = trimmed(node, here, there)
        if wanted is not None and node is not whole and schema_in_force("", node.op_type, there) is not None:
            edit.note(f"loses the attributes that it has only before opset {there}; they are defaults")
        try:
            check_values(node, here, there)
            move(edit, node)
        except NoExactForm:
            held = edit.tensor(node.output[0]) if len(node.output) == 1 else None
            if held is None:
                raise
            del edit.nodes[made:]
            if node.op_type != "Constant":
                edit.note("is a constant, and is stored as one")
            edit.constant_tensor(held, "", name=node.output[0])
        for new in edit.nodes[made:]:
            check_attributes(new, there)

    def move(edit: Editor, node: NodeProto) -> None:
        step = STEPS.get((node.op_type, here, there))
        if step is None and stays(node, here, edit):
            return
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                raise NoExactForm(
                    f"its attribute {attribute.name} is that of a function, and may differ from call to call;"
                    " onnx.inliner.inline_local_functions puts the functions into the graph"
                )
        made = len(edit.nodes)
        try:
            step(node, edit) if step is not None else through_onnx(node, here, edit)
        except NoExactForm:
            del edit.nodes[made:]
            if there > here or not by_body(node, here, edit, move):
                raise

    def is_wanted(node: NodeProto) -> bool:
        return _changes(node.op_type, here, there) and (wanted is None or wanted(node))

    walk.rewrite(owner, there, is_wanted, rewrite, collect=True)


@cache
def _changes(op_type: str, here: int, there: int) -> bool:
    """Return whether nodes of an operator may change between two opsets, or may be refused."""
    is_moved = (op_type, here, there) in STEPS or there < here
    stays = not is_moved and says_the_same(op_type, here, there)
    return not stays and changes(op_type, here, there)


def _set_opset(owner: ModelProto | FunctionProto, opset: int) -> None:
    own = [entry for entry in owner.opset_import if not plain_domain(entry.domain)]
    for entry in own or [owner.opset_import.add()]:
        entry.version = opset
