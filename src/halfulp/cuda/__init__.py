"""CUDA: powers and PReLU of arrays in a device's memory, computed there, with the bits of the processor's.

``hu.pow`` and ``hu.prelu`` call ``apply`` for such arrays. It launches the kernels in ``kernels.ptx`` by NVIDIA's
driver, and needs nothing else of CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from halfulp._interop import Array, as_array, is_on_cuda
from halfulp.cuda.device import Memory, device_count, is_available, launch, share_memory, undecided
from halfulp.cuda.libraries import Library, library_of
from halfulp.errors import HalfulpError
from halfulp.specs.tensor import TensorType, tensor_type

__all__ = ["apply", "device_count", "is_available", "undecided"]


def apply(operator: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Return ``operator(x, y)``, where at least one operand is in a CUDA device's memory.

    Args:
        operator: the operator of ``hu.pow`` or ``hu.prelu``.
        x, y: arrays on one device, or numbers: of Python, of NumPy, or 0-d arrays in the processor's memory.
        out: an array on that device for the result; it may share memory with an operand.

    Returns:
        An array of the first device array's kind, on its device and in its library's stream; ``out`` where that is
        given.

    Raises:
        SpecError: what ``hu.pow`` and ``hu.prelu`` refuse.
        HalfulpError: operands on several devices, an array in the processor's memory, no driver, no memory.
    """
    arrays = [a for a in (x, y) if is_on_cuda(a)]
    if out is not None and not is_on_cuda(out):
        raise HalfulpError("the operands are on a CUDA device, and out is not")
    if not arrays:
        raise HalfulpError("out is on a CUDA device, and no operand is")
    library = library_of(arrays if out is None else [*arrays, out])
    placed = (library.memory(a) if is_on_cuda(a) else a for a in (x, y))
    operands = operator.as_arrays(*placed, as_array=_memory_or_number)
    devices = sorted({a.device for a in operands if isinstance(a, Memory)})
    if len(devices) > 1:
        raise HalfulpError(f"operands on several devices: {devices}")
    output = operator.infer(*operands)
    if out is None:
        result = _new(library, output, arrays, operands)
    else:
        into = library.memory(out)
        if not library.is_writeable(out):
            raise operator.error("output", "out must be writeable", expected=output, got="a read-only array")
        if tensor_type(into) != output or into.device != devices[0]:
            raise operator.error(
                "output", "out must have the output's type and shape", expected=output, got=tensor_type(into)
            )
        overlaps = any(share_memory(into, a) for a in operands if isinstance(a, Memory))
        result = _new(library, output, arrays, operands) if overlaps else out
    launch(
        prelu=operator.kernel == "prelu",
        x=operands[0],
        y=operands[1],
        out=library.memory(result),
        stream=library.stream,
        allocate=library.allocate,
    )
    if out is not None and result is not out:
        library.copy(result, out)
    library.finish()
    return library.given(result) if out is None else out


def _new(library: Library, output: TensorType, arrays: list[Any], operands: Sequence[Memory | Array]) -> Any:
    memories = (operand for operand in operands if isinstance(operand, Memory))
    like = next((a for a, memory in zip(arrays, memories, strict=True) if memory.shape == output.shape), None)
    return library.new(cast("tuple[int, ...]", output.shape), output.type, like)


def _memory_or_number(operand: Any) -> Memory | Array:
    array = operand if isinstance(operand, Memory) else as_array(operand)
    if isinstance(array, np.ndarray) and array.ndim > 0:
        raise HalfulpError(
            "one operand is on a CUDA device and the other in the processor's memory: move one of them"
        )
    return array
