"""The searches for hard cases find what is there, and data/worst_cases keeps its word."""

import ctypes
import importlib
from pathlib import Path

import numpy as np
import pytest

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


def test_scan_finds_all_that_mpfr_finds(search):
    case = search("case")
    library = search("compiled").load("scan.cpp", "-fno-math-errno", "-fno-trapping-math")
    found = (ctypes.c_uint32 * 64)()
    near, blocks = 2.0**-24, 1 << 13
    hits = []
    x = int(np.float32(1.37).view(np.uint32))
    for first in (1.0, -20.0, -310.0):  # results that are normal, small, subnormal
        start = int(np.float32(first).view(np.uint32))
        count = library.scan(
            ctypes.c_uint32(x), ctypes.c_uint32(start), blocks, ctypes.c_double(near), found, len(found)
        )
        codes = list(found[:count])
        cases = case.measure(
            "float32", case.from_codes([x] * count, "float32"), case.from_codes(codes, "float32"), ""
        )
        assert all(abs(c.distance) <= near for c in cases)
        hits += cases
    # 3 * 2^23 pairs, of which one in 2^23 lies so near.
    assert 1 <= len(hits) <= 12


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
