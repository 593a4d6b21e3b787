"""The grids hold their promise: right types, results at every edge, cases that are exact or ties."""

import numpy as np
import pytest
from tests.oracle.compare import bits, generator
from tests.oracle.grids import edges, pow_grid, prelu_grid, specials

from halfulp import reference
from halfulp.reference.formats import FLOAT_FORMATS
from halfulp.types import TYPES

FLOATS = [name for name, row in TYPES.items() if row.kind == "float"]


@pytest.mark.parametrize("x_name", TYPES)
def test_parts_have_the_types_asked_for(x_name):
    for y_name in ("float64", "uint4"):
        for part in pow_grid(x_name, y_name, generator(1, x_name, y_name)):
            assert part.x.dtype == TYPES[x_name].dtype
            assert part.y.dtype == TYPES[y_name].dtype
            assert part.x.shape == part.y.shape == (len(part.x),)
            assert len(part.x) > 10 or part.name == "exact cases and ties"
    for part in prelu_grid(x_name, generator(1, x_name)):
        assert part.x.dtype == part.y.dtype == TYPES[x_name].dtype
        assert len(part.x) == len(part.y) > 10


def test_a_seed_fixes_the_grid():
    one, two = (pow_grid("float32", "float64", generator(7, "a")) for _ in range(2))
    for left, right in zip(one, two, strict=True):
        assert np.array_equal(bits(left.x), bits(right.x))
        assert np.array_equal(bits(left.y), bits(right.y))
    other = pow_grid("float32", "float64", generator(8, "a"))
    assert not np.array_equal(bits(one[-1].x), bits(other[-1].x))


@pytest.mark.parametrize("name", FLOATS)
def test_specials_hold_every_end(name):
    row = FLOAT_FORMATS[name]
    codes = set(bits(specials(name)).tolist())
    for magnitude in (0, 1, 1 << (row.digits - 1), row.largest, row.overflow, row.nan):
        assert magnitude in codes
        assert magnitude | row.sign_bit in codes


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_edges_reach_both_sides(name):
    row = FLOAT_FORMATS[name]
    x, y = edges(name, "float64", generator(1, name), 400)
    codes = set((bits(reference.pow(x, y)) & row.storage.type(row.sign_bit - 1)).tolist())
    least_normal = 1 << (row.digits - 1)
    assert {0, row.overflow} <= codes
    assert any(0 < code < 4 for code in codes)
    assert any(abs(code - least_normal) <= max(1, least_normal >> 2) for code in codes)
    assert any(0 <= row.largest - code <= max(1, least_normal >> 2) for code in codes)
