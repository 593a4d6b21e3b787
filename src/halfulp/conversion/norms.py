"""Norms that are written out as one operator of ONNX: LayerNormalization-17, RMSNormalization-23."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Change, Editor
from halfulp.conversion.float32 import norms
from halfulp.conversion.opset import finish
from halfulp.conversion.steps import deviations_first
from halfulp.conversion.walk import Walk
from halfulp.models.onnx.infer import ValueInfo, scalar
from halfulp.models.onnx.walk import Owner, attributes_of, read_names, readers_of
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.tensor import Shape

FUSED = {"LayerNormalization": 17, "RMSNormalization": 23}
"""The operators that norms become, with the first opset that has them."""


@dataclass(frozen=True)
class _Norm:
    """A norm that one operator can express.

    Attributes:
        operator: its name.
        nodes: all nodes of it; the last gives its result.
        x: the value that is normalized.
        axis: the first of the dims that it is normalized over, counted from the last.
        epsilon: the number added to the mean of the squares.
        scale, bias: constants by name; None for a scale of ones, and for no bias.
    """

    operator: str
    nodes: tuple[NodeProto, ...]
    x: str
    axis: int
    epsilon: float
    scale: str | None
    bias: str | None


def fuse_norms(walk: Walk) -> list[Change]:
    """Replace norms by equivalent single operators, and variances by those of deviations; return the changes."""
    too_old: set[str] = set()
    found: dict[str, _Norm] = {}  # the norms of one graph or function, by their results
    fused = 0
    for owner, opset in walk.owners:
        found.clear()
        for path, graph, known in walk.known(owner):
            for node in deviations_first(graph, known):
                said = "its variance, E[x^2] - E[x]^2, is computed of the deviations, E[(x - E[x])^2]"
                differs = "other roundings, and never a negative number"
                walk.changes.append(Change(walk.label(path, node), said, differs))
                fused += 1
            for norm in _matched(graph, known):
                if opset >= FUSED[norm.operator]:
                    found[norm.nodes[-1].output[0]] = norm
                else:
                    too_old.add(norm.operator)
        fused += len(found)
        walk.rewrite(
            owner,
            opset,
            lambda node: bool(node.output) and node.output[0] in found,
            lambda node, edit: _fuse(found[node.output[0]], node, edit),
        )
    if not fused:
        said = "no norm in it is exactly one operator of its opset"
        if too_old:
            said += f"; --opset {max(FUSED[name] for name in too_old)} has {', '.join(sorted(too_old))}"
        walk.changes.append(Change(walk.file, said, is_notice=True))
    return finish(walk)


def _fuse(norm: _Norm, last: NodeProto, edit: Editor) -> None:
    x = edit.value(norm.x)
    scale = norm.scale
    if scale is None:
        assert x.shape is not None
        assert x.type is not None
        ones = np.ones([int(str(dim)) for dim in x.shape[norm.axis :]], dtype_named(x.type))
        scale = edit.constant(ones, "scale")
    names = {output for node in norm.nodes[:-1] for output in node.output}
    edit.drop(*(node for node in edit.nodes if not names.isdisjoint(node.output)))
    edit.note(
        f"{len(norm.nodes)} nodes become {norm.operator}", "it computes in float32 and rounds otherwise"
    )
    inputs = [norm.x, scale, *([norm.bias] if norm.bias else [])]
    edit.add(norm.operator, inputs, output=last.output[0], like=last, axis=norm.axis, epsilon=norm.epsilon)


def _matched(graph: Owner, known: ValueInfo) -> Iterator[_Norm]:
    """Yield the norms whose inner values no other node reads."""
    makers = {name: node for node in graph.node for name in node.output}
    readers = readers_of(graph.node)
    reads = Counter(read_names(graph))
    for nodes in norms(graph, known):
        norm = _match(nodes, known, makers, readers)
        if norm is not None:
            own = Counter(name for node in norm.nodes for name in node.input)
            if all(reads[name] == own[name] for node in norm.nodes[:-1] for name in node.output):
                yield norm


def _match(
    nodes: list[NodeProto],
    known: ValueInfo,
    makers: dict[str, NodeProto],
    readers: dict[str, list[NodeProto]],
) -> _Norm | None:
    """Return the norm that these nodes are, from the square to the division; None where they are another."""
    square, *between = nodes
    kinds = [node.op_type for node in nodes]
    if square.op_type not in ("Pow", "Mul") or kinds[1:3] != ["ReduceMean", "Add"]:
        return None
    if square.op_type == "Pow" and scalar(square.input[1], known) != 2:
        return None
    base, x = square.input[0], square.input[0]
    mean, shift = between[:2]
    epsilon = scalar(next((name for name in shift.input if name != mean.output[0]), ""), known)
    axes = _axes(mean, known)
    is_wider = known.value(base).type == "float64"  # than the operators compute, and than their epsilon
    if epsilon is None or axes is None or is_wider or base not in nodes[-1].input:
        return None
    if kinds[3:] not in (
        ["Sqrt", "Div"],
        ["Sqrt", "Reciprocal", "Mul"],
        ["Sqrt", "Div", "Mul"],
        ["Pow", "Mul"],
    ):
        return None
    if kinds[3] == "Pow" and scalar(nodes[3].input[1], known) != -0.5:
        return None
    if kinds[3:] == ["Sqrt", "Div", "Mul"] and scalar(nodes[4].input[0], known) != 1:
        return None
    before: list[NodeProto] = []
    centred = makers.get(base)
    if centred is not None and centred.op_type == "Sub" and centred.input[1] in makers:
        of = makers[centred.input[1]]
        if of.op_type == "ReduceMean" and of.input[0] == centred.input[0] and _axes(of, known) == axes:
            before, x = [of, centred], centred.input[0]
    rank = len(known.value(x).shape or ())
    last = sorted(axis - rank if axis >= 0 else axis for axis in axes)
    if last != list(range(-len(last), 0)):
        return None
    shape = (known.value(x).shape or ())[-len(last) :]
    tail, scale, bias = _tail(nodes[-1], readers, known, shape, with_bias=bool(before))
    if not rank or not all(isinstance(dim, int) for dim in shape):
        return None
    operator = "LayerNormalization" if before else "RMSNormalization"
    return _Norm(operator, (*before, *nodes, *tail), x, last[0], epsilon, scale, bias)


def _tail(
    node: NodeProto,
    readers: dict[str, list[NodeProto]],
    known: ValueInfo,
    shape: Shape,
    *,
    with_bias: bool,
) -> tuple[list[NodeProto], str | None, str | None]:
    """Return the nodes after the division that multiply with a constant scale and add a constant bias, and these."""
    found: dict[str, str] = {}
    nodes: list[NodeProto] = []
    for op_type in ("Mul", "Add") if with_bias else ("Mul",):
        ahead = readers.get(node.output[0], [])
        if len(ahead) != 1 or ahead[0].op_type != op_type:
            break
        other = next((name for name in ahead[0].input if name != node.output[0]), "")
        if known.tensor(other) is None or known.value(other).shape != shape:
            break
        node = ahead[0]
        nodes.append(node)
        found[op_type] = other
    return nodes, found.get("Mul"), found.get("Add")


def _axes(node: NodeProto, known: ValueInfo) -> list[int] | None:
    """Return the axes of a ReduceMean that keeps its dims; None where it does not, or they are not known."""
    attributes = attributes_of(node)
    if not attributes.get("keepdims", 1):
        return None
    axes = attributes.get("axes") if len(node.input) < 2 else known.array(node.input[1])
    return None if axes is None else sorted(int(axis) for axis in axes)
