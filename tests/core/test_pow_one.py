"""core/tools/pow_one.cpp: the phase that decides a power, and the bits that it gives."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.house.builds import CORE, FLAGS, program, run, tool

import halfulp as hu

SOURCE = CORE / "tools" / "pow_one.cpp"


@pytest.fixture(scope="module")
def pow_one() -> Path:
    return program("pow_one", [tool("g++"), *FLAGS, "-O0", "-Wall", "-Werror", SOURCE], CORE)


HARD = np.uint32(0x3F2FAAC2).view(np.float32), np.uint64(0xC038A3132D6586B8).view(np.float64)


@pytest.mark.parametrize(
    ("arguments", "x", "y", "phase"),
    [
        ("0x1.8p+0 2.7 float32", np.float32(1.5), np.float32(2.7), "the fast phase"),
        ("bits:3f2faac2 bits:0xc038a3132d6586b8 float32 float64", *HARD, "the triple-double phase"),
        # a tie
        ("3 34 float64", np.float64(3), np.float64(34), "the exact phase, as a power of at most 66 bits"),
    ],
)
def test_the_phase_and_the_bits(arguments, x, y, phase, pow_one):
    printed = run(pow_one, *arguments.split())
    bits = np.asarray(hu.pow(x, y)).byteswap().tobytes().hex()
    assert printed.splitlines()[-1].split(maxsplit=1) == ["result", f"{bits}, by {phase}"]
    ends = re.findall(r"round to (\w+) and (\w+): (\w+)", printed)
    first = next(i for i, (_, _, outcome) in enumerate(ends) if outcome == "decided")
    assert all(low != high for low, high, _ in ends[:first])
    assert all(end == (bits, bits, "decided") for end in ends[first:])


@pytest.mark.parametrize(
    "arguments", [("3", "34"), ("3", "34x", "float64"), ("", "1", "float32"), ("3", "3", "int8")]
)
def test_wrong_arguments_are_one_line(arguments, pow_one):
    done = subprocess.run([pow_one, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
