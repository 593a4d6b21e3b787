"""Correctly rounded power and PReLU operators of ONNX, OpenVINO and DirectML.

Public is what ``__all__`` lists here, which is what ``dir(halfulp)`` shows, and what ``__all__`` lists in the modules
that docs/support.md names: ``halfulp.reference``, ``halfulp.backend``, those of ``halfulp.integrations`` and some more.
All else can change without notice.

Example:
    >>> import halfulp as hu
    >>> import numpy as np
    >>> hu.pow(np.array([1.5, 2, 3], np.float16), 2)
    array([2.25, 4.  , 9.  ], dtype=float16)
"""

import sys
from itertools import pairwise
from os.path import basename
from typing import TYPE_CHECKING, Any

try:
    from halfulp.errors import HalfulpError, HalfulpWarning, ModelError, SpecError, UnsupportedError
    from halfulp.operators import Operator, float_power, op, ops, pow, prelu
    from halfulp.specs import TensorType
except (KeyboardInterrupt, ImportError) as error:
    # The command line cannot catch these: they occur before its own first line. Python is `python -m` until then.
    program = basename("".join(sys.argv[:1])).removesuffix(".exe")
    if program == "-m":
        words = pairwise([*sys.orig_argv, ""])
        program = next((b if a == "-m" else a[2:] for a, b in words if a[:2] == "-m"), "")
    if program != "halfulp":
        raise
    if isinstance(error, KeyboardInterrupt):
        sys.exit(130)
    print(f"error: {error}", file=sys.stderr)  # such as a HALFULP_ISA that the processor does not have
    sys.exit(2)

if TYPE_CHECKING:
    from halfulp.auditing.api import audit
    from halfulp.auditing.report import AuditReport
    from halfulp.conformance.check import CheckReport, check
    from halfulp.conversion import Conversion, convert
    from halfulp.conversion.repair import Repair, repair
    from halfulp.installed import get_include, get_library
    from halfulp.integrations.numpy import power
    from halfulp.running import run

    __version__: str

__all__ = ["Operator", "TensorType", "float_power", "op", "ops", "pow", "power", "prelu"]
__all__ += ["audit", "check", "convert", "repair", "run"]
__all__ += ["AuditReport", "CheckReport", "Conversion", "Repair"]
__all__ += ["HalfulpError", "HalfulpWarning", "ModelError", "SpecError", "UnsupportedError"]
__all__ += ["__version__", "get_include", "get_library"]

# The verbs that read models need the onnx package, which is not imported before one of them is asked for.
_LAZY = {
    "AuditReport": "halfulp.auditing.report",
    "CheckReport": "halfulp.conformance.check",
    "Conversion": "halfulp.conversion",
    "Repair": "halfulp.conversion.repair",
    "audit": "halfulp.auditing.api",
    "check": "halfulp.conformance.check",
    "convert": "halfulp.conversion",
    "get_include": "halfulp.installed",
    "get_library": "halfulp.installed",
    "power": "halfulp.integrations.numpy",
    "repair": "halfulp.conversion.repair",
    "run": "halfulp.running",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        from halfulp.installed import missing

        try:
            value = getattr(import_module(_LAZY[name]), name)
        except ModuleNotFoundError as error:
            if (line := missing(error)) is None:
                raise
            raise ModuleNotFoundError(f"halfulp.{name}: {line}", name=error.name) from None
    elif name == "__version__":
        from importlib.metadata import version

        value = version("halfulp")
    else:
        from difflib import get_close_matches

        likely = {"leaky_relu": ["prelu"], "load": ["run"], "fix": ["repair"], "verify": ["check"]}.get(name)
        likely = likely or get_close_matches(name.strip("_").lower(), __all__, n=1)
        meant = f". Did you mean: {likely[0]!r}?" if likely and not name.startswith("__") else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{meant}")
    globals()[name] = value  # Python looks there first
    return value


def __dir__() -> list[str]:
    return __all__
