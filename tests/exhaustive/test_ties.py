"""float32: every power that the double-double phase cannot tell from a rounding boundary is on it.

Quick: of one exponent in six.
"""

from fractions import Fraction

import numpy as np
import pytest
from tests.exhaustive.ties import (
    EXPONENTS,
    Exponent,
    Found,
    Near,
    confused,
    library,
    report,
    search,
    significant_bits,
)

import halfulp as hu


@pytest.fixture(scope="module", params=[6, pytest.param(1, marks=pytest.mark.exhaustive)])
def exponents(request) -> list[Exponent]:
    return EXPONENTS[:: request.param]


@pytest.fixture(scope="module")
def found(exponents) -> Found:
    return search(exponents)


def test_what_is_undecided_is_a_tie(exponents, found):
    print(report(found))
    assert found.powers == sum(2**y.k for y in exponents) << 23
    assert not confused(found)


def test_the_core_takes_no_other_exponents_for_ones_with_ties():
    """Of all float16, which have every exponent of the proof among them, and their neighbours."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    finite = halves[np.isfinite(halves)]
    beside = np.nextafter(finite, np.inf), np.nextafter(finite.astype(np.float32), np.float32(np.inf))
    candidates = np.concatenate([halves, *beside])
    proved = {y.n / 2**y.k for y in EXPONENTS}
    with_one = proved | {1.0}  # x^1 is x
    assert {y for y in candidates.tolist() if library().takes_for_ties(y)} in (proved, with_one)


def test_every_exact_power_was_found(exponents, found):
    """In number as many as there are odd r with r^(2^k) of 24 bits and r^n of 25: x = r^(2^k) times a power of two."""
    expected = sum(r ** (2**y.k) < 2**24 and r**y.n < 2**25 for y in exponents for r in range(1, 1 << 13, 2))
    # Squares of r up to 2^12.5, square roots of r^2 up to 2^24.
    assert len({(power.x, power.y) for power in found.exact}) == len(found.exact) == expected
    for x, y, number, _ in found.exact:
        assert Fraction(x) ** y.n == Fraction(number) ** 2**y.k
        assert significant_bits(number) <= 25


@pytest.mark.parametrize("y_type", [np.float32, np.float64])
def test_the_core_rounds_them(found, y_type):
    """Exact ones to nearest even, as NumPy converts a double; the others to the side that they are on."""
    near: list[Near] = found.exact + found.inexact
    x = np.array([power.x for power in near], np.float32)
    y = np.array([power.y.n / 2**power.y.k for power in near], y_type)
    numbers = np.array([power.number for power in near])
    side = np.sign([power.distance for power in near])
    expected = np.nextafter(numbers, numbers * (1 + side)).astype(np.float32)
    np.testing.assert_array_equal(hu.pow(x, y), expected)
