"""What a row must refuse: for each clause that something can breach, models and inputs that do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.generators.attempts import Shape, attempts, refusal
from halfulp.conformance.cases.generators.build import Types, case_id, least_rank
from halfulp.conformance.cases.generators.random import Random, cast
from halfulp.conformance.cases.generators.shapes import small_inputs
from halfulp.specs import OpVersion, TensorType
from halfulp.types import TYPES, ElementType

_QUICK = 9  # cases of a clause and a kind
_NAMES = ("broadcast", "alpha", "axis")  # attributes that some other version or operator has


def invalid(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases that breach the row's clauses, named after the clause: ``C2-2x3,2``. Quick mode: few of each."""
    for kind in (_shapes, _types, _numbers, _attributes, _outputs):
        taken: Counter[str] = Counter()
        for breach in kind(row, types):
            taken[breach.clause] += 1
            if mode == "full" or taken[breach.clause] <= _QUICK:
                yield breach.case(row, types)


@dataclass(frozen=True)
class _Breach:
    """What is wrong in a case: its shapes, types, attributes or declared output, and the clause that says so."""

    name: str
    clause: str
    shapes: tuple[Shape, ...]
    input_types: Types
    attributes: Mapping[str, Any]
    declared: TensorType | None = None

    def case(self, row: OpVersion, types: Types) -> Case:
        id = case_id(row, types, "invalid", f"{self.clause.removeprefix(row.id + '.')}-{self.name}")
        return Case(
            id,
            row.id,
            "invalid",
            self._inputs(row, types, Random(id)),
            dict(self.attributes),
            clause=self.clause,
            declared=self.declared,
        )

    def _inputs(self, row: OpVersion, types: Types, random: Random) -> tuple[Array, ...]:
        """Operands as the row wants them, in what types and number the breach has them."""
        shapes = (*self.shapes, self.shapes[-1])[:2]
        pairs = small_inputs(row, types, shapes, random)
        given = [pairs[min(i, len(pairs) - 1)] for i in range(len(self.shapes))]
        with np.errstate(invalid="ignore"):
            wide = [array.astype(np.float64) for array in given]
        return tuple(cast(array, name) for array, name in zip(wide, self.input_types, strict=True))


def _valid(row: OpVersion, types: Types) -> tuple[list[tuple[str, Shape]], dict[str, Any]]:
    """Operands and attributes with which nothing is wrong."""
    shape = (1,) * (least_rank(row) - 2) + (2, 3)
    return [(name, shape) for name in types], {a.name: 2.0 for a in row.attributes if a.required}


def _shapes(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """Shapes and attributes that the row refuses, each pair of shapes once for a clause; first some far apart."""
    refused: dict[str, dict[tuple[Shape, ...], _Breach]] = {}
    for attempt in attempts(row, types):
        if attempt.clause is not None:
            breach = _Breach(attempt.name, attempt.clause, attempt.shapes, types, attempt.attributes)
            refused.setdefault(attempt.clause, {}).setdefault(attempt.shapes, breach)
    for breaches in refused.values():
        step = -(-len(breaches) // _QUICK)
        for start in range(step):
            yield from list(breaches.values())[start::step]


def _types(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """Types that a type variable does not allow, and two that should be one; the common types first, by turns."""
    ((_, shape), *_), fine = _valid(row, types)
    others = [name for name, element in TYPES.items() if _has(row, element)]
    others.sort(key=lambda name: name.startswith(("float8", "float4", "int4", "uint4")))
    variables = [port.type for port in row.inputs]
    everywhere: dict[Types, str] = {}
    alone: dict[Types, str] = {}
    for number, variable in enumerate(variables):
        for found, places in (
            (everywhere, [i for i, v in enumerate(variables) if v == variable]),
            (alone, [number]),
        ):
            for other in others:
                tried = tuple(other if i in places else name for i, name in enumerate(types))
                clause = refusal(row, [(name, shape) for name in tried], fine)
                if clause is not None:
                    found[tried] = clause
    turns = zip_longest(everywhere.items(), alone.items())
    for tried, clause in dict(one for both in turns for one in both if one is not None).items():
        yield _Breach(",".join(tried), clause, (shape,) * len(tried), tried, fine)


def _has(row: OpVersion, element: ElementType) -> bool:
    """Whether the row's standard has a type at all."""
    return getattr(element, row.standard, None) is not None


def _numbers(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """One input fewer and one more."""
    ((_, shape), *_), fine = _valid(row, types)
    for tried in (types[:-1], types + types[-1:]):
        clause = refusal(row, [(name, shape) for name in tried], fine)
        if clause is not None and tried:
            yield _Breach(f"{len(tried)}-inputs", clause, (shape,) * len(tried), tried, fine)


def _attributes(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """Attributes of wrong types and values, missing ones, unknown ones."""
    operands, fine = _valid(row, types)
    wrong: list[dict[str, Any]] = []
    for attribute in row.attributes:
        if attribute.required:
            wrong.append({name: value for name, value in fine.items() if name != attribute.name})
        values = {"INT": (2, 1.5, "1"), "INTS": (1.5, "0"), "string": ("bidirectional", 1)}
        wrong += [{**fine, attribute.name: value} for value in values.get(attribute.type, ("2", 1))]
    wrong += [{**fine, name: 1} for name in _NAMES if name not in {a.name for a in row.attributes}]
    for attributes in wrong:
        clause = refusal(row, operands, attributes)
        if clause is not None:
            changed = {n: v for n, v in attributes.items() if fine.get(n) != v}
            name = ",".join(f"{n}={'text:' * isinstance(v, str)}{v}" for n, v in changed.items())
            name = name or "required"  # something is missing
            yield _Breach(name, clause, tuple(shape for _, shape in operands), types, attributes)


def _outputs(row: OpVersion, types: Types) -> Iterator[_Breach]:
    """An output declared with a type or a shape that it has not."""
    operands, fine = _valid(row, types)
    if not any("output" in clause.enforces for clause in row.clauses):
        return
    clause = f"{row.id}.{row.clause('output').id}"
    right = row.infer(*operands, **fine)
    shape = operands[0][1]
    other = next(name for name in ("float64", "float32") if name != right.type)
    larger = (*shape[:-1], shape[-1] + 1)
    for declared in (TensorType(other, shape), TensorType(right.type, larger)):
        name = other if declared.type != right.type else "x".join(map(str, larger))
        yield _Breach(f"output-{name}", clause, (shape,) * len(types), types, fine, declared)
