"""hu.pow and hu.prelu of arrays in a device's memory: which is the processor's here, behind the fake driver."""

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import cuda
from halfulp.types import TYPES

X = np.random.default_rng(3).uniform(-3, 9, (30, 40)).astype(np.float32)
N = np.arange(40)


pytestmark = pytest.mark.usefixtures("kernels")


class WithInterface:
    """As numba's arrays are."""

    def __init__(self, array: np.ndarray, stream: int | None = None) -> None:
        self.array, self.stream = array, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.ctypes.data, False),
            "strides": None if self.array.flags.c_contiguous else self.array.strides,
            "version": 3,
            "stream": self.stream,
        }


class ReadOnly(WithInterface):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = super().__cuda_array_interface__
        return interface | {"data": (interface["data"][0], True)}


class WithDLPack:
    """As JAX's arrays are."""

    def __init__(self, array: np.ndarray, device: int = 0) -> None:
        self.array, self.device = array, device
        self.streams: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        from halfulp import _cuda

        self.streams.append(stream)
        name = self.array.dtype.name
        code, bits = next(key for key, value in cuda._DLPACK_TYPES.items() if value == name)
        return _cuda.write_dlpack(
            self.array.ctypes.data, code, bits, self.array.shape, self.device, self.array
        )


def on_host(array: Any) -> np.ndarray:
    """Return what an array of ours holds, whose memory is the processor's here."""
    import ctypes

    memory = array.memory
    size = int(np.prod(memory.shape)) * TYPES[memory.type].dtype.itemsize
    raw = (ctypes.c_char * size).from_address(memory.address).raw if size else b""
    return np.frombuffer(raw, TYPES[memory.type].dtype).reshape(memory.shape)


@pytest.mark.parametrize("kind", [WithInterface, WithDLPack])
def test_the_bits_of_the_processors(kind):
    for y in (2.5, 3, np.float64(2.5), np.array(-1.5), 10**30):
        assert on_host(hu.pow(kind(X), y)).tobytes() == hu.pow(X, y).tobytes()
    assert on_host(hu.pow(kind(X), kind(N))).tobytes() == hu.pow(X, N).tobytes()
    assert on_host(hu.pow(2, kind(X))).tobytes() == hu.pow(2, X).tobytes()
    assert on_host(hu.prelu(kind(X), 0.3)).tobytes() == hu.prelu(X, 0.3).tobytes()
    assert on_host(hu.prelu(kind(X), kind(X[0]))).tobytes() == hu.prelu(X, X[0]).tobytes()


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_a_result_of_a_type_that_dlpack_lacks(name):
    x, y = np.array(3).astype(TYPES[name].dtype), np.arange(4, dtype=np.float32)
    assert on_host(hu.pow(x, WithInterface(y))).tobytes() == hu.pow(x, y).tobytes()


def test_dlpacks_types():
    for name in set(cuda._DLPACK_TYPES.values()):
        x = np.array([0.5, 1, 2, 4]).astype(TYPES[name].dtype)
        result = hu.pow(WithDLPack(x), 2)
        assert result.dtype == x.dtype
        assert on_host(result).tobytes() == hu.pow(x, 2).tobytes()


def test_strides(driver):
    x = np.repeat(X, 2, axis=1)[:, ::2]
    result = hu.pow(WithInterface(x), 2.5)
    assert on_host(result).tobytes() == hu.pow(np.ascontiguousarray(X), 2.5).tobytes()
    assert driver.log()[1].startswith("pow_each_float32 ")


def test_the_producer_is_told_the_stream(driver):
    x = WithDLPack(X)
    hu.pow(x, 2.5)
    assert x.streams == [1]
    log = driver.log()
    assert log[-1] == "synchronize stream 1"
    assert all("stream 1" in line for line in log)
    hu.pow(WithInterface(X, stream=99), 2.5)
    assert driver.log()[0] == "synchronize stream 99"


def test_results_go_on_to_others():
    first = hu.pow(WithDLPack(X), 2)
    interface = first.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["version"]) == (X.shape, "<f4", 3)
    assert on_host(hu.prelu(first, 2)).tobytes() == hu.prelu(hu.pow(X, 2), 2).tobytes()
    assert repr(first) == "<DeviceArray float32[30, 40] on device 0>"
    from halfulp import _cuda

    read = _cuda.read_dlpack(first)
    assert read == (first.memory.address, 2, 32, [30, 40], [160, 4], 0)


