"""From pairs of operands to cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Group, Id
from halfulp.conformance.cases.generators.pairs import Pairs
from halfulp.conformance.floats import codes
from halfulp.conformance.verdict.unspecified import unspecified
from halfulp.specs import OpVersion
from halfulp.types import TYPES

Types = tuple[str, ...]


def case_id(row: OpVersion, types: Types, group: Group, name: str) -> str:
    """Return a case's id."""
    return str(Id(row.id, types, group, name))


def exponent_attribute(row: OpVersion) -> str | None:
    """Return the attribute that is the exponent of an operator that has no input for it."""
    if len(row.inputs) != 1:
        return None
    return next(a.name for a in row.attributes if a.type == "FLOAT" and a.required)


def operand_types(row: OpVersion, types: Types) -> tuple[str, str]:
    """Return the types of both operands, that of an exponent that is an attribute too."""
    return (types[0], types[1] if len(types) == 2 else "float32")


def least_rank(row: OpVersion) -> int:
    """Return a rank that every rule takes for operands of one shape: 2, or more where the row wants more.

    Operands of rank 1 would not do for PRelu before 7, where a 1-d slope means channels.
    """
    return max(2, row.limits.ranks[0]) if row.limits else 2


def line(row: OpVersion, array: Array) -> Array:
    """Return an array as one line of the least rank: shape (1, n), for most rows."""
    return array.reshape((1,) * (least_rank(row) - 1) + (-1,))


def elementwise(
    row: OpVersion,
    types: Types,
    group: Group,
    name: str,
    pairs: Pairs,
    *,
    with_open: bool,
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[Case]:
    """Yield the cases of pairs of operands that meet element by element.

    What the document leaves open is a case of its own, its name ending in ``-open``, so that a runtime that refuses
    to compute that is not taken for one that refuses all; ``with_open`` says whether it is wanted.
    """
    for suffix, inputs, values in _with_attribute(row, pairs):
        given = {**values, **(attributes or {})}
        for case in _divided(row, types, group, name + suffix, inputs, given):
            if with_open or not case.name.endswith("-open"):
                yield case


def _with_attribute(row: OpVersion, pairs: Pairs) -> Iterator[tuple[str, tuple[Array, ...], dict[str, Any]]]:
    """The pairs as inputs; where the exponent is an attribute, those of each exponent, with what to add to the name."""
    attribute = exponent_attribute(row)
    if attribute is None:
        yield "", tuple(line(row, array) for array in pairs), {}
        return
    words = codes(pairs.y)  # -0 and 0 are equal, and a NaN is not equal to itself
    first = {f"-y={float(pairs.y[words == word][0]):.9g}": word for word in np.unique(words)[::-1]}
    for suffix, word in first.items():
        exponent = float(pairs.y[words == word][0])
        yield suffix, (line(row, pairs.x[words == word]),), {attribute: exponent}


def _divided(
    row: OpVersion,
    types: Types,
    group: Group,
    name: str,
    inputs: tuple[Array, ...],
    attributes: dict[str, Any],
) -> Iterator[Case]:
    whole = Case(case_id(row, types, group, name), row.id, group, inputs, attributes)
    found = unspecified(whole)
    is_open = np.zeros(inputs[0].size, bool)
    if found is not None:
        is_open |= found.whole | found.elements.ravel()
    for suffix, chosen in (("", ~is_open), ("-open", is_open)):
        if chosen.any():
            parts = tuple(line(row, array.ravel()[chosen]) for array in inputs)
            yield Case(case_id(row, types, group, name + suffix), row.id, group, parts, attributes)


def representative(pairs: list[Types]) -> Types:
    """Return the types that stand for all others: float32 throughout, else the first."""
    return next((types for types in pairs if set(types) == {"float32"}), pairs[0])


def is_small(types: Types) -> bool:
    """Return whether every pair of values can be tried."""
    return all(TYPES[name].bits <= 8 for name in types)
