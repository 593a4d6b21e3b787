"""Where programs in C and other languages find the library libhalfulp and its header."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from halfulp.errors import UnsupportedError

_NAMES = {"win32": ("halfulp.dll", "libhalfulp.dll"), "darwin": ("libhalfulp.dylib",)}
_SOURCE = Path(__file__).parents[2] / "bindings" / "c"  # of an editable installation


def get_library() -> str:
    """Return the path of the shared library with all kernels: for C, ctypes, and ONNX Runtime in any language.

    Example:
        >>> import ctypes
        >>> power = ctypes.CDLL(get_library()).halfulp_powd
        >>> power.argtypes, power.restype = [ctypes.c_double] * 2, ctypes.c_double
        >>> power(1.5, 2)
        2.25
    """
    return str(_found(*_NAMES.get(sys.platform, ("libhalfulp.so",))))


def get_include() -> str:
    """Return the folder of the header ``halfulp.h``.

    Example:
        >>> from pathlib import Path
        >>> Path(get_include(), "halfulp.h").is_file()
        True
    """
    return str(_SOURCE if (_SOURCE / "halfulp.h").is_file() else _found("include/halfulp.h").parent)


def get_libm() -> str:
    """Return the path of the library that replaces pow and powf of the C library (docs/doors.md)."""
    if sys.platform == "linux":
        return str(_found("libhalfulp_m.so"))
    raise UnsupportedError("the C library's powers are replaced on Linux only; call hu.pow")


def _libs() -> str:
    folder = Path(get_library()).parent
    return f"-L{folder} -lhalfulp" + ("" if sys.platform == "win32" else f" -Wl,-rpath,{folder}")


# What `python -m halfulp` prints for these options.
ANSWERS: dict[str, Callable[[], str]] = {
    "--cflags": lambda: f"-I{get_include()}",
    "--libs": _libs,
    "--cmakedir": lambda: str(_found("share/cmake/halfulp")),
    "--pkgconfigdir": lambda: str(_found("share/pkgconfig")),
}


def _found(*names: str) -> Path:
    for folder in sys.modules[
        "halfulp"
    ].__path__:  # an editable installation has two: sources and compiled files
        for name in names:
            if (path := Path(folder, name)).exists():
                return path
    raise UnsupportedError(f"this installation of halfulp has no {names[0]}")
