"""The HTML page: one file that loads nothing, and is readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from halfulp.conformance.case import ASPECTS
from halfulp.conformance.document import Document, type_order
from halfulp.conformance.judge import FAULTS, HISTOGRAM
from halfulp.conformance.report import (
    SHOWN,
    Line,
    Target,
    describe,
    distance,
    family,
    findings,
    gist,
    lines,
    repetition_gist,
    repetition_place,
    targets,
    types_text,
)

STYLES = ("colours.css", "page.css")
_COMMON = ("exact", "within", "wrong", "refused")  # the verdicts that always have a column


def render(results: Sequence[Document]) -> str:
    """Return the page of some documents."""
    assets = files(__package__) / "assets"
    style = "\n".join((assets / name).read_text("utf-8") for name in STYLES)
    style += "".join(
        f".v-{name} {{ background: var(--{name}); color: var(--on-{name}); }}\n" for name in SHOWN
    )
    code = (assets / "filter.js").read_text("utf-8")
    named = targets(results)
    found = lines(results)
    # Autoescape, whatever the file is called; a missing key is an error and not an empty cell.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files(__package__) / "page.html.jinja").read_text("utf-8"))
    # The first finding of an operator version and types is where its square in a table leads to.
    anchors: dict[tuple[int, str], str] = {}
    cases = []
    for target, case in findings(named):
        key = target.number, "/".join(case["id"].split("/")[:2])
        cases.append((target, case, "" if key in anchors else f"{key[0]}-{key[1]}"))
        anchors.setdefault(key, f"{key[0]}-{key[1]}")
    return template.render(
        results=results,
        policy=_policy(style, code),
        style=Markup(style),
        script=Markup(code),
        targets=named,
        verdicts=[name for name in SHOWN if name in _COMMON or any(r["summary"][name] for r in results)],
        shown=SHOWN,
        faults=FAULTS,
        any_allowed=any(result["summary"]["allowed"] for result in results),
        heatmaps=list(heatmaps(named, found, anchors)),
        deviations=list(deviations(named)),
        distances=[
            {bucket: sum(row["histogram"][bucket] for row in target.document["rows"]) for bucket in HISTOGRAM}
            for target in named
        ],
        reproducibility=_reproducibility(named),
        cases=cases,
        gist=gist,
    )


def _policy(style: str, code: str) -> str:
    """Return a content security policy: nothing may be loaded, and only this style and this script apply."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, code))
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*digests)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _reproducibility(named: Sequence[Target]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return for each aspect a cell of each target: the number of tested entries, and the differences."""

    def cell(target: Target, aspect: str) -> dict[str, Any]:
        entries = [e for e in target.document["reproducibility"] if e["aspect"] == aspect]
        differs = [
            {
                "where": repetition_place(e),
                "gist": repetition_gist(e["example"]) if e["example"] else "",
            }
            for e in entries
            if e["verdict"] == "differs"
        ]
        tested = sum(e["verdict"] != "not tested" for e in entries)
        return {"target": target, "tested": tested, "differs": differs}

    return [(aspect, [cell(target, aspect) for target in named]) for aspect in ASPECTS]


# --- heatmaps ------------------------------------------------------------------------------------


def heatmaps(
    targets: Sequence[Target], lines: Sequence[Line], anchors: Mapping[tuple[int, str], str]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each operator with the tables of all targets that have it; ``anchors`` are the places of findings."""
    for operator, found in groupby(lines, key=lambda line: family(line.operator)):
        group = list(found)
        paired = any(len(set(line.types)) > 1 for line in group)
        # An array library has only the newest version, and so only that one's rows.
        had = [(target, [line for line in group if target.number in line.rows]) for target in targets]
        yield operator, [_table(target, paired, members, anchors) for target, members in had if members]


def _table(
    target: Target, paired: bool, lines: Sequence[Line], anchors: Mapping[tuple[int, str], str]
) -> dict[str, Any]:
    """Return the table of one operator and target: its versions, each with its rows.

    If ``paired``, a row is a first input's type, and a column the second input's type. Otherwise a version has one row,
    and a column is a type that all inputs share.
    """
    columns = sorted({line.types[-1] for line in lines}, key=type_order)
    versions: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        rows = versions.setdefault(line.operator.rpartition("-")[2], {})
        row = rows.setdefault(line.types[0] if paired else "", {})
        found = line.rows[target.number]
        name = found["verdict"]
        row[line.types[-1]] = {
            "anchor": anchors.get((target.number, f"{line.operator}/{','.join(line.types)}")),
            "verdict": name,
            "text": SHOWN[name].sign + (distance(found) if name == "within" else ""),
            "label": f"{target.label}, {line.operator}, {line.name}, {describe(found)}",
        }
    return {"target": target, "paired": paired, "columns": columns, "versions": versions}


# --- special values ------------------------------------------------------------------------------


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
