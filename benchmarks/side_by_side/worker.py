"""The process that measures rows, with the threads and the instruction set of its environment.

    python -m side_by_side.worker THREADS [--quick]

Each line of its input is a request, {"row": index, "seconds": s}. Each line of its output is an answer: the
nanoseconds per element of each participant in each turn, and for the first request of a row also the
comparison of their results.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.installed import versions
from side_by_side import memory
from side_by_side.comparison import Comparison
from side_by_side.peers import LIBRARIES, prepare
from side_by_side.rows import Row, rows
from side_by_side.vectors import available

BESIDE, ADDITION = "beside", "numpy.add"
BUILD = Path(__file__).parents[2] / "build" / "benchmarks"


def comparison(row: Row, threads: int, library: Path | None) -> Comparison:
    """Return the row's comparison among the libraries that are installed."""
    case, others = row.make(), {}
    if row.beside is not None:
        others[BESIDE] = prepare("halfulp", row.beside(), threads).call
    if row.addition:
        others[ADDITION] = partial(np.add, case.x, case.y, out=case.output)
    if row.memory and library is not None:
        others |= memory.calls(library, case, threads)
    installed = [*versions(*LIBRARIES), *available()]
    return Comparison(case, [name for name in row.peers if name in installed], threads, others)


def serve(threads: int, quick: bool) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a library's own prints must not mix with the answers
    known, current, held = rows(quick), -1, None
    library = memory.compiled(BUILD)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        if held is None or request["row"] != current:
            held = None  # freed first, to release its memory
            current = request["row"]
            held = comparison(known[current], threads, library)
            answer = {"elements": held.elements, "digest": held.digest, "refused": held.refused}
            answer["exactness"] = held.exactness
        answer["times"] = held.measure(request["seconds"], request["least"])
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), "--quick" in sys.argv[2:])
