"""Compare rows that missed their bars with programs that make the same loads and stores, and compute nothing.

    python benchmarks/floors.py [--seconds S]

Both take turns on one thread. A row whose ratio is near 1 cannot become faster by other arithmetic.
(Powers of 16 bits by a table are such loads and stores themselves.)
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import halfulp as hu
from halfulp.benchmark.comparison import in_turns, ratio, sampler, summary
from side_by_side import memory
from side_by_side.peers import bases, constant_power, exponents, prepare
from side_by_side.worker import BUILD

SIZE, SIDE = 1 << 24, 2048
Runs = dict[str, Callable[[], object]]


def address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def rows(library: Any) -> Iterator[tuple[str, int, Runs]]:
    """Yield a label, the number of elements, and halfulp's call with its floors."""
    for exponent in (2, -1):
        case = constant_power("float32", exponent, SIZE)
        floors = memory.calls(library, case, 1)
        yield f"float32 ** {exponent}", SIZE, {"halfulp": prepare("halfulp", case, 1).call, **floors}
    x, y = (of("float32", SIDE * SIDE).reshape(SIDE, SIDE) for of in (bases, exponents))
    out = np.empty_like(x)
    floor = partial(
        ctypes.CDLL(str(library)).pass_transposed, *map(address, (x, y, out)), ctypes.c_ssize_t(SIDE)
    )
    runs: Runs = {"halfulp": partial(hu.pow, x.T, y, out=out), "contiguous": partial(hu.pow, x, y, out=out)}
    yield f"transposed ({SIDE},{SIDE}) ** contiguous", SIDE * SIDE, runs | {"panels": floor}


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each row (default 3)")
    seconds = parser.parse_args().seconds
    library = memory.compiled(BUILD)
    if library is None:
        parser.error("no C++ compiler: set CXX")
    for label, size, runs in rows(library):
        times = in_turns({name: sampler(run) for name, run in runs.items()}, seconds, least=5)
        ours = summary(times["halfulp"]).median / size * 1e9
        others = (
            f"{name} {summary(times[name]).median / size * 1e9:.3f} ({ratio(times['halfulp'], times[name]):.2f})"
            for name in runs
            if name != "halfulp"
        )
        print(f"{label}: halfulp {ours:.3f} ns; {', '.join(others)}", flush=True)


if __name__ == "__main__":
    main()
