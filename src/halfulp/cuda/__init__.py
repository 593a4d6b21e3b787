"""CUDA: powers and PReLU of arrays in a device's memory, computed on the device with the same bits as on the processor.

``hu.pow`` and ``hu.prelu`` call ``apply`` for such arrays. It launches the kernels in ``kernels.ptx`` by NVIDIA's
driver, and needs nothing else of CUDA. For each library there is a class: the place of its arrays, new arrays, and
its stream.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp._interop import Array, as_array, is_on_cuda, plain_tensor, torch_of, torch_type_refusal
from halfulp.cuda.device import (
    Allocate,
    Memory,
    ask,
    core,
    dense_strides,
    device_count,
    is_available,
    launch,
    share_memory,
    undecided,
)
from halfulp.errors import HalfulpError
from halfulp.types import TYPES, element_type

__all__ = ["apply", "device_count", "is_available", "undecided"]


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
    output = operator.infer(*operands)
    result = out
    if into is not None:
        operator.check_output(output, into, _is_writeable(out))
    if into is None or any(share_memory(into, place) for place in places):
        like = next((a for a, place in zip(arrays, places, strict=True) if place.shape == output.shape), None)
        result = library.new(output.shape, output.type, like)
    x, y = operands
    is_prelu, target = operator.kernel == "prelu", library.memory(result)
    launch(prelu=is_prelu, x=x, y=y, out=target, stream=library.stream, allocate=library.allocate)
    if out is not None and result is not out:
        library.copy(result, out)
    library.finish()
    return library.given(result) if out is None else out


def _memory_or_number(operand: Any) -> Memory | Array:
    array = operand if isinstance(operand, Memory) else as_array(operand)
    if isinstance(array, np.ndarray) and array.ndim > 0:
        raise HalfulpError(
            "one operand is on a CUDA device and the other in the processor's memory: move one of them"
        )
    return array


# --- arrays of libraries in a device's memory ---------------------------------------------------------


class Library:
    """A library's arrays on one device.

    Attributes:
        stream: the library's stream of the device.
        allocate: the argument of ``launch``; None for the driver's own.
    """

    stream: int
    allocate: Allocate | None = None

    def __init__(self) -> None:
        self._between: list[Any] = []  # objects whose memory is needed until the launches are in the stream

    def memory(self, array: Any) -> Memory:
        """Return an array's place. All later work in the stream finds its elements there."""
        raise NotImplementedError

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        """Return a new array of a type, with the layout of `like` if that is an array of the shape."""
        raise NotImplementedError

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
    names = {_name_of(array) for array in arrays}
    (name,) = names if len(names) == 1 else ("several",)
    return {"torch": Torch, "cupy": CuPy}.get(name, Other)(arrays[0])


def _name_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _is_writeable(array: Any) -> bool:
    """Whether an array may be written to, and its memory holds its elements, without a pending negation."""
    if torch_of(array) is not None:
        return not (array.is_neg() or array._is_zerotensor())
    interface = getattr(array, "__cuda_array_interface__", None)
    return _name_of(array) not in _JAX and (interface is None or not interface["data"][1])


