"""The HTML page: one file that loads nothing, and is readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from halfulp.conformance.case import ASPECTS
from halfulp.conformance.document import Document, Part, order, type_order
from halfulp.conformance.judge import FAULTS, HISTOGRAM
from halfulp.conformance.report import (
    SHOWN,
    Target,
    distance,
    family,
    findings,
    gist,
    repetition_gist,
    repetition_place,
    short,
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
    named, summaries = targets(results), [document["summary"] for document in results]
    # Autoescape, whatever the file is called; a missing key is an error and not an empty cell.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files(__package__) / "page.html.jinja").read_text("utf-8"))
    # The first finding of an operator version and types is where its square in a table leads to.
    anchors: dict[str, str] = {}
    cases = []
    for target, case in findings(named):
        anchor = f"{target.number}-{'/'.join(case['id'].split('/')[:2])}"
        cases.append((target, case, "" if anchor in anchors else anchor))
        anchors[anchor] = anchor
    return template.render(
        results=results,
        policy=_policy(style, code),
        style=Markup(style),
        script=Markup(code),
        targets=named,
        verdicts=[name for name in SHOWN if name in _COMMON or any(s[name] for s in summaries)],
        shown=SHOWN,
        faults=FAULTS,
        any_allowed=any(summary["allowed"] for summary in summaries),
        heatmaps=list(_heatmaps(named, anchors)),
        deviations=[found for target in named for found in _deviations(target)],
        distances=[_distances(document) for document in results],
        reproducibility=[(aspect, [_tested(target, aspect) for target in named]) for aspect in ASPECTS],
        cases=cases,
        gist=gist,
    )


def _policy(style: str, code: str) -> str:
    """Return a content security policy: nothing may be loaded, and only this style and this script apply."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, code))
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*digests)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _distances(document: Document) -> dict[str, int]:
    """Return the number of elements at each distance."""
    return {bucket: sum(row["histogram"][bucket] for row in document["rows"]) for bucket in HISTOGRAM}


def _tested(target: Target, aspect: str) -> dict[str, Any]:
    """Return how many operator versions and types were tested for an aspect, and the differences."""
    parts = [part for part in target.document["reproducibility"] if part["aspect"] == aspect]
    verdicts = Counter(part["verdict"] for part in parts)
    differs = [
        {"where": repetition_place(part), "gist": repetition_gist(part)}
        for part in parts
        if part["verdict"] == "differs"
    ]
    return {"target": target, "tested": len(parts) - verdicts["not tested"], "differs": differs}


def _heatmaps(
    targets: Sequence[Target], anchors: Mapping[str, str]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each operator with the tables of all targets that have it; ``anchors`` are the places of findings."""
    rows = [(target, row) for target in targets for row in target.document["rows"]]
    rows.sort(key=lambda pair: order(pair[1]["operator"], pair[1]["types"]))
    for operator, group in groupby(rows, key=lambda pair: family(pair[1]["operator"])):
        members = list(group)
        paired = any(len(set(row["types"])) > 1 for _, row in members)
        # An array library has only the newest version, and so only that one's rows.
        of_targets = ((target, [row for owner, row in members if owner is target]) for target in targets)
        yield operator, [_table(target, paired, own, anchors) for target, own in of_targets if own]


def _table(target: Target, paired: bool, rows: Sequence[Part], anchors: Mapping[str, str]) -> dict[str, Any]:
    """Return the table of one operator and target: its versions, each with its rows.

    If ``paired``, a row is a first input's type, and a column the second input's type. Otherwise a version has one row,
    and a column is a type that all inputs share.
    """
    columns = sorted({row["types"][-1] for row in rows}, key=type_order)
    versions: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        operator, types, verdict = row["operator"], row["types"], row["verdict"]
        cells = versions.setdefault(operator.rpartition("-")[2], {}).setdefault(
            types[0] if paired else "", {}
        )
        cells[types[-1]] = {
            "anchor": anchors.get(f"{target.number}-{operator}/{','.join(types)}"),
            "verdict": verdict,
            "text": SHOWN[verdict].sign + (distance(row) if verdict == "within" else ""),
            "label": f"{target.label}, {operator}, {types_text(types)}, {_described(row)}",
        }
    return {"target": target, "paired": paired, "columns": columns, "versions": versions}


def _described(row: Part) -> str:
    """Return a sentence on a row, which repeats the meaning of its colour and adds numbers."""
    text = str(row["verdict"])
    if row["message"]:
        return f"{text}: {row['message']}"
    if row["misrounded"]:
        text += f": {row['misrounded']:,} of {row['elements']:,} elements not exact"
        text += f", by up to {short(row['max_ulp'])} ulp" if row["max_ulp"] else ""
        special = row["histogram"]["special"]
        text += f", {special:,} special values wrong" if special else ""
    return text


def _deviations(target: Target) -> Iterator[dict[str, Any]]:
    """Yield the special values that are wrong, each once, with all places."""
    where: dict[tuple[str, ...], list[str]] = {}
    for entry in target.document["specials"]:
        for cell in (cell for cell in entry["grid"] if cell["verdict"] == "wrong"):
            key = (cell["x"], cell["y"], cell["expected"], cell["got"])
            where.setdefault(key, []).append(f"{entry['operator']} {types_text(entry['types'])}")
    for (x, y, expected, got), places in where.items():
        yield {"target": target.label, "x": x, "y": y, "expected": expected, "got": got, "where": places}
