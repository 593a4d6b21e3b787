"""Compare libraries on one case: refusals, misrounded results, times, and their cells in a table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

from halfulp._interop import Array
from halfulp.benchmark.peers import Case, RefusalError, prepare
from halfulp.benchmark.timing import Call, InterleavedRuns, Summary
from halfulp.floats import codes, is_nan, ranks
from halfulp.types import element_type


class Comparison:
    """A case with the libraries that compute it, halfulp among them, and other calls, ready to be timed.

    halfulp's results are the reference. The tests, not this comparison, prove against slow exact oracles that
    they are correctly rounded.

    Attributes:
        refused: the reason why a library does not take part, by name.
        exactness: the comparison with the right results, by name.
        digest: a hash of the bits of halfulp's results.
    """

    def __init__(
        self, case: Case, libraries: Iterable[str], threads: int, others: Mapping[str, Call] | None = None
    ) -> None:
        self.elements = int(np.prod(case.shape))
        self.refused: dict[str, str] = {}
        self.exactness: dict[str, Exactness] = {}
        ours = prepare("halfulp", case, threads)
        right = ours.to_numpy(ours.call()).copy()
        self.digest = hashlib.sha256(right.tobytes()).hexdigest()
        calls: dict[str, Call] = {"halfulp": ours.call}
        for name in libraries:
            try:
                theirs = prepare(name, case, threads)
            except RefusalError as error:
                self.refused[name] = str(error)
                continue
            self.exactness[name] = exactness(theirs.to_numpy(theirs.call()), right)
            calls[name] = theirs.call
        self._turns = InterleavedRuns(calls | dict(others or {}))

    def measure(self, seconds: float, least: int = 3) -> dict[str, list[float]]:
        """Return each participant's nanoseconds per element, turn by turn."""
        scale = 1e9 / self.elements
        times = self._turns.take(seconds, least)
        return {name: [scale * time for time in taken] for name, taken in times.items()}


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


def cell(summary: Summary, found: Exactness | None) -> str:
    """Return a time and the exactness of the results."""
    return spread(summary) if found is None else f"{spread(summary)}; {found}"


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
