"""The environment variables that give every library the same threads and instruction set."""

from __future__ import annotations

import numpy as np

_THREADS = (
    "HALFULP_NUM_THREADS",
    "OMP_NUM_THREADS",  # torch
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",  # JAX: the size of the thread pool of its CPU client
)

# ONNX Runtime, OpenVINO and numexpr call the C library's pow, which follows the processor alone.
_ISA = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2", "NUMBA_CPU_NAME": "haswell"},
    "scalar": {
        "ATEN_CPU_CAPABILITY": "default",
        "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
        "NUMBA_CPU_NAME": "x86-64",
    },
}  # fmt: skip


def environment(threads: int, isa: str = "") -> dict[str, str]:
    """Return the variables for a process in which all libraries use as many threads, and the same
    instruction set as far as they let themselves be told; they are read when a library is loaded.

    Args:
        threads: how many.
        isa: ``"scalar"``, ``"avx2"``, ``"avx512"``, or nothing for the best.
    """
    variables = dict.fromkeys(_THREADS, str(threads))
    variables["OMP_WAIT_POLICY"] = "passive"  # or threads that wait for work slow the next library
    # A new result is not charged with the system's zeroing of its memory, as `out=` is not.
    variables |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}
    if isa:
        variables |= {"HALFULP_ISA": isa} | _ISA.get(isa, {})
    if isa in _ISA:
        wider = ("AVX512", "X86_V4") if isa == "avx2" else ("AVX", "X86_V3", "X86_V4", "FMA")
        dispatched = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(f for f in dispatched if f.startswith(wider))
    return variables
