"""torch's tensors and CuPy's arrays on a device: of the processor here, taken for one, behind the fake driver."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.cuda.conftest import STREAM
from tests.cuda.test_arrays import WithDLPack, WithInterface, on_host

import halfulp as hu
from halfulp.integrations.torch.operators import as_array, compute_on_cuda, exponent_tensor

X = np.random.default_rng(3).uniform(-3, 9, (4, 6, 10, 10)).astype(np.float32)


pytestmark = pytest.mark.usefixtures("torch_on_device")


def test_tensors(driver):
    x = torch.from_numpy(X)
    result = hu.pow(x, 2.5)
    assert isinstance(result, torch.Tensor)
    assert result.numpy().tobytes() == hu.pow(X, 2.5).tobytes()
    log = driver.log()
    assert [line.split()[0] for line in log] == [
        "pow_one_float32",
        "pow_rest",
    ]  # the memory between is torch's
    assert all(line.endswith(f"stream {STREAM}") for line in log)
    slopes = torch.rand(6, 1, 1)
    assert hu.prelu(x, slopes).numpy().tobytes() == hu.prelu(X, slopes.numpy()).tobytes()
    assert hu.pow(2, x).numpy().tobytes() == hu.pow(np.float32(2), X).tobytes()


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e5m2", "int8", "int64", "uint16"])
def test_types(name):
    x = torch.arange(0, 60).to(torch.float32).to(getattr(torch, name))
    raw = x.view(torch.uint8).numpy()
    expected = hu.pow(raw.view(hu.types.TYPES[name].dtype), 2)
    assert hu.pow(x, 2).view(torch.uint8).numpy().tobytes() == expected.tobytes()


def test_numbers_beside_tensors(driver):
    """As the operators get them: 0-d tensors in the processor's memory, of types that NumPy lacks, too."""
    x = torch.from_numpy(X)
    by_number = compute_on_cuda(hu.pow, x, exponent_tensor(2.5, torch.device("cuda")))
    assert by_number.numpy().tobytes() == hu.pow(X, 2.5).tobytes()
    short = x.to(torch.bfloat16)
    slope = torch.tensor(0.1, dtype=torch.bfloat16)
    expected = hu.prelu(as_array(short), as_array(slope))
    assert as_array(compute_on_cuda(hu.prelu, short, slope)).tobytes() == expected.tobytes()
    from_number = compute_on_cuda(hu.pow, torch.tensor(2.0), x)
    assert from_number.numpy().tobytes() == hu.pow(np.float32(2), X).tobytes()


def test_operands_of_several_libraries(driver, monkeypatch):
    """By their protocols, and the result is of the first one's kind."""
    monkeypatch.setattr(WithDLPack, "__module__", "torch._tensor")
    taken: list[Any] = []
    monkeypatch.setattr(torch, "from_dlpack", lambda array: taken.append(array) or "a tensor")
    assert hu.pow(WithDLPack(X), WithInterface(X[0, 0, 0])) == "a tensor"
    assert driver.log()[-1] == "synchronize stream 1"
    assert on_host(taken[0]).tobytes() == hu.pow(X, X[0, 0, 0]).tobytes()


def test_the_layout_of_a_tensor_is_kept():
    x = torch.from_numpy(X).to(memory_format=torch.channels_last)
    for result in (hu.pow(x, 2.5), hu.prelu(x, 0.1), hu.pow(x, torch.full((6, 1, 1), 2.5))):
        assert result.is_contiguous(memory_format=torch.channels_last)
    assert hu.pow(x, 2.5).contiguous().numpy().tobytes() == hu.pow(X, 2.5).tobytes()


def test_out(driver):
    x = torch.from_numpy(X.copy())
    assert hu.pow(x, 2.5, out=x) is x
    assert x.numpy().tobytes() == hu.pow(X, 2.5).tobytes()
    line = torch.from_numpy(X.ravel().copy())
    assert hu.pow(line[1:], 2.5, out=line[:-1]) is not None
    assert line[:-1].numpy().tobytes() == hu.pow(X.ravel()[1:], 2.5).tobytes()


