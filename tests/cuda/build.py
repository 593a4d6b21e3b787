"""A driver that runs the kernels on the processor, built once (fake_driver.cpp), and calls of it."""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cuda.ptx_to_cpp import translate
from tests.house.builds import CORE, FOLDER, ROOT, digest, outdated, program, run, tool

from halfulp.operators import instruction_set

HERE = Path(__file__).parent
CUDA = ROOT / "bindings" / "cuda"
NVRTC = ROOT / "build" / "nvrtc"
# As make builds the kernels, but quickly: -Og. The processor's fused operations are the device's.
FLAGS = [
    *("-std=c++20", "-Og", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-Wall", "-Wextra"),
    "-Werror",
    *("-Wno-unknown-pragmas", "-Wno-unused-variable", "-Wno-unused-label", "-Wno-unused-function"),
    "-Wno-unused-but-set-variable",
    *(f"-I{folder}" for folder in (HERE, CORE, CUDA)),
]
HAS_AVX2 = instruction_set() in ("avx2", "avx512")
FOR_AVX2 = ["-march=x86-64-v3"] if HAS_AVX2 else []
PTX, HOST = 0, 1  # the fake driver's devices


@cache
def ptx_file() -> Path:
    """Return the kernels' PTX, made now where it is not kept; skip the test where the compiler is not installed."""
    kept, make = FOLDER / "cuda" / "kernels.ptx", ROOT / "tools" / "make_ptx.py"
    with outdated(kept, digest(str(ROOT), CORE, CUDA, make)) as is_outdated:
        if is_outdated:
            compile_with_nvrtc(make, kept)
    return kept


def compile_with_nvrtc(*arguments: str | Path) -> str:
    """Run a Python program with the compiler at hand; skip the test where make has not installed it."""
    if not NVRTC.is_dir():
        pytest.skip("nvidia-cuda-nvrtc is not in build/nvrtc")
    return run(sys.executable, *arguments, PYTHONPATH=str(NVRTC))


def ptx() -> str:
    return ptx_file().read_text()


def _library() -> Path:
    """Return the driver, in a file of the name by which programs look for it."""
    text = ptx()
    library = FOLDER / "cuda" / "libcuda.so.1"
    with outdated(library, digest(str(ROOT), CORE, CUDA, HERE)) as is_outdated:
        if is_outdated:
            source = library.with_name("kernels_of_ptx.cpp")
            source.write_text(translate(text))
            parts = [source, HERE / "kernels_on_host.cpp", HERE / "fake_driver.cpp"]
            run(tool("g++"), *FLAGS, *FOR_AVX2, "-shared", "-Wl,-soname,libcuda.so.1", "-o", library, *parts)
    return library


def stand_in(name: str, headers: Path) -> ctypes.CDLL:
    """Compile what stands for a runtime, a file of this folder, with the runtime's headers, and load it."""
    source = HERE / f"{name}.cpp"
    command = [tool("g++"), *FLAGS, f"-isystem{headers}", "-shared", source]
    return ctypes.CDLL(str(program(name, command, source, headers)))


class Driver:
    """The fake driver, and halfulp's launches with it.

    ``log()`` returns what was called since the last time; ``fail(n)`` lets the n-th allocation from now on fail.
    """

    def __init__(self) -> None:
        # From now on it is what a search for the driver finds in this process.
        self.library = ctypes.CDLL(str(_library()))
        self.library.fake_log.restype = ctypes.c_char_p
        from halfulp import _cuda

        self.core = _cuda
        _cuda.set_kernels(ptx())

    def log(self) -> list[str]:
        return self.library.fake_log().decode().splitlines()

    def fail(self, n: int) -> None:
        self.library.fake_failure(ctypes.c_long(n))

    def operand(self, array: np.ndarray) -> Any:
        return self.core.Operand(array.ctypes.data, array.dtype.name, array.shape, array.strides)

    def number(self, value: Any, dtype: Any) -> Any:
        array = np.array(value, dtype)
        return self.core.Operand(array.dtype.name, int(array.view(f"u{array.itemsize}")))

    def apply(
        self, x: Any, y: Any, out: np.ndarray, *, prelu: bool = False, device: int = PTX, stream: int = 5
    ) -> None:
        x, y = (self.operand(a) if isinstance(a, np.ndarray) else a for a in (x, y))
        self.core.apply(prelu, x, y, self.operand(out), device, stream)
