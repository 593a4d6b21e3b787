"""The result's lines: one for each participant of a row in a setting. All else is derived from them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Line:
    """The result of one participant.

    Attributes:
        group, label, place, threads, isa: the row and its setting.
        library: the participant's name; "beside" is halfulp on the case that the row is compared with.
        elements: the number of results.
        turns: the number of measurements.
        ns: the median time per element, in nanoseconds.
        low, high: the quartiles.
        least: the minimum time.
        ratio: the median, over the turns, of halfulp's time divided by this one.
        misrounded, farthest: the number of wrong results, and the maximum distance from the right result in
            representable values; None if there is nothing to compare.
        refused: the reason why it did not take part.
    """

    group: str
    label: str
    place: str
    threads: int
    isa: str
    library: str
    elements: int = 0
    turns: int = 0
    ns: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    ratio: float | None = None
    misrounded: int | None = None
    farthest: int | None = None
    refused: str = ""

    @property
    def row(self) -> tuple[str, str, str, int, str]:
        """The fields that the lines of one row in one setting have in common."""
        return self.group, self.label, self.place, self.threads, self.isa


def write_csv(path: Path, lines: Iterable[Line]) -> None:
    """Write lines to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Line)], lineterminator="\n")
        writer.writeheader()
        for line in lines:
            row = {name: f"{v:.4g}" if isinstance(v, float) else v for name, v in asdict(line).items()}
            writer.writerow(row)


def read_csv(path: Path) -> list[Line]:
    """Read the lines of a file."""
    with path.open(newline="") as file:
        return [_line(row) for row in csv.DictReader(file)]


def of_runs(runs: Sequence[Sequence[Line]]) -> list[Line]:
    """Return the first run's lines. Each time and ratio is the median of those in all runs that have the line."""
    of_each = [{(*line.row, line.library): line for line in run} for run in runs]
    return [_middle([run[key] for run in of_each if key in run]) for key in of_each[0]]


def _middle(lines: Sequence[Line]) -> Line:
    if any(line.ns is None for line in lines):
        return lines[0]
    times = {name: median(getattr(line, name) for line in lines) for name in ("ns", "low", "high", "ratio")}
    turns, least = sum(line.turns for line in lines), min(line.least or 0 for line in lines)
    return replace(lines[0], turns=turns, least=least, **times)


def _line(row: dict[str, str]) -> Line:
    values: dict[str, Any] = {}
    for field in fields(Line):
        text, (kind, *optional) = row[field.name], str(field.type).split(" | ")
        values[field.name] = None if optional and not text else _READ[kind](text)
    return Line(**values)


_READ: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
