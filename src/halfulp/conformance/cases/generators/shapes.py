"""Shapes that a row takes: every way in which its operands may meet."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt, prod

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.attempts import Shape, attempts
from halfulp.conformance.cases.generators.build import Types, case_id, operand_types
from halfulp.conformance.cases.generators.pairs import Pairs, pow_values, prelu_values
from halfulp.conformance.cases.generators.random import Random, cast, has_sign
from halfulp.conformance.floats import integer_range
from halfulp.specs import OpVersion
from halfulp.types import TYPES

_QUICK = 3  # of the attributes that a pair of shapes allows


def shapes(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield a case for each of the shapes and attributes to try that the row allows.

    Quick mode takes three of those that have the same shapes and different attributes.
    """
    taken: dict[tuple[Shape, ...], int] = {}
    for attempt in attempts(row, types):
        if attempt.clause is not None:
            continue
        taken[attempt.shapes] = taken.get(attempt.shapes, 0) + 1
        if mode == "full" or taken[attempt.shapes] <= _QUICK:
            id = case_id(row, types, "broadcast", attempt.name)
            inputs = small_inputs(row, types, attempt.shapes, Random(id))
            yield Case(id, row.id, "broadcast", inputs, dict(attempt.attributes))


def small_inputs(
    row: OpVersion, types: Types, shapes: tuple[Shape, ...], random: Random
) -> tuple[Array, ...]:
    """Return ordinary operands of some shapes; integers whatever meets what, with results that the type holds."""
    count = max(1, *map(prod, shapes))
    x_name, y_name = operand_types(row, types)
    if TYPES[x_name].kind != "float":
        pairs = _small_integers(x_name, y_name, random, count)
    elif row.kernel == "prelu":
        pairs = prelu_values(x_name, random, count)
    else:
        pairs = pow_values(x_name, y_name, random, count)
    return tuple(array[: prod(shape)].reshape(shape) for array, shape in zip(pairs, shapes, strict=False))


def _small_integers(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Integers whose squares and products with one another are within the type."""
    most = min(isqrt(integer_range(x_name)[1]), 11)
    x = random.integers(-most if has_sign(x_name) else 0, most + 1, count).astype(np.float64)
    return Pairs(cast(x, x_name), cast(random.choose([0.0, 1.0, 2.0, 2.0], count), y_name))
