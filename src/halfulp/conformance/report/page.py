"""The HTML page: one file that loads nothing, and is readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby, islice
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from halfulp.conformance.case import ASPECTS, GROUPS
from halfulp.conformance.document import CaseEntry, Cell, Document, RowEntry, order, type_order
from halfulp.conformance.judge import FAULTS, HISTOGRAM, VERDICTS
from halfulp.conformance.report import (
    SHOWN,
    URGENCY,
    Line,
    Target,
    describe,
    distance,
    family,
    findings,
    lines,
    repetition_gist,
    repetition_place,
    targets,
    types_text,
)
from halfulp.conformance.report.reproducer import Program, repetition, reproducer, reproducers

# Each script uses names that earlier ones define.
STYLES = ("colours.css", "page.css")
SCRIPTS = tuple(
    f"{name}.js" for name in ("state", "controls", "heatmaps", "compare", "grids", "findings", "main")
)
# The number of findings that the page shows without JavaScript.
_STATIC = 100
_COMMON = ("exact", "within", "wrong", "refused")  # the verdicts that always have a column
_CODES = {name: str(place) for place, name in enumerate(SHOWN)}
_BUCKET_VERDICTS = (
    dict.fromkeys(HISTOGRAM, "wrong") | dict.fromkeys(("1", "2", "3-4"), "within") | {"0": "exact"}
)
_SEVERITY = {str(name): place for place, name in enumerate(VERDICTS)}
_KNOWN_FROM_ID = ("operator", "types", "group")


def render(results: Sequence[Document]) -> str:
    """Return the page of some documents."""
    assets = files(__package__) / "assets"
    style = "\n".join((assets / name).read_text("utf-8") for name in STYLES)
    style += "".join(
        f".v-{name} {{ background: var(--{name}); color: var(--on-{name}); }}\n" for name in SHOWN
    )
    code = "\n".join((assets / name).read_text("utf-8") for name in SCRIPTS)
    named = targets(results)
    found = lines(results)
    # Autoescape, whatever the file is called; a missing key is an error and not an empty cell.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files(__package__) / "page.html.jinja").read_text("utf-8"))
    cases = findings(named)
    programs = reproducers(cases)
    return template.render(
        results=results,
        policy=_policy(style, code),
        style=Markup(style),
        script=Markup(code),
        data=_json(_data(named, found, cases, programs)),
        targets=named,
        verdicts=[name for name in SHOWN if name in _COMMON or any(target.counts[name] for target in named)],
        shown=SHOWN,
        faults=FAULTS,
        any_allowed=any(result["summary"]["allowed"] for result in results),
        selects=_selects(found, cases),
        shares=[_share(target) for target in named],
        heatmaps=list(heatmaps(named, found)),
        lines=found,
        describe=describe,
        distance=distance,
        deviations=list(deviations(named)),
        histograms=[histogram(target.document["rows"]) for target in named],
        bucket_verdicts=_BUCKET_VERDICTS,
        reproducibility=_reproducibility(named),
        static=[(*pair, "".join(made)) for pair, made in islice(zip(cases, programs, strict=True), _STATIC)],
        left_out=max(0, len(cases) - _STATIC),
    )


def worst_program(results: Sequence[Document]) -> str | None:
    """Return the program for the worst finding that is not allowed; None if there is none."""
    counted = (pair for pair in findings(targets(results)) if pair[1]["verdict"] in FAULTS)
    return next(("".join(reproducer(*pair)) for pair in counted if not pair[1]["allowed"]), None)


def _policy(style: str, code: str) -> str:
    """Return a content security policy: nothing may be loaded, and only this style and this script apply."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, code))
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*digests)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _json(value: Any) -> Markup:
    """Return JSON for a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # escaped above, as a script element needs it


def _data(
    named: Sequence[Target],
    found: Sequence[Any],
    cases: Sequence[tuple[Target, CaseEntry]],
    programs: Sequence[Program],
) -> dict[str, Any]:
    # Most pieces are in many programs.
    pieces: dict[str, int] = {}
    packed = []
    for (target, case), made in zip(cases, programs, strict=True):
        # The script needs neither empty fields nor the parts of the id.
        entry: dict[str, Any] = {
            name: value for name, value in case.items() if value and name not in _KNOWN_FROM_ID
        }
        program = [pieces.setdefault(piece, len(pieces)) for piece in made]
        entry |= {"target": target.number, "shapes": case["shapes"], "program": program}
        packed.append(entry)
    rows = {line.key: {number: _row(row) for number, row in line.rows.items()} for line in found}
    keys = {(case["operator"], tuple(case["types"])) for _, case in cases}
    ordered = sorted(keys, key=lambda key: order(*key))
    return {
        "targets": [target.label for target in named],
        "verdicts": {
            name: {"sign": row.sign, "severity": _SEVERITY[name], "urgency": URGENCY.index(name)}
            for name, row in SHOWN.items()
        },
        "buckets": HISTOGRAM,
        "types": sorted({name for line in found for name in line.types}, key=type_order),
        "order": {f"{operator}/{','.join(types)}": place for place, (operator, types) in enumerate(ordered)},
        "rows": rows,
        "grids": pack(named),
        "cases": packed,
        "pieces": list(pieces),
    }


def _row(row: RowEntry) -> dict[str, Any]:
    histogram = [row["histogram"].get(bucket, 0) for bucket in HISTOGRAM]
    made = {name: row[name] for name in ("verdict", "max_ulp", "message") if row[name]}
    return made | ({"histogram": histogram} if any(histogram) else {})


def _selects(
    found: Sequence[Line], cases: Sequence[tuple[Target, CaseEntry]]
) -> list[tuple[str, str, list[str]]]:
    """Return the filters that are lists, each with the control's name, its label, and its options."""
    groups = {case["group"] for _, case in cases}
    versions = {_version(line.operator) for line in found}
    return [
        ("operator", "Operator", list(dict.fromkeys(family(line.operator) for line in found))),
        ("version", "Version", sorted(versions, key=lambda text: (len(text), text))),
        ("type", "Type", sorted({name for line in found for name in line.types}, key=type_order)),
        ("group", "Group of cases", [group for group in GROUPS if group in groups]),
    ]


