"""Powers of integers that the kernels do not compute: in float64 from exact integers, and without a loss."""

import decimal
import math
from collections.abc import Callable

import numpy as np

from halfulp._interop import Array
from halfulp.errors import HalfulpError
from halfulp.types import TYPES, type_name

_FLOAT64 = np.dtype(np.float64)
_MOST = 64  # beyond this exponent every power of an integer other than 0, 1 and -1 overflows 64 bits
_CHUNK = 1 << 16  # elements that are checked at a time


def as_float64(array: Array) -> Array:
    """Return a base as float64, to which integers are rounded; other types than numbers are returned unchanged."""
    row = TYPES.get(type_name(array.dtype))
    return array if row is None and array.dtype.kind != "b" else array.astype(_FLOAT64)


def corrections(x: Array, y: Array) -> tuple[Array, list[float]] | None:
    """Return the float64 powers that a base gets wrong if it is rounded to float64: their positions and values."""
    if x.dtype.kind not in "iu" or x.dtype.itemsize < 8:
        return None
    if not x.size or (x.min() >= -(2**53) and x.max() <= 2**53):
        return None
    # Both halves are exact in float64, and so is the difference of the rounded integer and the upper half.
    is_rounded = x.astype(_FLOAT64) - (x >> 32) * 2.0**32 != x & 0xFFFFFFFF
    if not is_rounded.any():
        return None
    y = y if y.dtype.kind in "iu" else y.astype(_FLOAT64)
    # With other exponents the power overflows or vanishes, whether the base was rounded or not.
    where = is_rounded & (y >= -_MOST) & (y <= _MOST)
    bases, exponents = (np.broadcast_to(a, where.shape)[where].tolist() for a in (x, y))
    return where, [_power(base, exponent) for base, exponent in zip(bases, exponents, strict=True)]


def _power(x: int, y: int | float) -> float:
    """Return the float64 nearest to an integer's power; |x| > 1, and y is finite."""
    numerator, denominator = y.as_integer_ratio()
    if x < 0 and denominator > 1:
        return math.nan
    while denominator > 1 and math.isqrt(x) ** 2 == x:
        x, denominator = math.isqrt(x), denominator // 2
    if denominator > 1:
        return _irrational_power(x, numerator / denominator)
    try:
        # Python rounds an integer, and a quotient of integers, once.
        return float(x**numerator) if numerator >= 0 else 1 / x**-numerator
    except OverflowError:
        return -math.inf if x < 0 and numerator % 2 else math.inf


def _irrational_power(x: int, y: float) -> float:
    """Return the float64 nearest to an irrational power: more digits are taken until both ends round to it."""
    digits = 40
    while True:
        with decimal.localcontext(decimal.Context(digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
            # |y log x| < 10^4, and each of the three operations errs by half a unit of its last digit.
            power = (decimal.Decimal(x).ln() * decimal.Decimal(y)).exp()
            error = power.scaleb(6 - digits)
            low, high = float(power - error), float(power + error)
        if low == high:
            return low
        digits *= 2


def check_powers(power: Callable[[Array, Array], Array], x: Array, y: Array) -> None:
    """Refuse powers of which an integer type loses something: the exponent is negative or no integer, or it overflows.

    The error names the first such element. Bases of other types pass. ``power`` returns powers of float64.
    """
    row = TYPES[type_name(x.dtype)]
    if row.kind == "float":
        return
    wide = np.dtype(np.int64 if row.kind == "int" else np.uint64)
    exact = np.dtype(y.dtype.newbyteorder("=") if y.dtype.kind in "iu" else np.float64)
    least, end = (
        (-(2.0 ** (row.bits - 1)), 2.0 ** (row.bits - 1)) if row.kind == "int" else (0, 2.0**row.bits)
    )
    walk = np.nditer(
        # NumPy's iterator converts no types of ml_dtypes, all of which are small.
        [x.astype(wide) if x.dtype.kind == "V" else x, y.astype(exact) if y.dtype.kind == "V" else y],
        ["external_loop", "buffered", "zerosize_ok"],
        order="C",
        casting="same_kind",
        op_dtypes=[wide, exact],
        buffersize=_CHUNK,
    )
    start = 0
    for base, exponent in walk:
        is_whole = (exponent >= 0) & (exponent < np.inf) & (exponent == np.floor(exponent))
        # Rounding to float64 moves no power from 2 on across these bounds: none is so near to 2^63 or 2^64.
        powers = power(base.astype(_FLOAT64), exponent)
        is_lost = ~is_whole | (exponent > 1) & ((powers < least) | (powers >= end))
        if is_lost.any():
            first = int(is_lost.argmax())
            place = list(map(int, np.unravel_index(start + first, walk.shape)))
            at = f" at index {place}" if place else ""
            overflow = f"{row.name} overflows{at}: {base[first]} to the power {exponent[first]}"
            not_whole = f"the exponent {exponent[first]}{at} is negative or not an integer"
            fault = overflow if is_whole[first] else not_whole
            raise HalfulpError(f"{fault}; hu.float_power(x, y) gives a float64")
        start += base.size