def test_the_negative_bit_counts():
    x = torch.from_numpy(X)
    for negated in (torch._neg_view(x), torch.complex(x, x).conj().imag):
        assert hu.pow(negated, 3).numpy().tobytes() == hu.pow(-X, 3).tobytes()
        assert hu.prelu(negated, 0.5).numpy().tobytes() == hu.prelu(-X, 0.5).tobytes()
        assert hu.pow(x, negated).numpy().tobytes() == hu.pow(X, -X).tobytes()
        with pytest.raises(hu.SpecError, match="out must be writeable"):
            hu.pow(x, 3, out=negated)


def test_the_negative_bit_beside_another_library(driver, monkeypatch):
    """DLPack leaves it out."""

    def export(tensor: Any, **options: Any) -> Any:
        memory = torch._neg_view(tensor) if tensor.is_neg() else tensor
        return WithDLPack(memory.numpy()).__dlpack__(**options)

    monkeypatch.setattr(torch.Tensor, "__dlpack__", export)
    monkeypatch.setattr(torch, "from_dlpack", lambda array: array)
    negated = torch._neg_view(torch.from_numpy(X))
    exponents = np.full_like(X, 3)
    result = hu.pow(negated, WithInterface(exponents))
    assert on_host(result).tobytes() == hu.pow(-X, np.float32(3)).tobytes()
    with pytest.raises(hu.SpecError, match="out must be writeable"):
        hu.pow(WithInterface(X), 3, out=negated)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of nested tensors
def test_refusals():
    with pytest.raises(hu.HalfulpError, match=r"requires gradients: call halfulp\.integrations\.torch\.pow"):
        hu.pow(torch.ones(3, requires_grad=True), 2)
    with torch.no_grad():
        assert hu.pow(torch.ones(3, requires_grad=True), 2).tolist() == [1, 1, 1]
    with pytest.raises(
        hu.HalfulpError, match=r"^a complex tensor \(torch.complex64\); torch.pow has complex"
    ):
        hu.pow(torch.ones(3, dtype=torch.complex64), 2)
    with pytest.raises(hu.HalfulpError, match=r"layout torch\.sparse_coo: .*; pass x\.to_dense\(\)"):
        hu.pow(torch.ones(3).to_sparse(), 2)
    with pytest.raises(hu.HalfulpError, match="a nested tensor: it is not one array"):
        hu.pow(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), 2)
    with pytest.raises(hu.HalfulpError, match=r"^no element type torch.bool; pass x\.to\(torch\.int8\)$"):
        hu.pow(torch.ones(3, dtype=torch.bool), 2)


class FakeCuPy:
    """What is used of an array of CuPy's."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.data = SimpleNamespace(ptr=array.ctypes.data)
        self.device = Device(0)

    def __setitem__(self, key: Any, value: FakeCuPy) -> None:
        self.array[key] = value.array


class Device(nullcontext[None]):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.id = number


def test_cupy(driver, monkeypatch):
    cupy: Any = ModuleType("cupy")
    cupy.empty = lambda shape, dtype: FakeCuPy(np.empty(shape, dtype))
    cupy.empty_like = lambda like, dtype: FakeCuPy(np.empty_like(like.array, dtype=dtype))
    cupy.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=7))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(FakeCuPy, "__module__", "cupy._core.core")
    monkeypatch.setattr(FakeCuPy, "__dlpack_device__", lambda array: (2, 0), raising=False)
    result = hu.pow(FakeCuPy(X), 2.5)
    assert type(result) is FakeCuPy
    assert result.array.tobytes() == hu.pow(X, 2.5).tobytes()
    assert all(line.endswith("stream 7") for line in driver.log())
    line = X.ravel().copy()
    hu.pow(FakeCuPy(line[1:]), 2.5, out=FakeCuPy(line[:-1]))
    assert line[:-1].tobytes() == hu.pow(X.ravel()[1:], 2.5).tobytes()
