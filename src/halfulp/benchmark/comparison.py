"""Arrays beside NumPy and torch: how exact results are, times, and the words for both in a table.

``make bench`` in the source tree has many more rows.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table

import halfulp.operators as operators
from halfulp._interop import Array
from halfulp.benchmark.timing import InterleavedRuns, Summary, summary
from halfulp.installed import has_module
from halfulp.types import element_type, is_nan, ranks, same_bits

SIZE = 1 << 18  # elements: the operands fit in a cache, and waking the threads pays
ROWS = ("float32 ** float32", "float64 ** float64", "float16 ** float16", "PRelu float32")

Calls = dict[str, Callable[[], Any]]


class Exactness(NamedTuple):
    """The findings of a comparison."""

    misrounded: int  # the number of wrong results: another number, or a zero of the wrong sign
    total: int  # the number of results that were compared
    # The maximum distance from the right result, in representable values. A NaN that should be a number, or a number
    # that should be NaN, counts as the type's whole range.
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
    """Compare results with the right ones; all NaNs count as equal. Raises ValueError if types or shapes differ."""
    if result.dtype != right.dtype or result.shape != right.shape:
        raise ValueError(f"not comparable: {result.dtype}{result.shape} and {right.dtype}{right.shape}")
    differs = ~same_bits(result, right)
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
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [index for index in range(len(columns)) if index == 0 or any(row[index] for row in rows)]
    for index in shown:
        width = None if index else max((len(row[0]) for row in rows), default=0)
        table.add_column(columns[index], min_width=width)
    for row in rows:
        table.add_row(*(escape(row[index].replace("; ", "\n")) for index in shown))
    return table


# --- halfulp bench without a model ---------------------------------------------------------------


def measure(row: str, threads: int, seconds: float) -> dict[str, str]:
    """Return a cell for each library: its time in nanoseconds per element, and how exact its results are."""
    calls = _calls(row, threads)
    right = np.array(calls["halfulp"]())
    exact = {name: f"; {exactness(np.asarray(call()), right)}" for name, call in calls.items()}
    exact["halfulp"] = ""
    samples = InterleavedRuns(calls).take(seconds).items()
    return {name: spread(summary([1e9 / SIZE * t for t in times])) + exact[name] for name, times in samples}


def libraries() -> list[str]:
    """Return the libraries that take part."""
    return ["halfulp", "numpy", *["torch"] * has_module("torch")]


def _calls(row: str, threads: int) -> Calls:
    """Return a call of each library that computes a row; all powers go to the same array."""
    random, name = np.random.default_rng(7), row.split()[-1]
    np.seterr(all="ignore")
    is_prelu = row.startswith("PRelu")
    if is_prelu:
        x, y = random.normal(size=(1, 64, 64, SIZE >> 12)), random.random((64, 1, 1))
    else:
        x, y = random.uniform(0.01, 10, SIZE), random.uniform(-4, 4, SIZE)
    x, y = x.astype(name), y.astype(name)
    out = np.empty_like(x)
    torch: Any = None
    if has_module("torch"):
        torch = import_module("torch")
        torch.set_num_threads(threads)
        a, b, result = map(torch.from_numpy, (x, y.ravel(), out))
    powers: Calls = {
        "halfulp": lambda: operators.pow(x, y, out=out),
        "numpy": lambda: np.power(x, y, out=out),
        "torch": lambda: torch.pow(a, b, out=result),
    }
    prelus: Calls = {
        "halfulp": lambda: operators.prelu(x, y, out=out),
        "numpy": lambda: np.where(x < 0, y * x, x),
        "torch": lambda: torch.nn.functional.prelu(a, b),
    }
    calls = prelus if is_prelu else powers
    return {name: calls[name] for name in libraries()}
