"""Powers in C libraries, by vectors.c: vectors in SVML, SLEEF, libmvec, libhalfulp_m; numbers in CORE-MATH, libm."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Any

from halfulp.errors import UnsupportedError
from halfulp.installed import get_libm, get_library
from halfulp.operators import instruction_set
from side_by_side.peers import PREPARE, Case, Prepared

_SOURCE = Path(__file__).with_suffix(".c")
BUILD = Path(__file__).parents[2] / "build" / "benchmarks"

# In the environment: a library of SLEEF elsewhere than the system's, and a folder with the sources of CORE-MATH.
SLEEF, CORE_MATH = "HALFULP_SLEEF", "HALFULP_CORE_MATH"

# The names of the powers of float64 and float32. {d}, {f}: lanes. {svml}: SVML's variant for the instruction set, since
# its own choice is another one on AMD's processors. {abi}: the letter of the vector function ABI.
_NAMES = {
    "SVML la": ("__svml_pow{d}_{svml}", "__svml_powf{f}_{svml}"),
    "SVML ha": ("__svml_pow{d}_ha_{svml}", "__svml_powf{f}_ha_{svml}"),
    "SVML br": ("__svml_pow{d}_br_{svml}", "__svml_powf{f}_br_{svml}"),
    "SLEEF": ("Sleef_powd{d}_u10", "Sleef_powf{f}_u10"),
    "libmvec": ("_ZGV{abi}N{d}vv_pow", "_ZGV{abi}N{f}vv_powf"),
    "libhalfulp_m": ("_ZGV{abi}N{d}vv_pow", "_ZGV{abi}N{f}vv_powf"),
    "CORE-MATH": ("cr_pow", "cr_powf"),
    "libm": ("pow", "powf"),
    "halfulp": ("halfulp_powd", "halfulp_powf"),
}
_OF_NUMBERS = ("CORE-MATH", "libm", "halfulp")
_LANES = {
    "avx512": {"d": 8, "f": 16, "svml": "z0", "abi": "e"},
    "avx2": {"d": 4, "f": 8, "svml": "l9", "abi": "d"},
}
VECTORS = tuple(_NAMES)[:-1]


def absent() -> dict[str, str]:
    """Return why a library is not measured, by its name."""
    reasons = {}
    for name in VECTORS:
        try:
            _address(name, "float64")
        except (OSError, AttributeError, LookupError, UnsupportedError) as error:
            reasons[name] = str(error).splitlines()[0]
    return reasons


def available() -> list[str]:
    return [name for name in VECTORS if name not in absent()]


def prepare_by(name: str) -> Callable[[Case, int], Prepared]:
    def prepare(case: Case, threads: int) -> Prepared:
        x, y, out = case.x, case.y, case.output
        if case.operator != "pow" or x.dtype != y.dtype or x.dtype.name not in ("float64", "float32"):
            raise NotImplementedError("powers of float32 and float64 only")
        if threads > 1 or x.shape != y.shape or not (x.flags.c_contiguous and y.flags.c_contiguous):
            raise NotImplementedError("contiguous arrays on one thread only")
        if case.loop and name not in _OF_NUMBERS:
            raise NotImplementedError("powers of vectors only")
        kind = case.loop or ("numbers" if name in _OF_NUMBERS else "vectors")
        loop = getattr(ctypes.CDLL(str(_loops(instruction_set()))), f"{x.dtype.name}_{kind}")
        arguments = [_address(name, x.dtype.name), *(ctypes.c_void_p(a.ctypes.data) for a in (x, y, out))]
        size = ctypes.c_long(x.size)

        def call() -> object:
            loop(*arguments, size)
            return x, y, out  # keeps the memory alive

        return Prepared(call, lambda result: result[2])

    return prepare


PREPARE.update({name: prepare_by(name) for name in VECTORS})


def _address(name: str, type_name: str) -> ctypes.c_void_p:
    isa = instruction_set()
    if isa not in _LANES and name not in _OF_NUMBERS:
        raise LookupError(f"for AVX2 and AVX-512 only, and this is {isa}")
    symbol = _NAMES[name][type_name == "float32"].format(**_LANES.get(isa, {}))
    return ctypes.cast(getattr(_library(name), symbol), ctypes.c_void_p)


@cache
def _library(name: str) -> Any:
    if name == "CORE-MATH":
        return ctypes.CDLL(str(_core_math()))
    if name in ("halfulp", "libhalfulp_m"):
        return ctypes.CDLL(get_library() if name == "halfulp" else get_libm())
    if name in ("libm", "libmvec"):
        return ctypes.CDLL("libm.so.6" if name == "libm" else "libmvec.so.1")
    if name == "SLEEF":
        path = os.environ.get(SLEEF) or find_library("sleef")
        if path is None:
            raise LookupError(f"not installed (apt install libsleef3, or a path in {SLEEF})")
        return ctypes.CDLL(path)
    folder = Path(sys.prefix, "lib")
    if not (folder / "libsvml.so").exists():
        raise LookupError("not installed (pip install intel-cmplr-lib-rt)")
    ctypes.CDLL(str(folder / "libintlc.so.5"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / "libsvml.so"))


def _core_math() -> Path:
    folder = os.environ.get(CORE_MATH)
    if not folder:
        raise LookupError("its sources are not given (--core-math FOLDER)")
    sources = [Path(folder, "src", *parts) for parts in (("binary32/pow/powf.c",), ("binary64/pow/pow.c",))]
    return _compiled("core_math.so", *map(str, sources), "-O3", "-march=native", "-ffp-contract=off", "-lm")


@cache
def _loops(isa: str) -> Path:
    march = {"avx512": "x86-64-v4", "avx2": "x86-64-v3"}.get(isa, "native")
    return _compiled(f"vectors-{isa}.so", str(_SOURCE), "-O3", f"-march={march}", "-mprefer-vector-width=512")


def _compiled(name: str, *arguments: str) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise LookupError("a C compiler is not installed")
    BUILD.mkdir(parents=True, exist_ok=True)
    made = BUILD / f"{os.getpid()}-{name}"  # others may compile it too, or load what is there
    command = [compiler, "-shared", "-fPIC", *arguments, "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LookupError(f"not compiled: {done.stderr.splitlines()[0]}")
    return made.replace(BUILD / name)
