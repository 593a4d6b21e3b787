"""Measure a network in every installed runtime, with and without halfulp's kernels; give a table or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from halfulp.benchmark.comparison import Exactness, error, table, time_of
from halfulp.benchmark.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    NodeTimes,
    Prepare,
    difference,
    nodes_of,
)
from halfulp.benchmark.timing import Call, InterleavedRuns, Summary, ratio, summary
from halfulp.errors import HalfulpError, printable
from halfulp.installed import has_module, version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.onnx.tensors import release
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.run.report import NodeRun, RunReport, sentence, vacuous
from halfulp.models.source import format_of

Progress = Callable[[str], None]

RUNTIMES = ("onnxruntime", "openvino")
_COLUMNS = ("", "a run", "its Pow and PRelu", "their results")
_LARGE = (
    1 << 25
)  # bytes of weights: two sessions of such a network would take more than three times its memory


@dataclass(frozen=True)
class Timed:
    """A contender and the times of its runs, or the reason why it does not run.

    Attributes:
        contender: the session that ran; None if it did not run.
        times: the seconds of each run. The two sessions of a runtime take turns, unless the network is large.
        refused: the reason why it does not run; empty if it runs.
    """

    contender: Contender | None = None
    times: list[float] = field(default_factory=list)
    refused: str = ""

    @property
    def summary(self) -> Summary:
        """The median and the quartiles of its times."""
        return summary(self.times)


@dataclass(frozen=True)
class InRuntime:
    """A network in one runtime.

    Attributes:
        runtime, version: its name and version.
        own: the result with the runtime's own Pow and PRelu.
        ours: the result with halfulp's.
        in_turns: whether the two took turns; otherwise the first session was released before the second began.
    """

    runtime: str
    version: str
    own: Timed
    ours: Timed
    in_turns: bool = True

    @property
    def ratio(self) -> float | None:
        """The ratio of the time with halfulp to the time without; None if one of them does not run."""
        if not (self.own.contender and self.ours.contender):
            return None
        if self.in_turns:
            return ratio(self.ours.times, self.own.times)
        return self.ours.summary.median / self.own.summary.median

    @property
    def difference(self) -> Exactness | None:
        """The distance of the outputs without halfulp from those with it."""
        own, ours = self.own.contender, self.ours.contender
        return difference(own.outputs, ours.outputs) if own and ours else None

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs whose comparison verifies nothing, by name, each with the reason."""
        found = self.ours.contender or self.own.contender
        return vacuous(found.outputs) if found else {}


def compare(
    network: Network, runtimes: Sequence[str], seconds: float, progress: Progress = lambda told: None
) -> list[InRuntime]:
    """Run a network in each of these runtimes, with its own Pow and PRelu and with halfulp's.

    Args:
        network: an ONNX model, or one in OpenVINO's IR.
        runtimes: as returned by :func:`runtimes_of`.
        seconds: the total time of the measurement.
        progress: a callback that receives the name of each step before it begins.
    """
    rows = []
    for runtime in runtimes:
        rows.append(_in_runtime(runtime, network, seconds / len(runtimes), progress))
        release()
    return rows


def _in_runtime(runtime: str, network: Network, seconds: float, progress: Progress) -> InRuntime:
    """Run a network in a runtime, then release both sessions."""
    in_turns = sum(array.nbytes for array in network.model.graph.constants.values()) < _LARGE
    found: dict[str, Contender | str] = {}
    calls: dict[str, Call] = {}
    times: dict[str, list[float]] = {}
    labels = (runtime, f"{runtime} with halfulp")
    try:
        progress(f"{runtime}: reading")
        prepare = _preparer(runtime, network)
    except HalfulpError as error:
        found = dict.fromkeys(labels, error.message)
    else:
        for ours, label in enumerate(labels):
            progress(f"{label}: preparing")
            try:
                found[label], calls[label] = prepare(bool(ours))
            except HalfulpError as error:
                found[label] = error.message
            release()
            if not in_turns:
                times |= _measured(calls, seconds / 2, label, progress)
        del prepare
    times |= _measured(calls, seconds, runtime, progress)
    own, ours_too = (
        Timed(refused=each) if isinstance(each, str) else Timed(each, times[label])
        for label, each in found.items()
    )
    return InRuntime(runtime, version_of(runtime) or "", own, ours_too, in_turns)


def _measured(
    calls: dict[str, Call], seconds: float, label: str, progress: Progress
) -> dict[str, list[float]]:
    """Return the times of these calls, and release their sessions."""
    if not calls:
        return {}
    progress(f"{label}: measuring")
    times = InterleavedRuns(calls).take(seconds)
    calls.clear()
    release()
    return times


def runtimes_of(path: Path) -> tuple[str, ...]:
    """Return the installed runtimes that read a file's format."""
    readers = {"openvino": ("openvino",), "directml": ()}.get(format_of(path), RUNTIMES)
    return tuple(name for name in readers if has_module(name))


def _preparer(runtime: str, network: Network) -> Prepare:
    if runtime == "openvino":
        from halfulp.benchmark import in_openvino  # imported here, because it imports OpenVINO

        return in_openvino.preparer(network)
    return lambda ours: _in_onnxruntime(network, ours=ours)


# --- in ONNX Runtime ------------------------------------------------------------------------------


