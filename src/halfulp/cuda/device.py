"""The only access to halfulp._cuda: operands as addresses, and the driver's errors as HalfulpError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from halfulp._interop import Array
from halfulp.errors import HalfulpError
from halfulp.types import element_type

Allocate = Callable[[int], int]


def compiled_file(name: str) -> Path | None:
    """Return a file for devices, if the build made it. In an editable install it is in another folder."""
    spec = find_spec(__package__ or "")
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((path for folder in folders if (path := Path(folder) / name).is_file()), None)


KERNELS = compiled_file("kernels.ptx")


class Memory(NamedTuple):
    """An array in a device's memory: the address of its first element, and its strides in bytes."""

    address: int
    type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy's dtype."""
        return element_type(self.type).dtype


@cache
def core() -> Any:
    """Return ``halfulp._cuda`` with its kernels; raises HalfulpError if this installation has none."""
    import halfulp._cuda as _cuda

    if KERNELS is None:
        raise HalfulpError("this installation has no kernels for CUDA: it was built without HALFULP_CUDA=1")
    _cuda.set_kernels(KERNELS.read_text())
    return _cuda


def launch(
    *,
    prelu: bool,
    x: Memory | Array,
    y: Memory | Array,
    out: Memory,
    stream: int,
    allocate: Allocate | None = None,
) -> None:
    """Put x to the power y, or PReLU with the slope y, into a stream of the output's device.

    A 0-d ndarray is a number. ``out`` may be the memory of an operand's elements, and else overlaps none. ``allocate``
    takes a number of bytes and returns their address on the device. They may be reused after the stream's work so far.
    Without it the driver allocates. Every error of the driver is a HalfulpError.
    """
    ask(core().apply, prelu, *(_operand(a) for a in (x, y, out)), out.device, stream, allocate)


def xla_handlers() -> dict[str, Any]:
    """Return the functions that XLA calls in the middle of a program for CUDA, by the names of their calls."""
    return cast("dict[str, Any]", core().xla_handlers())


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of ``halfulp._cuda``. An error of the driver becomes a HalfulpError."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise HalfulpError(str(error)) from None


def _operand(operand: Memory | Array) -> Any:
    kind = core().Operand
    if isinstance(operand, Memory):
        return kind(operand.address, operand.type, operand.shape, operand.strides)
    return kind(operand.dtype.name, int(operand.view(f"u{operand.itemsize}")))


def share_memory(a: Memory, b: Memory) -> bool:
    """Whether two arrays may overlap other than element by element, judged by their bounds."""
    if (a.address, a.shape, a.strides, a.type) == (b.address, b.shape, b.strides, b.type):
        return False
    (a_low, a_high), (b_low, b_high) = _bounds(a), _bounds(b)
    return a_low < b_high and b_low < a_high


def _bounds(memory: Memory) -> tuple[int, int]:
    reaches = [stride * (dim - 1) for stride, dim in zip(memory.strides, memory.shape, strict=True)]
    low = memory.address + sum(reach for reach in reaches if reach < 0)
    high = memory.address + sum(reach for reach in reaches if reach > 0)
    empty = 0 in memory.shape
    return low, low if empty else high + memory.dtype.itemsize


def dense_strides(shape: Sequence[int], item_size: int) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array in C order."""
    strides = [item_size]
    for dim in reversed(shape[1:]):
        strides.append(strides[-1] * dim)
    return tuple(reversed(strides)) if shape else ()


def is_available() -> bool:
    """Whether there are kernels, a driver and a device."""
    try:
        return device_count() > 0
    except HalfulpError:
        return False


def device_count() -> int:
    """Return the number of devices; raises HalfulpError without a driver or kernels."""
    return int(ask(core().device_count))


def undecided(device: int) -> int:
    """Return the number of powers that the last phase left undecided on a device; it should be 0.

    The call waits for the device, and raises HalfulpError if there is no such device.
    """
    return int(ask(core().undecided, device))
