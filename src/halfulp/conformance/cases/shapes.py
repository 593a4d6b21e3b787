"""Cases about shapes and attributes: every way to broadcast operands, and everything that a row must refuse.

The same shapes and attributes are tried on every row. The row alone decides which of them are
broadcast cases and which are invalid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product, zip_longest
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Mode
from halfulp.conformance.cases.operands import Pairs, Random, cast, has_sign
from halfulp.conformance.cases.values import Types, case_id, least_rank, operand_types, ordinary
from halfulp.errors import SpecError
from halfulp.specs import OpVersion, TensorType
from halfulp.specs.model import Attribute
from halfulp.types import TYPES, integer_range

Shape = tuple[int, ...]

# As the ids of cases spell them.
_SHAPES = {
    "the same shape": "2x3,2x3 scalar,scalar 5,5 2x3x4,2x3x4",
    "one element": "2x3x4,scalar 2x3x4,1 2x3x4,1x1 2x3x4,1x1x1 scalar,1 1,scalar",
    "the last dims": "2x3x4,4 2x3x4,3x4 2x3x4x5,5",
    "the first dims, dims in the middle": "2x3x4,3 2x3x4,2 2x3x4,2x3 2x3x4x5,3 2x3x4x5,3x4 1x2x3x4,2 1x3x1x2,3x1x1",
    "equal dims, where a wrong place shows in the values only": "3x3,3 3x3x3,3 3x3x3,3x3 2x3x3x3,3",
    "dims of 1": "2x3x4,3x1 2x3x4,2x1x4 2x3x4,2x1x1 2x3x4,1x4 2x3,2x1 2x1,1x3 2x1,2x3",
    "a second operand of higher rank, or larger": "3,2x3 2x3,1x2x3 2x3x4,1x1x1x1 scalar,2x3 1,5",
    "no element": "0,0 2x0x3,3 2x0x3,2x0x3 2x0,1 2x0,scalar 0x3,1x3 1,0",
    "four dims and more": "1x1x2x3,1x1x2x3 2x3x2x2,2x3x2x2 1x2x1x2x3,1x2x1x2x3 1x2x1x2x1x2x1x3,1x2x1x2x1x2x1x3"
    " 1x2x1x2x1x2x1x3,2x1x3 1x2x1x2x1x2x1x3,2x2x1x2x1x1 1x1x1x1x1x1x1x1x2,1x1x1x1x1x1x1x1x2",
    "shapes that don't fit": "2x3,2 2x3x4,5 2x3,3x2 6,2x3 2x3x4,4x3 3x4,5x4 1x1x2x3,1x1x2x4 2x0x1x3,2x0x1x3",
}


class Attempt(NamedTuple):
    """Operands and attributes to try, perhaps with a declared output, and the clause that refuses them, if any."""

    name: str
    clause: str | None
    shapes: tuple[Shape, ...]
    types: Types
    attributes: Mapping[str, Any]
    declared: TensorType | None = None


def attempts(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield all shapes with all attributes, each with the row's verdict: ``"2x3x4,3,axis=1,broadcast=1"``."""
    pairs = " ".join(_SHAPES.values()).split()
    for text in dict.fromkeys(",".join(pair.split(",")[: len(row.inputs)]) for pair in pairs):
        shapes = tuple(
            () if part == "scalar" else tuple(map(int, part.split("x"))) for part in text.split(",")
        )
        for chosen in product(*(_options(attribute, len(shapes[0])) for attribute in row.attributes)):
            attributes = {name: value for name, value in chosen if value is not None}
            name = text
            for key, value in attributes.items():
                name += f",{key}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
            clause = refusal(row, zip(types, shapes, strict=True), attributes)
            yield Attempt(name, clause, shapes, types, attributes)


def refusal(row: OpVersion, operands: Any, attributes: Mapping[str, Any]) -> str | None:
    """Return the clause that refuses these operands and attributes, or None."""
    try:
        row.infer(*operands, **attributes)
    except SpecError as error:
        return error.clause
    return None


def _options(attribute: Attribute, rank: int) -> list[tuple[str, Any]]:
    """Return the values to try of an attribute; None leaves it out."""
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

_QUICK_ATTRIBUTES = 3  # the number of sets of attributes for a pair of shapes


