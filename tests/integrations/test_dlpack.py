"""Arrays with DLPack: in, and the same kind out."""

from typing import Any

import numpy as np
import pytest

import halfulp as hu

X = np.random.default_rng(5).uniform(0.5, 9, 2000).astype(np.float32)


class TestJax:
    jnp = pytest.importorskip("jax.numpy")

    def test_the_same_kind_and_bits(self):
        x = self.jnp.asarray(X)
        for result in (hu.pow(x, 2.3), hu.pow(x, np.float64(2.3)), hu.pow(x, self.jnp.full(2000, 2.5))):
            assert isinstance(result, self.jnp.ndarray)
            assert result.dtype == np.float32
        assert np.asarray(hu.pow(x, 2.3)).tobytes() == hu.pow(X, 2.3).tobytes()
        assert np.asarray(hu.prelu(-x, 0.3)).tobytes() == hu.prelu(-X, 0.3).tobytes()

    def test_bfloat16(self):
        x = self.jnp.asarray(X[:50], dtype="bfloat16")
        result = hu.pow(x, 2.3)
        assert result.dtype == "bfloat16"
        assert np.asarray(result).tobytes() == hu.pow(np.asarray(x), 2.3).tobytes()

    def test_a_type_that_jax_would_narrow_stays_numpys(self):
        result = hu.pow(X.astype(np.float64), self.jnp.asarray(X))
        assert result.dtype == np.float64
        assert isinstance(result, np.ndarray)


class TestTorch:
    torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "int64", "uint16"])
    def test_the_same_kind_and_bits(self, dtype):
        x = np.arange(1, 50).astype(dtype)
        result = hu.pow(self.torch.from_numpy(x), 2)
        assert result.dtype == getattr(self.torch, dtype)
        assert result.numpy().tobytes() == hu.pow(x, 2).tobytes()

    def test_what_it_can_not_export_is_refused(self):
        with self.torch.no_grad():  # else test_kinds.py has the error
            assert hu.pow(self.torch.ones(3, requires_grad=True), 2).tolist() == [1, 1, 1]
        with pytest.raises(hu.HalfulpError, match=r"BFloat16; halfulp\.integrations\.torch takes more types"):
            hu.pow(self.torch.ones(3, dtype=self.torch.bfloat16), 2)


class OnADevice:
    """As arrays of Metal's devices are, which copy on request: nothing asks them to, behind a caller's back."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = array.dtype

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return NotImplemented

    def __dlpack__(self, *, dl_device: Any = None, copy: Any = None, **_: Any) -> Any:
        return self.array.copy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0


def test_memory_of_a_device_without_kernels_is_refused():
    with pytest.raises(
        hu.HalfulpError, match=r"in a device's memory \(DLPack's type 8\); copy it to the processor's"
    ):
        hu.pow(OnADevice(X), 2.3)


def test_memory_that_is_not_given_is_refused():
    class Keeps(OnADevice):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("no")

    with pytest.raises(hu.HalfulpError, match="not an array: no"):
        hu.pow(Keeps(X), 2)
