"""MNN: the expression API."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets import NotOfferedError
from halfulp.conformance.targets.arrays import Prepared, _Library


class Mnn(_Library):
    """Computes ``MNN.expr.pow`` of constants."""

    packages = ("MNN",)

    def __init__(self, threads: int, argument: str) -> None:
        import_module("MNN")
        self._expr: Any = import_module("MNN.expr")

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = (np.array(operand) for operand in np.broadcast_arrays(prepared.x, prepared.y))
        if not x.size:
            raise NotOfferedError("an empty array has no value to read")
        result = self._expr.pow(self._constant(x.ravel()), self._constant(y.ravel())).read()
        return [np.asarray(result, x.dtype).reshape(x.shape)]

    def _constant(self, array: Array) -> Any:
        kind = self._expr.float if array.dtype == np.float32 else self._expr.int
        return self._expr.const(array.tolist(), list(array.shape), self._expr.NCHW, kind)
