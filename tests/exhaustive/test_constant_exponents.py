"""float32 with the constant exponents that have formulas: every base, against the kernels for arrays of exponents.

`make exhaustive` runs this: some seconds an exponent. The kernels for arrays have other phases, with other error
bounds; that these are right is what the other tests are about.
"""

import numpy as np
import pytest
from tests.oracle.test_pow import FORMULAS

import halfulp as hu

BLOCK = 1 << 22


@pytest.mark.exhaustive
@pytest.mark.parametrize("exponent", FORMULAS)
def test_every_base(exponent):
    exponents = np.full(BLOCK, exponent, np.float32)
    for first in range(0, 1 << 32, BLOCK):
        bases = np.arange(first, first + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        constant, array = (hu.pow(bases, y).view(np.uint32) for y in (np.float32(exponent), exponents))
        wrong = np.flatnonzero(constant != array)
        assert not len(wrong), [(hex(first + i), hex(constant[i]), hex(array[i])) for i in wrong[:20]]
