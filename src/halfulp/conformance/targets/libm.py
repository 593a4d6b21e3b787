"""pow and powf of the C library, called for each element."""

import ctypes
import ctypes.util
import platform
from typing import Any

import numpy as np

VERSIONS = {name: version for name, version in [platform.libc_ver()] if name}
LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))


def pow(x: Any, y: Any) -> Any:
    return call(LIBRARY, "powf" if x.dtype == np.float32 else "pow", x, y)


def call(library: ctypes.CDLL, name: str, x: Any, y: Any) -> Any:
    """Call ``double f(double, double)``, or a function of floats if its name ends in f."""
    kind = ctypes.c_float if name.endswith("f") else ctypes.c_double
    function = library[name]
    function.restype, function.argtypes = kind, [kind, kind]
    return np.asarray(np.frompyfunc(function, 2, 1)(x, y)).astype(x.dtype)
