"""The HTML page: one file that holds all it needs, and that reads without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from halfulp.conformance.case import ASPECTS, GROUPS
from halfulp.conformance.report.comparison import (
    Target,
    describe,
    distance,
    family,
    lines,
    order,
    repetition_gist,
    targets,
    type_order,
    types_text,
    version,
    worst_first,
)
from halfulp.conformance.report.heatmap import heatmaps
from halfulp.conformance.report.histogram import histogram
from halfulp.conformance.report.reproducer import Program, repetition, reproducers
from halfulp.conformance.report.specials import deviations, pack
from halfulp.conformance.report.verdicts import SHOWN, severity, urgency
from halfulp.conformance.schema import CaseEntry, Document, RowEntry
from halfulp.conformance.verdict.judge import HISTOGRAM

# In the order in which they are joined: each uses what those before it define.
STYLES = ("colours.css", "page.css")
SCRIPTS = (
    *("state.js", "filters.js", "sorting.js", "heatmaps.js", "compare.js"),
    *("grids.js", "distances.js", "findings.js", "main.js"),
)
# How many findings the page shows to who has no JavaScript.
_STATIC = 100
_BUCKET_VERDICTS = dict.fromkeys(HISTOGRAM, "within") | {
    "0": "exact",
    "5-16": "wrong",
    ">16": "wrong",
    "special": "wrong",
}
_KNOWN_FROM_ID = ("operator", "types", "group")


def render(results: Sequence[Document]) -> str:
    """Return the page of some documents."""
    assets = files(__package__) / "assets"
    style = "\n".join((assets / name).read_text("utf-8") for name in STYLES)
    code = "\n".join((assets / name).read_text("utf-8") for name in SCRIPTS)
    named = targets(results)
    found = lines(results)
    # Autoescape, whatever the file is called; a missing key is an error and not an empty cell.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files(__package__) / "page.html.jinja").read_text("utf-8"))
    cases = [(target, case) for target in named for case in target.document["cases"]]
    cases.sort(key=lambda pair: (worst_first(pair[1]), pair[0].number))
    programs = reproducers(cases)
    return template.render(
        title=_title(named),
        about=_about(results),
        policy=_policy(style, code),
        style=Markup(style),
        script=Markup(code),
        data=_json(_data(named, found, cases, programs)),
        targets=named,
        verdicts=_verdicts(named),
        shown=SHOWN,
        any_allowed=any(result["summary"]["allowed"] for result in results),
        selects=_selects(results),
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


def _title(named: Sequence[Target]) -> str:
    if len(named) == 1:
        return f"Conformance of {named[0].label}"
    return f"Conformance of {len(named)} runtimes"


def _about(results: Sequence[Document]) -> str:
    versions = sorted({result["run"]["halfulp"] for result in results})
    limits = sorted({result["run"]["ulp_limit"] for result in results})
    limit = " or ".join(f"{limit:g}" for limit in limits)
    return (
        f"Made by halfulp check {', '.join(versions)}; up to {limit} ulp off counts as within."
        if results
        else ""
    )


def _policy(style: str, code: str) -> str:
    """Return a content security policy: nothing may be loaded, and only this style and this script count."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(code)};"
        " base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> Markup:
    """Return JSON that can stand in a script element: nothing in it can end that or begin a comment."""
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
        # What the script can do without is left out.
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
            name: {"sign": row.sign, "severity": severity(name), "urgency": urgency(name)}
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
    made: dict[str, Any] = {"verdict": row["verdict"]}
    if row["max_ulp"]:
        made["max_ulp"] = row["max_ulp"]
    if row["message"]:
        made["message"] = row["message"]
    if any(row["histogram"].values()):
        made["histogram"] = [row["histogram"].get(bucket, 0) for bucket in HISTOGRAM]
    return made


def _selects(results: Sequence[Document]) -> list[tuple[str, str, list[str]]]:
    """Return the filters that are lists: the control's name, what it is called, and what there is to choose."""
    operators = sorted(
        {row["operator"] for result in results for row in result["rows"]}, key=lambda o: order(o, ())
    )
    types = sorted(
        {name for result in results for row in result["rows"] for name in row["types"]}, key=type_order
    )
    groups = {case["group"] for result in results for case in result["cases"]}
    versions = sorted({version(operator) for operator in operators}, key=lambda text: (len(text), text))
    return [
        ("operator", "Operator", list(dict.fromkeys(map(family, operators)))),
        ("version", "Version", versions),
        ("type", "Type", types),
        ("group", "Group of cases", [group for group in GROUPS if group in groups]),
    ]


def _verdicts(named: Sequence[Target]) -> list[str]:
    """Return the verdicts that have a column: the common ones, and the rare ones that occur."""
    common = ("exact", "within", "wrong", "refused")
    return [name for name in SHOWN if name in common or any(target.counts[name] for target in named)]


class _Part(NamedTuple):
    verdict: str
    x: float
    width: float


class _Share(NamedTuple):
    label: str
    parts: list[_Part]


def _share(target: Target) -> _Share:
    """Return the bar that shows a target's cases by verdict."""
    counts = [(name, target.counts[name]) for name in SHOWN]
    counts = [(name, count) for name, count in counts if count]
    total = sum(count for _, count in counts)
    parts, x = [], 0.0
    for name, count in counts:
        parts.append(_Part(name, round(x, 2), round(100 * count / total, 2)))
        x += 100 * count / total
    return _Share(", ".join(f"{count} {name}" for name, count in counts), parts)


class _Difference(NamedTuple):
    where: str
    gist: str
    program: str


class _Aspect(NamedTuple):
    target: Target
    tested: int
    differs: list[_Difference]


def _reproducibility(named: Sequence[Target]) -> list[tuple[str, list[_Aspect]]]:
    table: list[tuple[str, list[_Aspect]]] = []
    for aspect in ASPECTS:
        cells = []
        for target in named:
            entries = [e for e in target.document["reproducibility"] if e["aspect"] == aspect]
            differs = [
                _Difference(
                    f"{e['operator']} {types_text(e['types'])}{' (allowed)' if e['allowed'] else ''}",
                    repetition_gist(e["example"]) if e["example"] else "",
                    "".join(repetition(target, e)),
                )
                for e in entries
                if e["verdict"] == "differs"
            ]
            cells.append(_Aspect(target, sum(e["verdict"] != "not tested" for e in entries), differs))
        table.append((aspect, cells))
    return table
