"""The independent computation itself, held against the exact oracle; quick, and part of the ordinary tests."""

import numpy as np
import pytest
from tests.exhaustive.pow16 import TYPE_NAMES, Counts, row

from halfulp import reference
from halfulp.conformance.cases.values import exact_pairs
from halfulp.types import TYPES, codes, float_type


def special_bases(name: str) -> list[int]:
    """Zero, the infinity, a NaN, the ends of the ranges, 1 and its neighbours, small integers, a square."""
    facts = float_type(name)
    ends = [0, 1, 2, 3, facts.least_normal - 1, facts.least_normal, facts.largest, facts.infinity, facts.nan]
    integers = codes(np.array([2, 3, 9]).astype(TYPES[name].dtype)).tolist()
    return [*ends, facts.one - 1, facts.one, facts.one + 1, *integers]


def oracle(name: str, base: int, exponents: np.ndarray) -> np.ndarray:
    dtype = TYPES[name].dtype
    return reference.pow(np.array([base], np.uint16).view(dtype), exponents.view(dtype)).view(np.uint16)


@pytest.mark.parametrize("step", [97, pytest.param(7, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_special_bases_to_powers_of_all_sizes(name, step):
    exponents = np.arange(0, 65536, step, dtype=np.uint16)
    for base in special_bases(name):
        for signed in (base, base | 0x8000):
            results = row(name, signed, Counts.zero()).results
            np.testing.assert_array_equal(results[exponents], oracle(name, signed, exponents), hex(signed))


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_random_pairs(name):
    rng = np.random.default_rng(1)
    counts = Counts.zero()
    for base in rng.integers(0, 1 << 16, 100):
        exponents = rng.integers(0, 1 << 16, 300, dtype=np.uint16)
        # Half of them of moderate size, so that the results are within range.
        exponents[::2] = np.exp2(rng.normal(size=150) * 3).astype(TYPES[name].dtype).view(np.uint16)
        results = row(name, int(base), counts).results
        np.testing.assert_array_equal(results[exponents], oracle(name, int(base), exponents), hex(base))
    assert counts.computed > 1 << 20
    assert counts.undecided == 0


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_exact_cases_and_ties(name):
    counts = Counts.zero()
    pairs = exact_pairs(name, name, 0, 300)
    for base, exponent in zip(*(array.view(np.uint16) for array in pairs), strict=True):
        result = row(name, int(base), counts).results[exponent]
        assert result == oracle(name, int(base), np.array([exponent]))[0], (hex(base), hex(exponent))
    assert counts.ties > 50
    assert counts.undecided == 0
