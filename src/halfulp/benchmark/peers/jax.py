"""JAX on the CPU, compiled; NPROC in the environment says on how many threads."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.benchmark.case import Case
from halfulp.benchmark.peers import Prepared


def prepare(case: Case, threads: int) -> Prepared:
    """Compile the function; it returns a new array. A constant exponent is known when it is compiled."""
    jax: Any = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    x, y = jax.numpy.asarray(case.x), jax.numpy.asarray(case.y)
    if case.operator == "prelu":
        function = jax.jit(lambda a, b: jax.numpy.where(a < 0, a * b, a))
    else:
        constant = case.constant
        function = jax.jit(lambda a, b: (a ** (b if constant is None else constant)).astype(a.dtype))
    return Prepared(lambda: function(x, y).block_until_ready(), np.asarray)
