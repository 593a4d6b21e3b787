"""numexpr: ``x**y``."""

from typing import Any

import numexpr


def pow(x: Any, y: Any) -> Any:
    return numexpr.evaluate("x**y", local_dict={"x": x, "y": y}).astype(x.dtype)
