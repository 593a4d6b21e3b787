"""ONNX's control flow: If, Loop, Scan and SequenceMap. The caller evaluates their graphs.

halfulp evaluates these operators itself, because the onnx package's evaluator would evaluate the Pow and
PRelu nodes inside them. That evaluator also lacks Scan-8, directions, axes other than 0, and loops with no
iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Graph, Node
from halfulp.models.run.inputs import dtype_named

RunGraph = Callable[[Graph, Sequence[Any]], list[Any]]
"""Evaluates a subgraph on its inputs, in order; it sees the names around it."""


def _if(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    branch = "then_branch" if _one(inputs[0], "bool", "cond") else "else_branch"
    outputs = run(node.attributes[branch], [])
    if len(outputs) != len(node.outputs):
        raise HalfulpError(
            f"{branch} has another number of outputs than the node",
            expected=len(node.outputs),
            got=len(outputs),
        )
    return outputs


def _loop(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    body: Graph = node.attributes["body"]
    limit, condition, *carried = [*inputs, None, None][: max(2, len(inputs))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) <= len(carried):
        raise HalfulpError("the body's inputs and outputs don't match the node's")
    last = None if limit is None else _one(limit, "int64", "M")
    going = True if condition is None else _one(condition, "bool", "cond")
    scanned: list[list[Array]] = [[] for _ in body.outputs[1 + len(carried) :]]
    iteration = 0
    while going and (last is None or iteration < last):
        outputs = run(body, [np.array(iteration, np.int64), np.array(going), *carried])
        going = _one(outputs[0], "bool", "the body's condition")
        carried = outputs[1 : 1 + len(carried)]
        for values, value in zip(scanned, outputs[1 + len(carried) :], strict=True):
            values.append(value)
        iteration += 1
    declared = body.outputs[1 + len(carried) :]
    stacked = [_stack(values, 0, value) for values, value in zip(scanned, declared, strict=True)]
    return (carried + stacked)[: len(node.outputs)]


def _scan(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    return _scan_once(node, inputs, run) if node.opset >= 9 else _scan_batches(node, inputs, run)


def _scan_inputs(node: Node, inputs: list[Any]) -> int:
    scans = int(node.attributes["num_scan_inputs"])
    if not 0 < scans <= len(inputs):
        raise HalfulpError("num_scan_inputs must be a number of the inputs", got=scans)
    return scans


def _scan_once(node: Node, inputs: list[Any], run: RunGraph, length: int | None = None) -> list[Any]:
    body: Graph = node.attributes["body"]
    count = _scan_inputs(node, inputs)
    states, scans = inputs[:-count], inputs[-count:]
    results = body.outputs[len(states) :]
    given = node.attributes.get
    axes = given("scan_input_axes", [0] * count)
    backward = given("scan_input_directions", given("directions", [0] * count))  # the latter in Scan-8
    output_axes = given("scan_output_axes", [0] * len(results))
    output_backward = given("scan_output_directions", [0] * len(results))
    if not all(isinstance(scan, np.ndarray) for scan in scans):
        raise HalfulpError("a scan input is not a tensor")
    if not (
        len(body.inputs) == len(states) + len(scans)
        and len(axes) == len(backward) == count
        and len(output_axes) == len(output_backward) == len(results)
        and len(body.outputs) >= len(states)
    ):
        raise HalfulpError("the body's inputs and outputs, or the axes, don't match the node's")
    if any(not -scan.ndim <= axis < scan.ndim for scan, axis in zip(scans, axes, strict=True)):
        raise HalfulpError("a scan input has no such axis", got=list(axes))
    lengths = {scan.shape[axis] for scan, axis in zip(scans, axes, strict=True)}
    if length is None:
        if len(lengths) != 1:
            raise HalfulpError("the scan inputs differ in length", got=sorted(lengths))
        (length,) = lengths
    rows = [np.moveaxis(scan, axis, 0) for scan, axis in zip(scans, axes, strict=True)]
    scanned: list[list[Array]] = [[] for _ in results]
    for step in range(length):
        slices = [row[length - 1 - step if back else step] for row, back in zip(rows, backward, strict=True)]
        outputs = run(body, [*states, *map(np.asarray, slices)])
        states = outputs[: len(states)]
        for values, value in zip(scanned, outputs[len(states) :], strict=True):
            values.append(value)
    stacked = [
        _stack(values[::-1] if back else values, axis, value)
        for values, axis, back, value in zip(scanned, output_axes, output_backward, results, strict=True)
    ]
    return states + stacked


def _scan_batches(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    """Scan-8, with a leading batch axis on every value, and a length for each sequence."""
    lengths, *values = inputs
    body: Graph = node.attributes["body"]
    results = len(body.outputs) - (len(values) - _scan_inputs(node, values))
    if not all(isinstance(value, np.ndarray) and value.ndim for value in values):
        raise HalfulpError("an input has no batch axis")
    count = values[0].shape[0]
    if any(value.shape[0] != count for value in values):
        raise HalfulpError("the inputs differ in the size of their batch axis")
    if lengths is not None and (not isinstance(lengths, np.ndarray) or lengths.shape != (count,)):
        raise HalfulpError("sequence_lens must hold one length for each batch")
    longest = values[-1].shape[1] if values[-1].ndim > 1 else 0
    batches = []
    for batch in range(count):
        own = [np.asarray(value[batch]) for value in values]
        length = longest if lengths is None else min(max(int(lengths[batch]), 0), longest)
        outputs = _scan_once(node, own, run, length)
        states = outputs[: len(outputs) - results]
        # The elements past the end of a shorter sequence are zero.
        padded = [
            np.pad(out, [(0, longest - out.shape[0]), *[(0, 0)] * (out.ndim - 1)])
            for out in outputs[len(states) :]
        ]
        batches.append(states + padded)
    if not batches:
        raise UnsupportedError("a Scan over no batches at all")
    return [
        _stack(list(parts), 0, value)
        for parts, value in zip(zip(*batches, strict=True), body.outputs, strict=True)
    ]


def _sequence_map(node: Node, inputs: list[Any], run: RunGraph) -> list[Any]:
    body: Graph = node.attributes["body"]
    first, *others = inputs
    if not isinstance(first, list):
        raise HalfulpError("input_sequence is not a sequence")
    if any(isinstance(other, list) and len(other) != len(first) for other in others):
        raise HalfulpError("the sequences differ in length")
    rows = [
        run(body, [first[index], *(other[index] if isinstance(other, list) else other for other in others)])
        for index in range(len(first))
    ]
    return [[row[index] for row in rows] for index in range(len(node.outputs))]


def _one(value: Any, kind: str, what: str) -> Any:
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype != kind:
        raise HalfulpError(f"{what} must be one {kind}")
    return value.item()


def _stack(values: list[Array], axis: int, declared: Any) -> Array:
    if values:
        if not all(isinstance(value, np.ndarray) for value in values):
            raise HalfulpError(f"output {declared.name!r} of the body is not a tensor")
        if len({(value.shape, value.dtype) for value in values}) > 1:
            raise HalfulpError(f"output {declared.name!r} of the body changes its type or shape")
        if not -values[0].ndim - 1 <= axis <= values[0].ndim:
            raise HalfulpError(f"output {declared.name!r} of the body has no axis {axis}")
        return np.stack(values, axis)
    if declared.type is None or declared.shape is None:
        raise UnsupportedError(f"no iteration, and the body does not declare its output {declared.name!r}")
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.empty(shape, dtype_named(declared.type))


CONTROL: Mapping[str, Callable[[Node, list[Any], RunGraph], list[Any]]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
}
"""By operator; each takes the node, its inputs, and what evaluates a subgraph."""
