"""pow, the core against the twin: every type of the table to the power of every other, bit for bit."""

import numpy as np
import pytest
from tests.twin.compare import assert_same_bits, bits, generator
from tests.twin.grids import Part, bases, pow_grid, specials

import halfulp as hu
from halfulp import reference
from halfulp.types import TYPES

PAIRS = [(x, y) for x in TYPES for y in TYPES]


@pytest.mark.parametrize(("x_name", "y_name"), PAIRS)
def test_pow(x_name, y_name, seed):
    parts = pow_grid(x_name, y_name, generator(seed, x_name, y_name))
    assert_same_bits(parts, hu.pow, reference.pow, seed)


NUMBERS = [
    2**70 + 1,
    -(2**64) - 2,
    10**400,
    -(10**400) - 1,
    0,
    1,
    2,
    -1,
    -3,
    7,
    2**24 + 1,
    2**53 + 1,
    2**63,
    2**64 - 1,
    -(2**63),
    0.5,
    -0.5,
    2.5,
    1e300,
    -0.0,
]


@pytest.mark.parametrize("x_name", TYPES)
def test_python_number_as_exponent(x_name, seed):
    x = np.concatenate([specials(x_name), bases(x_name, generator(seed, x_name), 100)])
    for number in [*NUMBERS, 1 / 3, float("inf"), float("-inf"), float("nan")]:
        part = Part(f"exponent {number!r}", x, np.zeros(len(x)))
        assert_same_bits(
            [part],
            lambda x, _, number=number: hu.pow(x, number),
            lambda x, _, number=number: reference.pow(x, number),
            seed,
        )


@pytest.mark.parametrize(("x_name", "y_name"), PAIRS)
def test_one_operand_for_all(x_name, y_name, seed):
    """A constant exponent, or base, gives the bits that a tensor of it gives (N7)."""
    rng = generator(seed, x_name, y_name)
    x, y = bases(x_name, rng, 300), bases(y_name, rng, 300)
    table = hu.pow(x[:, None], y)
    for index in range(0, 300, 60):
        assert np.array_equal(bits(hu.pow(x, y[index])), bits(np.ascontiguousarray(table[:, index])))
        assert np.array_equal(bits(hu.pow(x[index], y)), bits(table[index]))
