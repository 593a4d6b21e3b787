"""Arrays beside NumPy and torch: how exact results are, times, and the words for both in a table.

``make bench`` in the source tree has many more rows.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

import numpy as np

import halfulp.operators as operators
from halfulp._interop import Array
from halfulp.benchmark.timing import Call, InterleavedRuns, Summary, summary
from halfulp.installed import has_module
from halfulp.types import element_type, is_nan, ranks, same_bits

SIZE = 1 << 18  # elements: the operands fit in a cache, and waking the threads pays
ROWS = ("float32 ** float32", "float64 ** float64", "float16 ** float16", "PRelu float32")


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


# --- halfulp bench without a model ---------------------------------------------------------------


def measure(row: str, threads: int, seconds: float) -> dict[str, str]:
    """Return a cell for each library: its time in nanoseconds per element, and how exact its results are."""
    random, name = np.random.default_rng(7), row.split()[-1]
    np.seterr(all="ignore")
    if is_prelu := row.startswith("PRelu"):
        x, y = random.normal(size=(1, 64, 64, SIZE >> 12)), random.random((64, 1, 1))
    else:
        x, y = random.uniform(0.01, 10, SIZE), random.uniform(-4, 4, SIZE)
    x, y = x.astype(name), y.astype(name)
    out = np.empty_like(x)  # of all powers
    calls: dict[str, Call] = {
        "halfulp": partial(operators.prelu if is_prelu else operators.pow, x, y, out=out),
        "numpy": (lambda: np.where(x < 0, y * x, x)) if is_prelu else partial(np.power, x, y, out=out),
    }
    if has_module("torch"):
        torch = import_module("torch")
        torch.set_num_threads(threads)
        a, b, result = map(torch.from_numpy, (x, y.ravel(), out))
        prelu = torch.nn.functional.prelu
        calls["torch"] = partial(prelu, a, b) if is_prelu else partial(torch.pow, a, b, out=result)
    right = np.array(calls["halfulp"]())
    exact = {name: f"; {exactness(np.asarray(call()), right)}" for name, call in calls.items()}
    exact["halfulp"] = ""
    samples = InterleavedRuns(calls).take(seconds).items()
    return {name: spread(summary([1e9 / SIZE * t for t in times])) + exact[name] for name, times in samples}
