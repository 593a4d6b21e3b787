"""prelu, the core against the oracle, bit for bit."""

import pytest
from tests.oracle.compare import assert_same_bits
from tests.oracle.grids import prelu_grid

import halfulp as hu
from halfulp import reference
from halfulp.types import TYPES


@pytest.mark.parametrize("name", TYPES)
def test_prelu(name, rng):
    assert_same_bits(prelu_grid(name, rng), hu.prelu, reference.prelu)
