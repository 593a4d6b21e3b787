"""PyTorch's Inductor: torch.compile, which generates C++ on the CPU and Triton on a CUDA device."""

from __future__ import annotations

from typing import Any

from halfulp.conformance.targets.arrays import Torch


class Inductor(Torch):
    """Compiles ``torch.pow``."""

    def __init__(self, threads: int, argument: str) -> None:
        super().__init__(threads, argument)
        torch = self._torch
        torch._dynamo.config.cache_size_limit = 1 << 20
        self._pow: Any = torch.compile(lambda x, y: torch.pow(x, y), dynamic=True)
