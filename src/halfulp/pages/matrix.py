"""Which operator version takes which types, as one table."""

from __future__ import annotations

from itertools import groupby

from halfulp.pages.page import Table
from halfulp.specs import find, ids
from halfulp.specs.model import OpVersion
from halfulp.types import TYPES

LEGEND = (
    "x: the first input, and with it the output, may have this type. y: the second input may, whatever"
    " the first one's type is. x=y: both inputs may, and then they share it."
)


def matrix() -> Table:
    """Return the table: a row per operator version, and a column per type or group of types.

    Types that every version treats alike share a column.
    """
    ops = [find(id) for id in ids()]
    columns = {name: tuple(_cell(op, name) for op in ops) for name in TYPES}
    # Sorting by first appearance keeps the order of the type table.
    first = {cells: number for number, cells in reversed(list(enumerate(columns.values())))}
    names = sorted(columns, key=lambda name: first[columns[name]])
    groups = [list(group) for _, group in groupby(names, key=lambda name: columns[name])]
    header = ("operator version", *(", ".join(group) for group in groups))
    rows = tuple((op.id, *(columns[group[0]][number] for group in groups)) for number, op in enumerate(ops))
    return Table(header, rows)


def _cell(op: OpVersion, name: str) -> str:
    takes = [name in op.type_variables[port.type] for port in op.inputs]
    marks = [mark for mark, taken in zip("xy", takes, strict=False) if taken]
    same_type = len({port.type for port in op.inputs}) == 1
    return ("=" if same_type else ", ").join(marks)
