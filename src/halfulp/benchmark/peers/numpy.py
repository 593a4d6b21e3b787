"""NumPy: np.power, and what its ``**`` uses instead for some constants; always on one thread."""

from __future__ import annotations

import numpy as np

from halfulp.benchmark.case import Case
from halfulp.benchmark.peers import Prepared

_SPECIAL = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


def prepare(case: Case, threads: int) -> Prepared:
    """Compute into an array; PRelu as one writes it in NumPy."""
    x, y, out = case.x, case.y, None if case.returned else case.output
    np.seterr(all="ignore")
    if case.operator == "prelu":
        return Prepared(lambda: np.where(x < 0, y * x, x), np.asarray)
    if case.constant in _SPECIAL:
        function = _SPECIAL[case.constant]
        return Prepared(lambda: function(x, out=out), np.asarray)
    # "unsafe": with an exponent of a wider type the power is computed in that, then converted.
    return Prepared(lambda: np.power(x, y, out=out, casting="unsafe"), np.asarray)
