"""Reports on documents of ``halfulp check``: tables in a terminal, what CI systems show, and one HTML page."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from importlib.resources import files
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from halfulp.conformance.case import ASPECTS
from halfulp.conformance.document import Document, Entry, Part, all_faults, faults, grade_of, order
from halfulp.conformance.judge import FAULTS, GRADES, HISTOGRAM, VERDICTS, at_least, gravity
from halfulp.errors import printable
from halfulp.types import TYPES

_MOST_LINES = 20
_MOST_FINDINGS = 12
_MOST_TYPES = 3
_NARROW = 90
_LONGEST = 160
# To reject an invalid model is right, and to accept it is a fault.
_LABELS = {"accepted": "invalid accepted", "rejected": "invalid rejected", "not_reproducible": "differs"}


class Shown(NamedTuple):
    """A verdict for people: a sign and words, so that colour alone never tells two verdicts apart."""

    sign: str  # one character
    meaning: str  # a sentence about the runtime
    style: str  # the terminal's, as rich spells it; page.css has the page's colours under --<name>


SHOWN: Mapping[str, Shown] = {
    "exact": Shown("=", "every result is the correctly rounded one", "green"),
    "within": Shown("≈", "not always the nearest value, but never farther off than the limit", "yellow"),
    "wrong": Shown("≠", "a result farther off than the limit, or a special value gone wrong", "bold red"),
    "refused": Shown("⊘", "a valid model that the runtime does not take", "blue"),
    "accepted": Shown("!", "an invalid model that the runtime takes", "magenta"),
    "crashed": Shown("✕", "the runtime's process died", "bold red"),
    "hung": Shown("…", "no result within the time limit", "bold red"),
    "rejected": Shown("✓", "an invalid model that the runtime refuses, as it must", "green"),
    "unspecified": Shown("?", "the document leaves it open; recorded, not judged", "dim"),
}
"""The verdicts in the order of a table's columns."""

URGENCY = ("unspecified", "within", "refused", "accepted", "wrong", "hung", "crashed")
"""The verdicts of listed cases in the order in which a person wants to see them, the most urgent last."""


class Target(NamedTuple):
    """A document of a run, in which no two targets have one name, and what people read of its head."""

    number: int  # its place among the documents
    document: Document
    label: str
    versions: str  # of the measured packages
    run: str  # its circumstances


def _targets(documents: Sequence[Document]) -> list[Target]:
    found = []
    for number, document in enumerate(documents):
        target, run = document["target"], document["run"]
        versions = ", ".join(f"{name} {text}" for name, text in target["versions"].items())
        selected = ", ".join(chain.from_iterable(run["selection"].values()))
        only = [f"only {selected}"] * bool(selected)
        parts = [run["date"], f"{run['mode']} run", *only, run["machine"], f"Python {run['python']}"]
        found.append(Target(number, document, str(target["name"]), versions, ", ".join(map(str, parts))))
    return found


def findings(targets: Sequence[Target]) -> list[tuple[Target, Part]]:
    """Return the cases of all targets, the worst first: by verdict, by grade, and special values before distances."""

    def order(pair: tuple[Target, Part]) -> tuple[object, ...]:
        target, case = pair
        special = case["example"] is not None and case["example"]["ulp"] is None
        kind = -URGENCY.index(case["verdict"]), case["allowed"], -gravity(case["grade"] or "support")
        return *kind, not special, -(case["max_ulp"] or 0), -case["wrong"], case["id"], target.number

    return sorted(((target, case) for target in targets for case in target.document["cases"]), key=order)


# --- in words ------------------------------------------------------------------------------------


def types_text(types: Sequence[str]) -> str:
    """Return types as a person reads them: one name where all are the same."""
    return ", ".join(types if len(set(types)) > 1 else types[:1])


def distance(*rows: Part) -> str:
    """Return the greatest distance of some rows, in few words; empty if all are exact."""
    far = max((row["max_ulp"] or 0 for row in rows), default=0)
    special = any(row["histogram"]["special"] for row in rows)
    return ", ".join([short(far)] * (far > 0) + ["special"] * special)


