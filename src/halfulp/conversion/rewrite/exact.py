"""Which element types hold every value of which others, and which arrays fit into which."""

from __future__ import annotations

import numpy as np

from halfulp.models.graph import Array
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.types import TYPES

# How many bits a value of a type has at most: what has at least as many holds each of its values.
# fmt: off
SIGNIFICANT = {
    "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32,
    "float16": 11, "bfloat16": 8, "float32": 24, "float64": 53,
}
# fmt: on


def is_float(kind: str) -> bool:
    """Tell whether a type is a floating one."""
    return TYPES[kind].kind == "float"


def holds(kind: str, other: str) -> bool:
    """Tell whether a type holds every value of another one."""
    if kind == other:
        return True
    if kind not in SIGNIFICANT and is_float(kind):
        return False
    if is_float(kind):
        if SIGNIFICANT.get(other, 64) > SIGNIFICANT[kind]:
            return False
        # bfloat16 has the range of float32, and so more than float16.
        return other != "bfloat16" or kind in ("float32", "float64")
    if is_float(other):
        return False
    own, others = TYPES[kind], TYPES[other]
    if own.kind == "uint":
        return others.kind == "uint" and own.bits >= others.bits
    return own.bits > others.bits or (own.bits == others.bits and others.kind == "int")


def exactly_as(array: Array, kind: str) -> Array | None:
    """Return an array in another type, or None where that would change a value."""
    with np.errstate(all="ignore"):
        there = cast(array, dtype_named(kind))
        back = cast(there, array.dtype)
    same = (back == array) | ((array != array) & (there != there))
    if array.dtype.kind in "iu":
        # What lies beyond an integer type comes back as its largest value.
        same &= (np.abs(there.astype(np.float64)) < 2.0**63) & ((there < 0) == (array < 0))
    return there if bool(np.all(same)) else None
