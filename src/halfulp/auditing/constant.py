"""The exponents and slopes that a node always has: their values, and how tables show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.models.graph import Array


def values(constant: Array | None) -> Array | None:
    """Return the distinct values of a constant, sorted: as integers, or as float64, which holds all others.

    Texts and complex numbers are not ours: None, as for what is no constant.
    """
    if constant is None or constant.dtype.kind in "OUSTc":
        return None
    if constant.dtype.kind not in "iu":
        with np.errstate(invalid="ignore"):  # a signalling NaN is as good as another
            constant = constant.astype(np.int64 if "int" in constant.dtype.name else np.float64)
    return constant.reshape(1) if constant.size == 1 else np.asarray(np.unique(constant))


def describe_constant(constant: Array, found: Array | None) -> str:
    """Return the values of a constant as tables show them.

    Args:
        constant: the array.
        found: its distinct values, as ``values`` has them.
    """
    if found is None:
        return "?"
    texts = [number(constant.dtype.type(value)) for value in (*found[:4], *found[-1:])]
    if found.size > 4:
        return f"{found.size} values from {texts[0]} to {texts[-1]}"
    return ", ".join(texts[:-1]) or "no values"


def number(value: Any) -> str:
    """Return a number with as many digits as tell it from its neighbours."""
    return str(value).removesuffix(".0")


def integral(found: Array) -> Array:
    """Tell of each value whether it is an integer."""
    if found.dtype.kind in "iu":
        return np.ones(found.shape, bool)
    return np.asarray(np.isfinite(found) & (np.floor(found) == found))


def holds(constant: Array, text: str) -> bool:
    """Tell whether a number, as an example spells it, is among the values of a constant."""
    integers = "int" in constant.dtype.name
    if constant.dtype.kind in "OUSTc" or (integers and not text.lstrip("-").isdigit()):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        number = np.array(int(text) if integers else float(text)).astype(constant.dtype)
        return bool(((constant == number) | ((constant != constant) & (number != number))).any())


def holds_only(found: Array | None, *allowed: int) -> bool:
    """Tell whether a constant holds nothing but these values."""
    return (
        found is not None and found.size <= len(allowed) and all(value in allowed for value in found.tolist())
    )
