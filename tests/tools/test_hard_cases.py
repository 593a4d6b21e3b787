"""The searches for hard cases find what is there, and data/worst_cases keeps its word."""

import importlib
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

from halfulp.types import TYPES

TOOLS = Path(__file__).parents[2] / "tools"
FILES = sorted((TOOLS.parent / "data" / "worst_cases").glob("*.txt"))


@pytest.fixture
def search(monkeypatch):
    """Imports a module of tools/hard_cases."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return lambda name: importlib.import_module(f"hard_cases.{name}")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (1.37, 128.0),  # 2^58 to 2^65
        (0.9991, -1024.0),  # near 1
        (3e-20, 1.85),  # becomes subnormal
        (0.004, 16.0),  # subnormal
        (181.0, 16.0),  # 2^120, and beyond overflow
        (181.0, 64.0),  # 2^480 changes faster than any result in range: the cubics are all but exact
    ],
)
def test_scan_finds_all_that_mpfr_finds(search, x, y):
    x, y, step = float(np.float32(x)), float(np.float32(y)), float(np.spacing(np.float32(y)))
    count, near = (1 << 15) + 5, 2.0**-12
    expected = near_midpoints(x, y, step, count, near)
    assert len(expected) > 2
    scan = search("scan_float32").scan
    assert scan(x, y, step, count, near).tolist() == expected
    assert scan(x, y, step, expected[-1], near).tolist() == expected[:-1]


def near_midpoints(x, y, step, count, near):
    """The i below count for which x^(y + i step) lies near a midpoint of two float32 neighbours."""
    found = []
    with gmpy2.context(precision=200):
        power, ratio = mpfr(x) ** mpfr(y), mpfr(x) ** mpfr(step)
        for i in range(count):
            exponent, significand = gmpy2.frexp(power)
            scaled = gmpy2.mul_2exp(significand, min(24, exponent + 149))
            if abs(scaled - gmpy2.floor(scaled) - 0.5) < near:
                found.append(i)
            power *= ratio
    return found


def test_squares_are_as_near_as_squares_can_be(search):
    cases = search("squares_float64").search()
    for kind, least in (("square", 2.0**-53), ("square root", 2.0**-56)):
        distances = sorted(abs(c.distance) for c in cases if c.kind == kind)
        assert distances[0] == pytest.approx(least, rel=1e-6)
        assert distances[-1] < 2.0**-45


def test_there_is_a_file_for_every_type():
    assert [file.stem for file in FILES] == sorted(TYPES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_distances_are_as_written(file, search):
    case = search("case")
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert 50 < len(lines) < 5000
    for line in lines[:: max(1, len(lines) // 100)]:
        x, y_type, y = line.split("#")[0].split()
        written = float(line.split("#")[1].split()[0])
        operands = case.from_codes([int(x, 16)], file.stem), case.from_codes([int(y, 16)], y_type)
        (measured,) = case.measure(file.stem, *operands, "")
        assert measured.distance == pytest.approx(written, rel=1e-3)
        assert abs(measured.distance) < 0.02
