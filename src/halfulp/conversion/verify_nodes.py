"""Telling the differences that a conversion makes from those of the runtime, which may compute a node otherwise in
another opset: each node of the new model is given the operands that the old one computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto

from halfulp.conversion.subject import Run, Subject, all_nodes, given, is_ours, runs
from halfulp.models.graph import Array, Model, Node
from halfulp.models.run.report import show
from halfulp.types import TYPES

_ROUNDINGS = 64
"""How many units in the last place of its greatest magnitude an output may change by another order of summing up."""


class Origin(NamedTuple):
    """A node whose output differs, though its operands do not.

    Attributes:
        label: how messages name the node in the old model.
        difference: between the outputs, in one line.
        is_runtimes: whether the conversion left the node as it was, and only roundings differ.
    """

    label: str
    difference: str
    is_runtimes: bool


class Nodes:
    """The nodes of two ONNX models whose outputs have the same names.

    Args:
        before, after: the models.
    """

    def __init__(self, before: Subject, after: Subject) -> None:
        assert before.proto is not None
        assert after.proto is not None
        self._old, self._new = _makers(before.proto), _makers(after.proto)
        self._constants = [_constants(subject) for subject in (before, after)]
        self._before, self._after = before, after
        # A constant stays one: some kernels need it.
        self._nodes = [
            (node, name)
            for node in before.nodes
            for name in node.outputs
            if name in self._new and not _is_constant(node)
        ]
        self._run: Run | None = None
        self._cut: dict[tuple[str, ...], Run] = {}

    def origins(self, inputs: Mapping[str, Any]) -> list[Origin]:
        """Return where differences come from on these inputs, in the old model's order.

        Raises:
            HalfulpError: a part of a model does not run by itself.
        """
        if self._run is None:
            _, (self._run,) = runs(self._before.with_outputs([name for _, name in self._nodes]))
        computed = self._run(inputs)
        operands = {name: value for name, value in computed.items() if _is_fed(value)}
        key = tuple(operands)
        if key not in self._cut:
            _, (self._cut[key],) = runs(self._after.with_operands(operands))
        results = self._cut[key]({**inputs, **operands})
        return list(self._compared(operands, results))

    def _compared(self, right: Mapping[str, Array], found: Mapping[str, Any]) -> Iterator[Origin]:
        for node, name in self._nodes:
            told = difference(right[name], found[given(name)]) if name in right else None
            if told is not None:
                runtimes = self._is_kept(node, name) and _is_near(right[name], found[given(name)])
                yield Origin(node.label, told, runtimes)

    def _is_kept(self, node: Node, name: str) -> bool:
        """Return whether the conversion left a node and its constants as they were; never of a Pow or PRelu."""
        if node.function is not None or any(map(is_ours, all_nodes([node]))):
            return False
        old, new = ([known.get(read) for read in sorted(node.reads)] for known in self._constants)
        unlike = [difference(a, b) for a, b in zip(old, new, strict=True)]
        return _bare(self._old[name]) == _bare(self._new[name]) and not any(unlike)


def _constants(subject: Subject) -> dict[str, Any]:
    """Return the constants of a model's graph by name."""
    assert isinstance(subject.model, Model)
    made = {
        node.outputs[0]: next(iter(node.attributes.values()), None)
        for node in subject.nodes
        if _is_constant(node)
    }
    return {**made, **subject.model.graph.constants}


def _is_constant(node: Node) -> bool:
    return node.type == "Constant" and not node.domain


def _is_fed(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.dtype.name == "bool" or value.dtype.name in TYPES)


def _makers(proto: ModelProto) -> dict[str, NodeProto]:
    return {name: node for node in proto.graph.node for name in node.output if name}


def _bare(node: NodeProto) -> NodeProto:
    """Return a node without its name and doc string."""
    bare = NodeProto()
    bare.CopyFrom(node)
    for field in ("name", "doc_string"):
        bare.ClearField(field)
    return bare


def _is_near(right: Array, found: Any) -> bool:
    """Return whether floats differ by no more than other roundings on the way to them make."""
    if not isinstance(found, np.ndarray) or (found.dtype, found.shape) != (right.dtype, right.shape):
        return False
    try:
        unit = float(ml_dtypes.finfo(right.dtype).eps)  # type: ignore[no-untyped-call]
    except ValueError:  # not a type of floats
        return False
    a, b = right.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(b[finite]).all():
        return False
    away: float = np.abs(a[finite] - b[finite]).max(initial=0)
    return away <= _ROUNDINGS * unit * float(np.abs(a[finite]).max(initial=0))


def difference(a: Any, b: Any) -> str | None:
    """Return in what two values differ, in one line, or None; one NaN is as good as another."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        found = (difference(x, y) for x, y in zip(a, b, strict=True))
        return next((text for text in found if text is not None), None)
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return None if a is None and b is None else f"{show(a)} became {show(b)}"
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{show(a)} became {show(b)}"
    if a.dtype == object:
        differs = np.asarray(a != b)
    else:
        flat = [np.ascontiguousarray(each).reshape(-1) for each in (a, b)]
        bits = [each.view(np.uint8).reshape(each.size, a.itemsize) for each in flat]
        differs = (bits[0] != bits[1]).any(axis=1)
        differs &= ~((flat[0] != flat[0]) & (flat[1] != flat[1]))  # which NaN it is, no document says
    places = np.flatnonzero(differs)
    if not places.size:
        return None
    first = int(places[0])
    values = [str(each.reshape(-1)[first]) for each in (a, b)]
    return f"{places.size} of {a.size} elements differ, first at {first}: {values[0]} became {values[1]}"
