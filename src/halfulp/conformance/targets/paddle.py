"""PaddlePaddle, eagerly on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


class Paddle(_Library):
    """Calls ``paddle.pow``."""

    packages = ("paddlepaddle",)

    def __init__(self, threads: int, argument: str) -> None:
        self._paddle: Any = import_module("paddle")
        self._paddle.set_device("cpu")

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = self._paddle.to_tensor(prepared.x), self._paddle.to_tensor(prepared.y)
        return [np.asarray(self._paddle.pow(x, y).numpy())]
