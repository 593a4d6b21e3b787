"""prelu, the core against the oracle, bit for bit."""

import pytest
from tests.oracle.compare import assert_same_bits, generator
from tests.oracle.grids import prelu_grid

import halfulp as hu
from halfulp import reference
from halfulp.types import TYPES


@pytest.mark.parametrize("name", TYPES)
def test_prelu(name, seed):
    assert_same_bits(prelu_grid(name, generator(seed, name)), hu.prelu, reference.prelu, seed)
