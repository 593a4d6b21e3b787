"""TensorFlow: tf.pow, eagerly on the CPU."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


class TensorFlow(_Library):
    """Calls ``tf.pow``, which wants operands of one type."""

    packages = ("tensorflow", "tensorflow-cpu")

    def __init__(self, threads: int, argument: str) -> None:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        self._tf: Any = import_module("tensorflow")
        self._tf.config.threading.set_intra_op_parallelism_threads(threads)
        self._tf.config.threading.set_inter_op_parallelism_threads(1)
        self._tf.pow(self._tf.ones(1), 1.0)

    def run(self, prepared: Prepared) -> list[Array]:
        return [self._tf.pow(prepared.x, prepared.y).numpy()]
