"""Launches on CUDA's devices, by NVIDIA's driver. Only halfulp.cuda calls it.

What fails is a RuntimeError that says what, and the driver's name for the error.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload

class Operand:
    @overload
    def __init__(self, address: int, type: str, shape: Sequence[int], strides: Sequence[int]) -> None:
        """An operand in a device's memory; strides in bytes."""
    @overload
    def __init__(self, type: str, number: int) -> None:
        """A number, by its encoding."""

def set_kernels(ptx: str) -> None:
    """Take the kernels, once, before the first launch."""

def apply(
    prelu: bool,
    x: Operand,
    y: Operand,
    out: Operand,
    device: int,
    stream: int,
    allocate: Callable[[int], int] | None = None,
) -> None:
    """Put x to the power y, or PReLU of x with the slope y, into a stream."""

def undecided(device: int) -> int:
    """Return how many powers the last phase could not decide. Waits for the device."""

def read_dlpack(array: Any) -> tuple[int, int, int, list[int], list[int], int]:
    """Return an array's address, the code and bits of its type, its shape, strides in bytes, and device."""

def write_dlpack(address: int, code: int, bits: int, shape: Sequence[int], device: int, owner: Any) -> Any:
    """Return a capsule for an array without gaps, which keeps its owner."""

def allocate(device: int, bytes: int) -> int: ...
def free(device: int, address: int) -> None: ...
def synchronize(device: int, stream: int) -> None: ...
def device_of(address: int) -> int: ...
def device_count() -> int: ...
