"""What was measured of a network: as a person reads it, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from halfulp.benchmark.networks.comparison import InRuntime, Timed
from halfulp.benchmark.networks.contender import Contender
from halfulp.benchmark.show import error, table, time_of
from halfulp.benchmark.timing import Summary
from halfulp.models.run.report import sentence

_COLUMNS = ("", "a run", "its Pow and PRelu", "their results")


def report(rows: Sequence[InRuntime], nodes: int) -> Table:
    """Return the table: two lines a runtime.

    Args:
        rows: what was measured.
        nodes: how many Pow and PRelu the network has.
    """
    lines = []
    for row in rows:
        lines.append([f"{row.runtime} {row.version}", *_cells(row.own, nodes)])
        lines.append(["  with halfulp", *_cells(row.ours, nodes)])
    return table("", _COLUMNS, lines)


def sentences(rows: Sequence[InRuntime]) -> Iterator[str]:
    """Yield for each runtime what is gained, and why one does not run."""
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
    """Return what was measured as JSON has it: seconds, shares from 0 to 1, distances in representable values."""
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
    )  # nanoseconds have no unit there


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
