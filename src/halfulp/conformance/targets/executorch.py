"""ExecuTorch: a module of torch.pow, exported, with the portable kernels."""

from typing import Any

import numpy as np
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Power(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    def forward(self, x: Any, y: Any) -> Any:
        return torch.pow(x, y)


methods: dict[Any, Any] = {}


def pow(x: Any, y: Any) -> Any:
    operands = tuple(torch.from_numpy(np.array(each, order="C")) for each in np.broadcast_arrays(x, y))
    key = tuple((operand.dtype, operand.shape) for operand in operands)
    if key not in methods:
        program = to_edge(torch.export.export(Power(), operands)).to_executorch()
        loaded = Runtime.get().load_program(program.buffer)
        methods.clear()
        methods[key] = program, loaded, loaded.load_method("forward")
    (output,) = methods[key][-1].execute(list(operands))
    return output.numpy().copy()
