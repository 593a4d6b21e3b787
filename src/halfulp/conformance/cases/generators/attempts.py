"""Shapes and attributes to try on a row: what it takes becomes a broadcast case, what it refuses an invalid one.

So the rows alone decide which is which; nothing here knows an operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from halfulp.conformance.cases.generators.build import Types
from halfulp.errors import SpecError
from halfulp.specs import OpVersion
from halfulp.specs.model import Attribute

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
        shapes = ("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return ",".join([*shapes, *(f"{name}={_short(value)}" for name, value in self.attributes.items())])


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def attempts(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield all shapes with all attributes, each with what the row says of it."""
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
