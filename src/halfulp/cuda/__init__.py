"""CUDA: powers and PReLU of arrays in a device's memory, computed on the device with the same bits as on the processor.

``hu.pow`` and ``hu.prelu`` call ``apply`` for such arrays. It launches the kernels in ``kernels.ptx`` by NVIDIA's
driver, and needs nothing else of CUDA. For each library there is a class: the place of its arrays, new arrays, and
its stream.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array, as_array, is_on_cuda, plain_tensor, torch_of, torch_type_refusal
from halfulp.errors import HalfulpError
from halfulp.types import TYPES, element_type

__all__ = ["apply", "undecided"]


def apply(operator: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Return ``operator(x, y)``, where at least one operand is in a CUDA device's memory.

    Args:
        operator: the operator of ``hu.pow`` or ``hu.prelu``.
        x, y: arrays on one device, or numbers: of Python, of NumPy, or 0-d arrays in the processor's memory.
        out: an array on that device for the result. It may share memory with an operand.

    Returns:
        ``out`` if it is given, else an array of the first device array's library, on its device and in its stream.

    Raises:
        SpecError: as ``hu.pow`` and ``hu.prelu``.
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
    into = None if out is None else library.memory(out)
    places = [a for a in operands if isinstance(a, Memory)]
    devices = sorted({place.device for place in (*places, into) if place is not None})
    if len(devices) > 1:
        raise HalfulpError(f"operands on several devices: {devices}")
    (library.device,) = devices
    output, result = operator.infer(*operands), out
    if into is not None:
        operator.check_output(output, into, _is_writeable(out))
    if into is None or any(share_memory(into, place) for place in places):
        like = next((a for a, place in zip(arrays, places, strict=True) if place.shape == output.shape), None)
        result = library.new(output.shape, output.type, like)
    is_prelu, target = operator.kernel == "prelu", library.memory(result)
    x, y = operands
    launch(x, y, target, prelu=is_prelu, stream=library.stream, allocate=library.allocate)
    if out is not None and result is not out:
        library.copy(result, out)
    library.finish()
    return library.given(result) if out is None else out


def _memory_or_number(operand: Any) -> Memory | Array:
    array = operand if isinstance(operand, Memory) else as_array(operand)
    if isinstance(array, np.ndarray) and array.ndim > 0:
        fault = "one operand is on a CUDA device and the other in the processor's memory"
        raise HalfulpError(f"{fault}: move one of them")
    return array


# --- halfulp._cuda: operands as addresses, and the driver's errors as HalfulpError ----------------------


def compiled_file(name: str) -> Path | None:
    """Return a file for devices, if the build made it. In an editable install it is in another folder."""
    return next((path for folder in __path__ if (path := Path(folder, name)).is_file()), None)


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
    x: Any, y: Any, out: Memory, *, prelu: bool, stream: int, allocate: Callable[[int], int] | None = None
) -> None:
    """Put x to the power y, or PReLU with the slope y, into a stream of the output's device.

    An operand is a Memory, or a 0-d ndarray that is a number. ``out`` may be the memory of an operand's elements, and
    else overlaps none. ``allocate`` returns the address of so many bytes on the device, which may be reused after the
    stream's work so far. Without it the driver allocates.
    """
    operands = (
        core().Operand(a.address, a.type, a.shape, a.strides)
        if isinstance(a, Memory)
        else core().Operand(a.dtype.name, int(a.view(f"u{a.itemsize}")))
        for a in (x, y, out)
    )
    ask(core().apply, prelu, *operands, out.device, stream, allocate)


def ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of ``halfulp._cuda``. An error of the driver becomes a HalfulpError."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        raise HalfulpError(str(error)) from None


def share_memory(a: Memory, b: Memory) -> bool:
    """Whether two arrays may overlap other than element by element, judged by their bounds."""

    def bounds(memory: Memory) -> tuple[int, int]:
        if 0 in memory.shape:
            return memory.address, memory.address
        reaches = [stride * (dim - 1) for stride, dim in zip(memory.strides, memory.shape, strict=True)]
        low, high = (sum(pick(reach, 0) for reach in reaches) for pick in (min, max))
        return memory.address + low, memory.address + high + memory.dtype.itemsize

    (a_low, a_high), (b_low, b_high) = bounds(a), bounds(b)
    return a != b and a_low < b_high and b_low < a_high


def dense_strides(shape: Sequence[int], item_size: int) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous array in C order."""
    return tuple(item_size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def undecided(device: int) -> int:
    """Wait for a device, and return the number of powers that the last phase left undecided there; it should be 0."""
    return int(ask(core().undecided, device))


# --- arrays of libraries in a device's memory ---------------------------------------------------------


class Library:
    """A library's arrays on one device.

    ``memory`` returns an array's place, where all later work in the stream finds its elements. ``new`` returns a new
    array of a shape and a type, with the layout of a third argument if that is an array of the shape.
    """

    stream: int  # the library's stream of the device
    device: int  # its number, known once the operands are
    memory: Callable[[Any], Memory]
    new: Callable[[Sequence[int], str, Any], Any]

    def __init__(self, like: Any) -> None:
        self._like = like
        self._between: list[Any] = []  # objects whose memory is needed until the launches are in the stream

    def allocate(self, size: int) -> int:
        """Return the address of memory for the launches; None in place of this function is the driver's own."""
        self._between.append(self.new((size,), "uint8", None))
        return self.memory(self._between[-1]).address

    def copy(self, array: Any, to: Any) -> None:
        """Copy the elements of a new array to one of the library's."""
        to[...] = array

    def finish(self) -> None:
        """Called when all launches are in the stream."""
        self._between.clear()

    def given(self, array: Any) -> Any:
        """Return a new array in the library's own class."""
        return array


def library_of(arrays: Sequence[Any]) -> Library:
    """Return the library of arrays, on the first array's device. Arrays of several libraries use protocols."""
    name, *others = {_name_of(array) for array in arrays}
    return {"torch": Torch, "cupy": CuPy}.get("" if others else name, Other)(arrays[0])


def _name_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _is_writeable(array: Any) -> bool:
    """Whether an array may be written to, and its memory holds its elements, without a pending negation."""
    if torch_of(array) is not None:
        return not (array.is_neg() or array._is_zerotensor())
    interface = getattr(array, "__cuda_array_interface__", None)
    return _name_of(array) not in _JAX and (interface is None or not interface["data"][1])


class Torch(Library):
    def __init__(self, like: Any) -> None:
        super().__init__(like)
        self._torch = sys.modules["torch"]
        self.stream = self._torch.cuda.current_stream(like.device).cuda_stream

    def memory(self, array: Any) -> Memory:
        resolved = plain_tensor(array, self._torch)
        self._between.append(resolved)
        strides = tuple(stride * resolved.element_size() for stride in resolved.stride())
        type = str(resolved.dtype)[6:]
        if type not in TYPES:
            raise HalfulpError(torch_type_refusal(resolved.dtype))
        return Memory(resolved.data_ptr(), type, tuple(resolved.shape), strides, resolved.device.index or 0)

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        dtype = getattr(self._torch, type)
        if like is not None:
            return self._torch.empty_like(like, dtype=dtype, requires_grad=False)
        return self._torch.empty(shape, dtype=dtype, device=self._like.device)


class CuPy(Library):
    def __init__(self, like: Any) -> None:
        super().__init__(like)
        self._cupy = sys.modules["cupy"]
        with like.device:
            self.stream = self._cupy.cuda.get_current_stream().ptr

    def memory(self, array: Any) -> Memory:
        type, shape, strides = element_type(array.dtype).name, tuple(array.shape), tuple(array.strides)
        return Memory(int(array.data.ptr), type, shape, strides, int(array.device.id))

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        with self._like.device:
            if like is not None:
                return self._cupy.empty_like(like, dtype=element_type(type).dtype)
            return self._cupy.empty(shape, element_type(type).dtype)

    def copy(self, array: Any, to: Any) -> None:
        with self._like.device:
            super().copy(array, to)


_JAX = ("jax", "jaxlib")  # their arrays are immutable


class Other(Library):
    """Arrays with ``__cuda_array_interface__`` or DLPack, JAX's among them.

    The work is in the device's default stream. Producers of operands learn that by DLPack; other streams are waited
    for. Results are complete when the call returns.
    """

    stream = 1  # CUDA's number of the device's default stream
    allocate = None  # type: ignore[assignment]

    def memory(self, array: Any) -> Memory:
        if isinstance(array, DeviceArray):  # perhaps of a type that DLPack lacks
            return array.memory
        if (torch := torch_of(array)) is not None:
            array = plain_tensor(array, torch)  # DLPack would ignore the negative bit
        if hasattr(type(array), "__dlpack__"):
            try:
                capsule = array.__dlpack__(stream=self.stream)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise HalfulpError(f"not an array: {error}") from None
            address, code, bits, shape, strides, device = core().read_dlpack(capsule)
            self._between.append((array, capsule))
            if (name := _DLPACK_TYPES.get((code, bits))) is None:
                raise HalfulpError(f"no element type of DLPack's code {code} with {bits} bits")
            return Memory(address, name, tuple(shape), tuple(strides), device)
        interface = array.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise HalfulpError("a masked array")
        address = interface["data"][0]
        device = core().device_of(address) if address else 0
        if interface.get("stream") is not None:
            core().synchronize(device, interface["stream"])
        if not (dtype := np.dtype(interface["typestr"])).isnative:
            raise HalfulpError(f"elements in another byte order ({interface['typestr']})")
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or dense_strides(shape, dtype.itemsize)
        return Memory(address, element_type(dtype).name, shape, tuple(strides), device)

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        return DeviceArray(tuple(shape), type, self.device)

    def copy(self, array: Any, to: Any) -> None:
        raise HalfulpError("out overlaps an operand, but not element by element")

    def finish(self) -> None:
        core().synchronize(self.device, self.stream)
        super().finish()

    def given(self, array: Any) -> Any:
        name = _name_of(self._like)
        if name in _JAX:
            return sys.modules["jax"].dlpack.from_dlpack(array)
        if name in ("torch", "cupy"):
            return sys.modules[name].from_dlpack(array)
        if name == "numba":
            return sys.modules["numba"].cuda.as_cuda_array(array)
        return array


class DeviceArray:
    """A new array in a device's memory, which other libraries accept by DLPack or ``__cuda_array_interface__``."""

    def __init__(self, shape: tuple[int, ...], type: str, device: int) -> None:
        self._core = core()
        self.dtype, self.shape = element_type(type).dtype, shape
        size = self.dtype.itemsize * math.prod(shape)
        address = ask(self._core.allocate, device, size) if size else 0
        self.memory = Memory(address, type, shape, dense_strides(shape, self.dtype.itemsize), device)

    def __del__(self) -> None:
        memory = getattr(self, "memory", None)
        if memory is not None and memory.address:
            self._core.free(memory.device, memory.address)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.memory.type}{list(self.shape)} on device {self.memory.device}>"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        place = {"shape": self.shape, "typestr": self.dtype.str, "data": (self.memory.address, False)}
        return {**place, "strides": None, "version": 3, "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.memory.device

    def __dlpack__(self, **_: Any) -> Any:
        memory = self.memory
        code, bits = next(key for key, name in _DLPACK_TYPES.items() if name == memory.type)
        return self._core.write_dlpack(memory.address, code, bits, list(self.shape), memory.device, self)


_FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")

# (code, bits) of DLPack 1.1; types of 4 bits are a byte each here.
_DLPACK_TYPES = {
    **{
        (code, bits): f"{kind}{bits}" for code, kind in enumerate(("int", "uint")) for bits in (8, 16, 32, 64)
    },
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    **{(code, 8): f"float8_{name}" for code, name in enumerate(_FLOAT8, start=7)},
}
