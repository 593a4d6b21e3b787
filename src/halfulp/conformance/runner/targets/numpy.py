"""NumPy, with ml_dtypes for the types that it lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.array_library import Prepared, prepare
from halfulp.conformance.runner.targets.onnx_model import versions


class Target:
    """Calls ``numpy.power``; a constant number is a Python number, as in ``x ** 3``."""

    def __init__(self, threads: int, argument: str) -> None:
        """NumPy computes these on one thread."""

    def versions(self) -> dict[str, str]:
        """Return NumPy's version."""
        return versions("numpy", "ml_dtypes")

    def prepare(self, case: Case) -> Prepared:
        """Return the operands."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the output, in x's type."""
        x, y = prepared.x, prepared.y
        with np.errstate(all="ignore"):
            if prepared.is_prelu:
                return [np.where(x < 0, x * y, x)]
            second: Any = y if prepared.number is None else prepared.number
            return [np.asarray(x**second).astype(x.dtype)]
