"""The tables of measurements and bars, for a terminal, and generated parts of docs/performance*.md."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from halfulp.benchmark.comparison import Exactness, Summary, time_of
from halfulp.installed import versions
from halfulp.operators import thread_count
from side_by_side.bars import MEMORY, ONE_THREAD, Outcome
from side_by_side.comparison import cell
from side_by_side.line import Line
from side_by_side.memory import ORDINARY, STREAMING
from side_by_side.peers import LIBRARIES
from side_by_side.rows import GROUPS, IN_CACHE, OUT_OF_CACHE
from side_by_side.vectors import VECTORS

Cells = tuple[str, ...]

COLUMNS = (*LIBRARIES, *VECTORS, MEMORY)
BAR_COLUMNS = ("case", "our time divided by that of", "to reach", "to aim at", "measured", "met", "at worst")

MAIN_COLUMNS = ("halfulp", "numpy", "torch", "onnxruntime", "openvino", "jax")
# The rows of the first page: group, label, place, threads, instruction set.
MAIN = (
    ("arrays", "float32 ** float32", IN_CACHE, 1, ""),
    ("arrays", "float32 ** float32", OUT_OF_CACHE, 2, ""),
    ("instruction sets", "float32 ** float32", IN_CACHE, 1, "avx2"),
    ("arrays", "float64 ** float64", IN_CACHE, 1, ""),
    ("instruction sets", "float64 ** float64", IN_CACHE, 1, "avx2"),
    ("arrays", "float16 ** float16", IN_CACHE, 1, ""),
    ("constants", "float32 ** 2", OUT_OF_CACHE, 1, ""),
    ("constants", "float32 ** 2.5", OUT_OF_CACHE, 1, ""),
    ("integers", "int64 ** int64", IN_CACHE, 1, ""),
    ("PRelu", "PRelu float32, per channel, NCHW", OUT_OF_CACHE, 1, ""),
)


def machine() -> list[str]:
    """Return the machine and the versions, a line each, as read on this machine."""
    model = re.search(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    flags = set(re.findall(r"\b(?:avx512f|avx2|asimd)\b", _read("/proc/cpuinfo")))
    widest = next((n for n in ("avx512f", "avx2", "asimd") if n in flags), "")
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    processor = model.group(1) if model else platform.processor() or platform.machine()
    facts = [
        processor,
        f"{thread_count()} cores",
        names.get(widest, ""),
        f"Python {platform.python_version()}",
    ]
    return [
        f"{date.today()}: {', '.join(filter(None, facts))}",
        ", ".join(f"{name} {version}" for name, version in versions(*LIBRARIES).items()),
    ]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def parts(
    facts: Sequence[str], outcomes: Sequence[Outcome], lines: Sequence[Line]
) -> dict[str, dict[str, str]]:
    """Return for each page of docs/ its parts by name."""
    tables = {
        group: f"### {group[0].upper()}{group[1:]}\n\n{_markdown(('', *COLUMNS), rows)}"
        for group, rows in measurements(lines)
    }
    return {
        "performance": {
            "machine": "\n".join(f"- {fact}" for fact in facts),
            "main": _markdown(("", *MAIN_COLUMNS), main_rows(lines)),
        },
        "performance-tables": {
            "tables": "\n\n".join(tables.values()),
            "bars": _markdown(BAR_COLUMNS, bars(outcomes)),
        },
    }


def regenerate(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with its parts replaced: the text between ``<!-- NAME:begin -->`` and ``end``.

    Raises:
        ValueError: the page lacks a part.
    """
    for name, part in parts.items():
        pattern = re.compile(f"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: f"{match[1]}{part}\n{match[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"the page has no part named {name}")
    return text


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # Empty columns are left out.
    kept = [i for i in range(len(columns)) if i == 0 or any(row[i] for row in rows)]
    table = [[columns[i] for i in kept], ["---"] * len(kept)]
    # In a table's cell, two stars mean a power, not emphasis.
    table += [[row[i].replace("**", r"\*\*") for i in kept] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


# --- the tables' cells ---------------------------------------------------------------------------


def measurements(lines: Sequence[Line]) -> Iterator[tuple[str, list[Cells]]]:
    """Yield each group's name and its rows: the label, then a cell for each of COLUMNS."""
    for group in GROUPS:
        own = [line for line in lines if line.group == group]
        rows = [_cells(own, row) for row in dict.fromkeys(line.row for line in own)]
        if rows:
            yield group, rows


def main_rows(lines: Sequence[Line]) -> list[Cells]:
    """Return those rows of the first page that were measured, without the distances of the quartiles."""
    measured = {line.row for line in lines}
    rows = [_cells(lines, row, MAIN_COLUMNS) for row in MAIN if row in measured]
    return [tuple(re.sub(r" ±\d+%", "", cell) for cell in row) for row in rows]


def _cells(lines: Sequence[Line], row: tuple[str, str, str, int, str], columns: Cells = COLUMNS) -> Cells:
    members = {line.library: line for line in lines if line.row == row}
    return (_label(members["halfulp"]), *(_cell(members, name) for name in columns))


def _label(line: Line) -> str:
    isa = line.isa or ("best" if line.group in ("instruction sets", "vector libraries") else "")
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
