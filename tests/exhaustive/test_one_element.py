"""x^y of one element (core/numerics/pow.h) against the kernels, on 10^8 random pairs."""

from __future__ import annotations

import re
from itertools import product

import pytest
from tests.house.builds import build, run

from halfulp.types import TYPES

pytestmark = pytest.mark.exhaustive

# For each pair of types, with DirectML's rule for negative bases and without.
ELEMENTS = 100_000


def test_one_element_after_the_other() -> None:
    printed = run(build("one-element", "g++") / "core_check", str(ELEMENTS))
    compared = re.findall(rf"^pow(?:, domain error)? (\w+) (\w+) {ELEMENTS} ", printed, re.MULTILINE)
    assert set(compared) == set(product(TYPES, repeat=2))
    assert len(compared) * ELEMENTS > 10**8
