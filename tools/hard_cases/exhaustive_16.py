"""float16 and bfloat16: the pairs nearest to a midpoint among all 2^32, listed by tests/exhaustive/pow16.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.types import TYPES
from hard_cases.case import Case, from_codes, measure

NEAR = 2.0**-21
COMPUTATION = Path(__file__).parents[2] / "tests" / "exhaustive" / "pow16.py"


def search(name: str) -> list[Case]:
    """Return all pairs with positive bases whose powers are within NEAR of a midpoint."""
    pow16 = load(COMPUTATION)
    counts = pow16.Counts.zero()
    cases = []
    infinity = int(np.array([np.inf]).astype(TYPES[name].dtype).view(np.uint16)[0])
    for base in range(1, infinity):
        near = [exponent for exponent, _ in pow16.row(name, base, counts, near=NEAR).near]
        cases += measure(name, from_codes([base] * len(near), name), from_codes(near, name), "all pairs")
    return cases


def load(path: Path) -> Any:
    """Load a module from its file, since the tests are not a package that tools can import."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
