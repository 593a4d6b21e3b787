"""Powers whose distance from a midpoint is about the error bound of a phase of the kernels, so that it just decides
them or just does not. An error bound that is too small shows there first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import gmpy2  # type: ignore[import-untyped]
import numpy as np
from gmpy2 import mpfr

from halfulp.types import TYPES
from hard_cases.case import Array, Case, from_codes, measure

NUMERICS = Path(__file__).parents[2] / "core" / "numerics"
LEAST, MOST = 0.6, 1.2  # of the claim
# Powers of float64, and of float32 with exponents of float64, that a bound which was too small once decided wrongly.
WRONG_ONCE = {
    "float64": [
        ("0x1.0400637490edfp+0", "0x1.1bce000000000p+15"),
        ("0x1.04008a42d3531p+0", "0x1.5024000000000p+15"),
        ("0x1.1a4cc18c5f2b3p+1", "-0x1.c0e4811f80b5ap-6"),
        ("0x1.040000000024bp+0", "0x1.8f840b1007e3fp+14"),
    ],
    "float32": [("0x1.68e4acp-2", "0x1.54847ffc4871fp-6")],
}


@dataclass(frozen=True)
class Claim:
    """The relative error bound of a phase's value of 2^t."""

    fixed: float
    of_t: float

    def at(self, t: Array) -> Array:
        return self.fixed + self.of_t * np.abs(t)


def claims() -> dict[str, Claim]:
    """Read the error bounds from the kernels' headers."""
    number = r"(0x[0-9a-f.]+p-\d+)"
    text = (NUMERICS / "pow_dd.h").read_text() + (NUMERICS / "pow_fast.h").read_text()
    found = {"double-double": re.search(rf"double_double_error{{{number}, {number}}}", text)}
    found["fast"] = re.search(rf"fast_error_of_exp2 = {number}, fast_error_of_t = {number}", text)
    return {name: Claim(*map(float.fromhex, match.groups())) for name, match in found.items() if match}


def float64(rng: np.random.Generator, count: int) -> list[Case]:
    """Return cases for the double-double phase: bases next to the boundaries of table parts, and large |t|."""
    cases = constructed()
    for y_type in ("float64", "int64"):
        edges = 1 + rng.integers(0, 64, count) / 64
        side = rng.choice([-1, 1], count)
        x = edges * (1 + side * 2.0 ** rng.uniform(-30, -12, count))
        if y_type == "int64":  # so that many exponents are large
            x = 1 + side * 2.0 ** rng.uniform(-12, -4, count)
        y = rng.choice([-1, 1], count) * rng.uniform(700, 1020, count) / np.log2(x)
        cases += boundary(
            x, y.astype(y_type), claims()["double-double"], "boundary of the double-double phase"
        )
    return cases


def constructed() -> list[Case]:
    """Return cases with bases next to 1 whose powers are next to a midpoint by few terms of the binomial series."""
    ulps = np.array([-(2.0**-53), 2.0**-52, -3 * 2.0**-53, 3 * 2.0**-52])
    x, y = (axis.ravel() for axis in np.meshgrid(1 + ulps, [0.5, 1.5, 2.5, 3.5, -0.5, -1.5]))
    return measure("float64", x, y, "near 1, few terms")


def boundary(x: Array, y: Array, claim: Claim, kind: str) -> list[Case]:
    """Return the powers whose distance from a midpoint is about the bound, for a last place of 2^-52 to 2^-53."""
    found = {(case.x, case.y): case for case in measure("float64", x, y, kind)}
    codes = zip(x.view("u8").tolist(), y.view("u8").tolist(), strict=True)
    limits = claim.at(y * np.log2(x)) * 2.0**52
    return [
        found[code]
        for code, limit in zip(codes, limits.tolist(), strict=True)
        if code in found and LEAST / 2 * limit <= abs(found[code].distance) <= MOST * limit
    ]


def float32(rng: np.random.Generator, count: int) -> list[Case]:
    """Return cases for the fast and double-double phases: exponents of float64 for powers near random midpoints."""
    cases = []
    for name, claim in claims().items():
        one = 0x3F800000
        x = from_codes(one + rng.integers(-(40 << 23), 40 << 23, count, dtype=np.int64), "float32")
        x = np.where(x == 1, np.float32(1.5), x)
        t = rng.uniform(-120, 120, count)
        y = np.empty(count)
        far = claim.at(t) * rng.uniform(LEAST, MOST, count) * rng.choice([-1, 1], count)
        with gmpy2.context(precision=200):
            for i, (base, size, relative) in enumerate(
                zip(x.tolist(), t.tolist(), far.tolist(), strict=True)
            ):
                power = np.float32(2.0**size)
                midpoint = mpfr(float(power)) + mpfr(float(np.spacing(power))) / 2
                y[i] = float(gmpy2.log2(midpoint * (1 + mpfr(relative))) / gmpy2.log2(mpfr(base)))
        phase = "fast phase" if name == "fast" else f"double-double phase by {name}s"
        cases += measure("float32", x, y, f"boundary of the {phase}")
    return cases


SEARCHES = {"float64": (float64, 80_000), "float32": (float32, 60)}


def search(name: str, rng: np.random.Generator) -> list[Case]:
    """Return the cases of a type; none if the type has no phases of its own."""
    if name not in SEARCHES:
        return []
    find, count = SEARCHES[name]
    x, y = np.array([[float.fromhex(code) for code in pair] for pair in WRONG_ONCE[name]]).T
    return find(rng, count) + measure(name, x.astype(TYPES[name].dtype), y, "decided wrongly once")
