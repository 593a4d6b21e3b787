"""Ordinary values: what a network's tensors hold, and results all over the range of the type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.build import (
    Types,
    case_id,
    elementwise,
    exponent_attribute,
    operand_types,
)
from halfulp.conformance.cases.generators.pairs import Pairs, bases, pow_values, prelu_values
from halfulp.conformance.cases.generators.random import Random
from halfulp.specs import OpVersion

_SETS = {"quick": 1, "full": 4}
_COUNT = 1000
_EXPONENTS = (
    2.0,
    0.5,
    3.0,
    -1.0,
    0.3333333432674408,
    -2.5,
    7.0,
)  # of an operator whose exponent is an attribute
_SCALE_BIAS = (0.75, -0.3)


def values(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield ordinary operands: one set, or in full mode four."""
    full = mode == "full"
    for number in map(str, range(_SETS[mode])):
        yield from elementwise(row, types, "values", number, _pairs(row, types, number), with_open=full)
    # An attribute of DirectML's that changes the arithmetic.
    if any(attribute.type == "DML_SCALE_BIAS" for attribute in row.attributes):
        scaled, pairs = {"ScaleBias": _SCALE_BIAS}, _pairs(row, types, "scaled")
        yield from elementwise(row, types, "values", "scaled", pairs, with_open=full, attributes=scaled)


def _pairs(row: OpVersion, types: Types, name: str) -> Pairs:
    random = Random(case_id(row, types, "values", name))
    x_name, y_name = operand_types(row, types)
    if row.kernel == "prelu":
        return prelu_values(x_name, random, _COUNT)
    if exponent_attribute(row) is None:
        return pow_values(x_name, y_name, random, _COUNT)
    x = bases(x_name, random, _COUNT)
    return Pairs(x, np.resize(np.array(_EXPONENTS, np.float32), _COUNT))
