"""MLX, on its CPU device."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


class Mlx(_Library):
    """Calls ``mx.power`` and ``nn.prelu``."""

    packages = ("mlx", "mlx-cpu")

    def __init__(self, threads: int, argument: str) -> None:
        self._mx: Any = import_module("mlx.core")
        self._nn: Any = import_module("mlx.nn")
        self._mx.set_default_device(self._mx.cpu)

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = self._mx.array(prepared.x), self._mx.array(prepared.y)
        return [np.array(self._nn.prelu(x, y) if prepared.is_prelu else self._mx.power(x, y))]
