"""Networks in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from halfulp.benchmark.exactness import Exactness, exactness
from halfulp.benchmark.networks.contender import PROFILED_RUNS, Contender, Network, NodeTimes, together
from halfulp.benchmark.timing import Call
from halfulp.conversion.subject import Subject
from halfulp.integrations.onnxruntime import engine
from halfulp.models.graph import Array, Node
from halfulp.models.onnx import parse
from halfulp.models.onnx.nodes import SUPPORTED_OPS
from halfulp.models.run.report import NodeRun, Report
from halfulp.operators import op
from halfulp.types import TYPES


def prepare(network: Network, *, ours: bool) -> Contender:
    """Return a network in a session.

    Raises:
        HalfulpError: onnxruntime is not installed, refuses the network, or fails on its inputs.
    """
    settings = engine.Settings(ours=ours, threads=network.threads)
    outputs, reports = engine.profiled(
        network.path, network.model, network.inputs, settings, runs=PROFILED_RUNS
    )
    results = _results(network, engine.Settings(ours=ours, optimized=False))
    return Contender(
        _call(network, settings),
        {name: value for name, value in outputs.items() if _is_tensor(value)},
        _times(reports, ours=ours),
        together(results),
        len(results),
    )


def _call(network: Network, settings: engine.Settings) -> Call:
    session, _ = engine.open_session(network.path, settings)
    return partial(engine.run_in, session, network.model, network.inputs)


def _times(reports: Sequence[Report], *, ours: bool) -> NodeTimes:
    def is_wanted(row: NodeRun) -> bool:
        return row.engine == "halfulp" if ours else row.operator in SUPPORTED_OPS

    rows = [[row for row in report.nodes if is_wanted(row)] for report in reports]
    runs = [
        (sum(row.seconds for row in of_run), report.seconds)
        for of_run, report in zip(rows, reports, strict=True)
    ]
    return NodeTimes.of(max(map(len, rows)), runs)


def _results(network: Network, settings: engine.Settings) -> list[Exactness]:
    """Return how exact each Pow and PRelu node of the graph is on the operands that it gets."""
    graph = network.model.graph
    nodes = [node for node in graph.nodes if not node.domain and node.type in SUPPORTED_OPS]
    known: dict[str, Any] = {**graph.constants, **network.inputs}
    names = dict.fromkeys(
        name for node in nodes for name in (*node.inputs, *node.outputs) if name not in known
    )
    if not nodes:
        return []
    proto, _, folder = parse(network.path)
    watched = Subject(network.model, proto, folder).with_outputs(list(names))
    assert watched.proto is not None
    run = engine.runner(watched.proto, network.model, settings, folder=watched.folder)
    known |= run(network.inputs)
    return [exactness(known[node.outputs[0]], _right(node, known)) for node in nodes]


def _right(node: Node, known: dict[str, Any]) -> Array:
    right: Array = op(node.operator)(*(known[name] for name in node.inputs), **node.attributes)
    return right


def _is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name in TYPES
