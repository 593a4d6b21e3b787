"""Which packages are installed, without loading them, how many threads they take, and where libhalfulp is."""

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from halfulp.errors import UnsupportedError

RUNTIME_ALIASES = {"ort": "onnxruntime", "ov": "openvino", "trt": "tensorrt", "dml": "directml"}
RUNTIME_ALIASES |= {"pytorch": "torch", "np": "numpy", "tf": "tensorflow", "tflite": "litert"}
"""What people call runtimes beside their names."""

EXTRAS = {"onnx": "models", "typer": "models", "rich": "models", "jinja2": "check", "gmpy2": "check"}
"""The extra of halfulp that brings a package which ``import halfulp`` does without."""


def missing(error: ModuleNotFoundError) -> str | None:
    """Return a line that names the extra for the package that an import lacked; None if no extra has it."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    return extra and f"the package {package} is not installed: pip install 'halfulp[{extra}]'"


def version_of(package: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those distributions that are installed; halfulp's source tree has none."""
    missing = {"halfulp": "(source tree)"}
    installed = {package: version_of(package) or missing.get(package) for package in packages}
    return {package: version for package, version in installed.items() if version}


def has_module(name: str) -> bool:
    """Return whether a top-level module can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # its entry in sys.modules is broken
        return False


_THREADS = (
    "HALFULP_NUM_THREADS",
    "OMP_NUM_THREADS",  # torch
    "MKL_NUM_THREADS",  # torch
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",  # JAX: the size of the thread pool of its CPU client
)


def environment(threads: int) -> dict[str, str]:
    """Return environment variables that give libraries, when they are loaded, this number of threads."""
    # Threads that spin-wait would slow the next library.
    return dict.fromkeys(_THREADS, str(threads)) | {"OMP_WAIT_POLICY": "passive"}


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


_LIBS = "-L{0} -lhalfulp" + ("" if sys.platform == "win32" else " -Wl,-rpath,{0}")
# What `python -m halfulp` prints for these options.
ANSWERS: dict[str, Callable[[], str]] = {
    "--cflags": lambda: f"-I{get_include()}",
    "--libs": lambda: _LIBS.format(Path(get_library()).parent),
    "--cmakedir": lambda: str(_found("share/cmake/halfulp")),
    "--pkgconfigdir": lambda: str(_found("share/pkgconfig")),
}


def _found(*names: str) -> Path:
    # An editable installation has two folders: sources and compiled files.
    for folder, name in product(sys.modules["halfulp"].__path__, names):
        if (path := Path(folder, name)).exists():
            return path
    raise UnsupportedError(f"this installation of halfulp has no {names[0]}")