def broadcast(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield a case for each of the shapes and attributes to try that the row allows.

    Quick mode takes three sets of attributes for the same shapes.
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
    """Return ordinary operands of some shapes."""
    count = max(1, *map(prod, shapes))
    if TYPES[types[0]].kind == "float":
        pairs = ordinary(row, types, random, count)
    else:  # squares and products of any two are within the type
        x_name, y_name = operand_types(row, types)
        most = min(isqrt(integer_range(x_name)[1]), 11)
        x = random.integers(-most if has_sign(x_name) else 0, most + 1, count).astype(np.float64)
        pairs = Pairs(cast(x, x_name), cast(random.choose([0.0, 1.0, 2.0, 2.0], count), y_name))
    return tuple(array[: prod(shape)].reshape(shape) for array, shape in zip(pairs, shapes, strict=False))


# --- invalid cases -----------------------------------------------------------------------------

_QUICK = 9  # the number of cases of a clause and a kind
_NAMES = ("broadcast", "alpha", "axis")  # attributes that some other version or operator has


def invalid(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases that breach the row's clauses, named after the clause: ``C2-2x3,2``. Quick mode: few of each."""
    for kind in (_shapes, _types, _numbers, _attributes, _outputs):
        taken: Counter[str] = Counter()
        for attempt in kind(row, types):
            if attempt.clause is None:
                continue
            taken[attempt.clause] += 1
            if mode == "full" or taken[attempt.clause] <= _QUICK:
                yield _refused(row, types, attempt, attempt.clause)


def _refused(row: OpVersion, types: Types, attempt: Attempt, clause: str) -> Case:
    """Return the case of an attempt: operands that are as small as a valid case has them, in the attempt's types."""
    id = case_id(row, types, "invalid", f"{clause.removeprefix(row.id + '.')}-{attempt.name}")
    pairs = small_inputs(row, types, (*attempt.shapes, attempt.shapes[-1])[:2], Random(id))
    inputs = []
    for place, name in enumerate(attempt.types):
        with np.errstate(invalid="ignore"):
            inputs.append(cast(pairs[min(place, len(pairs) - 1)].astype(np.float64), name))
    attributes = dict(attempt.attributes)
    return Case(id, row.id, "invalid", tuple(inputs), attributes, clause=clause, declared=attempt.declared)


def _valid(row: OpVersion) -> tuple[Shape, dict[str, Any]]:
    """Return a shape for all operands, and attributes, with which nothing is wrong."""
    return (1,) * (least_rank(row) - 2) + (2, 3), {a.name: 2.0 for a in row.attributes if a.required}


def _shapes(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield shapes and attributes that the row refuses, each pair of shapes once for a clause; first some far apart."""
    refused: dict[str, dict[tuple[Shape, ...], Attempt]] = {}
    for attempt in attempts(row, types):
        if attempt.clause is not None:
            refused.setdefault(attempt.clause, {}).setdefault(attempt.shapes, attempt)
    for breaches in refused.values():
        step = -(-len(breaches) // _QUICK)
        for start in range(step):
            yield from list(breaches.values())[start::step]


def _types(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield types that a type variable does not allow, and two that should be one; the common types first, by turns."""
    others = [name for name, element in TYPES.items() if getattr(element, row.format, None) is not None]
    others.sort(key=lambda name: name.startswith(("float8", "float4", "int4", "uint4")))
    variables = [port.type for port in row.inputs]
    everywhere: dict[Types, Attempt] = {}
    alone: dict[Types, Attempt] = {}
    for number, variable in enumerate(variables):
        together = [place for place, other in enumerate(variables) if other == variable]
        for found, places in ((everywhere, together), (alone, [number])):
            for other in others:
                tried = tuple(other if place in places else name for place, name in enumerate(types))
                found[tried] = _attempt(row, tried, ",".join(tried))
    refused = ([a for a in found.values() if a.clause is not None] for found in (everywhere, alone))
    turns = [attempt for both in zip_longest(*refused) for attempt in both if attempt is not None]
    yield from {attempt.types: attempt for attempt in turns}.values()


def _attempt(row: OpVersion, types: Types, name: str) -> Attempt:
    """Return an attempt in which nothing is wrong but perhaps the types of the operands, or their number."""
    shape, fine = _valid(row)
    clause = refusal(row, [(kind, shape) for kind in types], fine)
    return Attempt(name, clause, (shape,) * len(types), types, fine)


def _numbers(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield one input fewer and one more."""
    for tried in (types[:-1], types + types[-1:]):
        if tried:
            yield _attempt(row, tried, f"{len(tried)}-inputs")


def _attributes(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield attributes of wrong types and values, missing attributes, unknown attributes."""
    shape, fine = _valid(row)
    wrong: list[dict[str, Any]] = []
    for attribute in row.attributes:
        if attribute.required:
            wrong.append({name: value for name, value in fine.items() if name != attribute.name})
        values = {"INT": (2, 1.5, "1"), "INTS": (1.5, "0"), "string": ("bidirectional", 1)}
        wrong += [{**fine, attribute.name: value} for value in values.get(attribute.type, ("2", 1))]
    wrong += [{**fine, name: 1} for name in _NAMES if name not in {a.name for a in row.attributes}]
    for attributes in wrong:
        clause = refusal(row, [(kind, shape) for kind in types], attributes)
        changed = {n: v for n, v in attributes.items() if fine.get(n) != v}
        name = ",".join(f"{n}={'text:' * isinstance(v, str)}{v}" for n, v in changed.items())
        # Without a name, something that is required is missing.
        yield Attempt(name or "required", clause, (shape,) * len(types), types, attributes)


def _outputs(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield outputs that are declared with a wrong type or shape."""
    if not any("output" in clause.enforces for clause in row.clauses):
        return
    shape, fine = _valid(row)
    clause = f"{row.id}.{row.clause('output').id}"
    right = row.infer(*((kind, shape) for kind in types), **fine).type
    other = next(name for name in ("float64", "float32") if name != right)
    larger = (*shape[:-1], shape[-1] + 1)
    for name, declared in (
        (other, TensorType(other, shape)),
        ("x".join(map(str, larger)), TensorType(right, larger)),
    ):
        yield Attempt(f"output-{name}", clause, (shape,) * len(types), types, fine, declared)