def short(number: float) -> str:
    """Return a number in at most five characters."""
    if abs(number) < 10_000:
        return f"{number:.4g}"
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def gist(part: Part) -> str:
    """Return a finding in a line: of a case, or of an element that had other bits when it was computed again."""
    if (example := part["example"]) is None:
        return part.get("message") or (f"breaks {part['clause']}" if part.get("clause") else "")
    inputs = ", ".join(number["value"] for number in example["inputs"])
    if "again" in example:
        first, again = (f"{example[key]['value']} ({example[key]['bits']})" for key in ("first", "again"))
        return f"{inputs} gives {first}, and {again} in {example['case']}"
    off = f", {short(example['ulp'])} ulp off" if example["ulp"] else ""
    return f"{inputs} gives {example['got']['value']}, not {example['expected']['value']}{off}"


def repetition_place(part: Part) -> str:
    """Return the operator version and types of bits that are not reproducible, and whether that is allowed."""
    return f"{part['operator']} {types_text(part['types'])}{' (allowed)' if part['allowed'] else ''}"


# --- a terminal ----------------------------------------------------------------------------------


def show(
    results: Sequence[Document], console: Console, *, page: object = None, least: str = "support"
) -> None:
    """Print the findings about some targets: the numbers of verdicts, their rows, and the worst cases.

    ``page`` is the closing line's name of the page of the findings, or of the option that makes one. Findings below the
    grade ``least`` don't count, as that line says.
    """
    named, narrow = _targets(results), console.width < _NARROW
    several = len(named) > 1
    labels = [f"{printable(target.label)}: " * several for target in named]
    for target in named:
        parts = (printable(part, _LONGEST) for part in filter(None, (target.versions, target.run)))
        console.print(Text(f"{printable(target.label)}: {'; '.join(parts)}"), style="dim")
    console.print(_summary(named, narrow))
    for target in named:
        console.print(_rows(target.document, _cell(target.label) if several else None, narrow))
        for text in _differing(target.document):
            console.print(Text(labels[target.number] + text, style="magenta"))
    worst = _worst(named)
    if worst.row_count:
        console.print(worst)
    for target in named:
        text, style = _verdict(target.document, page or "--html FILE", least)
        console.print(Text(labels[target.number] + text, style))


def _differing(document: Document) -> Iterator[str]:
    """Yield a line for each aspect of the surroundings that changes bits."""
    places: dict[str, list[str]] = {}
    for part in document["reproducibility"]:
        if part["verdict"] == "differs":
            places.setdefault(part["aspect"], []).append(repetition_place(part))
    for aspect, names in places.items():
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield f"the bits depend on {aspect} in {'; '.join(names[:3])}{more}"


