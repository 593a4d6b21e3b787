"""Cases about shapes and attributes: every way in which operands may meet, and everything that a row must refuse.

The same shapes and attributes are tried on every row. The row alone decides which make a broadcast case and
which an invalid one; nothing here knows an operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product, zip_longest
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.operands import Pairs, Random, cast, has_sign
from halfulp.conformance.cases.values import Types, case_id, least_rank, operand_types, ordinary
from halfulp.conformance.floats import integer_range
from halfulp.errors import SpecError
from halfulp.specs import OpVersion, TensorType
from halfulp.specs.model import Attribute
from halfulp.types import TYPES

Shape = tuple[int, ...]

_PAIRS: tuple[tuple[Shape, Shape], ...] = (
    # the same shape
    ((2, 3), (2, 3)),
    ((), ()),
    ((5,), (5,)),
    ((2, 3, 4), (2, 3, 4)),
    # one element
    ((2, 3, 4), ()),
    ((2, 3, 4), (1,)),
    ((2, 3, 4), (1, 1)),
    ((2, 3, 4), (1, 1, 1)),
    ((), (1,)),
    ((1,), ()),
    # the last dims
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (3, 4)),
    ((2, 3, 4, 5), (5,)),
    # the first dims, dims in the middle
    ((2, 3, 4), (3,)),
    ((2, 3, 4), (2,)),
    ((2, 3, 4), (2, 3)),
    ((2, 3, 4, 5), (3,)),
    ((2, 3, 4, 5), (3, 4)),
    ((1, 2, 3, 4), (2,)),
    ((1, 3, 1, 2), (3, 1, 1)),
    # equal dims, where a wrong place shows in the values only
    ((3, 3), (3,)),
    ((3, 3, 3), (3,)),
    ((3, 3, 3), (3, 3)),
    ((2, 3, 3, 3), (3,)),
    # dims of 1
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (2, 1, 4)),
    ((2, 3, 4), (2, 1, 1)),
    ((2, 3, 4), (1, 4)),
    ((2, 3), (2, 1)),
    ((2, 1), (1, 3)),
    ((2, 1), (2, 3)),
    # a second operand of higher rank, or larger
    ((3,), (2, 3)),
    ((2, 3), (1, 2, 3)),
    ((2, 3, 4), (1, 1, 1, 1)),
    ((), (2, 3)),
    ((1,), (5,)),
    # no element
    ((0,), (0,)),
    ((2, 0, 3), (3,)),
    ((2, 0, 3), (2, 0, 3)),
    ((2, 0), (1,)),
    ((2, 0), ()),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
    # four dims and more
    ((1, 1, 2, 3), (1, 1, 2, 3)),
    ((2, 3, 2, 2), (2, 3, 2, 2)),
    ((1, 2, 1, 2, 3), (1, 2, 1, 2, 3)),
    ((1, 2, 1, 2, 1, 2, 1, 3), (1, 2, 1, 2, 1, 2, 1, 3)),
    ((1, 2, 1, 2, 1, 2, 1, 3), (2, 1, 3)),
    ((1, 2, 1, 2, 1, 2, 1, 3), (2, 2, 1, 2, 1, 1)),
    ((1,) * 8 + (2,), (1,) * 8 + (2,)),
    # what doesn't fit
    ((2, 3), (2,)),
    ((2, 3, 4), (5,)),
    ((2, 3), (3, 2)),
    ((6,), (2, 3)),
    ((2, 3, 4), (4, 3)),
    ((3, 4), (5, 4)),
    ((1, 1, 2, 3), (1, 1, 2, 4)),
    ((2, 0, 1, 3), (2, 0, 1, 3)),
)


class Attempt(NamedTuple):
    """Shapes and attributes, and the clause that refuses them, or None where they are allowed."""

    shapes: tuple[Shape, ...]
    attributes: Mapping[str, Any]
    clause: str | None

    @property
    def name(self) -> str:
        """Such as ``"2x3x4,3,axis=1,broadcast=1"``."""
        parts = ["x".join(map(str, shape)) or "scalar" for shape in self.shapes]
        for name, value in self.attributes.items():
            parts.append(f"{name}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}")
        return ",".join(parts)


def attempts(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield all shapes with all attributes, each with the row's verdict."""
    pairs: list[tuple[Shape, ...]] = list(_PAIRS)
    if len(row.inputs) == 1:
        pairs = list(dict.fromkeys((x,) for x, _ in _PAIRS))
    for shapes in pairs:
        for chosen in product(*(_options(attribute, len(shapes[0])) for attribute in row.attributes)):
            attributes = {name: value for name, value in chosen if value is not None}
            yield Attempt(shapes, attributes, refusal(row, zip(types, shapes, strict=True), attributes))


