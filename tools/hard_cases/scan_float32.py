"""float32 to the power of float32: a plain scan at some hundred million pairs a second (scan.cpp)."""

from __future__ import annotations

import ctypes
import time

import numpy as np

from hard_cases.case import Case, from_codes, measure
from hard_cases.compiled import load

BLOCKS = 64  # of 1024 exponents: how many are scanned for one base
NEAR = 2.0**-27
ROOM = 1 << 12

# Where the results lie: the range of their binary logarithm, and how often it is chosen.
BANDS = {"normal": (-126, 128), "near 1": (-2, 2), "subnormal": (-149, -126), "next to overflow": (127, 128)}


def search(seconds: float, rng: np.random.Generator) -> list[Case]:
    """Scan for so many seconds; the cases within NEAR units of a midpoint."""
    library = load("scan.cpp", "-fno-math-errno", "-fno-trapping-math")
    found = (ctypes.c_uint32 * ROOM)()
    cases: list[Case] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        band = str(rng.choice(list(BANDS)))
        x = random_base(rng)
        y = np.float32(rng.uniform(*BANDS[band]) / np.log2(float(x)))
        if not np.isfinite(y) or y == 0:
            continue
        x_code, y_code = int(x.view(np.uint32)), int(y.view(np.uint32))
        count = library.scan(
            ctypes.c_uint32(x_code), ctypes.c_uint32(y_code), BLOCKS, ctypes.c_double(NEAR), found, ROOM
        )
        if count:
            bases = from_codes([x_code] * count, "float32")
            cases += measure("float32", bases, from_codes(list(found[:count]), "float32"), band)
    return cases


def random_base(rng: np.random.Generator) -> np.float32:
    """A positive base other than 1: of any size, of moderate size, or next to 1."""
    while True:
        choice = rng.integers(3)
        if choice == 0:
            x = np.uint32(rng.integers(1, 0x7F800000)).view(np.float32)
        elif choice == 1:
            x = np.float32(np.exp2(rng.normal() * 4))
        else:
            x = np.uint32(0x3F800000 + int(rng.normal() * 1000)).view(np.float32)
        if x != 1:
            return np.float32(x)