_table = partial(Table, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _cell(text: str) -> str:
    return escape(printable(text, _LONGEST))


def _sign(name: str) -> Text:
    """Return a verdict's sign and name in its colour; another count has a name alone."""
    label = _LABELS.get(name, name)
    return Text(f"{SHOWN[name].sign} {label}", style=SHOWN[name].style) if name in SHOWN else Text(label)


def _summary(named: Sequence[Target], narrow: bool) -> Table:
    """Return the table of the counts that are not all 0. In a narrow terminal a target is a column, not a row."""
    counts = [target.document["summary"] for target in named]
    columns: list[list[str | Text]] = [
        ["target", *(_cell(target.label) for target in named)],
        ["cases", *(f"{count['cases']:,}" for count in counts)],
    ]
    for name in (*SHOWN, "not_reproducible", "allowed"):
        if any(count[name] for count in counts):
            sign = _sign(name)
            columns.append([sign, *(Text(f"{c[name]:,}", sign.style if c[name] else "dim") for c in counts)])
    (head, *heads), *rows = columns if narrow else map(list, zip(*columns, strict=True))
    numbers = (Column(text, justify="right", no_wrap=not narrow) for text in heads)
    table = _table(Column(head, no_wrap=True), *numbers)
    for row in rows:
        table.add_row(*row)
    return table


def _rows(document: Document, title: str | None, narrow: bool) -> Table:
    """Return one target's rows, an operator version's worst first; types with the same verdict share a row."""
    names = ("operator", "verdict", "rows", "types", "ulp", "why")[: 5 if narrow else 6]
    table = _table(*(Column(name, no_wrap=name not in ("types", "why")) for name in names), title=title)
    table.columns[2].justify = table.columns[4].justify = "right"
    for operator, versions in groupby(document["rows"], key=itemgetter("operator")):
        worst_first = sorted(versions, key=lambda row: -VERDICTS.index(row["verdict"]))
        for number, (verdict, group) in enumerate(groupby(worst_first, key=itemgetter("verdict"))):
            members = list(group)
            types = [types_text(row["types"]) for row in members]
            some = ", ".join(f"({name})" if "," in name else name for name in types[:_MOST_TYPES])
            first, *others = dict.fromkeys(filter(None, map(itemgetter("message"), members))) or [""]
            why = printable(first, _LONGEST) + "; or the like" * bool(others)
            some = escape(some + ", ..." * (len(types) > _MOST_TYPES))
            head = "" if number else escape(printable(operator))
            cells = head, _sign(verdict), str(len(members)), some, distance(*members), escape(why)
            table.add_row(*cells[: len(names)])
    return table


def _worst(named: Sequence[Target]) -> Table:
    # The worst case of each operator, target and verdict, so that one fault does not hide the others.
    first: dict[tuple[int, str, str], tuple[Target, Part]] = {}
    for target, case in findings(named):
        if case["verdict"] in FAULTS:
            kind = target.number, case["operator"].rpartition("-")[0], case["verdict"]
            first.setdefault(kind, (target, case))
    several = len(named) > 1
    columns = (Column(name, overflow="fold") for name in ("verdict", "case", "finding"))
    table = _table(*["target"] * several, *columns, title="The worst of each kind")
    for target, case in list(first.values())[:_MOST_FINDINGS]:
        cells = _sign(case["verdict"]), _cell(case["id"]), _cell(gist(case))
        table.add_row(*[_cell(target.label)] * several, *cells)
    return table


def _verdict(document: Document, page: object, least: str) -> tuple[str, str]:
    """Return the closing line, and its style."""
    counting = [fault for fault in all_faults(document) if not fault["allowed"]]
    count, allowed = len(counting), document["summary"]["allowed"]
    if not count:
        but_allowed = f" but {allowed:,} that {'is' if allowed == 1 else 'are'} allowed" if allowed else ""
        return f"nothing wrong found{but_allowed}", "green"
    failed, rows = {"refused", "crashed", "hung"}, document["rows"]
    messages = {case["message"] for case in document["cases"] if case["verdict"] in failed}
    fails_alike = rows and len(messages) == 1 and all(failed >= row["cases"].keys() for row in rows)
    if fails_alike and document["summary"]["cases"] > 1:
        why = printable(str(*messages))
        return f"every case fails alike ({why}): is the target or its command right?", "bold"
    grade = max(map(grade_of, counting), key=gravity)
    shown = f"{printable(str(page))} shows {'it' if count == 1 else 'each'}"
    lesser = count - faults(document, least)
    parts = [f"{lesser:,} less grave than {least}"] * bool(lesser) + [f"{allowed:,} allowed"] * bool(allowed)
    beside = f", {lesser + allowed:,} of them not counted ({', '.join(parts)})" if parts else ""
    noun = "finding" if count + allowed == 1 else "findings"
    return f"{count + allowed:,} {noun}{beside}; the worst: {GRADES[grade]}; {shown}", "bold"


# --- CI systems -----------------------------------------------------------------------------------


def junit(documents: Sequence[Document], least: str, allowed: Sequence[Entry]) -> str:
    """Return a JUnit report: a suite for each target, and a test for each operator version and types.

    A test fails by findings that count. Those that are allowed, or less grave than ``least``, are shown with the
    reason: a test that has no others is skipped.
    """
    root = ElementTree.Element("testsuites")
    for document in documents:
        name = document["target"]["name"]
        suite = ElementTree.SubElement(root, "testsuite", name=printable(name))
        found = all_faults(document)
        # The texts of those that count and of the others, by operator version and types.
        tests: dict[tuple[str, str], tuple[list[str], list[str]]] = {
            (part["operator"], ",".join(part["types"])): ([], []) for part in (*document["rows"], *found)
        }
        for fault in found:
            counts, text = _told(name, fault, least, allowed)
            failing, others = tests[fault["operator"], ",".join(fault["types"])]
            (failing if counts else others).append(text)
        for (operator, types), (failing, others) in tests.items():
            head = {"classname": printable(operator), "name": printable(types)}
            test = ElementTree.SubElement(suite, "testcase", head)
            kind, texts = ("failure", failing) if failing else ("skipped", others)
            if texts:
                ElementTree.SubElement(test, kind, message=printable(texts[0], 300)).text = _some_lines(texts)
            if failing and others:
                ElementTree.SubElement(test, "system-out").text = _some_lines(others)
        suite.set("tests", str(len(tests)))
        suite.set("failures", str(len(suite.findall("*/failure"))))
        suite.set("skipped", str(len(suite.findall("*/skipped"))))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _told(target: str, fault: Part, least: str, allowed: Sequence[Entry]) -> tuple[bool, str]:
    """Return whether a finding counts, and the finding in a line, with the reason if it does not."""
    grade, is_case = grade_of(fault), "id" in fault
    what = f"{fault['verdict']}: {fault['id']}" if is_case else f"the bits depend on {fault['aspect']}"
    reason = "" if at_least(grade, least) else f"{grade} is less grave than {least}; "
    if fault["allowed"]:
        reasons = (entry.reason for entry in allowed if entry.allows(target, fault))
        reason = f"allowed: {next(reasons, '')}; "
    return not reason, f"{reason}{what}: {gist(fault)}"


def _some_lines(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _MOST_LINES} more"] if len(texts) > _MOST_LINES else []
    return "\n".join(printable(line, 300) for line in [*texts[:_MOST_LINES], *more])


# --- the HTML page ---------------------------------------------------------------------------------


def render(results: Sequence[Document]) -> str:
    """Return the page of some documents: one HTML file that loads nothing, and is readable without JavaScript."""
    from jinja2 import Environment, StrictUndefined  # lazily, because only pages need it
    from markupsafe import Markup

    assets = files(__package__) / "assets"
    style = "\n".join((assets / name).read_text("utf-8") for name in ("colours.css", "page.css"))
    rule = ".v-{0} {{ background: var(--{0}); color: var(--on-{0}); }}\n"
    style += "".join(map(rule.format, SHOWN))
    code = (assets / "filter.js").read_text("utf-8")
    # Nothing may be loaded, and only this style and this script apply.
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, code))
    policy = "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
    named, summaries = _targets(results), [document["summary"] for document in results]
    always = ("exact", "within", "wrong", "refused")  # these verdicts have a column, even if no case has them
    # Autoescape, whatever the file is called; a missing key is an error and not an empty cell.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((files(__package__) / "page.html.jinja").read_text("utf-8"))
    # The first finding of an operator version and types is where its square in a table leads to.
    anchors, cases = set[str](), []
    for target, case in findings(named):
        anchor = f"{target.number}-{'/'.join(case['id'].split('/')[:2])}"
        cases.append((target, case, "" if anchor in anchors else anchor))
        anchors.add(anchor)
    return template.render(
        results=results,
        policy=policy.format(*digests),
        style=Markup(style),
        script=Markup(code),
        targets=named,
        verdicts=[name for name in SHOWN if name in always or any(s[name] for s in summaries)],
        shown=SHOWN,
        faults=FAULTS,
        any_allowed=any(summary["allowed"] for summary in summaries),
        heatmaps=list(_heatmaps(named, anchors)),
        deviations=list(chain.from_iterable(map(_deviations, named))),
        distances=[
            {bucket: sum(row["histogram"][bucket] for row in document["rows"]) for bucket in HISTOGRAM}
            for document in results
        ],
        reproducibility=[(aspect, [_tested(target, aspect) for target in named]) for aspect in ASPECTS],
        cases=cases,
        gist=gist,
    )


