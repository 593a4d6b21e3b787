"""The heatmaps: for each operator and target a table of verdicts, version by type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from halfulp.conformance.report.comparison import (
    Line,
    Target,
    describe,
    distance,
    family,
    type_order,
    types_text,
    version,
)
from halfulp.conformance.report.verdicts import SHOWN


@dataclass(frozen=True)
class Cell:
    """One square: what a target does with one operator version and types."""

    key: str
    verdict: str
    text: str
    label: str


@dataclass(frozen=True)
class Row:
    """A version, and the first input's type where the second one's has the columns."""

    version: str
    base: str
    first: bool
    span: int
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Heatmap:
    """The table of one operator and target.

    Attributes:
        operator: without its version.
        target: whose verdicts these are.
        paired: whether a row is a version and a first input's type, and a column the second input's type; otherwise
            a row is a version, and a column a type that all inputs share.
        columns: the types.
        rows: in the order of versions and types.
    """

    operator: str
    target: Target
    paired: bool
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def heatmaps(targets: Sequence[Target], lines: Sequence[Line]) -> Iterator[tuple[str, list[Heatmap]]]:
    """Give each operator with the tables of all targets; those have the same rows and columns, to lay side by side."""
    for operator, found in groupby(lines, key=lambda line: family(line.operator)):
        group = list(found)
        tables = [
            _table(operator, target, group)
            for target in targets
            if any(target.number in line.rows for line in group)
        ]
        yield operator, tables


def _table(operator: str, target: Target, lines: Sequence[Line]) -> Heatmap:
    paired = any(len(set(line.types)) > 1 for line in lines)
    # An array library has only the newest version, and so only that one's rows.
    lines = [line for line in lines if target.number in line.rows]
    columns = sorted({line.types[-1] for line in lines}, key=type_order)
    cells = {
        (version(line.operator), line.types[0] if paired else "", line.types[-1]): _cell(line, target)
        for line in lines
    }
    rows = []
    # One row for each version and base, in the order in which the lines have them.
    heads = dict.fromkeys((number, base) for number, base, _ in cells)
    for number, group in groupby(heads, key=lambda head: head[0]):
        bases = [base for _, base in group]
        for place, base in enumerate(bases):
            row = tuple(cells.get((number, base, name)) for name in columns)
            rows.append(Row(number, base, place == 0, len(bases), row))
    return Heatmap(operator, target, paired, tuple(columns), tuple(rows))


def _cell(line: Line, target: Target) -> Cell | None:
    row = line.rows.get(target.number)
    if row is None:
        return None
    shown = SHOWN[row["verdict"]]
    text = shown.sign + (distance(row) if shown.name == "within" else "")
    label = f"{target.label}, {line.operator}, {types_text(line.types)}, {describe(row)}"
    return Cell(line.key, shown.name, text, label)
