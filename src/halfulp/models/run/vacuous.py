"""Outputs that say nothing about the computation: equal ones show nothing, and different runs agree on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from halfulp.errors import printable


def vacuous(outputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs that say nothing, by name, each with the reason."""
    reasons = {name: _reason(value) for name, value in outputs.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def sentence(name: str, reason: str) -> str:
    """Return what is said of such an output."""
    return f"output {printable(name)!r} is {reason}: it verifies nothing"


def is_usable(reason: str) -> bool:
    """Return whether an output has elements, and numbers among them."""
    return reason.startswith("all equal")


def finite(value: Any) -> Any:
    """Return where an array's elements are finite: everywhere in text and integers."""
    if value.dtype.kind in "fc":
        return np.isfinite(value)
    if "float" in value.dtype.name:  # the small types of ml_dtypes
        return np.isfinite(value.astype(np.float64))
    return np.ones(value.shape, bool)


def _reason(value: Any) -> str:
    if isinstance(value, list):
        reasons = [_reason(item) for item in value] or ["empty"]
        return reasons[0] if all(reasons) else ""
    if not isinstance(value, np.ndarray):
        return ""
    if not value.size:
        return "empty"
    if not finite(value).any():
        nan = value != value
        return "all NaN" if nan.all() else "all NaN or infinite" if nan.any() else "all infinite"
    first = value.reshape(-1)[0]
    return f"all equal ({printable(str(first))})" if value.size > 1 and bool((value == first).all()) else ""
