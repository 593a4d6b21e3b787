"""PyTorch on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.benchmark.case import Array, Case
from halfulp.benchmark.peers import Prepared


def prepare(case: Case, threads: int) -> Prepared:
    """Compute into a tensor; PRelu makes a new one, and its slope must be a scalar or per channel."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)

    def tensor(array: Array) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    def to_numpy(result: Any) -> Array:
        if result.dtype == torch.bfloat16:
            return np.asarray(result.view(torch.int16).numpy().view(case.x.dtype))
        return np.asarray(result.numpy())

    x = tensor(case.x)
    if case.operator == "prelu":
        axes = [axis for axis in range(-case.y.ndim, 0) if case.y.shape[axis] != 1]
        if len(axes) != 1:
            raise NotImplementedError("a slope that is not per channel")
        channels_second, slope = torch.movedim(x, axes[0], 1), tensor(case.y).reshape(-1)
        prelu = torch.nn.functional.prelu
        return Prepared(
            lambda: prelu(channels_second, slope), lambda r: to_numpy(torch.movedim(r, 1, axes[0]))
        )
    y = tensor(case.y) if case.constant is None else case.constant
    out = None if case.returned else tensor(case.output)
    return Prepared(lambda: torch.pow(x, y, out=out), to_numpy)
