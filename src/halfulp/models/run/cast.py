"""ONNX's Cast and CastLike. Every conversion rounds once.

NumPy's conversions between its own types round once. ``ml_dtypes`` converts float64 and integers to float32
first, and so rounds twice. Therefore this module converts to float32 by rounding to odd. The second rounding
then has no error, because every target has at least two bits less than float32.
"""

from typing import Any

import ml_dtypes
import numpy as np

from halfulp.models.graph import Array
from halfulp.types import to_odd

_SATURATING = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
_SMALL_FLOATS = _SATURATING | {"bfloat16", "float4_e2m1fn"}
_SMALL_INTS = {"int4", "uint4", "int2", "uint2"}


def can_cast(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether :func:`cast` converts these types: all except strings and the scale-only types."""
    small = _SMALL_FLOATS | _SMALL_INTS
    return all(dtype.kind in "biuf" or dtype.name in small for dtype in (source, target))


def cast(x: Array, target: np.dtype[Any], *, saturate: bool = True) -> Array:
    """Convert x to an element type.

    Floating targets round once, to nearest even. If the target cannot hold an integer, the integer loses
    its higher bits. A float first becomes a 64-bit integer: truncated, saturated, 0 for NaN. ONNX leaves the
    result undefined for a float that does not fit.

    ``saturate`` says of float8 targets whether a value that is too large becomes the largest number.
    """
    if x.dtype == target:
        return x
    if x.dtype.name in _SMALL_FLOATS:
        x = x.astype(np.float32)
    elif x.dtype.name in _SMALL_INTS:
        x = x.astype(np.int8)
    if target.kind in "iu" or target.name in _SMALL_INTS:
        return _truncate(x, target) if x.dtype.kind == "f" else x.astype(target)
    if target.name not in _SMALL_FLOATS:  # NumPy's own float or bool
        return x.astype(target)
    narrow = _to_odd_float32(x)
    if saturate and target.name in _SATURATING:
        info = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]
        narrow = np.clip(narrow, np.float32(info.min), np.float32(info.max))
    return narrow.astype(target)


def _truncate(x: Array, target: np.dtype[Any]) -> Array:
    real = x.astype(np.float64)
    wide = np.dtype(np.uint64 if target == np.uint64 else np.int64)
    info = np.iinfo(wide)
    low = real <= float(info.min)
    high = real >= float(info.max)  # as a float, info.max is the first value that is too large
    inside = np.where(low | high | np.isnan(real), 0.0, real).astype(wide)
    exact = np.where(low, wide.type(info.min), np.where(high, wide.type(info.max), inside))
    return exact.astype(target)


def _to_odd_float32(x: Array) -> Array:
    """Return x in float32. If the conversion of an element was inexact, its last bit is set."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        # Above 2^53, only whether any of the low bits is set matters.
        sticky = (x >> 11) | ((x & 0x7FF) != 0)
        small = (x <= 2**53) if x.dtype.kind == "u" else (x <= 2**53) & (x >= -(2**53))
        x = np.where(small, x.astype(np.float64), sticky.astype(np.float64) * 2048.0)
    wide = x.astype(np.float64)
    return np.asarray(to_odd(wide.astype(np.float32), wide))
