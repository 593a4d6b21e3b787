"""The searches for hard cases find what is there, and data/worst_cases keeps its word."""

import ctypes
import importlib
import math
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


def test_lattice_finds_all_that_brute_force_finds(search):
    library = search("compiled").load("lattice.cpp")
    rng = np.random.default_rng(1)
    length, near, slack = 20_000, 2.0**-8, 2.0**-10
    found = (ctypes.c_int64 * length)()
    for _ in range(20):
        # A slope anywhere, and curvatures of the sizes that powers have.
        c = [
            int(rng.integers(1 << 62)) << 66,
            int(rng.integers(1 << 62)) << 66,
            int(rng.integers(1 << 20)) << 76,
            1 << 50,
        ]
        step = int((slack / (c[2] / 2.0**128)) ** 0.5)
        words = [word for value in c for word in (value >> 64, value & (2**64 - 1))]
        count = library.lattice(
            (ctypes.c_uint64 * 8)(*words),
            ctypes.c_int64(length),
            ctypes.c_int64(step),
            ctypes.c_double(slack),
            ctypes.c_double(near),
            found,
            length,
        )
        values = [(c[0] + i * (c[1] + i * (c[2] + i * c[3]))) % 2**128 for i in range(length)]
        expected = [i for i, value in enumerate(values) if abs(value - 2**127) < near * 2**128]
        assert len(expected) > 50
        assert sorted(i for i in found[:count] if i < length) == expected


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


@pytest.mark.parametrize("x", [1e-30, 0.9999, 1.00001, 2.0, 3e38])
@pytest.mark.parametrize("band", ["normal", "near 1", "subnormal", "next to overflow"])
def test_scan_stays_in_one_binade_and_in_its_band(search, x, band):
    scan = search("scan_float32")
    low, high = scan.BANDS[band]
    for log in np.linspace(low, high, 12)[1:-1].tolist():
        y, step, count = scan.exponents(x, log, band)
        exponents = [y, y + step * (count - 1)]
        assert count > 1000
        assert [np.float32(e) for e in exponents] == exponents
        assert math.frexp(exponents[0])[1] == math.frexp(exponents[1])[1]
        assert np.spacing(np.float32(y)) == step
        logs = sorted(e * math.log2(x) for e in exponents)
        assert logs[0] > low - 1e-4
        assert logs[1] < high + 1e-4
        wanted = log / math.log2(x)
        assert min(exponents) - abs(step) <= wanted <= max(exponents) + abs(step)


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
