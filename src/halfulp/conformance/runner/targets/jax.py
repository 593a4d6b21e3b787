"""JAX, compiled, with 64-bit types allowed, on the CPU or a CUDA device."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.array_library import Prepared, prepare
from halfulp.conformance.runner.targets.onnx_model import versions


class Target:
    """Compiles a function of the operands that are no constants."""

    def __init__(self, threads: int, argument: str) -> None:
        """The number of threads comes from the environment; the argument is the device."""
        jax.config.update("jax_platforms", argument)
        jax.config.update("jax_enable_x64", True)
        jax.numpy.ones(1).block_until_ready()  # what a device needs is there before memory is limited
        self._function = jax.jit(_compute, static_argnums=(2,))

    def versions(self) -> dict[str, str]:
        """Return JAX's version."""
        return versions("jax", "jaxlib")

    def prepare(self, case: Case) -> Prepared:
        """Return the operands."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the output, in x's type."""
        constants = prepared.constants if prepared.number is None else prepared.constants | {1}
        if not constants:
            # So that one compilation serves all cases of these types and shapes.
            return [np.asarray(self._function(prepared.x, prepared.y, prepared.is_prelu))]
        operands: list[Any] = [prepared.x, prepared.y if prepared.number is None else prepared.number]

        def function(*fed: Any) -> Any:
            values = iter(fed)
            x, y = (operands[i] if i in constants else next(values) for i in (0, 1))
            return _compute(jax.numpy.asarray(x), y, prepared.is_prelu)

        return [np.asarray(jax.jit(function)(*(operands[i] for i in (0, 1) if i not in constants)))]


def _compute(x: Any, y: Any, is_prelu: bool) -> Any:
    if is_prelu:
        return jax.numpy.where(x < 0, x * y, x)
    return jax.numpy.power(x, y).astype(x.dtype)
