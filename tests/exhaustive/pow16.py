"""The independent computation of x^y for the 16-bit types: compiles pow16.cpp and feeds it from MPFR."""

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import gmpy2
import numpy as np
from gmpy2 import mpfr
from tests.house.builds import program, tool

from halfulp import reference
from halfulp.types import TYPES

SOURCE = Path(__file__).with_name("pow16.cpp")
# Contraction off: the error bound in the source counts roundings as they are written.
FLAGS = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC"]
UPPER_BITS = 40
ROOM = 1 << 16
TYPE_NAMES = ("float16", "bfloat16")


class Counts(ctypes.Structure):
    """What has been computed so far, and how near to a midpoint it came."""

    _fields_ = (
        ("computed", ctypes.c_int64),
        ("ties", ctypes.c_int64),
        ("undecided", ctypes.c_int64),
        ("nearest", ctypes.c_double),
    )

    @classmethod
    def zero(cls) -> "Counts":
        return cls(0, 0, 0, 0.5)


class Row(NamedTuple):
    """The results for one base: the bits for every exponent, and the exponents that came near a midpoint."""

    results: np.ndarray
    near: list[tuple[int, float]]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled source."""
    loaded = ctypes.CDLL(str(program("pow16", [tool("c++"), *FLAGS, SOURCE], SOURCE)))
    pointer = ctypes.c_void_p
    loaded.pow16.argtypes = [
        *(ctypes.c_int, ctypes.c_int, ctypes.c_double, ctypes.c_double, pointer, pointer),
        *(ctypes.c_double, ctypes.c_int, pointer, pointer, pointer),
    ]
    return loaded


@functools.cache
def powers() -> np.ndarray:
    """2^(j/64) for j in 0..63, each rounded once."""
    with gmpy2.context(precision=53):
        return np.array([float(gmpy2.exp2(mpfr(j) / 64)) for j in range(64)])


def split_log2(x: float) -> tuple[float, float]:
    """log2 |x| as a number of at most 40 bits and a double; zeros where it is not finite."""
    if x == 0 or not np.isfinite(x):
        return 0.0, 0.0
    with gmpy2.context(precision=160):
        log = gmpy2.log2(abs(mpfr(x)))
        upper = mpfr(log, UPPER_BITS)
        return float(upper), float(log - upper)


def row(name: str, base: int, counts: Counts, near: float = 0.0) -> Row:
    """The bits of x^y for the base of code `base` and all exponents, counted in `counts`.

    Exponents whose power lies within `near` units in the last place of a midpoint, and is none, are
    listed with that distance. Pairs that the compiled code hands back are decided by the exact oracle.
    """
    dtype = TYPES[name].dtype
    x = np.array([base], np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        upper, lower = split_log2(float(x[0]))
    results = np.empty(1 << 16, np.uint16)
    near_pairs, near_distances = np.empty(ROOM, np.uint16), np.empty(ROOM)
    listed = library().pow16(
        *(int(name == "bfloat16"), base, upper, lower, powers().ctypes.data, results.ctypes.data, near, ROOM),
        *(near_pairs.ctypes.data, near_distances.ctypes.data, ctypes.byref(counts)),
    )
    assert listed >= 0, "more near pairs than there is room for"
    undecided = near_pairs[:listed][near_distances[:listed] < 0]
    if len(undecided):
        results[undecided] = reference.pow(x, undecided.view(dtype)).view(np.uint16)
    return Row(
        results, list(zip(near_pairs[:listed].tolist(), near_distances[:listed].tolist(), strict=True))
    )
