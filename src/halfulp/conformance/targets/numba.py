"""Numba: a universal function of ``x**y``, which LLVM compiles."""

from typing import Any

import numba
import numpy as np

power: Any = numba.vectorize(lambda x, y: x**y)


def pow(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(power(x, y)).astype(x.dtype)
