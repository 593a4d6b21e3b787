"""ExecuTorch: torch.pow and prelu, exported, with the portable kernels."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library


class ExecuTorch(_Library):
    """Exports a module of one operator, and executes it."""

    packages = ("executorch", "torch")

    def __init__(self, threads: int, argument: str) -> None:
        self._torch: Any = import_module("torch")
        self._to_edge: Any = import_module("executorch.exir").to_edge
        self._runtime: Any = import_module("executorch.runtime").Runtime.get()
        torch = self._torch

        class Power(torch.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any, y: Any) -> Any:
                return torch.pow(x, y)

        self._module = Power()
        self._methods: dict[Any, Any] = {}

    def run(self, prepared: Prepared) -> list[Array]:
        operands = tuple(
            self._torch.from_numpy(np.array(operand, order="C"))
            for operand in np.broadcast_arrays(prepared.x, prepared.y)
        )
        key = tuple((operand.dtype, operand.shape) for operand in operands)
        if key not in self._methods:
            program = self._to_edge(self._torch.export.export(self._module, operands)).to_executorch()
            loaded = self._runtime.load_program(program.buffer)
            self._methods = {key: (program, loaded, loaded.load_method("forward"))}
        (output,) = self._methods[key][-1].execute(list(operands))
        return [output.numpy().copy()]