def test_a_result_of_the_operands_kind(monkeypatch):
    class Array(WithDLPack):
        pass

    jax = ModuleType("jax")
    jax.dlpack = ModuleType("jax.dlpack")
    jax.dlpack.from_dlpack = lambda array: Array(on_host(array))
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(Array, "__module__", "jaxlib._jax")
    result = hu.pow(Array(X), 2.5)
    assert type(result) is Array
    assert result.array.tobytes() == hu.pow(X, 2.5).tobytes()


def test_out(driver):
    x, out = X.copy(), np.empty_like(X)
    target = WithInterface(out)
    assert hu.pow(WithInterface(x), 2.5, out=target) is target
    assert out.tobytes() == hu.pow(X, 2.5).tobytes()
    inplace = WithInterface(x)
    assert hu.pow(inplace, 2.5, out=inplace) is inplace
    assert x.tobytes() == out.tobytes()
    with pytest.raises(hu.SpecError, match=r"^out is "):
        hu.pow(WithInterface(X), 2.5, out=WithInterface(np.empty(3, np.float32)))
    with pytest.raises(hu.HalfulpError, match="overlaps an operand"):
        hu.pow(WithInterface(x[1:]), 2.5, out=WithInterface(x[:-1]))
    with pytest.raises(hu.SpecError, match="out must be writeable"):
        hu.pow(WithInterface(X), 2.5, out=ReadOnly(out))
    with pytest.raises(hu.HalfulpError, match="on a CUDA device, and out is not"):
        hu.pow(WithInterface(X), 2.5, out=out)
    with pytest.raises(hu.HalfulpError, match="no operand is"):
        hu.pow(X, 2.5, out=target)


def test_refusals():
    with pytest.raises(hu.HalfulpError, match="the other in the processor's memory"):
        hu.pow(WithDLPack(X), X)
    with pytest.raises(hu.HalfulpError, match=r"operands on several devices: \[0, 1\]"):
        hu.pow(WithDLPack(X), WithDLPack(X, device=1))
    with pytest.raises(hu.SpecError, match="broadcastable"):
        hu.pow(WithDLPack(X), WithDLPack(N[:7]))
    with pytest.raises(hu.SpecError, match=r"same type|broadcastable"):
        hu.prelu(WithDLPack(X), WithDLPack(N))
    with pytest.raises(hu.SpecError, match="does not fit the type int8"):
        hu.pow(300, WithDLPack(N.astype(np.int8)))

    class Keeps(WithDLPack):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it is wanted here")

    with pytest.raises(hu.HalfulpError, match="not an array: it is wanted here"):
        hu.pow(Keeps(X), 2)
    with pytest.raises(hu.HalfulpError, match="no element type complex64"):
        hu.pow(WithInterface(np.ones(3, np.complex64)), 2)
    with pytest.raises(hu.HalfulpError, match="another byte order"):
        hu.pow(WithInterface(np.ones(3, ">f4")), 2)
    with pytest.raises(hu.HalfulpError, match="memory \\(DLPack's type 2\\)"):
        hu.op("onnx.Pow-15")(WithDLPack(X), X)


def test_no_kernels(monkeypatch):
    monkeypatch.setattr(cuda, "KERNELS", None)
    with pytest.raises(hu.HalfulpError, match="has no kernels for CUDA"):
        hu.pow(WithDLPack(X), 2)


def test_no_memory(driver):
    driver.fail(0)
    with pytest.raises(hu.HalfulpError, match="memory for undecided powers: CUDA_ERROR_OUT_OF_MEMORY"):
        hu.pow(WithDLPack(X), 2.5)
    driver.fail(-1)


def test_devices():
    assert cuda.core().device_count() == 2
    assert cuda.undecided(1) == 0
    on_second = hu.pow(WithDLPack(X, device=1), 2.5)
    assert on_second.__dlpack_device__() == (2, 1)
    assert on_host(on_second).tobytes() == hu.pow(X, 2.5).tobytes()


def test_nothing_is_left_behind(driver):
    hu.pow(WithDLPack(X), 2.5)
    before = driver.library.fake_blocks()
    for _ in range(3):
        hu.pow(WithDLPack(X), 2.5)
    assert driver.library.fake_blocks() == before