def _tested(target: Target, aspect: str) -> dict[str, Any]:
    """Return how many operator versions and types were tested for an aspect, and the differences."""
    parts = [part for part in target.document["reproducibility"] if part["aspect"] == aspect]
    differing = [part for part in parts if part["verdict"] == "differs"]
    differs = [{"where": repetition_place(part), "gist": gist(part)} for part in differing]
    tested = sum(part["verdict"] != "not tested" for part in parts)
    return {"target": target, "tested": tested, "differs": differs}


def _heatmaps(targets: Sequence[Target], anchors: Set[str]) -> Iterator[tuple[str, list[Part]]]:
    """Yield each operator with the tables of all targets that have it; ``anchors`` are the places of findings."""
    rows = [(target, row) for target in targets for row in target.document["rows"]]
    rows.sort(key=lambda pair: order(pair[1]["operator"], pair[1]["types"]))
    for operator, group in groupby(rows, key=lambda pair: pair[1]["operator"].rpartition("-")[0]):
        members = list(group)
        # If so, a row is a first input's type, and a column the second's; else a version has one row, and all inputs
        # have a column's type.
        paired = any(len(set(row["types"])) > 1 for _, row in members)
        tables = []
        for target in targets:
            # An array library has only the newest version, and so only that one's rows.
            versions: dict[str, dict[str, dict[str, Any]]] = {}
            of_target = [row for owner, row in members if owner is target]
            for row in of_target:
                of_version = versions.setdefault(row["operator"].rpartition("-")[2], {})
                of_base = of_version.setdefault(row["types"][0] * paired, {})
                of_base[row["types"][-1]] = _square(target, row, anchors)
            columns = sorted({row["types"][-1] for row in of_target}, key=[*TYPES].index)
            if versions:
                tables.append({"target": target, "paired": paired, "columns": columns, "versions": versions})
        yield operator, tables


