"""The same elements in other surroundings: their bits should be the same.

A case's ``twin_of`` names what it is compared with, ``positions`` says which elements are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from halfulp.conformance.case import Aspect, Case, Mode
from halfulp.conformance.floats import is_float
from halfulp.conformance.generators.attempts import refusal
from halfulp.conformance.generators.build import Types, case_id, line, operand_types
from halfulp.conformance.generators.chance import Chance, cast
from halfulp.conformance.generators.pairs import Pairs, pow_values, prelu_values
from halfulp.conformance.openness import openness
from halfulp.protocols import Array
from halfulp.specs import OpVersion

_COUNT = 259  # more than any vector and tile of common code, and odd
_MANY = 1 << 17  # so many that a runtime splits them over threads
_SHIFTS = {"quick": (3,), "full": (1, 3, 8, 13)}
_LENGTHS = {"quick": (5,), "full": (1, 2, 5, 16, 100)}
_THREADS = {"quick": (2,), "full": (2, 4)}
_EXPONENTS = {"quick": (2.0, 0.5), "full": (2.0, 0.5, 3.0, -1.0, 1 / 3, 7.0)}
_SLOPES = {"quick": (0.25,), "full": (0.25, -1.5, 0.1)}


def reproducibility(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases in pairs or more: one without ``aspect``, then those that have it for their twin.

    Example:
        >>> from halfulp.specs import find
        >>> for case in reproducibility(find("onnx.Pow-7"), ("float32", "float32"), "quick"):
        ...     print(case.name, case.shapes, case.aspect)
        base ((1, 259), (1, 259)) None
        position-3 ((1, 259), (1, 259)) position
        length-5 ((1, 5), (1, 5)) length
        constant-inputs ((1, 259), (1, 259)) constant folding
        constant-Y ((1, 259), (1, 259)) constant folding
        many ((1, 131072), (1, 131072)) None
        threads-2 ((1, 131072), (1, 131072)) threads
        all-2 ((1, 259), (1, 259)) None
        scalar-2 ((1, 259), ()) scalar exponent
        all-0.5 ((1, 259), (1, 259)) None
        scalar-0.5 ((1, 259), ()) scalar exponent
    """
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
        yield _twin(base, f"constant-{name}", "constant folding", constants=frozenset(constants))
    many = replace(_case(row, types, "many", _MANY), threads=1)
    yield many
    for threads in _THREADS[mode]:
        yield _twin(many, f"threads-{threads}", "threads", threads=threads)
    yield from _scalars(row, types, base, (_SLOPES if row.kernel == "prelu" else _EXPONENTS)[mode])


def _case(row: OpVersion, types: Types, name: str, count: int) -> Case:
    """Ordinary elements, without those that the document leaves open."""
    id = case_id(row, types, "reproducibility", name)
    x_name, y_name = operand_types(row, types)
    distinct = min(count, 4 * _COUNT)
    chance = Chance(id)
    if row.kernel == "prelu":
        pairs = prelu_values(x_name, chance, distinct)
    else:
        pairs = pow_values(x_name, y_name, chance, distinct)
    pairs = _closed(row, pairs)
    inputs = tuple(line(row, np.resize(array, count)) for array in pairs)
    return Case(id, row.id, "reproducibility", inputs)


def _closed(row: OpVersion, pairs: Pairs) -> Pairs:
    found = openness(Case("", row.id, "reproducibility", tuple(line(row, array) for array in pairs)))
    if found is None or found.whole or found.elements.all():
        return pairs
    return Pairs(*(array[~found.elements.ravel()] for array in pairs))


def _twin(base: Case, name: str, aspect: Aspect, **changes: Any) -> Case:
    id = case_id(base.row, base.types, "reproducibility", name)
    return replace(base, id=id, aspect=aspect, twin_of=base.id, **changes)


def _rearranged(base: Case, name: str, aspect: Aspect, order: Array) -> Case:
    inputs = tuple(line(base.row, array.ravel()[order]) for array in base.inputs)
    return _twin(base, name, aspect, inputs=inputs, positions=order)


def _scalars(row: OpVersion, types: Types, base: Case, values: tuple[float, ...]) -> Iterator[Case]:
    """A tensor of one value everywhere, and then that value as a scalar, where the row allows one."""
    x = base.inputs[0]
    for value in values:
        number = cast(np.array([value]), types[1])
        # A floating type that has not this value takes the nearest one.
        if not is_float(number) and number.astype(np.float64)[0] != value:
            continue
        name = f"{value:.4g}"
        id = case_id(row, types, "reproducibility", f"all-{name}")
        filled = np.broadcast_to(number, x.shape).copy()
        tensor = Case(id, row.id, "reproducibility", (x, filled))
        scalar = _scalar(tensor, number, name)
        if scalar is not None:
            yield tensor
            yield scalar


def _scalar(tensor: Case, number: Array, name: str) -> Case | None:
    """The twin with one element in place of many, in the first shape that the document allows without any doubt."""
    x = tensor.inputs[0]
    for attributes in ({}, {"broadcast": 1}):
        for shape in ((), (1,)):
            inputs = (x, number.reshape(shape))
            if refusal(tensor.row, inputs, attributes) is not None:
                continue
            case = _twin(tensor, f"scalar-{name}", "scalar exponent", inputs=inputs, attributes=attributes)
            found = openness(case)
            if found is None or not found.whole:
                return case
    return None
