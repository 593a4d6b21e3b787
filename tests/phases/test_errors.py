"""No phase of a power is farther from the exact value than it claims, on any instruction set.

A result is taken where the interval that a phase claims rounds to one element. A claim that is too small by a third
spoils one of 10^9 random results, which no test of results sees; so these look at errors.
"""

import functools
import platform
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.house.builds import AVX512_MODEL, CORE, FLAGS, program, tool
from tests.phases.errors import PHASES, Operands, Worst, climb, ratios, taken_by

ENOUGH = 0.95  # of a claim: a search that found more might, had it climbed on, have found more than all

# The flags of each. AVX-512 is the model, so that every machine with AVX2 tests it.
SETS = {
    "scalar": ["-march=x86-64", "-DHALFULP_ISA=scalar"],
    "avx2": ["-march=x86-64-v3", "-DHALFULP_ISA=avx2"],
    "avx512": AVX512_MODEL,
    "neon": ["-static", "-DHALFULP_ISA=scalar"],
}


@functools.cache
def probe(instruction_set: str, core: Path = CORE) -> list[str]:
    """The command that runs the probe of an instruction set, compiled with the flags of CMakeLists.txt.

    The program is kept under build/tests as long as its sources are the same.
    """
    if instruction_set == "neon":
        compiler, emulator = tool("aarch64-linux-gnu-g++"), [tool("qemu-aarch64")]
    elif platform.machine() != "x86_64":
        pytest.skip("an instruction set of x86-64")
    else:
        compiler, emulator = tool("g++"), []
    options = [f"-I{core}", *FLAGS, "-O1", "-w"]  # that core before the other one
    source = Path(__file__).with_name("probe.cpp")
    command = [compiler, *options, *SETS[instruction_set], source]
    return [*emulator, str(program(f"probe-{instruction_set}", command, source, core))]


def quick_worst(instruction_set: str, phase: str, core: Path = CORE) -> Worst:
    """The greatest error that a short search finds."""
    return climb(probe(instruction_set, core), PHASES[phase], 6, 1, np.random.default_rng(1))


# What works on limbs is the same on all; pairs of floats are for AVX2 or AVX-512, the tables of sixteenths for AVX-512.
ONLY = {
    "exact, 192 bits": "scalar",
    "exact, 320 bits": "scalar",
    "pairs of floats": "avx512",
    "pairs of floats, rows": "avx2",
    "fast, sixteenths": "avx512",
    "fast, sixteenths, integers": "avx512",
}
WHERE = [(s, p) for p in PHASES for s in SETS if ONLY.get(p, s) == s]


# NEON's operations are those of AVX2, fused ones included: make exhaustive measures NEON's errors.
QUICK = [(s, p) for s, p in WHERE if s != "neon"]


@pytest.mark.parametrize(("instruction_set", "phase"), QUICK)
def test_errors_stay_below_the_claims(instruction_set, phase):
    found = quick_worst(instruction_set, phase)
    assert found.ratio <= ENOUGH, str(found)


@pytest.mark.parametrize("trap", range(4))
@pytest.mark.parametrize(
    ("name", "least", "ends"),
    [
        ("fast, float64", 994.9, 1 + (2 * np.arange(128) + 1) / 256 + 2.0**-15),
        ("fast, sixteenths", 1017.9, 1 + (32 * np.arange(16) + 21) / 512),
        ("pairs of floats", 123.9, 1 + np.arange(1, 33) / 32),
        ("pairs of floats, rows", 123.9, 1 + np.arange(1, 129) / 128),
    ],
)
def test_errors_stay_below_the_claims_at_traps(name, least, ends, trap):
    """Where other forms of the phases were wrong.

    These are powers next to the least normal number (a scaled entry of the table of powers loses its correction),
    growth (y times a low part that is not small), great exponents (an error that does not grow with y), and the ends of
    the tables' parts (an r for which f is greater than log x there).
    """
    rng, n = np.random.default_rng(trap), 4096
    phase, wide = PHASES[name], rng.uniform(least / 2, least, n)
    ends = np.resize(ends, n)
    x, y = (
        (2.0**wide, -least / wide),
        (1 + rng.uniform(0, 0.1, n), rng.integers(1, 500, n).astype(np.float64)),
        (rng.uniform(0.5, 2, n), rng.uniform(-64, 64, n)),
        (ends * (1 + rng.choice([-1.0, 1.0], n) * 2.0 ** rng.uniform(-50, -9, n)), rng.uniform(1, 4, n)),
    )[trap]
    found = ratios(probe("avx512"), phase, taken_by(phase, Operands(x, y, np.zeros(n))))
    assert found.max() <= ENOUGH


@pytest.mark.exhaustive
@pytest.mark.parametrize(("instruction_set", "phase"), WHERE)
def test_errors_stay_below_the_claims_after_a_long_climb(instruction_set, phase):
    found = climb(probe(instruction_set), PHASES[phase], 100, 12, np.random.default_rng(2))
    print(f"{phase}, {instruction_set}: {found}")
    assert found.ratio <= ENOUGH, str(found)


@pytest.mark.exhaustive
def test_the_search_finds_a_claim_that_is_too_small(tmp_path):
    """On AVX-512 the double-double phase once claimed as little of |t|, and decided some powers wrongly."""
    shutil.copytree(CORE, tmp_path / "core")
    header = tmp_path / "core" / "numerics" / "pow_dd.h"
    text = header.read_text()
    now, once = "double_double_error{0x1.3p-71, 0x1.ap-72}", "double_double_error{0x1.3p-71, 0x1.1p-72}"
    assert text.count(now) == 1
    header.write_text(text.replace(now, once))
    assert quick_worst("avx512", "double-double", tmp_path / "core").ratio > 1
