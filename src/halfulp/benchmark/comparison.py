"""How exact results are, and the words for that and for times in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from halfulp._interop import Array
from halfulp.benchmark.timing import Summary
from halfulp.floats import codes, is_nan, ranks
from halfulp.types import element_type


class Exactness(NamedTuple):
    """The findings of a comparison.

    Attributes:
        misrounded: the number of wrong results: another number, or a zero of the wrong sign.
        total: the number of results that were compared.
        farthest: the maximum distance from the right result, in representable values. A NaN that should
            be a number, or a number that should be NaN, counts as the type's whole range.
    """

    misrounded: int
    total: int
    farthest: int

    def __str__(self) -> str:
        """Return the share of wrong results, and the maximum distance if it is more than one value."""
        if self.misrounded == 0:
            return "exact"
        share = share_of(self.misrounded / self.total)
        if self.farthest <= 1:
            return f"{share} off"
        return f"{share} off; by up to {self.farthest if self.farthest < 10_000 else f'{self.farthest:.0e}'}"


def share_of(fraction: float) -> str:
    """Return a fraction in percent; ``all`` if it is 1, or nearly so."""
    return f"{100 * fraction:.2g} %" if fraction < 0.995 else "all"


def exactness(result: Array, right: Array) -> Exactness:
    """Compare results with the right ones. All NaNs count as equal.

    Raises:
        ValueError: their types or shapes differ.
    """
    if result.dtype != right.dtype or result.shape != right.shape:
        raise ValueError(f"not comparable: {result.dtype}{result.shape} and {right.dtype}{right.shape}")
    differs = (codes(result) != codes(right)) & ~(is_nan(result) & is_nan(right))
    ours, theirs = right[differs], result[differs]
    a, b = ranks(ours), ranks(theirs)
    farthest = int((np.maximum(a, b) - np.minimum(a, b)).max(initial=0))
    if (is_nan(ours) | is_nan(theirs)).any():
        farthest = 1 << element_type(right.dtype).bits
    return Exactness(ours.size, right.size, farthest)


# --- text for a terminal -------------------------------------------------------------------------


def time_of(nanoseconds: float) -> str:
    """Return a time in a suitable unit. A number without a unit is in nanoseconds."""
    units = (("", 1.0), (" µs", 1e3), (" ms", 1e6))
    unit, scale = next((u for u in units if nanoseconds < 1000 * u[1]), units[-1])
    value = nanoseconds / scale
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}{unit}"


def spread(summary: Summary, time: Callable[[float], str] = time_of) -> str:
    """Return a median with half the distance of the quartiles."""
    return f"{time(summary.median)} ±{50 * (summary.high - summary.low) / summary.median:.0f}%"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for a terminal. A semicolon starts a new line in a cell; empty columns are left out."""
    kept = [index for index in range(len(columns)) if index == 0 or any(row[index] for row in rows)]
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index in kept:
        made.add_column(
            columns[index], min_width=None if index else max((len(row[0]) for row in rows), default=0)
        )
    for row in rows:
        made.add_row(*(escape(row[index].replace("; ", "\n")) for index in kept))
    return made
