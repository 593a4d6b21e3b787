"""float32 to the power of float32: a scan of consecutive exponents by differences (scan.cpp), about 2^32 pairs per
second with AVX-512."""

from __future__ import annotations

import ctypes
import math
import time

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from hard_cases.case import Array, Case, measure
from hard_cases.compiled import load
from hard_cases.lattice import split

NEAR = 2.0**-27
ROOM = 1 << 10

# The range of the results' binary logarithm. Each band gets the same number of pairs.
BANDS = {"normal": (-126, 128), "near 1": (-2, 2), "subnormal": (-149, -126), "next to overflow": (127, 128)}


def search(seconds: float, rng: np.random.Generator) -> list[Case]:
    """Scan for a number of seconds, and return the cases within NEAR units of a midpoint."""
    cases: list[Case] = []
    pairs = dict.fromkeys(BANDS, 0)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        band = min(pairs, key=pairs.__getitem__)
        x = random_base(rng)
        y, step, count = exponents(x, rng.uniform(*BANDS[band]), band)
        steps = scan(x, y, step, count)
        if len(steps):
            found = (y + step * steps).astype(np.float32)
            cases += measure("float32", np.full(len(steps), x, np.float32), found, band)
        pairs[band] += count
    return cases


def random_base(rng: np.random.Generator) -> float:
    """Return a positive base other than 1: of any size, of moderate size, or next to 1."""
    while True:
        choice = rng.integers(3)
        if choice == 0:
            x = np.uint32(rng.integers(1, 0x7F800000)).view(np.float32)
        elif choice == 1:
            x = np.float32(np.exp2(rng.normal() * 4))
        else:
            x = np.float32(1 + rng.normal() * 2.0**-4)
        if x != 1:
            return float(x)


def exponents(x: float, log: float, band: str) -> tuple[float, float, int]:
    """Return the first, step and number of exponents in the binade of the y with x^y = 2^log whose results are in the
    band."""
    unit = abs(math.log2(x))
    near, far = sorted(edge * math.copysign(1, log) / unit for edge in BANDS[band])
    power_of_2 = 2.0 ** math.floor(math.log2(abs(log) / unit))
    first, last = max(near, power_of_2), min(far, 2 * power_of_2)
    y = float(np.float32(math.copysign(first, log * math.log2(x))))
    step = math.copysign(power_of_2 * 2.0**-23, y)
    return y, step, int((last - first) / abs(step))


def scan(x: float, y: float, step: float, count: int, near: float = NEAR) -> Array:
    """Return the i below count for which x^(y + i step) is within near units of a midpoint."""
    with gmpy2.context(precision=128):
        log = gmpy2.log(mpfr(x))
        (first, start), (second, ratio) = (gmpy2.frexp(gmpy2.exp(log * exponent)) for exponent in (y, step))
    found = (ctypes.c_int64 * ROOM)()
    length = load("scan.cpp").scan(
        (ctypes.c_uint64 * 4)(*split(start), *split(ratio)),
        (ctypes.c_int * 2)(first, second),
        ctypes.c_double(float(log) * step),
        ctypes.c_int64(count),
        ctypes.c_double(near),
        found,
        ctypes.c_int64(ROOM),
    )
    assert length <= ROOM
    return np.array(found[:length], np.int64)
