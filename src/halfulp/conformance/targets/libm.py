"""Functions of C libraries, called for each element: pow and powf of the C library, or of any other one."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets import NotOfferedError
from halfulp.conformance.targets.arrays import Prepared, _Library

_C_TYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double}


class Library(_Library):
    """Calls a function ``double f(double, double)``, or of floats if its name ends in f: ``libfoo.so:powf``."""

    def __init__(self, threads: int, argument: str) -> None:
        """Load the functions of the argument; without one, pow and powf of the C library."""
        path, _, name = argument.rpartition(":")
        library = ctypes.CDLL(path or ctypes.util.find_library("m"))
        self._is_of_c = not path
        self._functions = {}
        for symbol in [name] if path else ["pow", "powf"]:
            kind = "float32" if symbol.endswith("f") else "float64"
            function = getattr(library, symbol)
            function.restype, function.argtypes = _C_TYPES[kind], [_C_TYPES[kind]] * 2
            self._functions[kind] = np.frompyfunc(function, 2, 1)

    def versions(self) -> dict[str, str]:
        """Return the C library's version."""
        name, version = platform.libc_ver()
        return {name: version} if self._is_of_c and name else {}

    def run(self, prepared: Prepared) -> list[Array]:
        kind = prepared.x.dtype.name
        if kind not in self._functions:
            raise NotOfferedError(f"no function of {kind}")
        return [np.asarray(self._functions[kind](prepared.x, prepared.y)).astype(prepared.x.dtype)]
