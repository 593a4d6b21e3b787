"""The memory-bandwidth yardstick: it only moves the bytes that a case must read and write."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from halfulp._interop import Array
from side_by_side.peers import Case

ORDINARY, STREAMING = "memory, ordinary stores", "memory, streaming stores"
_SOURCE = Path(__file__).with_name("memory.cpp")
_FEW = 1 << 12  # bytes; a smaller second operand stays in the nearest cache


def compiled(folder: Path) -> Path | None:
    """Return the yardstick's path, compiled if older than its source; None without a compiler."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        return None
    target = folder / "memory.so"
    if not target.exists() or target.stat().st_mtime < _SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-std=c++20", "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
        made = folder / f"memory-{os.getpid()}.so"  # others may compile it too, or load what is there
        subprocess.run([compiler, *options, str(_SOURCE), "-o", str(made)], check=True)
        made.replace(target)
    return target


def calls(library: Path, case: Case, threads: int) -> dict[str, Callable[[], object]]:
    """Return a call for each kind of stores, by name. The faster one is the yardstick."""
    move = ctypes.CDLL(str(library)).move_bytes
    x, y, out = _contiguous(case.x), _contiguous(case.y), case.output
    y_bytes = y.itemsize if y.nbytes > _FEW else 0
    to_line = -out.ctypes.data % 64
    size = (out.nbytes - to_line) // x.itemsize // 64 * 64  # all but a few elements

    def prepared(streaming: bool) -> Callable[[], object]:
        # Created beforehand, because creating them takes nearly as long as a call.
        arguments = (
            ctypes.c_void_p(x.ctypes.data), x.itemsize, ctypes.c_void_p(y.ctypes.data), y_bytes,
            ctypes.c_void_p(out.ctypes.data + to_line), ctypes.c_ssize_t(size), int(streaming), threads,
        )  # fmt: skip

        refused: int = move(*arguments)
        assert not refused

        def call() -> object:
            move(*arguments)
            return x, y, out  # keeps the memory alive

        return call

    return {ORDINARY: prepared(False), STREAMING: prepared(True)}


def _contiguous(array: Array) -> Array:
    return array if array.flags.c_contiguous else array.copy()
