"""float64 to the power of float64: lattice.cpp searches along one operand, where the power is nearly linear.

The idea is Lefevre's. If one operand is fixed and the other one runs through consecutive floats, numbered i, then x^y
in units of the result's last place is c0 + c1 i + c2 i^2 + c3 i^3, with an error far below the distances of interest.
The same holds along x for the y that solves x^y = threshold, in units of y's last place. The coefficients are computed
by MPFR. The search covers about 2^35 pairs per second; computing each pair would cover 2^25.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from hard_cases.case import Array, Case, measure
from hard_cases.lattice import PRECISION, along_exponent, hits, in_last_places

DIGITS, QUANTUM = 53, -1074

# Small integers, halves and quarters are nearest to exact cases. The others represent the rest.
EXPONENTS = [*range(2, 35), *(n / 2 for n in range(1, 35, 2)), *(n / 4 for n in range(1, 20, 2))]
EXPONENTS += [-1, -2, -3, -5, -0.5, -1.5, 1 / 3, 2 / 3, -1 / 3, 1.1, 2.2, math.pi, 10.5, 17.3]
# The range of the results' binary logarithm.
BANDS = {
    "normal": (-1000, 1000),
    "near 1": (-2, 2),
    "subnormal": (-1070, -1022),
    "next to overflow": (1022.9, 1023.9),
}
# significand and exponent
THRESHOLDS = {"overflow": (2**54 - 1, 970), "least normal": (2**53 - 1, -1075)}


class Line(NamedTuple):
    """The first operands, which of them varies, the cubic's coefficients, and the kind of case."""

    x: float
    y: float
    along: str
    coefficients: list[mpfr]
    kind: str


def search(seconds: float, rng: np.random.Generator) -> list[Case]:
    """Search for a number of seconds."""
    cases: list[Case] = []
    deadline = time.monotonic() + seconds
    for line in lines(rng):
        if time.monotonic() > deadline:
            break
        x, y = moved(line, hits(line.coefficients))
        cases += measure("float64", x, y, line.kind)
    return cases


def moved(line: Line, steps: Array) -> tuple[Array, Array]:
    """Return the pairs at these steps along a line."""
    x, y = np.full(len(steps), line.x), np.full(len(steps), line.y)
    if line.along == "y":
        y.view(np.int64)[:] += steps
        return x, y
    x.view(np.int64)[:] += steps
    if line.along == "threshold":
        with gmpy2.context(precision=PRECISION):
            # The logarithm of the threshold, in units of y's last place.
            log = (line.coefficients[0] - mpfr("0.5")) * gmpy2.log2(mpfr(line.x))
            solutions = [float(log / gmpy2.log2(mpfr(base))) for base in x.tolist()]
            y = np.array(solutions) * math.ulp(line.y)
    return x, y


def lines(rng: np.random.Generator) -> Iterator[Line]:
    """Yield lines of every kind, endlessly."""
    while True:
        band = str(rng.choice(list(BANDS)))
        log = rng.uniform(*BANDS[band])
        y = float(rng.choice(EXPONENTS))
        if -1020 < log / y < 1020:
            yield along_x(2.0 ** math.floor(log / y) * rng.uniform(1, 1.99), y, band)
        base = random_base(rng)
        yield along_y(base, leading(log / math.log2(base)), band)
        for kind in THRESHOLDS:
            yield along_threshold(leading(random_base(rng)), kind)


def random_base(rng: np.random.Generator) -> float:
    """Yield bases from very near 1 to far away."""
    while True:
        near = 1 + rng.choice([-1, 1]) * 2.0 ** rng.uniform(-52, -1)
        base = float(near if rng.random() < 0.5 else np.exp2(rng.normal() * 9))
        if base != 1:
            return base


def leading(value: float) -> float:
    """Return a float with the same leading digits that is at least LONGEST steps below the next power of two."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.copysign(min(abs(mantissa), 1 - 2.0**-20), mantissa), exponent)


def along_x(x: float, y: float, band: str) -> Line:
    """Return the cubic of (x + i ulp)^y, in units of the result's last place, by the binomial series."""
    with gmpy2.context(precision=PRECISION):
        coefficients = [in_last_places(x, y, DIGITS, QUANTUM)]
        for k in range(3):
            coefficients.append(coefficients[-1] * (mpfr(y) - k) / (k + 1) * relative_step(x))
    return Line(x, y, "x", coefficients, f"{band}, along x at y = {y:.6g}")


def along_y(x: float, y: float, band: str) -> Line:
    """Return the cubic of x^(y + i ulp), in units of the result's last place."""
    step = math.copysign(math.ulp(y), y)
    return Line(x, y, "y", along_exponent(x, y, step, DIGITS, QUANTUM), f"{band}, along y")


def along_threshold(x: float, kind: str) -> Line:
    """Return the cubic of log(threshold) / log(x + i ulp), in units of its own last place.

    The search is for integers, so 1/2 is added.
    """
    significand, exponent = THRESHOLDS[kind]
    with gmpy2.context(precision=PRECISION):
        log = gmpy2.log(mpfr(x))
        solution = (gmpy2.log(mpfr(significand)) + exponent * gmpy2.log(mpfr(2))) / log
        y = float(solution)
        quotient, r = solution / mpfr(math.ulp(y)), relative_step(x)
        coefficients = [
            quotient + mpfr("0.5"),
            -quotient * r / log,
            quotient * r**2 * (1 / (2 * log) + 1 / log**2),
            -quotient * r**3 * (1 / (3 * log) + 1 / log**2 + 1 / log**3),
        ]
    return Line(x, y, "threshold", coefficients, f"threshold: {kind}")


def relative_step(x: float) -> mpfr:
    """ulp(x) / x."""
    return mpfr(math.ulp(x)) / mpfr(x)
