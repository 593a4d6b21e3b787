"""The special-value grids, packed: what many types and targets have in common is held once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from halfulp.conformance.report.comparison import Target, order, types_text
from halfulp.conformance.report.verdicts import SHOWN
from halfulp.conformance.schema import Cell

_CODES = {name: str(place) for place, name in enumerate(SHOWN)}


@dataclass(frozen=True)
class Deviation:
    """A special value that a target gets wrong, with all operator versions and types for which it does."""

    target: str
    x: str
    y: str
    expected: str
    got: str
    where: tuple[str, ...]


def pack(targets: Sequence[Target]) -> dict[str, Any]:
    """Return the grids of all targets for the page's script.

    Returns:
        ``grids``: the distinct ones, each with its ``x``, its ``y`` and, row by row, what is ``expected`` (None where
        the grid has no such pair). ``cells``: by ``"onnx.Pow-15/float32,int64"`` and the target's number which of
        those it is, its verdicts (a digit each, the place in the list of verdicts; empty where all are exact), and
        what it ``got`` where that is something else.
    """
    grids: list[dict[str, Any]] = []
    numbers: dict[Any, int] = {}
    cells: dict[str, dict[int, list[Any]]] = {}
    entries = sorted(
        ((entry, target.number) for target in targets for entry in target.document["specials"]),
        key=lambda pair: (order(pair[0]["operator"], pair[0]["types"]), pair[1]),
    )
    for entry, number in entries:
        grid, codes, got = _packed(entry["grid"])
        place = numbers.setdefault(repr(grid), len(grids))
        if place == len(grids):
            grids.append(grid)
        key = f"{entry['operator']}/{','.join(entry['types'])}"
        cells.setdefault(key, {})[number] = [place, codes, got]
    return {"grids": grids, "cells": cells}


def _packed(grid: Sequence[Cell]) -> tuple[dict[str, Any], str, dict[int, str]]:
    xs = list(dict.fromkeys(str(cell["x"]) for cell in grid))
    ys = list(dict.fromkeys(str(cell["y"]) for cell in grid))
    found = {(str(cell["x"]), str(cell["y"])): cell for cell in grid}
    inside = [found.get((x, y)) for x in xs for y in ys]
    expected = [None if cell is None else cell["expected"] for cell in inside]
    codes = "".join(" " if cell is None else _CODES[cell["verdict"]] for cell in inside)
    got = {
        place: cell["got"]
        for place, cell in enumerate(inside)
        if cell is not None and cell["got"] != cell["expected"]
    }
    return {"x": xs, "y": ys, "expected": expected}, "" if set(codes) <= {_CODES["exact"]} else codes, got


def deviations(targets: Sequence[Target]) -> Iterator[Deviation]:
    """Give the special values that are wrong, each once for a target, with where."""
    for target in targets:
        where: dict[tuple[str, ...], list[str]] = {}
        for entry in target.document["specials"]:
            for cell in entry["grid"]:
                if cell["verdict"] == "wrong":
                    key = tuple(str(cell[name]) for name in ("x", "y", "expected", "got"))
                    where.setdefault(key, []).append(f"{entry['operator']} {types_text(entry['types'])}")
        for (x, y, expected, got), places in where.items():
            yield Deviation(target.label, x, y, expected, got, tuple(places))
