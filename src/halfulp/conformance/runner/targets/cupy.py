"""CuPy, on a CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.array_library import Prepared, prepare
from halfulp.conformance.runner.targets.onnx_model import versions


class Target:
    """Calls ``cupy.power``; a constant number is a Python number, as in ``x ** 3``."""

    def __init__(self, threads: int, argument: str) -> None:
        """Load what a device needs, before memory is limited."""
        import cupy  # here, since no test has it

        self._cupy: Any = cupy
        cupy.ones(1)

    def versions(self) -> dict[str, str]:
        """Return CuPy's version and that of CUDA's runtime."""
        return versions("cupy") | {"CUDA": str(self._cupy.cuda.runtime.runtimeGetVersion())}

    def prepare(self, case: Case) -> Prepared:
        """Return the operands."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the output, in x's type."""
        cupy = self._cupy
        x = cupy.asarray(prepared.x)
        y: Any = cupy.asarray(prepared.y)
        if prepared.is_prelu:
            result = cupy.where(x < 0, x * y, x)
        else:
            result = (x ** (y if prepared.number is None else prepared.number)).astype(x.dtype)
        return [np.asarray(cupy.asnumpy(result))]
