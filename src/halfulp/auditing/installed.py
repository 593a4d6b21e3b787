"""Which runtimes are installed: those that an audit without targets judges."""

from __future__ import annotations

from importlib.metadata import packages_distributions, version
from importlib.util import find_spec

from halfulp.measured import available

_PACKAGES = ("onnxruntime", "openvino", "torch", "jax")
"""As they are imported, and as targets are called. NumPy and onnx are not here: halfulp itself needs them."""


def installed() -> dict[str, str | None]:
    """Return the measured runtimes that are installed, with their versions; None for a version that is not known.

    None of them is loaded. A version is that of the distribution which has the package, such as onnxruntime-gpu.

    Example:
        >>> set(installed()) <= {"onnxruntime", "openvino", "torch", "jax"}
        True
    """
    measured = available()
    found = [name for name in _PACKAGES if name in measured and _is_there(name)]
    if not found:
        return {}
    distributions = packages_distributions()
    return {
        name: _public(version(distributions[name][0])) if name in distributions else None for name in found
    }


def _public(full: str) -> str:
    """Return a version without what a builder added, such as +cpu."""
    return full.partition("+")[0]


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
