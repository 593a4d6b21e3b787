"""Powers and PReLU of arrays beside NumPy and torch: four rows. ``make bench`` in the source tree has many more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

import halfulp.operators as operators
from halfulp._interop import Array
from halfulp.benchmark.comparison import exactness, spread
from halfulp.benchmark.timing import InterleavedRuns, summary
from halfulp.installed import has_module

SIZE = 1 << 18  # elements: the operands fit in a cache, and waking the threads pays
ROWS = ("float32 ** float32", "float64 ** float64", "float16 ** float16", "PRelu float32")

Calls = dict[str, Callable[[], Any]]


def measure(row: str, threads: int, seconds: float) -> dict[str, str]:
    """Return a cell for each library: its time in nanoseconds per element, and how exact its results are."""
    calls = _calls(row, threads)
    right = np.array(calls["halfulp"]())
    exact = {name: exactness(np.asarray(call()), right) for name, call in calls.items() if name != "halfulp"}
    cells = {}
    for name, times in InterleavedRuns(calls).take(seconds).items():
        time = spread(summary([1e9 / SIZE * each for each in times]))
        cells[name] = f"{time}; {exact[name]}" if name in exact else time
    return cells


def libraries() -> Iterator[str]:
    """Yield the libraries that take part."""
    yield from ("halfulp", "numpy")
    if has_module("torch"):
        yield "torch"


def _calls(row: str, threads: int) -> Calls:
    """Return a call of each library that computes a row; all powers go to the same array."""
    random, name = np.random.default_rng(7), row.split()[-1]
    np.seterr(all="ignore")
    if row.startswith("PRelu"):
        x, slopes = random.normal(size=(1, 64, 64, SIZE >> 12)), random.random((64, 1, 1))
        return _prelu(x.astype(name), slopes.astype(name), threads)
    x, y = random.uniform(0.01, 10, SIZE).astype(name), random.uniform(-4, 4, SIZE).astype(name)
    out = np.empty_like(x)
    calls: Calls = {
        "halfulp": lambda: operators.pow(x, y, out=out),
        "numpy": lambda: np.power(x, y, out=out),
    }
    if has_module("torch"):
        torch = _torch(threads)
        a, b, result = map(torch.from_numpy, (x, y, out))
        calls["torch"] = lambda: torch.pow(a, b, out=result)
    return calls


def _prelu(x: Array, slopes: Array, threads: int) -> Calls:
    out = np.empty_like(x)
    calls: Calls = {
        "halfulp": lambda: operators.prelu(x, slopes, out=out),
        "numpy": lambda: np.where(x < 0, slopes * x, x),
    }
    if has_module("torch"):
        torch = _torch(threads)
        a, b = torch.from_numpy(x), torch.from_numpy(slopes.ravel())
        calls["torch"] = lambda: torch.nn.functional.prelu(a, b)
    return calls


def _torch(threads: int) -> Any:
    torch = import_module("torch")
    torch.set_num_threads(threads)
    return torch
