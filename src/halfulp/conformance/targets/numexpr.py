"""numexpr."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


class NumExpr(_Library):
    """Evaluates ``x**y``."""

    packages = ("numexpr",)

    def __init__(self, threads: int, argument: str) -> None:
        self._numexpr: Any = import_module("numexpr")
        self._numexpr.set_num_threads(threads)

    def run(self, prepared: Prepared) -> list[Array]:
        operands = {"x": prepared.x, "y": prepared.y}
        return [np.asarray(self._numexpr.evaluate("x**y", local_dict=operands)).astype(prepared.x.dtype)]
