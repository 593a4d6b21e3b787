"""Compile the C++ parts of the searches with the system's compiler ($CXX or c++)."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

FLAGS = ["-std=c++20", "-O3", "-march=native", "-Wall", "-Wextra", "-shared", "-fPIC"]


@functools.cache
def load(source: str, *flags: str) -> ctypes.CDLL:
    """Compile one source file of this folder and load it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "library.so"
        path = Path(__file__).with_name(source)
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, *FLAGS, *flags, str(path), "-o", str(target)], check=True)
        return ctypes.CDLL(str(target))