def _share(target: Target) -> dict[str, Any]:
    """Return the bar that shows a target's cases by verdict."""
    counts = {name: target.counts[name] for name in SHOWN if target.counts[name]}
    parts, x = [], 0.0
    for name, count in counts.items():
        width = 100 * count / sum(counts.values())
        parts.append({"verdict": name, "x": round(x, 2), "width": round(width, 2)})
        x += width
    return {"label": ", ".join(f"{count} {name}" for name, count in counts.items()), "parts": parts}


def _reproducibility(named: Sequence[Target]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return for each aspect a cell of each target: the number of tested entries, and the differences."""

    def cell(target: Target, aspect: str) -> dict[str, Any]:
        entries = [e for e in target.document["reproducibility"] if e["aspect"] == aspect]
        differs = [
            {
                "where": repetition_place(e),
                "gist": repetition_gist(e["example"]) if e["example"] else "",
                "program": "".join(repetition(target, e)),
            }
            for e in entries
            if e["verdict"] == "differs"
        ]
        tested = sum(e["verdict"] != "not tested" for e in entries)
        return {"target": target, "tested": tested, "differs": differs}

    return [(aspect, [cell(target, aspect) for target in named]) for aspect in ASPECTS]


# --- heatmaps ------------------------------------------------------------------------------------


def heatmaps(targets: Sequence[Target], lines: Sequence[Line]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each operator with the tables of all targets that have it."""
    for operator, found in groupby(lines, key=lambda line: family(line.operator)):
        group = list(found)
        paired = any(len(set(line.types)) > 1 for line in group)
        # An array library has only the newest version, and so only that one's rows.
        had = [(target, [line for line in group if target.number in line.rows]) for target in targets]
        yield operator, [_table(target, paired, members) for target, members in had if members]


def _table(target: Target, paired: bool, lines: Sequence[Line]) -> dict[str, Any]:
    """Return the table of one operator and target: its versions, each with its rows.

    If ``paired``, a row is a first input's type, and a column the second input's type. Otherwise a version has one row,
    and a column is a type that all inputs share.
    """
    columns = sorted({line.types[-1] for line in lines}, key=type_order)
    versions: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        row = versions.setdefault(_version(line.operator), {}).setdefault(line.types[0] if paired else "", {})
        found = line.rows[target.number]
        name = found["verdict"]
        row[line.types[-1]] = {
            "key": line.key,
            "verdict": name,
            "text": SHOWN[name].sign + (distance(found) if name == "within" else ""),
            "label": f"{target.label}, {line.operator}, {line.name}, {describe(found)}",
        }
    return {"target": target, "paired": paired, "columns": columns, "versions": versions}


def _version(operator: str) -> str:
    return operator.rpartition("-")[2]


# --- histograms ----------------------------------------------------------------------------------


def histogram(rows: Sequence[RowEntry]) -> list[dict[str, Any]]:
    """Return the bars of some rows of a document together: how many elements are how far off.

    The width is on a logarithmic scale from 0 to 100, so that one element in a million is seen.
    """
    counts = sum((Counter(row["histogram"]) for row in rows), Counter[str]())
    total = counts.total()
    bars = []
    for bucket in HISTOGRAM:
        count = counts[bucket]
        width = 100 * math.log10(count + 1) / math.log10(total + 1) if count else 0.0
        share = percent(count, total) if count else "0"
        bars.append({"bucket": bucket, "count": count, "share": share, "width": round(width, 1)})
    return bars


def percent(count: int, total: int) -> str:
    """Format a percentage. Shows 0 % or 100 % only if exact."""
    if count in (0, total):
        return "100 %" if count else "0 %"
    # Enough digits to tell it from 0 % and from 100 %.
    far = min(count, total - count) / total * 100
    digits = max(1, -math.floor(math.log10(far)))
    text = f"{100 * count / total:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')} %"


# --- special values ------------------------------------------------------------------------------


def pack(targets: Sequence[Target]) -> dict[str, Any]:
    """Return the grids of all targets for the page's script; many types and targets have one in common.

    Returns:
        ``grids``: the distinct ones, each with its ``x``, its ``y`` and, row by row, the ``expected`` results (None
        where the grid has no such pair). ``cells``: by ``"onnx.Pow-15/float32,int64"`` and the target's number the
        grid's place, the verdicts (a digit each, the place in the list of verdicts; empty if all are exact), and the
        results that are not the expected ones.
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


def deviations(targets: Sequence[Target]) -> Iterator[dict[str, Any]]:
    """Yield the special values that are wrong, each once for a target, with all places."""
    for target in targets:
        where: dict[tuple[str, ...], list[str]] = {}
        for entry in target.document["specials"]:
            for cell in entry["grid"]:
                if cell["verdict"] == "wrong":
                    key = (cell["x"], cell["y"], cell["expected"], cell["got"])
                    where.setdefault(key, []).append(f"{entry['operator']} {types_text(entry['types'])}")
        for (x, y, expected, got), places in where.items():
            yield {"target": target.label, "x": x, "y": y, "expected": expected, "got": got, "where": places}