def refusal(row: OpVersion, operands: Any, attributes: Mapping[str, Any]) -> str | None:
    """Return the clause that refuses these operands and attributes, or None."""
    try:
        row.infer(*operands, **attributes)
    except SpecError as error:
        return error.clause
    return None


def _options(attribute: Attribute, rank: int) -> list[tuple[str, Any]]:
    """The values to try of an attribute; None leaves it out."""
    values: tuple[Any, ...]
    match attribute.type:
        case "INT" if not attribute.values:
            values = (None, *range(rank), rank, -1, -rank)
        case "INTS":
            values = (None, (0, 0))
        case "FLOAT":
            values = (2.0,)
        case "DML_SCALE_BIAS":
            values = (None, (0.5, 0.25))
        case _:
            values = (None, *attribute.values)
    return [(attribute.name, value) for value in dict.fromkeys(values)]


# --- valid shapes --------------------------------------------------------------------------------

_QUICK_ATTRIBUTES = 3  # of those that a pair of shapes allows


def broadcast(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield a case for each of the shapes and attributes to try that the row allows.

    Quick mode takes three of those that have the same shapes and different attributes.
    """
    taken: Counter[tuple[Shape, ...]] = Counter()
    for attempt in attempts(row, types):
        if attempt.clause is not None:
            continue
        taken[attempt.shapes] += 1
        if mode == "full" or taken[attempt.shapes] <= _QUICK_ATTRIBUTES:
            id = case_id(row, types, "broadcast", attempt.name)
            inputs = small_inputs(row, types, attempt.shapes, Random(id))
            yield Case(id, row.id, "broadcast", inputs, dict(attempt.attributes))


def small_inputs(
    row: OpVersion, types: Types, shapes: tuple[Shape, ...], random: Random
) -> tuple[Array, ...]:
    """Return ordinary operands of some shapes; integers whatever meets what, with results that the type holds."""
    count = max(1, *map(prod, shapes))
    if TYPES[types[0]].kind != "float":
        pairs = _small_integers(*operand_types(row, types), random, count)
    else:
        pairs = ordinary(row, types, random, count)
    return tuple(array[: prod(shape)].reshape(shape) for array, shape in zip(pairs, shapes, strict=False))


def _small_integers(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Integers whose squares and products with one another are within the type."""
    most = min(isqrt(integer_range(x_name)[1]), 11)
    x = random.integers(-most if has_sign(x_name) else 0, most + 1, count).astype(np.float64)
    return Pairs(cast(x, x_name), cast(random.choose([0.0, 1.0, 2.0, 2.0], count), y_name))


# --- invalid cases -----------------------------------------------------------------------------

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
    """A case to refuse: its shapes, types, attributes and declared output, and the clause that they breach."""

    name: str
    clause: str
    shapes: tuple[Shape, ...]
    input_types: Types
    attributes: Mapping[str, Any]
    declared: TensorType | None = None

    def case(self, row: OpVersion, types: Types) -> Case:
        """Return the case: operands as the row wants them, with the types and the number of the breach."""
        id = case_id(row, types, "invalid", f"{self.clause.removeprefix(row.id + '.')}-{self.name}")
        pairs = small_inputs(row, types, (*self.shapes, self.shapes[-1])[:2], Random(id))
        given = [pairs[min(i, len(pairs) - 1)] for i in range(len(self.shapes))]
        with np.errstate(invalid="ignore"):
            wide = [array.astype(np.float64) for array in given]
        inputs = tuple(cast(array, name) for array, name in zip(wide, self.input_types, strict=True))
        attributes = dict(self.attributes)
        return Case(id, row.id, "invalid", inputs, attributes, clause=self.clause, declared=self.declared)


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
    others = [name for name, element in TYPES.items() if getattr(element, row.standard, None) is not None]
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
