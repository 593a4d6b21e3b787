"""numba: a compiled ufunc."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.benchmark.case import Case
from halfulp.benchmark.peers import Prepared


def prepare(case: Case, threads: int) -> Prepared:
    """Compile the ufunc; a constant exponent is known when it is compiled."""
    numba: Any = import_module("numba")
    x, y, out = case.x, case.y, case.output
    # An integral constant as an integer; another in x's own type, or it would be float64.
    constant = x.dtype.type(case.y) if isinstance(case.constant, float) else case.constant
    operands = (x, y) if constant is None else (x,)
    types = [numba.from_dtype(array.dtype) for array in operands]
    target = "cpu" if threads == 1 else "parallel"
    function = _prelu if case.operator == "prelu" else _pow if constant is None else _constant_pow(constant)
    ufunc = numba.vectorize([numba.from_dtype(x.dtype)(*types)], target=target)(function)
    return Prepared(lambda: ufunc(*operands, out=out), np.asarray)


def _pow(x: Any, y: Any) -> Any:
    return x**y


def _constant_pow(y: Any) -> Any:
    return lambda x: x**y


def _prelu(x: Any, y: Any) -> Any:
    return x * y if x < 0 else x
