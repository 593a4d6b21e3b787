"""A whole ONNX model from one opset to another, a step at a time, node by node.

What no step touches stays byte for byte as it was: names, doc strings, metadata, functions, subgraphs,
opset imports of other domains, references to external data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.conversion.opset import adapters, downgrades, fallback
from halfulp.conversion.rewrite.clauses import check_node
from halfulp.conversion.rewrite.editor import Change, Editor
from halfulp.conversion.rewrite.value_info import default_opset
from halfulp.conversion.rewrite.walk import Walk
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import listed
from halfulp.models.onnx.nodes import SUPPORTED_OPS, plain_domain

NEWEST = onnx.defs.onnx_opset_version()
_STEPS = {**adapters.STEPS, **downgrades.STEPS}
_OLDEST_IR = 3  # the first with opset imports
_OLDEST_IR_OF_INITIALIZERS = 4  # before, an initializer had to be an input too


def to_opset(model: ModelProto, opset: int, file: str, folder: Path | None) -> list[Change]:
    """Convert a model in place, and return what was done.

    Args:
        model: one that the front end accepts.
        opset: the version of ONNX's own operators that it shall import.
        file: its name in messages.
        folder: where its external data lies.

    Raises:
        UnsupportedError: nodes have no exact form there, or the onnx package no way to it: all of them are named.
        ModelError: a node breaks a clause of the version that it is of.
        HalfulpError: there is no such opset.
    """
    if not 1 <= opset <= NEWEST:
        raise HalfulpError("no such opset", expected=f"1 to {NEWEST}", got=opset)
    if model.training_info:
        raise UnsupportedError(f"{file}: has training information, which is not converted")
    opset_of(model, file)
    walk = Walk(model, file, folder)
    for owner in walk.owners:
        here = opset_of(model, file)
        if isinstance(owner, FunctionProto):
            here = default_opset(owner.opset_import) or here
        for source, target in _steps(here, opset):
            _step(walk, owner, source, target)
        _set_opset(model if isinstance(owner, GraphProto) else owner, opset)
    _refuse(walk, file, opset)
    return finish(walk, file)


def _refuse(walk: Walk, file: str, opset: int) -> None:
    """Raise UnsupportedError where nodes have no exact form: one as it is, several by the reasons."""
    refused = dict.fromkeys(walk.refused.values())  # a node of several outputs counts once
    if len(refused) == 1:
        ((name, where, reason),) = refused
        raise UnsupportedError(f"{file}, node {name}: no exact form in {where}: {reason}")
    by_reason: dict[str, list[str]] = {}
    for name, _, reason in refused:
        by_reason.setdefault(reason, []).append(name)
    if by_reason:
        told = "; ".join(f"{listed(names, most=4)}: {reason}" for reason, names in by_reason.items())
        raise UnsupportedError(f"{file}: {len(refused)} nodes have no exact form in opset {opset}: {told}")


def opset_of(model: ModelProto, file: str) -> int:
    """Return the version that a model imports of ONNX's own operators.

    Raises:
        UnsupportedError: it imports none.
    """
    opset = default_opset(model.opset_import)
    if opset is None and model.ir_version < _OLDEST_IR:
        return 1
    if opset is None:
        raise UnsupportedError(f"{file}: imports no operators of ONNX's own")
    return opset


def _step(walk: Walk, owner: GraphProto | FunctionProto, here: int, there: int) -> None:
    def rewrite(node: NodeProto, edit: Editor) -> None:
        if node.op_type in SUPPORTED_OPS:
            check_node(node, here, edit.value_info)
        step = _STEPS.get((node.op_type, here, there))
        if step is not None:
            step(node, edit)
        else:
            fallback.step(node, here, edit)

    walk.rewrite(
        owner,
        there,
        lambda node: fallback.changes(node.op_type, here, there),
        rewrite,
        f"opset {there}",
        collect=True,
    )


def _steps(opset: int, target: int) -> Iterator[tuple[int, int]]:
    by = 1 if target > opset else -1
    for here in range(opset, target, by):
        yield here, here + by


def _set_opset(owner: ModelProto | FunctionProto, opset: int) -> None:
    own = [entry for entry in owner.opset_import if not plain_domain(entry.domain)]
    for entry in own or [owner.opset_import.add()]:
        entry.version = opset


def finish(walk: Walk, file: str) -> list[Change]:
    """Sweep up after a walk; return all changes, that of the IR version too, if it had to be raised."""
    model = walk.model
    imports = [entry for entry in model.opset_import if not plain_domain(entry.domain)]
    least = max(onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True), _OLDEST_IR)
    if walk.sweep():
        least = max(least, _OLDEST_IR_OF_INITIALIZERS)
    if model.ir_version >= least:
        return walk.changes
    raised = Change(file, f"IR version {model.ir_version} becomes {least}")
    model.ir_version = least
    return [*walk.changes, raised]
