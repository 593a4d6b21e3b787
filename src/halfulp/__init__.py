"""Correctly rounded power and PReLU operators of ONNX, OpenVINO and DirectML.

Example:
    >>> import halfulp as hu
    >>> import numpy as np
    >>> hu.pow(np.array([1.5, 2, 3], np.float16), 2)
    array([2.25, 4.  , 9.  ], dtype=float16)
"""

from typing import TYPE_CHECKING, Any

from halfulp.errors import HalfulpError, ModelError, SpecError, UnsupportedError
from halfulp.operators import Operator, op, ops, pow, prelu

if TYPE_CHECKING:
    from halfulp.auditing.api import audit
    from halfulp.conformance.check import check
    from halfulp.conversion import convert
    from halfulp.models.run.api import run

    __version__: str

__all__ = [
    "HalfulpError",
    "ModelError",
    "Operator",
    "SpecError",
    "UnsupportedError",
    "__version__",
    "audit",
    "check",
    "convert",
    "op",
    "ops",
    "pow",
    "prelu",
    "run",
]


def __getattr__(name: str) -> Any:
    # What reads models needs the onnx package, which is not imported before it is asked for.
    if name == "run":
        from halfulp.models.run.api import run

        return run
    if name == "convert":
        from halfulp.conversion import convert

        return convert
    if name == "check":
        from halfulp.conformance.check import check

        return check
    if name == "audit":
        from halfulp.auditing.api import audit

        return audit
    if name == "__version__":
        from importlib.metadata import version

        return version("halfulp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