class Torch(Library):
    """torch's tensors on a device."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._torch = sys.modules["torch"]
        self._device = like.device
        self.stream = self._torch.cuda.current_stream(self._device).cuda_stream
        self.allocate = self._allocate

    def _allocate(self, size: int) -> int:
        memory = self._torch.empty(size, dtype=self._torch.uint8, device=self._device)
        self._between.append(memory)
        return int(memory.data_ptr())

    def memory(self, array: Any) -> Memory:
        resolved = plain_tensor(array, self._torch)
        if resolved is not array:
            self._between.append(resolved)
        size = resolved.element_size()
        strides = tuple(stride * size for stride in resolved.stride())
        type = str(resolved.dtype)[6:]
        if type not in TYPES:
            raise HalfulpError(torch_type_refusal(resolved.dtype))
        return Memory(resolved.data_ptr(), type, tuple(resolved.shape), strides, resolved.device.index or 0)

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        dtype = getattr(self._torch, type)
        if like is not None:
            return self._torch.empty_like(like, dtype=dtype, requires_grad=False)
        return self._torch.empty(shape, dtype=dtype, device=self._device)


class CuPy(Library):
    """CuPy's arrays on a device."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._cupy = sys.modules["cupy"]
        self._device = like.device
        with self._device:
            self.stream = self._cupy.cuda.get_current_stream().ptr
        self.allocate = self._allocate

    def _allocate(self, size: int) -> int:
        with self._device:
            memory = self._cupy.empty(size, "uint8")
        self._between.append(memory)
        return int(memory.data.ptr)

    def memory(self, array: Any) -> Memory:
        shape, strides = tuple(array.shape), tuple(array.strides)
        return Memory(
            int(array.data.ptr), element_type(array.dtype).name, shape, strides, int(array.device.id)
        )

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        with self._device:
            if like is not None:
                return self._cupy.empty_like(like, dtype=element_type(type).dtype)
            return self._cupy.empty(shape, element_type(type).dtype)

    def copy(self, array: Any, to: Any) -> None:
        with self._device:
            super().copy(array, to)


_JAX = ("jax", "jaxlib")  # their arrays are immutable


class Other(Library):
    """Arrays with ``__cuda_array_interface__`` or DLPack, JAX's among them.

    The work is in the device's default stream. Producers of operands learn that by DLPack; other streams are waited
    for. Results are complete when the call returns.
    """

    stream = 1  # CUDA's number of the device's default stream

    def __init__(self, like: Any) -> None:
        super().__init__()
        self._like = like
        self._core = core()
        self._device = 0

    def memory(self, array: Any) -> Memory:
        memory = array.memory if isinstance(array, DeviceArray) else self._memory(array)
        self._device = memory.device
        return memory

    def _memory(self, array: Any) -> Memory:
        if (torch := torch_of(array)) is not None:
            array = plain_tensor(array, torch)  # DLPack would ignore the negative bit
        if hasattr(type(array), "__dlpack__"):
            try:
                capsule = array.__dlpack__(stream=self.stream)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise HalfulpError(f"not an array: {error}") from None
            address, code, bits, shape, strides, device = self._core.read_dlpack(capsule)
            self._between.append((array, capsule))
            return Memory(address, _type_of_dlpack(code, bits), tuple(shape), tuple(strides), device)
        interface = array.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise HalfulpError("a masked array")
        address = interface["data"][0]
        device = self._core.device_of(address) if address else 0
        if interface.get("stream") is not None:
            self._core.synchronize(device, interface["stream"])
        dtype = _type_of_interface(interface["typestr"])
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or dense_strides(shape, element_type(dtype).dtype.itemsize)
        return Memory(address, dtype, shape, tuple(strides), device)

    def new(self, shape: Sequence[int], type: str, like: Any) -> Any:
        return DeviceArray(tuple(shape), type, self._device)

    def copy(self, array: Any, to: Any) -> None:
        raise HalfulpError("out overlaps an operand, but not element by element")

    def finish(self) -> None:
        self._core.synchronize(self._device, self.stream)
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
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.address, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.memory.device

    def __dlpack__(self, **_: Any) -> Any:
        memory = self.memory
        code, bits = next(key for key, name in _DLPACK_TYPES.items() if name == memory.type)
        return self._core.write_dlpack(memory.address, code, bits, list(self.shape), memory.device, self)


_FLOAT8 = ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")

# (code, bits) of DLPack 1.1; types of 4 bits are a byte each here.
_DLPACK_TYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (4, 16): "bfloat16",
    **{(code, 8): f"float8_{name}" for code, name in enumerate(_FLOAT8, start=7)},
}


def _type_of_dlpack(code: int, bits: int) -> str:
    name = _DLPACK_TYPES.get((code, bits))
    if name is None:
        raise HalfulpError(f"no element type of DLPack's code {code} with {bits} bits")
    return name


def _type_of_interface(typestr: str) -> str:
    dtype = np.dtype(typestr)
    if not dtype.isnative:
        raise HalfulpError(f"elements in another byte order ({typestr})")
    return element_type(dtype).name
