"""Which runtimes load a file, and which of them are installed: an audit without targets judges those."""

from __future__ import annotations

from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from itertools import chain

LOADERS = {"onnx": ("onnxruntime", "openvino"), "openvino": ("openvino",), "directml": ()}
"""The measured runtimes that load a file of a format, as they are imported and as targets are called.

PyTorch and JAX load none of these files. The onnx package and its evaluator are here wherever halfulp is.
"""


def installed() -> dict[str, str | None]:
    """Return the runtimes of ``LOADERS`` that are installed, with their versions; None for one that is not known.

    None of them is loaded. A version is that of the distribution which has the package, such as onnxruntime-gpu.
    """
    found = [name for name in dict.fromkeys(chain(*LOADERS.values())) if _is_there(name)]
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
