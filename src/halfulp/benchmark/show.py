"""Times and errors as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from halfulp.benchmark.comparison import Exactness
from halfulp.benchmark.timing import Summary


def time_of(nanoseconds: float) -> str:
    """Return a time in the unit that suits it; without a unit it is nanoseconds."""
    units = (("", 1.0), (" µs", 1e3), (" ms", 1e6))
    unit, scale = next((u for u in units if nanoseconds < 1000 * u[1]), units[-1])
    value = nanoseconds / scale
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{unit}"


def error(misrounded: int, total: int, farthest: int) -> str:
    """Return the share of wrong results, and how far off the farthest is if that is more than a neighbour."""
    if misrounded == 0:
        return "exact"
    percent = 100 * misrounded / total
    share = f"{percent:.2g} % off" if percent < 99.5 else "all off"
    return (
        share
        if farthest <= 1
        else f"{share}; by up to {farthest if farthest < 10_000 else f'{farthest:.0e}'}"
    )


def cell(summary: Summary, found: Exactness | None) -> str:
    """Return a median with half the distance of the quartiles, and what comparing the results found."""
    text = f"{time_of(summary.median)} ±{50 * (summary.high - summary.low) / summary.median:.0f}%"
    return text if found is None else f"{text}; {error(*found)}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for a terminal; what follows a semicolon in a cell goes below it, empty columns go."""
    kept = [index for index in range(len(columns)) if index == 0 or any(row[index] for row in rows)]
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index in kept:
        made.add_column(
            columns[index], min_width=None if index else max((len(row[0]) for row in rows), default=0)
        )
    for row in rows:
        made.add_row(*(escape(row[index].replace("; ", "\n")) for index in kept))
    return made
