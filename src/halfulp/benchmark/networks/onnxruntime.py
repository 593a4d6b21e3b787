"""Networks in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from halfulp.benchmark.comparison import Exactness
from halfulp.benchmark.networks.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    NodeTimes,
    Prepare,
    nodes_of,
)
from halfulp.benchmark.timing import Call
from halfulp.errors import printable
from halfulp.integrations.onnxruntime import engine
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.run.report import NodeRun, RunReport


def preparer(network: Network) -> Prepare:
    """Return what opens sessions of a network."""
    return lambda ours: _prepare(network, ours=ours)


def _prepare(network: Network, *, ours: bool) -> tuple[Contender, Call]:
    settings = engine.Settings(ours=ours, threads=network.threads)
    session, outputs, reports = engine.open_profiled(
        network.path, network.model, network.inputs, settings, runs=PROFILED_RUNS
    )
    results = _results(network, engine.Settings(ours=ours, optimized=False, threads=network.threads))
    found = Contender.of(outputs, _times(reports, _labels(network), ours=ours), results)
    return found, partial(engine.run_in, session, network.model, network.inputs)


def _times(reports: Sequence[RunReport], labels: set[str], *, ours: bool) -> NodeTimes:
    """Return the times of nodes with these labels: ONNX Runtime makes a Pow of some other operators, too."""

    def is_wanted(row: NodeRun) -> bool:
        return (row.engine == "halfulp" if ours else row.operator in SUPPORTED_OPS) and row.label in labels

    rows = [[row for row in report.nodes if is_wanted(row)] for report in reports]
    runs = [
        (sum(row.seconds for row in of_run), report.seconds)
        for of_run, report in zip(rows, reports, strict=True)
    ]
    return NodeTimes.of(max(map(len, rows)), runs)


def _labels(network: Network) -> set[str]:
    """Return how a report names the Pow and PRelu nodes."""
    nodes = nodes_of(network.model.graph)
    return {f"'{printable(node.source.name)}' ({node.type})" for node in nodes}


def _results(network: Network, settings: engine.Settings) -> list[Exactness]:
    """Return how exact each Pow and PRelu node of the graph is, alone."""
    samples = network.samples
    if not samples.nodes:
        return []
    session, _ = engine.open_session(samples.proto(), settings)
    return samples.exactness(engine.run_in(session, network.model, samples.fed))
