"""Measure a network in every installed runtime, with and without halfulp's kernels; give a table or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from halfulp.benchmark.comparison import Exactness, share_of, spread, table, time_of
from halfulp.benchmark.network import (
    PROFILED_RUNS,
    Contender,
    Network,
    Prepare,
    difference,
    node_times,
    nodes_of,
)
from halfulp.benchmark.timing import Call, InterleavedRuns, ratio
from halfulp.errors import HalfulpError, printable
from halfulp.installed import has_module, version_of
from halfulp.integrations.onnxruntime import engine
from halfulp.models.files import format_of
from halfulp.models.onnx.tensors import release
from halfulp.models.run.report import sentence, vacuous

Progress = Callable[[str], None]

RUNTIMES = ("onnxruntime", "openvino")
_COLUMNS = ("", "a run", "its Pow and PRelu", "their results")


@dataclass(frozen=True)
class InRuntime:
    """A network in one runtime.

    Attributes:
        runtime, version: its name and version.
        own, ours: the result with the runtime's own Pow and PRelu, and with halfulp's; the reason why it does
            not run.
    """

    runtime: str
    version: str
    own: Contender | str
    ours: Contender | str

    @property
    def ratio(self) -> float | None:
        """The ratio of the time with halfulp to the time without; None if one of them does not run."""
        if isinstance(self.own, str) or isinstance(self.ours, str):
            return None
        return ratio(self.ours.times, self.own.times)

    @property
    def difference(self) -> Exactness | None:
        """The distance of the outputs without halfulp from those with it."""
        if isinstance(self.own, str) or isinstance(self.ours, str):
            return None
        return difference(self.own.outputs, self.ours.outputs)

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs whose comparison verifies nothing, by name, each with the reason."""
        found = next((found for found in (self.ours, self.own) if isinstance(found, Contender)), None)
        return vacuous(found.outputs) if found else {}


def compare(
    network: Network, runtimes: Sequence[str], seconds: float, progress: Progress = lambda told: None
) -> list[InRuntime]:
    """Run a network in each of these runtimes, with its own Pow and PRelu and with halfulp's.

    ``seconds`` is the total time of the measurement. ``progress`` receives the name of each step before it begins.
    """
    rows = []
    for runtime in runtimes:
        rows.append(_in_runtime(runtime, network, seconds / len(runtimes), progress))
        release()
    return rows


def _in_runtime(runtime: str, network: Network, seconds: float, progress: Progress) -> InRuntime:
    """Run a network in a runtime, then release both sessions."""
    results: dict[str, Contender | str] = {}
    calls: dict[str, Call] = {}
    version, labels = version_of(runtime) or "", (runtime, f"{runtime} with halfulp")
    progress(f"{runtime}: reading")
    try:
        prepare: Prepare = partial(_in_onnxruntime, network)
        if runtime == "openvino":
            from halfulp.benchmark import in_openvino  # imported here, because it imports OpenVINO

            prepare = in_openvino.preparer(network)
    except HalfulpError as error:
        return InRuntime(runtime, version, error.message, error.message)
    for exact, label in enumerate(labels):
        progress(f"{label}: preparing")
        try:
            results[label], calls[label] = prepare(bool(exact))
        except HalfulpError as error:
            results[label] = error.message
        release()
    del prepare
    if calls:
        progress(f"{runtime}: measuring")
        for label, times in InterleavedRuns(calls).take(seconds).items():
            contender = results[label]
            assert isinstance(contender, Contender)
            contender.times.extend(times)
    return InRuntime(runtime, version, *results.values())


def runtimes_of(path: Path) -> tuple[str, ...]:
    """Return the installed runtimes that read a file's format."""
    readers = ("openvino",) if format_of(path) == "openvino" else RUNTIMES
    return tuple(name for name in readers if has_module(name))


def _in_onnxruntime(network: Network, exact: bool) -> tuple[Contender, Call]:
    settings = engine.Settings(exact=exact, threads=network.threads)
    session, outputs, reports = engine.open_profiled(
        network.path, network.model, network.inputs, settings, runs=PROFILED_RUNS
    )
    # ONNX Runtime also turns some other operators into Pow.
    names = {f"'{printable(node.source.name)}' ({node.type})" for node in nodes_of(network.model.graph)}
    profiles = [
        [(row.label if (row.engine == "halfulp") == exact else "", row.seconds) for row in report.nodes]
        for report in reports
    ]
    alone = replace(settings, optimized=False)
    exactness = network.samples.exactness(partial(_alone, network, alone))
    found = Contender(node_times(profiles, names), exactness, outputs)
    return found, partial(engine.run_in, session, network.model, network.inputs)


def _alone(network: Network, settings: engine.Settings) -> Mapping[str, Any]:
    session = engine.open_session(network.samples.proto(), settings)
    return engine.run_in(session, network.model, network.samples.fed)


# --- as a table and as JSON ----------------------------------------------------------------------


def report(rows: Sequence[InRuntime], nodes: int) -> Table:
    """Return the table, with two lines for each runtime of a network with this number of Pow and PRelu nodes."""
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
            told = "outputs equal" if apart.total else "the outputs have no elements: -i DIM=N changes sizes"
            if apart.misrounded:
                share = share_of(apart.misrounded / apart.total)
                told = f"outputs at most {apart.farthest:,} ulp apart, in {share} of {apart.total:,} elements"
            yield f"{row.runtime}: with halfulp {1 / row.ratio:.2g}x as fast; {told}"
        for name, reason in row.vacuous.items():
            yield f"{row.runtime}: {sentence(name, reason)}"
        if isinstance(row.own, str):
            yield f"{row.runtime}: {row.own}"
        if isinstance(row.ours, Contender):
            yield from (f"{row.runtime} with halfulp: {left}" for left in row.ours.left)
        elif row.ours != row.own:
            yield f"{row.runtime} with halfulp: {row.ours}"


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


def _cells(found: Contender | str, nodes: int) -> list[str]:
    if isinstance(found, str):
        return ["refused", "", ""]
    times = found.nodes
    part = f"{_time(times.seconds)}, {times.share:.0%}; {times.executed} of {nodes} nodes"
    if times.executed == 0:
        part = "merged into others" if nodes else "none"
    compared = len(found.exactness)
    exact = f"{found.results} in {found.results.total:,} values"
    exact = f"{exact}; {compared} of {nodes} nodes" if compared < nodes else exact
    exact = f"alone: {exact}" if times.executed == 0 else exact  # a fusion may compute another function
    return [spread(found.summary, _time), part, exact if compared else "not compared"]


def _time(seconds: float) -> str:
    # Here nanoseconds are written without a unit.
    return time_of(1e9 * seconds) if seconds >= 1e-6 else f"{1e6 * seconds:.2f} µs"


def _entry(found: Contender | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    return {
        "seconds": found.summary._asdict(),
        "runs": len(found.times),
        "nodes": found.nodes._asdict(),
        "results": {**found.results._asdict(), "nodes": len(found.exactness)},
        "left": list(found.left),
    }
