"""Which packages are installed, without loading them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

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
    found = {package: version_of(package) or missing.get(package) for package in packages}
    return {package: version for package, version in found.items() if version}


def has_module(name: str) -> bool:
    """Return whether a top-level module can be imported."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # its entry in sys.modules is broken
        return False
