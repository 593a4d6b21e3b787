"""One case, several libraries: who refuses, who misrounds, and who takes how long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from halfulp.benchmark.case import Case
from halfulp.benchmark.exactness import Exactness, exactness
from halfulp.benchmark.peers import RefusalError, prepare
from halfulp.benchmark.timing import Call, InterleavedRuns


class Comparison:
    """A case with the libraries that compute it, ready to be timed.

    halfulp's results are the measure: that they are correctly rounded is what the tests prove against
    slow exact oracles, not this comparison.

    Args:
        case: what to compute.
        libraries: the peers' names; halfulp always takes part.
        threads: how many each may use.
        others: more calls to time in the same turns, by name.

    Attributes:
        refused: why a library does not take part, by name.
        exactness: what comparing with the right results found, by name.
        digest: of the bits of halfulp's results.
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
