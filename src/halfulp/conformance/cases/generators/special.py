"""Special values against special values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.build import Types, elementwise, is_small, operand_types
from halfulp.conformance.cases.generators.pairs import outer
from halfulp.conformance.floats import codes, float_type, from_codes, from_integers, integer_range
from halfulp.specs import OpVersion
from halfulp.types import TYPES

INF, NAN = np.inf, np.nan
_BASES = (-INF, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, INF, NAN)
_EXPONENTS = (-INF, -3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, INF, NAN)
_SLOPES = (-INF, -1, -0.0, 0, 0.5, 1, INF, NAN)
_INTEGERS = (-3, -2, -1, 0, 1, 2, 3)


def special(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield the grid that a report shows, all special values, and in full mode all pairs of 8-bit values.

    Names: ``grid`` (with ``grid-open`` beside it), ``all``, ``every-pair``.
    """
    x_name, y_name = operand_types(row, types)
    second = _SLOPES if row.kernel == "prelu" else _EXPONENTS
    grid = outer(chosen(x_name, _BASES), chosen(y_name, second))
    yield from elementwise(row, types, "special", "grid", grid, with_open=True)
    full = mode == "full"
    y = specials(y_name)
    if len(types) == 1 and not full:
        y = y[:: len(y) // 8]  # each is a case of its own
    yield from elementwise(row, types, "special", "all", outer(specials(x_name), y), with_open=full)
    if full and len(types) == 2 and is_small(types):
        pairs = outer(every_value(x_name), every_value(y_name))
        yield from elementwise(row, types, "special", "every-pair", pairs, with_open=True)


def chosen(name: str, values: tuple[float, ...]) -> Array:
    """Return those of some values that a type has; of integer types small ones and the ends of the range."""
    if TYPES[name].kind != "float":
        least, largest = integer_range(name)
        return from_integers(sorted({least, largest, *(v for v in _INTEGERS if v >= least)}), name)
    with np.errstate(all="ignore"):
        cast = np.array(values, np.float64).astype(TYPES[name].dtype)
    back = cast.astype(np.float64)
    same = (back == np.array(values)) & (np.signbit(back) == np.signbit(values))
    return np.asarray(cast[same | (np.isnan(back) & np.isnan(values))])


@cache
def specials(name: str) -> Array:
    """Return zeros, infinities, NaNs, the ends of every range, small numbers, the last odd integers."""
    return _floats(name) if TYPES[name].kind == "float" else _integers(name)


def _floats(name: str) -> Array:
    facts = float_type(name)
    magnitudes = {0, 1, 2, facts.least_normal - 1, facts.least_normal, facts.least_normal + 1}
    magnitudes |= {facts.largest - 1, facts.largest, facts.infinity, facts.nan}
    step = 2.0 ** (1 - facts.digits)
    odd = 2.0**facts.digits - 1  # the largest odd integer
    values = [1, 1 + step, 1 - step / 2, 2, 3, 4, 5, 10, 0.5, 0.25, 0.75, 1.5, 2.5, odd, odd + 1, odd / 2]
    values += [2.0**24 + 1, 2.0**31, 2.0**53 - 1, 2.0**63, 2.0**64]
    with np.errstate(over="ignore"):
        magnitudes |= set(codes(np.array(values).astype(TYPES[name].dtype)).tolist())
    every = {
        magnitude | sign
        for magnitude in magnitudes
        for sign in (0, facts.sign_bit)
        if 0 <= magnitude < (1 << facts.bits)
    }
    return from_codes(sorted(every), name)


def _integers(name: str) -> Array:
    least, largest = integer_range(name)
    values = {least, least + 1, largest - 1, largest, *range(-5, 12), 16, 31, 32, 33, 63, 64, 65}
    values |= {sign * (2**k + d) for k in (7, 15, 24, 31, 53, 62, 63) for d in (-1, 0, 1) for sign in (1, -1)}
    return from_integers(sorted(value for value in values if least <= value <= largest), name)


def every_value(name: str) -> Array:
    """Return all values of a type of at most 8 bits."""
    row = TYPES[name]
    if row.kind == "float":
        return from_codes(range(1 << row.bits), name)
    least, largest = integer_range(name)
    return from_integers(range(least, largest + 1), name)
