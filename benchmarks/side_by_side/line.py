"""The lines of the result: one for each participant of a row in a setting. Everything else is derived from them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Line:
    """What one participant did.

    Attributes:
        group, label, place, threads, isa: the row and its setting.
        library: who; "beside" is halfulp on what the row is held against.
        elements: how many results.
        turns: how often it was measured.
        ns: the median time per element, in nanoseconds.
        low, high: the quartiles.
        least: the least time.
        ratio: the median, turn by turn, of halfulp's time divided by this one.
        misrounded, farthest: how many results are not the right ones, and the greatest distance from the
            right one in representable values; None where there is nothing to compare.
        refused: why it did not take part.
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
        """What the lines of one row in one setting have in common."""
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


def _line(row: dict[str, str]) -> Line:
    values: dict[str, Any] = {}
    for field in fields(Line):
        text, (kind, *optional) = row[field.name], str(field.type).split(" | ")
        values[field.name] = None if optional and not text else _READ[kind](text)
    return Line(**values)


_READ: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
