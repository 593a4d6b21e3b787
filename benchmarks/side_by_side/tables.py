"""The tables: of the measurements and of the bars, as cells that a terminal or a page can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from halfulp.benchmark.comparison import Exactness
from halfulp.benchmark.peers import LIBRARIES
from halfulp.benchmark.show import cell, time_of
from halfulp.benchmark.timing import Summary
from side_by_side.bars import MEMORY, ONE_THREAD, Outcome
from side_by_side.line import Line
from side_by_side.memory import ORDINARY, STREAMING
from side_by_side.rows import GROUPS

Cells = tuple[str, ...]

COLUMNS = (*LIBRARIES, MEMORY)
BAR_COLUMNS = ("case", "our time divided by that of", "to reach", "to aim at", "measured", "met", "at worst")


def measurements(lines: Sequence[Line]) -> Iterator[tuple[str, list[Cells]]]:
    """Yield each group's name and its rows: the label, then a cell for each of COLUMNS."""
    for group in GROUPS:
        own = [line for line in lines if line.group == group]
        rows = []
        for row in dict.fromkeys(line.row for line in own):
            members = {line.library: line for line in own if line.row == row}
            rows.append((_label(members["halfulp"]), *(_cell(members, name) for name in COLUMNS)))
        if rows:
            yield group, rows


def _label(line: Line) -> str:
    isa = line.isa or ("best" if line.group == "instruction sets" else "")
    threads = "two threads" if line.threads == 2 else ""
    return ", ".join(filter(None, (line.label, isa, line.place, threads)))


def _cell(members: dict[str, Line], name: str) -> str:
    if name == MEMORY:
        times = [members[stores].ns for stores in (ORDINARY, STREAMING) if stores in members]
        return time_of(min(filter(None, times))) if times else ""
    line = members.get(name)
    if line is None:
        return ""
    if line.ns is None or line.low is None or line.high is None or line.least is None:
        return "-"
    found = None
    if line.misrounded is not None and name != "halfulp":
        found = Exactness(line.misrounded, line.elements, line.farthest or 0)
    return cell(Summary(line.ns, line.low, line.high, line.least), found)


def bars(outcomes: Sequence[Outcome]) -> list[Cells]:
    """Return the rows of the bars' table, a cell for each of BAR_COLUMNS."""
    return [
        (
            ", ".join(filter(None, (o.bar.what, o.place))),
            o.bar.reference,
            _number(o.bar.reach),
            _number(o.bar.aim),
            _number(o.ratio),
            {True: "yes", False: "no", None: ""}[o.met],
            _remark(o),
        )
        for o in outcomes
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _remark(outcome: Outcome) -> str:
    if outcome.ratio is None:
        return "not measured"
    parts = [outcome.worst] if len(outcome.bar.labels) != 1 else []
    if outcome.bar.against == ONE_THREAD:
        parts.append(f"{1 / outcome.ratio:.2f} times as fast")
    return ", ".join(parts)
