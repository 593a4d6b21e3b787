"""The greatest error of a phase, divided by its claim, found by a search that climbs.

probe.cpp, compiled for one instruction set, computes a phase's values before they are rounded; MPFR tells how far they
are from the exact powers. Errors are greatest in few places, which random operands hardly ever meet: where a reduced
argument is at its end, next to a table's boundaries, where |t| = |y log2 x| is great. So the search begins at such
places, and goes from each to neighbours, near and far, whose error is greater.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gmpy2
import numpy as np

# A binade is divided at these 128th parts by the kernels' tables, and at sqrt 2 by the fast phase's quotient; t at
# halves and at the middles of sixteenths. The tables of float64's fast phase divide it 2^-15 above odd 256th parts;
# with AVX-512 11/512 below the sixteenths.
EDGES = np.concatenate(
    [
        1 + np.arange(128) / 128,
        [2**0.5],
        1 + np.array([1, 3, 253, 255]) / 256 + 2.0**-15,
        1 + (np.arange(1, 17) * 32 - 11) / 512,
    ]
)
SIXTEENTHS = 16


@dataclass(frozen=True)
class Phase:
    """A phase of the kernels: its operands, the parts of its values, and the bits with which errors are computed."""

    name: str
    parts: int
    bits: int
    greatest_t: float = 1076.0
    base_bits: int = 53  # 24: bases are floats
    exponent_bits: int = 53
    bases: tuple[float, float] = (2.0**-1022, 2.0**1023)
    exponents: tuple[float, ...] = ()  # the only ones that it takes, where it has formulas of a few
    integers: bool = False  # exponents are 64-bit integers, in two parts


FORMULAS = (3.0, 4.0, -2.0, -0.5, 1.5)
PAIRS = (-2.0, -0.5, 1.5)  # of floats
PHASES = {
    phase.name: phase
    for phase in (
        Phase("fast", parts=2, bits=128, greatest_t=150, base_bits=24, bases=(2.0**-126, 2.0**127)),
        Phase("pairs of floats", 2, 128, 124, base_bits=24, exponent_bits=24, bases=(2.0**-126, 2.0**127)),
        Phase(
            "pairs of floats, rows", 2, 128, 124, base_bits=24, exponent_bits=24, bases=(2.0**-126, 2.0**127)
        ),
        Phase("shortcuts in doubles", 2, 128, base_bits=24, bases=(2.0**-126, 2.0**127), exponents=FORMULAS),
        Phase("shortcuts in floats", 2, 128, base_bits=24, bases=(2.0**-24, 2.0**24), exponents=PAIRS),
        Phase("fast, float64", parts=2, bits=160, greatest_t=995),
        Phase("fast, float64, integers", parts=2, bits=160, greatest_t=995, integers=True),
        Phase("fast, sixteenths", parts=2, bits=160, greatest_t=1018),
        Phase("fast, sixteenths, integers", parts=2, bits=160, greatest_t=1018, integers=True),
        Phase("double-double", parts=2, bits=160),
        Phase("double-double, integers", parts=2, bits=160, integers=True),
        Phase("triple-double", parts=3, bits=256),
        Phase("triple-double, integers", parts=3, bits=256, integers=True),
        Phase("exact, 192 bits", parts=8, bits=320),
        Phase("exact, 320 bits", parts=12, bits=512),
    )
}


@dataclass
class Operands:
    """Bases and exponents, y + y_low."""

    x: np.ndarray
    y: np.ndarray
    y_low: np.ndarray

    def where(self, taken: np.ndarray, other: Operands) -> Operands:
        """Those of this one where taken, else of the other."""
        return Operands(
            *(np.where(taken, a, b) for a, b in zip(self.columns(), other.columns(), strict=True))
        )

    def columns(self) -> tuple[np.ndarray, ...]:
        return self.x, self.y, self.y_low


@dataclass(frozen=True)
class Worst:
    """The greatest part of a claim that an error takes, and where."""

    ratio: float
    x: float
    y: float
    y_low: float

    def __str__(self) -> str:
        exponent = self.y.hex() if self.y_low == 0 else str(int(self.y) + int(self.y_low))
        return f"{self.ratio:.3f} at {self.x.hex()} ** {exponent}"


def ratios(probe: Sequence[str | Path], phase: Phase, operands: Operands) -> np.ndarray:
    """What part of its claim each value's error takes."""
    columns = np.stack(operands.columns(), axis=1)
    done = subprocess.run([*probe, phase.name], input=columns.tobytes(), stdout=subprocess.PIPE, check=True)
    values = np.frombuffer(done.stdout).reshape(len(columns), phase.parts + 2)
    found = np.empty(len(columns))
    with gmpy2.context(precision=phase.bits, emin=-(1 << 20), emax=1 << 20):
        for i, ((x, y, y_low), value) in enumerate(zip(columns.tolist(), values.tolist(), strict=True)):
            *parts, k, claim = value
            error = gmpy2.exp2((gmpy2.mpfr(y) + y_low) * gmpy2.log2(gmpy2.mpfr(x)) - k)
            for part in parts:
                error -= part
            found[i] = abs(error) / claim
    return found


