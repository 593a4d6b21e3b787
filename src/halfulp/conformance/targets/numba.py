"""Numba: the powers that it compiles, with LLVM."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


def _power(x: Any, y: Any) -> Any:
    return x**y


class Numba(_Library):
    """Compiles a universal function of ``x**y``."""

    packages = ("numba", "llvmlite")

    def __init__(self, threads: int, argument: str) -> None:
        self._power: Any = import_module("numba").vectorize(_power)

    def run(self, prepared: Prepared) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(self._power(prepared.x, prepared.y)).astype(prepared.x.dtype)]
