"""The same elements in other surroundings: their bits should be the same.

A case's ``compared_with`` is the id of the case that it is compared with, and ``positions`` maps its elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Aspect, Case, Mode
from halfulp.conformance.cases.operands import Pairs, Random, cast
from halfulp.conformance.cases.shapes import refusal
from halfulp.conformance.cases.values import Types, case_id, hard_pairs, line, ordinary
from halfulp.conformance.judge import unspecified
from halfulp.specs import OpVersion
from halfulp.types import is_float

_COUNT = 259  # more than any vector and tile of common code, and odd
_MANY = (1 << 17) + 91  # enough for a runtime to split them over threads, into parts that no vector divides
_ROW = 7  # too short for a vector: every element is in the remainder of a loop
_SHIFTS = {"quick": (3,), "full": (1, 3, 8, 13)}
_LENGTHS = {"quick": (5,), "full": (1, 2, 5, 16, 100)}
_THREADS = {"quick": (2,), "full": (2, 4)}
_EXPONENTS = {"quick": (2.0, 0.5), "full": (2.0, 0.5, 3.0, -1.0, 1 / 3, 7.0)}
_SLOPES = {"quick": (0.25,), "full": (0.25, -1.5, 0.1)}


def reproducibility(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases in pairs or more: one without ``aspect``, then those that must have its bits."""
    if len(types) != 2:
        return
    base = _case(row, types, "base", _COUNT)
    yield base
    for shift in _SHIFTS[mode]:
        order = np.roll(np.arange(base.inputs[0].size), shift)
        yield _rearranged(base, f"position-{shift}", "position", order)
    for length in _LENGTHS[mode]:
        yield _rearranged(base, f"length-{length}", "length", np.arange(length))
    for name, constants in (("inputs", {0, 1}), (row.inputs[1].name, {1})):
        yield _again(base, f"constant-{name}", "constant folding", constants=frozenset(constants))
    yield from _rows(base)
    many = replace(_case(row, types, "many", _MANY), threads=1)
    yield many
    for threads in _THREADS[mode]:
        yield _again(many, f"threads-{threads}", "threads", threads=threads)
    yield from _scalars(row, types, base, (_SLOPES if row.kernel == "prelu" else _EXPONENTS)[mode])


def _case(row: OpVersion, types: Types, name: str, count: int) -> Case:
    """Return a case of elements that the document does not leave open."""
    id = case_id(row, types, "reproducibility", name)
    pairs = _pairs(row, types, Random(id), min(count, 4 * _COUNT))
    found = unspecified(Case(id, row.id, "reproducibility", tuple(line(row, array) for array in pairs)))
    if not found.every_element:
        pairs = Pairs(*(array[~found.elements.ravel()] for array in pairs))
    inputs = tuple(line(row, np.resize(array, count)) for array in pairs)
    return Case(id, row.id, "reproducibility", inputs)


def _pairs(row: OpVersion, types: Types, random: Random, count: int) -> Pairs:
    """Return ordinary elements and, in every second place, hard cases: they show the least difference in computing."""
    pairs = ordinary(row, types, random, count)
    if row.kernel == "prelu":
        return pairs
    hard = hard_pairs(*types)
    if len(hard.x):
        chosen = random.integers(0, len(hard.x), len(pairs.x[::2]))
        pairs.x[::2], pairs.y[::2] = hard.x[chosen], hard.y[chosen]
    return pairs


def _again(base: Case, name: str, aspect: Aspect, **changes: Any) -> Case:
    id = case_id(base.row, base.types, "reproducibility", name)
    return replace(base, id=id, aspect=aspect, compared_with=base.id, **changes)


def _rearranged(base: Case, name: str, aspect: Aspect, order: Array) -> Case:
    inputs = tuple(line(base.row, array.ravel()[order]) for array in base.inputs)
    return _again(base, name, aspect, inputs=inputs, positions=order)


def _rows(base: Case) -> Iterator[Case]:
    """Yield a line, and its elements as rows that are shorter than a vector and that a broadcast operand separates."""
    id = case_id(base.row, base.types, "reproducibility", "line")
    x, y = (array.ravel() for array in base.inputs)
    x, y = x[: len(x) // _ROW * _ROW], y[:_ROW]
    tiled = (line(base.row, x), line(base.row, np.tile(y, len(x) // _ROW)))
    tensor = Case(id, base.operator, "reproducibility", tiled)
    rows = _fitting(tensor, f"rows-{_ROW}", "position", x.reshape(-1, _ROW), [y, y.reshape(1, -1)])
    if rows is not None:
        yield tensor
        yield rows


def _fitting(tensor: Case, name: str, aspect: Aspect, x: Array, options: list[Array]) -> Case | None:
    """Return the case with the first second operand of ``options`` that the document allows, or None."""
    for attributes in ({}, {"broadcast": 1}):
        for y in options:
            if refusal(tensor.row, (x, y), attributes) is None:
                case = _again(tensor, name, aspect, inputs=(x, y), attributes=attributes)
                if not unspecified(case).whole:
                    return case
    return None


def _scalars(row: OpVersion, types: Types, base: Case, values: tuple[float, ...]) -> Iterator[Case]:
    """Yield a tensor with one value everywhere and, where the row allows it, that scalar, fed and constant."""
    x = base.inputs[0]
    for value in values:
        number = cast(np.array([value]), types[1])
        # A floating type that lacks this value takes the nearest one.
        if not is_float(number) and number.astype(np.float64)[0] != value:
            continue
        name = f"{value:.4g}"
        id = case_id(row, types, "reproducibility", f"all-{name}")
        filled = np.broadcast_to(number, x.shape).copy()
        tensor = Case(id, row.id, "reproducibility", (x, filled))
        scalar = _fitting(tensor, f"scalar-{name}", "scalar exponent", x, [number.reshape(()), number])
        if scalar is not None:
            yield tensor
            yield scalar
            # Compilers replace powers that they know, such as x^2 by x * x.
            yield _again(scalar, f"constant-{name}", "constant folding", constants=frozenset({1}))
