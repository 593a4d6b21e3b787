"""PyTorch, eagerly, on the CPU or a CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.array_library import Prepared, prepare
from halfulp.conformance.runner.targets.onnx_model import versions
from halfulp.types import element_type


class Target:
    """Calls ``torch.pow``; a constant number is a Python number, as in ``x ** 3``."""

    def __init__(self, threads: int, argument: str) -> None:
        """Set the number of threads, and the device that the argument names."""
        torch.set_num_threads(threads)
        self._device = torch.device(argument)
        torch.ones(1, device=self._device)  # what a device needs is there before memory is limited

    def versions(self) -> dict[str, str]:
        """Return PyTorch's version."""
        return versions("torch")

    def prepare(self, case: Case) -> Prepared:
        """Return the operands."""
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the output, in x's type."""
        x, y = (_tensor(a).to(self._device) for a in (prepared.x, prepared.y))
        if prepared.is_prelu:
            result = torch.where(x < 0, x * y, x)
        else:
            result = torch.pow(x, y if prepared.number is None else prepared.number)
        bits = result.to(x.dtype).contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        return [bits.view(prepared.x.dtype).reshape(tuple(result.shape))]


def _tensor(array: Array) -> Any:
    # torch's names for the types that both have are NumPy's and ml_dtypes'.
    bits = np.array(array, order="C").reshape(-1).view(np.uint8)
    return torch.from_numpy(bits).view(getattr(torch, element_type(array.dtype).name)).reshape(array.shape)