def _square(target: Target, row: Part, anchors: Set[str]) -> dict[str, Any]:
    """Return a square of a table, with a sentence that repeats the meaning of its colour and adds numbers."""
    operator, types, verdict, text = row["operator"], row["types"], row["verdict"], str(row["verdict"])
    anchor = f"{target.number}-{operator}/{','.join(types)}"
    if row["message"]:
        text += f": {row['message']}"
    elif row["misrounded"]:
        text += f": {row['misrounded']:,} of {row['elements']:,} elements not exact"
        text += f", by up to {short(row['max_ulp'])} ulp" if row["max_ulp"] else ""
        special = row["histogram"]["special"]
        text += f", {special:,} special values wrong" if special else ""
    return {
        "anchor": anchor if anchor in anchors else None,
        "verdict": verdict,
        "text": SHOWN[verdict].sign + (distance(row) if verdict == "within" else ""),
        "label": f"{target.label}, {operator}, {types_text(types)}, {text}",
    }


def _deviations(target: Target) -> list[dict[str, Any]]:
    """Return the special values that are wrong, each once, with all places."""
    places: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for entry in target.document["specials"]:
        for cell in entry["grid"]:
            if cell["verdict"] == "wrong":
                where = f"{entry['operator']} {types_text(entry['types'])}"
                places.setdefault(tuple(cell.items()), []).append(where)
    return [{"target": target.label, "where": where, **dict(cell)} for cell, where in places.items()]
