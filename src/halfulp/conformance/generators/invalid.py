"""What a row must refuse: for each clause that something can breach, models and inputs that do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from halfulp.conformance.case import Case, Mode
from halfulp.conformance.generators.attempts import Shape, attempts, refusal
from halfulp.conformance.generators.build import Types, case_id, least_rank
from halfulp.conformance.generators.chance import Chance, cast
from halfulp.conformance.generators.shapes import small_inputs
from halfulp.protocols import Array
from halfulp.specs import OpVersion, TensorType
from halfulp.types import TYPES, ElementType

_QUICK = 3  # cases of a clause
_NAMES = ("broadcast", "alpha", "axis")  # attributes that some other version or operator has


def invalid(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases that breach the row's clauses, named after the clause: ``C2-2x3,2``. Quick mode: three of each.

    Example:
        >>> from halfulp.specs import find
        >>> found = list(invalid(find("onnx.PRelu-16"), ("float32", "float32"), "quick"))
        >>> sorted({case.clause for case in found})
        ['onnx.PRelu-16.C2', 'onnx.PRelu-16.C3', 'onnx.PRelu-16.C4', 'onnx.PRelu-16.C5', 'onnx.PRelu-16.C6']
        >>> found[-1].name, found[-1].declared
        ('C6-output-2x4', TensorType(type='float32', shape=(2, 4)))
    """
    taken: Counter[str] = Counter()
    for breach in _breaches(row, types):
        taken[breach.clause] += 1
        if mode == "full" or taken[breach.clause] <= _QUICK:
            yield breach.case(row, types)


class _Breach:
    """What is wrong in a case: its shapes, types, attributes or declared output, and the clause that says so."""

    def __init__(
        self,
        name: str,
        clause: str,
        shapes: tuple[Shape, ...],
        input_types: Types,
        attributes: Mapping[str, Any],
        declared: TensorType | None = None,
    ) -> None:
        self.name, self.clause, self.shapes = name, clause, shapes
        self.input_types, self.attributes, self.declared = input_types, attributes, declared

    def case(self, row: OpVersion, types: Types) -> Case:
        id = case_id(row, types, "invalid", f"{self.clause.removeprefix(row.id + '.')}-{self.name}")
        return Case(
            id,
            row.id,
            "invalid",
            self._inputs(row, types, Chance(id)),
            dict(self.attributes),
            clause=self.clause,
            declared=self.declared,
        )

    def _inputs(self, row: OpVersion, types: Types, chance: Chance) -> tuple[Array, ...]:
        """Operands as the row wants them, in what types and number the breach has them."""
        shapes = (*self.shapes, *self.shapes[-1:] * 2)[:2] if self.shapes else ((2, 3),) * 2
        pairs = small_inputs(row, types, shapes, chance)
        given = [pairs[min(i, len(pairs) - 1)] for i in range(len(self.shapes))]
        with np.errstate(invalid="ignore"):
            wide = [array.astype(np.float64) for array in given]
        return tuple(cast(array, name) for array, name in zip(wide, self.input_types, strict=True))


def _breaches(row: OpVersion, types: Types) -> Iterator[_Breach]:
    yield from _shapes(row, types)
    shape = (1,) * (least_rank(row) - 2) + (2, 3)
    fine = {a.name: 2.0 for a in row.attributes if a.required}
    yield from _types(row, types, shape, fine)
    yield from _numbers(row, types, shape, fine)
    yield from _attributes(row, types, shape, fine)
    yield from _outputs(row, types, shape, fine)


def _shapes(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """Shapes and attributes that the row refuses, each pair of shapes once for a clause."""
    seen = set()
    for attempt in attempts(row, types):
        if attempt.clause is not None and (attempt.clause, attempt.shapes) not in seen:
            seen.add((attempt.clause, attempt.shapes))
            yield _Breach(attempt.name, attempt.clause, attempt.shapes, types, attempt.attributes)


def _types(row: OpVersion, types: Types, shape: Shape, fine: Mapping[str, Any]) -> Iterator[_Breach]:
    """Types that a type variable does not allow, and two that should be one."""
    others = [name for name, element in TYPES.items() if _has(row, element)]
    variables = [port.type for port in row.inputs]
    # All inputs of a variable, then each alone.
    changes = [[i for i, other in enumerate(variables) if other == variable] for variable in variables]
    changes += [[i] for i in range(len(variables))]
    seen = set()
    for changed in changes:
        for other in others:
            tried = tuple(other if i in changed else name for i, name in enumerate(types))
            clause = refusal(row, [(name, shape) for name in tried], fine)
            if clause is not None and tried not in seen:
                seen.add(tried)
                yield _Breach(",".join(tried), clause, (shape,) * len(tried), tried, fine)


def _has(row: OpVersion, element: ElementType) -> bool:
    """Whether the row's standard has a type at all."""
    return getattr(element, row.standard, None) is not None


def _numbers(row: OpVersion, types: Types, shape: Shape, fine: Mapping[str, Any]) -> Iterator[_Breach]:
    """One input fewer and one more."""
    for tried in (types[:-1], types + types[-1:]):
        clause = refusal(row, [(name, shape) for name in tried], fine)
        if clause is not None and tried:
            yield _Breach(f"{len(tried)}-inputs", clause, (shape,) * len(tried), tried, fine)


def _attributes(row: OpVersion, types: Types, shape: Shape, fine: Mapping[str, Any]) -> Iterator[_Breach]:
    """Attributes of wrong types and values, missing ones, unknown ones."""
    wrong: list[dict[str, Any]] = []
    for attribute in row.attributes:
        if attribute.required:
            wrong.append({name: value for name, value in fine.items() if name != attribute.name})
        values = {"INT": (2, 1.5, "1"), "INTS": (1.5, "0"), "string": ("bidirectional", 1)}
        wrong += [{**fine, attribute.name: value} for value in values.get(attribute.type, ("2", 1))]
    wrong += [{**fine, name: 1} for name in _NAMES if name not in {a.name for a in row.attributes}]
    operands = [(name, shape) for name in types]
    for attributes in wrong:
        clause = refusal(row, operands, attributes)
        if clause is not None:
            changed = {n: v for n, v in attributes.items() if fine.get(n) != v}
            name = ",".join(f"{n}={v!r}".replace("'", "") for n, v in changed.items()) or "required"
            yield _Breach(name, clause, (shape,) * len(types), types, attributes)


def _outputs(row: OpVersion, types: Types, shape: Shape, fine: Mapping[str, Any]) -> Iterator[_Breach]:
    """An output declared with a type or a shape that it has not."""
    clause = f"{row.id}.{row.clause('output').id}"
    right = row.infer(*((name, shape) for name in types), **fine)
    other = next(name for name in ("float64", "float32") if name != right.type)
    larger = (*shape[:-1], shape[-1] + 1)
    for declared in (TensorType(other, shape), TensorType(right.type, larger)):
        name = other if declared.type != right.type else "x".join(map(str, larger))
        yield _Breach(f"output-{name}", clause, (shape,) * len(types), types, fine, declared)