def starts(phase: Phase, rng: np.random.Generator, each: int) -> Operands:
    """Operands where errors may be great: `each` next to every edge, above and below, at great and small t."""
    edges = np.concatenate([EDGES, EDGES / 2, EDGES * 2.0 ** rng.integers(-20, 20, len(EDGES)), [1.0] * 16])
    edges = np.repeat(edges, each)
    n = len(edges)
    x = edges * (1 + sign(n, rng) * 2.0 ** rng.uniform(-50, -8, n))
    great = phase.greatest_t * rng.uniform(0.85, 1, n)
    size = np.where(rng.random(n) < 0.6, great, 2.0 ** rng.uniform(-60, 9, n))
    end = (2 * rng.integers(0, SIXTEENTHS, n) + 1) / (2 * SIXTEENTHS)
    at_an_end = np.floor(size) + end * (1 + sign(n, rng) * 2.0 ** rng.uniform(-40, -3, n))
    t = np.where((rng.random(n) < 0.6) & (size > 1), at_an_end, size) * sign(n, rng)
    exponents = rng.choice(phase.exponents, n) if phase.exponents else t / np.log2(np.where(x == 1, 2, x))
    low = np.round(np.spacing(np.abs(exponents)) / 2 * rng.uniform(-1, 1, n))
    return taken_by(phase, Operands(x, exponents, low))


def sign(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1.0, 1.0], n)


def taken_by(phase: Phase, operands: Operands) -> Operands:
    """The operands as the phase takes them, and others, such as 1.5 ** 3, where it does not."""
    x, y, y_low = operands.columns()
    if phase.base_bits == 24:
        x = x.astype(np.float32).astype(np.float64)
    if phase.exponent_bits == 24:
        with np.errstate(over="ignore"):
            y = y.astype(np.float32).astype(np.float64)
    if phase.integers:
        y = np.round(y)
    y_low = np.clip(np.round(y_low), -np.spacing(np.abs(y)) / 2, np.spacing(np.abs(y)) / 2)
    y_low = y_low if phase.integers else np.zeros(len(y))
    with np.errstate(all="ignore"):
        taken = (x != 1) & (y != 0) & (x >= phase.bases[0]) & (x <= phase.bases[1]) & (np.abs(y) < 2.0**1000)
        t = np.abs(y * np.log2(np.where(taken, x, 1)))
        taken &= (t <= phase.greatest_t) & (t >= 2.0**-100)
        taken &= (np.abs(y) < 2.0**63) if phase.integers else True
    exponent = phase.exponents[0] if phase.exponents else 3.0
    ordinary = Operands(np.full(len(x), 1.5), np.full(len(x), exponent), np.zeros(len(x)))
    return Operands(x, y, y_low).where(taken, ordinary)


def climb(
    probe: Sequence[str | Path], phase: Phase, rounds: int, each: int, rng: np.random.Generator
) -> Worst:
    """The greatest ratio found in some rounds: half of the places climb for themselves, half follow the best."""
    best = starts(phase, rng, each)
    greatest = ratios(probe, phase, best)
    half = len(greatest) // 2
    for _ in range(rounds):
        leaders = np.resize(np.argsort(greatest)[-half // 8 :], half)
        for column in (*best.columns(), greatest):
            column[:half] = column[leaders]
        tried = moved(phase, best, rng)
        found = ratios(probe, phase, tried)
        better = found > greatest
        best, greatest = tried.where(better, best), np.where(better, found, greatest)
    i = int(np.argmax(greatest))
    return Worst(float(greatest[i]), *(float(column[i]) for column in best.columns()))


def moved(phase: Phase, operands: Operands, rng: np.random.Generator) -> Operands:
    """Neighbours: x, y or both farther by so many units of the last place, from one to a hundredth of the number."""

    def by_units(values: np.ndarray) -> np.ndarray:
        steps = sign(len(values), rng) * np.exp2(rng.uniform(0, 46, len(values)))
        return (values.view(np.int64) + steps.astype(np.int64)).view(np.float64)

    which = rng.integers(0, 1 if phase.exponents else 3, len(operands.x))
    x = np.where(which != 1, by_units(operands.x), operands.x)
    y = np.where(which != 0, by_units(operands.y), operands.y)
    y_low = operands.y_low + np.round(np.spacing(np.abs(y)) * rng.uniform(-0.5, 0.5, len(y)))
    return taken_by(phase, Operands(x, y, y_low))
