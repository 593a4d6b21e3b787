"""The oracle on the hard cases of data/worst_cases, held against exp(y log x) and exact squares.

MPFR's power decides by itself how far to compute; here 600 bits are always enough, as the nearest case listed lies
2^-65 of a unit from its midpoint, and what rounds is a search by distance.
"""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from tests.reference.nearest import code_of, nearest

from halfulp.conformance.cases.values import hard_pairs
from halfulp.reference import decode
from halfulp.reference import pow as exact_pow
from halfulp.types import TYPES


@pytest.mark.parametrize(
    ("x_name", "y_name"),
    [
        ("float64", "float64"),
        ("float32", "float64"),
        ("float32", "float32"),
        ("float16", "float64"),
        ("float16", "float32"),
        ("float16", "float16"),
    ],
)
def test_hard_cases_by_exp_and_log(x_name, y_name):
    dtype = TYPES[x_name].dtype
    x, y = hard_pairs(x_name, y_name)
    assert len(x) > 100
    step = max(1, len(x) // 400)
    largest = Fraction(float(np.finfo(dtype).max))
    below = Fraction(float(np.nextafter(np.finfo(dtype).max, dtype.type(0))))
    for base, exponent, result in zip(
        decode(x)[::step], decode(y)[::step], exact_pow(x, y)[::step], strict=True
    ):
        with gmpy2.context(precision=600):
            power = Fraction(gmpy2.mpq(gmpy2.exp(mpfr(exponent) * gmpy2.log(mpfr(base)))))
        if power > largest:  # the midpoint above the largest value decides between it and the infinity
            assert np.isinf(result) == (power > largest + (largest - below) / 2)
        else:
            assert code_of(result) == code_of(nearest(power, dtype)), (base, exponent)
