"""Times of several calls that take turns, so that other load on the machine affects all of them.

``in_turns`` is the only measuring loop of the package and of ``benchmarks/``.
"""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

Call = Callable[[], object]

_THREADS = (
    "HALFULP_NUM_THREADS",
    "OMP_NUM_THREADS",  # torch
    "MKL_NUM_THREADS",  # torch
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",  # JAX: the size of the thread pool of its CPU client
)
_SHORTEST = 300e-6  # minimum seconds of a sample; a shorter call is repeated
_LONG = 2e-3  # seconds; a call this long does not profit from caches that an earlier call warmed


class Summary(NamedTuple):
    """The median, the quartiles and the minimum of some times."""

    median: float
    low: float
    high: float
    least: float


def summary(times: Sequence[float]) -> Summary:
    if len(times) == 1:
        return Summary(times[0], times[0], times[0], times[0])
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Summary(median, low, high, min(times))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of each turn. A change of the machine's speed does not affect it."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def in_turns(
    samples: Mapping[str, Callable[[], float]], seconds: float, least: int, most: int = 1000
) -> dict[str, list[float]]:
    """Call functions that take samples in turns, each turn in another order, and return the samples by name.

    It stops after a time in seconds, with a minimum and a maximum number of turns.
    """
    names = list(samples)
    taken: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + seconds
    collecting = gc.isenabled()
    gc.disable()
    try:
        turn = 0
        while turn < least or (turn < most and time.perf_counter() < end):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                taken[name].append(samples[name]())
            turn += 1
    finally:
        if collecting:
            gc.enable()
    return taken


class InterleavedRuns:
    """Calls that take turns. Each is called at once, to warm it up and to estimate its time."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self.calls = calls
        self.repeats: dict[str, int] = {}
        self.warm: dict[str, bool] = {}
        for name, call in calls.items():
            call()
            length = _timed(call, 1)
            if length < 10 * _LONG:  # unless an interruption made it longer
                length = min(length, _timed(call, 1), _timed(call, 1))
            self.repeats[name] = max(1, round(_SHORTEST / length))
            self.warm[name] = length < _LONG

    def take(self, seconds: float, least: int = 3, most: int = 1000) -> dict[str, list[float]]:
        """Return the seconds of each call in each turn."""
        samples = {name: partial(self._sample, name, call) for name, call in self.calls.items()}
        return in_turns(samples, seconds, least, most)

    def _sample(self, name: str, call: Call) -> float:
        if self.warm[name]:
            call()
        return _timed(call, self.repeats[name])


def _timed(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def environment(threads: int) -> dict[str, str]:
    """Return environment variables that give libraries, when they are loaded, this number of threads."""
    # Threads that spin-wait would slow the next library.
    return dict.fromkeys(_THREADS, str(threads)) | {"OMP_WAIT_POLICY": "passive"}
