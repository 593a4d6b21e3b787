"""The custom operators on ONNX Runtime's CUDA provider: by the C ABI, with a runtime and a driver that are stand-ins.

(The CUDA provider itself needs a GPU.)
"""

import ctypes
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.cuda.build import ptx_file, stand_in
from tests.house.builds import ROOT

import halfulp as hu
from halfulp.integrations import onnxruntime as hort

X = np.random.default_rng(3).uniform(-3, 9, (2, 3, 20, 20)).astype(np.float32)
FLOAT, UINT8, FLOAT16 = 1, 2, 10
STREAM = 1234


@pytest.fixture(scope="module")
def runtime() -> ctypes.CDLL:
    loaded = stand_in("fake_onnxruntime", ROOT / "bindings" / "onnxruntime")
    loaded.run_on_cuda.restype = ctypes.c_char_p
    return loaded


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The library as it is installed, with the kernels beside it."""
    library = Path(shutil.copy(hort.library(), tmp_path))
    (tmp_path / "cuda").mkdir()
    shutil.copy(ptx_file(), tmp_path / "cuda" / "kernels.ptx")
    return library


def call(
    runtime: ctypes.CDLL, library: Path, name: str, rule: str, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    numbers = {"float32": FLOAT, "uint8": UINT8, "float16": FLOAT16}
    out = np.zeros(np.broadcast_shapes(x.shape, y.shape) if rule == "numpy" else x.shape, x.dtype)
    dims = (ctypes.c_int64 * 8)()

    def operand(array: np.ndarray) -> list[object]:
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        return [numbers[array.dtype.name], ctypes.c_void_p(array.ctypes.data), shape, array.ndim]

    told = runtime.run_on_cuda(
        *(str(library).encode(), name.encode(), rule.encode(), ctypes.c_void_p(STREAM), *operand(x)),
        *(*operand(y), ctypes.c_void_p(out.ctypes.data), dims),
    )
    if told:
        raise RuntimeError(told.decode())
    assert tuple(dims[: out.ndim]) == out.shape
    return out


def test_powers(driver, runtime, package):
    y = np.arange(20, dtype=np.uint8)
    assert call(runtime, package, "Pow_float32", "numpy", X, y).tobytes() == hu.pow(X, y).tobytes()
    log = driver.log()
    assert [line.split()[0] for line in log] == ["allocate", "pow_each_float32", "pow_rest", "free"]
    assert all(line.endswith(f"stream {STREAM}") for line in log)
    half = X.astype(np.float16)
    assert (
        call(runtime, package, "Pow_float16", "numpy", half, half).tobytes() == hu.pow(half, half).tobytes()
    )


def test_prelu(runtime, package, driver):
    slope = np.array([0.1, 0.2, 0.3], np.float32).reshape(3, 1, 1)
    assert (
        call(runtime, package, "PRelu_float32", "unidirectional", X, slope).tobytes()
        == hu.prelu(X, slope).tobytes()
    )
    assert driver.log()[0].startswith("prelu_one_float32 ")


def test_nothing_to_compute(runtime, package, driver):
    assert call(runtime, package, "Pow_float32", "numpy", X[:0], X[:1]).size == 0
    assert not driver.log()


def test_shapes_that_do_not_fit(runtime, package, driver):
    with pytest.raises(RuntimeError, match="clause_shape"):
        call(runtime, package, "PRelu_float32", "unidirectional", X[0, 0, 0], X)


def test_no_kernels(runtime, driver, tmp_path):
    library = shutil.copy(hort.library(), tmp_path)
    with pytest.raises(RuntimeError, match="has no kernels for CUDA"):
        call(runtime, Path(library), "Pow_float32", "numpy", X, X)
