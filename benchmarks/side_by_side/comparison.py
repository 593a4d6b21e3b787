"""Compare libraries on one case: refusals, misrounded results, times, and their cells in a table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from halfulp.benchmark.comparison import Call, Exactness, Summary, exactness, in_turns, sampler, spread
from side_by_side.peers import Case, RefusalError, prepare


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
        self._samples = {name: sampler(call) for name, call in (calls | dict(others or {})).items()}

    def measure(self, seconds: float, least: int = 3) -> dict[str, list[float]]:
        """Return each participant's nanoseconds per element, turn by turn."""
        scale = 1e9 / self.elements
        times = in_turns(self._samples, seconds, least)
        return {name: [scale * time for time in taken] for name, taken in times.items()}


def cell(summary: Summary, found: Exactness | None) -> str:
    """Return a time and the exactness of the results."""
    return spread(summary) if found is None else f"{spread(summary)}; {found}"