def _in_onnxruntime(network: Network, *, ours: bool) -> tuple[Contender, Call]:
    settings = engine.Settings(ours=ours, threads=network.threads)
    session, outputs, reports = engine.open_profiled(
        network.path, network.model, network.inputs, settings, runs=PROFILED_RUNS
    )
    results = _results(network, engine.Settings(ours=ours, optimized=False, threads=network.threads))
    found = Contender.of(outputs, _times(reports, _labels(network), ours=ours), results)
    return found, partial(engine.run_in, session, network.model, network.inputs)


def _times(reports: Sequence[RunReport], labels: set[str], *, ours: bool) -> NodeTimes:
    """Return the times of the nodes with these labels.

    ONNX Runtime also turns some other operators into Pow.
    """

    def is_wanted(row: NodeRun) -> bool:
        return (row.engine == "halfulp" if ours else row.operator in SUPPORTED_OPS) and row.label in labels

    rows = [[row for row in report.nodes if is_wanted(row)] for report in reports]
    runs = [
        (sum(row.seconds for row in of_run), report.seconds)
        for of_run, report in zip(rows, reports, strict=True)
    ]
    return NodeTimes.of(max(map(len, rows)), runs)


def _labels(network: Network) -> set[str]:
    """Return the labels of the Pow and PRelu nodes in a report."""
    nodes = nodes_of(network.model.graph)
    return {f"'{printable(node.source.name)}' ({node.type})" for node in nodes}


def _results(network: Network, settings: engine.Settings) -> list[Exactness]:
    """Compute each Pow and PRelu node of the graph alone, and return its exactness."""
    samples = network.samples
    if not samples.nodes:
        return []
    session = engine.open_session(samples.proto(), settings)
    return samples.exactness(engine.run_in(session, network.model, samples.fed))


# --- as a table and as JSON ----------------------------------------------------------------------


def report(rows: Sequence[InRuntime], nodes: int) -> Table:
    """Return the table, with two lines for each runtime.

    Args:
        rows: the measurements.
        nodes: the number of Pow and PRelu nodes in the network.
    """
    lines = []
    for row in rows:
        lines.append([f"{row.runtime} {row.version}", *_cells(row.own, nodes)])
        lines.append(["  with halfulp", *_cells(row.ours, nodes)])
    return table("", _COLUMNS, lines)


def sentences(rows: Sequence[InRuntime]) -> Iterator[str]:
    """Yield the gain in each runtime, or the reason why the runtime does not run."""
    for row in rows:
        if row.ratio is not None and row.difference is not None:
            apart = row.difference
            told = (
                "outputs equal" if apart.total else "the outputs have no elements: --dim NAME=N changes sizes"
            )
            if apart.misrounded:
                share = f"{100 * apart.misrounded / apart.total:.2g} % of {apart.total:,} elements"
                told = f"outputs at most {apart.farthest:,} ulp apart, in {share}"
            yield f"{row.runtime}: with halfulp a run takes {row.ratio:.2f} times as long; {told}"
        for name, reason in row.vacuous.items():
            yield f"{row.runtime}: {sentence(name, reason)}"
        refusals = dict.fromkeys(found.refused for found in (row.own, row.ours) if found.refused)
        for refusal in refusals:
            label = " with halfulp" if refusal != row.own.refused else ""
            yield f"{row.runtime}{label}: {refusal}"
        if row.ours.contender is not None:
            for left in row.ours.contender.left:
                yield f"{row.runtime} with halfulp: {left}"


def document(rows: Sequence[InRuntime]) -> list[dict[str, Any]]:
    """Return the measurements for JSON: seconds, shares from 0 to 1, distances in representable values."""
    return [
        {
            "runtime": row.runtime,
            "version": row.version,
            "own": _entry(row.own),
            "halfulp": _entry(row.ours),
            "ratio": row.ratio,
            "outputs": row.difference and row.difference._asdict(),
            "vacuous": row.vacuous,
        }
        for row in rows
    ]


def _cells(found: Timed, nodes: int) -> list[str]:
    contender = found.contender
    if contender is None:
        return ["refused", "", ""]
    summary = found.summary
    spread = 50 * (summary.high - summary.low) / summary.median
    times = contender.nodes
    part = f"{_time(times.seconds)}, {times.share:.0%}; {times.executed} of {nodes} nodes"
    if times.executed == 0:
        part = "merged into others" if nodes else "none"
    return [f"{_time(summary.median)} ±{spread:.0f}%", part, _exact(contender, nodes)]


def _exact(contender: Contender, nodes: int) -> str:
    if not contender.compared:
        return "not compared"
    told = error(*contender.results)
    return told if contender.compared == nodes else f"{told}; {contender.compared} of {nodes} nodes"


def _time(seconds: float) -> str:
    return (
        time_of(1e9 * seconds) if seconds >= 1e-6 else f"{1e6 * seconds:.2f} µs"
    )  # here nanoseconds are written without a unit


def _entry(found: Timed) -> dict[str, Any]:
    if found.contender is None:
        return {"refused": found.refused}
    times: Summary = found.summary
    contender = found.contender
    return {
        "seconds": times._asdict(),
        "runs": len(found.times),
        "nodes": contender.nodes._asdict(),
        "results": {**contender.results._asdict(), "nodes": contender.compared},
        "left": list(contender.left),
    }
