"""PRelu of float16 and bfloat16: all 2^32 pairs each, against exact products rounded once.

`make exhaustive` runs this: a few minutes a type.
"""

import numpy as np
import pytest
from tests.exhaustive.pow16 import TYPE_NAMES

import halfulp as hu
from halfulp.types import TYPES

CODES = np.arange(1 << 16, dtype=np.uint16)
BLOCK = 16  # slopes in a call of the core
PRECISION = {"float16": 11, "bfloat16": 8}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}  # above zero


def expected(name: str, slopes: np.ndarray) -> np.ndarray:
    """The bits for every x, a row for each slope. A double holds a product of two such numbers exactly."""
    dtype = TYPES[name].dtype
    with np.errstate(invalid="ignore", over="ignore"):
        x, slope = (codes.view(dtype).astype(np.float64) for codes in (CODES, slopes))
        product = x * slope[:, None]
        _, exponent = np.frexp(product)
        spacing = np.maximum(np.ldexp(1.0, exponent - PRECISION[name]), LEAST[name])
        rounded = np.where(np.isinf(product), product, np.rint(product / spacing) * spacing).astype(dtype)
    rounded[np.isnan(product)] = np.nan
    return np.where(x < 0, rounded.view(np.uint16), CODES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_pair(name):
    dtype = TYPES[name].dtype
    x = np.tile(CODES, (BLOCK, 1))
    for first in range(0, 1 << 16, BLOCK):
        slopes = CODES[first : first + BLOCK, None]
        right = expected(name, CODES[first : first + BLOCK])
        for slope in (slopes, np.repeat(slopes, 1 << 16, axis=1)):  # one for each row, one for each element
            got = hu.prelu(x.view(dtype), slope.view(dtype)).view(np.uint16)
            wrong = np.argwhere(got != right)
            assert not len(wrong), [
                (hex(CODES[i]), hex(slopes[row, 0]), hex(got[row, i]), hex(right[row, i]))
                for row, i in wrong[:20]
            ]
