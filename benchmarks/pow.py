"""Compare halfulp with NumPy in one run: time per element, and how many of NumPy's results are not exact.

halfulp's results are correctly rounded, so a result of NumPy's that differs is misrounded (or, where an
integer is concerned, wrong).
Each time is the least of several repetitions, each side with the threads that it takes by default.

Usage: python benchmarks/pow.py [--quick]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import halfulp as hu

Array = NDArray[Any]
Case = tuple[str, Array, Array]


def cases(size: int) -> Iterator[Case]:
    """Yield a name, a base and an exponent for each row of the table."""
    random = np.random.default_rng(7)
    base, exponent = random.uniform(0.01, 10, size), random.uniform(-4, 4, size)
    for dtype in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
        yield np.dtype(dtype).name, base.astype(dtype), exponent.astype(dtype)
    for constant in (2, 3, 0.5, 2.5):
        yield f"float32 ** {constant:g}", base.astype(np.float32), np.array(constant, np.float32)
    small = random.integers(1, 16, size)
    yield "float32, small integers", small.astype(np.float32), small[::-1].astype(np.float32)
    for dtype in (np.int32, np.int64):
        yield np.dtype(dtype).name, random.integers(-9, 10, size, dtype), random.integers(0, 10, size, dtype)


def seconds(call: Callable[[], object], budget: float) -> float:
    """Return the least time of one call, repeated until the budget is spent."""
    least, end = float("inf"), time.perf_counter() + budget
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        least = min(least, now - start)
        if now >= end:
            return least


def row(name: str, x: Array, y: Array, budget: float) -> str:
    """Return one line: the times of both per element, and the share of results that differ."""
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        numpy_time = seconds(lambda: np.power(x, y, out=out), budget)
        theirs = out.copy()
    our_time = seconds(lambda: hu.pow(x, y, out=out), budget)
    differ = (theirs != out) & ~((theirs != theirs) & (out != out))
    per_element = 1e9 / x.size
    return (
        f"{name:24} {x.size:>9,} {numpy_time * per_element:10.2f} {our_time * per_element:10.2f}"
        f" {100 * np.mean(differ):14.3f} %"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    budget = 0.05 if parser.parse_args().quick else 0.5
    print(f"numpy {np.__version__}, halfulp {hu.__version__}; nanoseconds per element")
    print(f"{'type':24} {'elements':>9} {'numpy':>10} {'halfulp':>10} {'numpy not exact':>16}")
    for size in (16, 1 << 16, 1 << 22):
        for case in cases(size):
            print(row(*case, budget), flush=True)


if __name__ == "__main__":
    main()
