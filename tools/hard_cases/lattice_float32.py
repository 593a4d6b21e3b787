"""float32 to the power of float32, results near 1: along y the power is so nearly linear that lattice.cpp is fast.

With |y log x| below 2^-6 it searches about 2^34 pairs per second. Elsewhere scan_float32 is faster.
"""

from __future__ import annotations

import time

import numpy as np

from hard_cases.case import Case, measure
from hard_cases.lattice import along_exponent, hits


def search(seconds: float, rng: np.random.Generator) -> list[Case]:
    """Search for a number of seconds."""
    cases: list[Case] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        x = np.float32(np.exp2(rng.normal() * 20))
        log = rng.choice([-1, 1]) * 2.0 ** rng.uniform(-20, -6)
        if x in (0, 1) or not np.isfinite(x):
            continue
        y = np.float32(log / np.log2(float(x)))
        significand = int(y.view(np.uint32)) & 0x7FFFFF
        step = float(np.spacing(y))
        steps = hits(along_exponent(float(x), float(y), step, 24, -149), longest=2**23 - significand)
        if len(steps):
            exponents = (int(y.view(np.uint32)) + steps).astype(np.uint32).view(np.float32)
            cases += measure("float32", np.full(len(steps), x), exponents, "next to 1")
    return cases
