"""numexpr: one expression, evaluated into an array."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from halfulp.benchmark.case import Case
from halfulp.benchmark.peers import Prepared


def prepare(case: Case, threads: int) -> Prepared:
    """Compile the expression; a constant exponent stands in its text."""
    numexpr: Any = import_module("numexpr")
    numexpr.set_num_threads(threads)
    operands = {"x": case.x, "y": case.y}
    if case.operator == "prelu":
        text = "where(x < 0, x * y, x)"
    elif case.constant is not None:
        text, operands = f"x ** {case.constant!r}", {"x": case.x}
    else:
        text = "x ** y"
    out = case.output
    numexpr.validate(text, operands, out=out, casting="unsafe")
    call = numexpr.evaluate
    return Prepared(lambda: call(text, operands, out=out, casting="unsafe"), np.asarray)
