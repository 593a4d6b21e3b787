"""The findings of ``halfulp check`` as tables in a terminal, and as CI systems show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from halfulp.conformance.document import Allowed, CaseEntry, Document, all_faults, faults
from halfulp.conformance.judge import FAULTS, GRADES, VERDICTS, Verdict, at_least, worst
from halfulp.conformance.report import (
    SHOWN,
    Line,
    Target,
    distance,
    family,
    findings,
    gist,
    lines,
    repetition_gist,
    repetition_place,
    targets,
)
from halfulp.errors import printable

_MOST_LINES = 20
_MOST_FINDINGS = 12
_MOST_TYPES = 3
_NARROW = 90
_LONGEST = 160
# To reject an invalid model is right, and to accept it is a fault.
_LABELS = {"accepted": "invalid accepted", "rejected": "invalid rejected"}


def show(
    results: Sequence[Document], console: Console, *, page: object = None, least: str = "support"
) -> None:
    """Print the findings about some targets: the numbers of verdicts, their rows, and the worst cases.

    ``page`` is the closing line's name of the page of the findings, or of the option that makes one. Findings below the
    grade ``least`` don't count, as that line says.
    """
    named = targets(results)
    for target in named:
        circumstances = "; ".join(printable(text) for text in (target.versions, target.run) if text)
        console.print(Text(f"{printable(target.label)}: {circumstances}"), style="dim")
    narrow, several = console.width < _NARROW, len(named) > 1
    console.print(_summary(named, narrow))
    for target in named:
        found = [line for line in lines(results) if target.number in line.rows]
        console.print(_rows(target, found, _table(_cell(target.label) if several else None), narrow))
        for text in _reproducibility(target, several=several):
            console.print(text)
    worst = _worst(named)
    if worst.row_count:
        console.print(worst)
    for target in named:
        console.print(_verdict(target, page or "--html FILE", least, several=several))


def _table(title: str | None = None) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _cell(text: str) -> str:
    return escape(printable(text, _LONGEST))


def _sign(name: str, text: str | None = None) -> Text:
    """Return a verdict's sign, and its name or another text, in its colour."""
    shown = SHOWN[name]
    label = _LABELS.get(name, name) if text is None else text
    return Text(f"{shown.sign} {label}", style=shown.style)


def _summary(named: Sequence[Target], narrow: bool) -> Table:
    """Return the table of the counts that are not all 0. In a narrow terminal a target is a column, not a row."""
    counts = [target.document["summary"] for target in named]
    columns: list[list[str | Text]] = [
        ["target", *(_cell(target.label) for target in named)],
        ["cases", *(f"{count['cases']:,}" for count in counts)],
    ]
    for name in (*SHOWN, "not_reproducible", "allowed"):
        if any(count[name] for count in counts):
            style = SHOWN[name].style if name in SHOWN else ""
            head = _sign(name) if name in SHOWN else name.replace("not_reproducible", "differs")
            columns.append(
                [head, *(Text(f"{n:,}", style if n else "dim") for n in (c[name] for c in counts))]
            )
    heads, *rows = columns if narrow else map(list, zip(*columns, strict=True))
    table = _table()
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if place else "left", no_wrap=not (narrow and place))
    for row in rows:
        table.add_row(*row)
    return table


def _rows(target: Target, found: Sequence[Line], table: Table, narrow: bool) -> Table:
    """Add one target's rows, an operator version's worst first; types with the same verdict share a row."""
    for name in ("operator", "verdict", "rows", "types", "ulp", "why")[: 5 if narrow else 6]:
        is_number = name in ("rows", "ulp")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=name not in ("types", "why"))
    for operator, group in groupby(found, key=lambda line: line.operator):
        alike: dict[Verdict, list[Line]] = {}
        for line in group:
            alike.setdefault(line.rows[target.number]["verdict"], []).append(line)
        label = operator
        for verdict in sorted(alike, key=VERDICTS.index, reverse=True):
            members = [(line.name, line.rows[target.number]) for line in alike[verdict]]
            reasons = list(dict.fromkeys(row["message"] for _, row in members if row["message"]))
            why = printable("".join(reasons[:1]), _LONGEST) + "; or the like" * (len(reasons) > 1)
            table.add_row(
                escape(printable(label)),
                _sign(verdict),
                str(len(members)),
                escape(_listed([name for name, _ in members])),
                distance(*(row for _, row in members)),
                *([] if narrow else [escape(why)]),
            )
            label = ""
    return table


def _listed(names: Sequence[str]) -> str:
    """Return the first names of many. Types of two inputs are in brackets."""
    bracketed = [f"({name})" if "," in name else name for name in names[:_MOST_TYPES]]
    return ", ".join(bracketed) + (", ..." if len(names) > len(bracketed) else "")


def _reproducibility(target: Target, *, several: bool) -> Iterator[Text]:
    """Yield a line for each aspect of the surroundings that changes bits."""
    differing: dict[str, list[str]] = {}
    for entry in target.document["reproducibility"]:
        if entry["verdict"] == "differs":
            name = repetition_place(entry)
            differing.setdefault(entry["aspect"], []).append(name)
    for aspect, names in differing.items():
        whose = f"{printable(target.label)}: " if several else ""
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield Text(f"{whose}the bits depend on {aspect} in {'; '.join(names[:3])}{more}", style="magenta")


def _worst(named: Sequence[Target]) -> Table:
    # The worst case of each operator, target and verdict, so that one fault does not hide the others.
    first: dict[tuple[int, str, str], tuple[Target, CaseEntry]] = {}
    for target, case in findings(named):
        if case["verdict"] in FAULTS:
            first.setdefault((target.number, family(case["operator"]), case["verdict"]), (target, case))
    table = _table("The worst of each kind")
    if len(named) > 1:
        table.add_column("target")
    for name in ("verdict", "case", "finding"):
        table.add_column(name, overflow="fold")
    for target, case in list(first.values())[:_MOST_FINDINGS]:
        whose = [_cell(target.label)] if len(named) > 1 else []
        table.add_row(*whose, _sign(case["verdict"]), _cell(case["id"]), _cell(gist(case)))
    return table


def _alike(target: Target) -> str | None:
    """Return the one message with which every valid case fails, if there is one."""
    failed, rows = ("refused", "crashed", "hung"), target.document["rows"]
    said = {case["message"] for case in target.document["cases"] if case["verdict"] in failed}
    ran = any(count for row in rows for verdict, count in row["cases"].items() if verdict not in failed)
    return printable(str(*said)) if rows and not ran and len(said) == 1 else None


def _verdict(target: Target, page: object, least: str, *, several: bool) -> Text:
    """Return the closing line."""
    count = faults(target.document)
    whose = f"{printable(target.label)}: " if several else ""
    allowed = target.document["summary"]["allowed"]
    if not count:
        known = f" but {allowed:,} that {'is' if allowed == 1 else 'are'} allowed" if allowed else ""
        return Text(f"{whose}nothing wrong found{known}", style="green")
    if target.document["summary"]["cases"] > 1 and (why := _alike(target)) is not None:
        return Text(
            f"{whose}every case fails alike ({why}): is the target or its command right?", style="bold"
        )
    noun = "finding" if count + allowed == 1 else "findings"
    grade = worst([fault.grade for fault in all_faults(target.document) if fault.counts("support")])
    about = "" if grade is None else f"the worst: {GRADES[grade]}; "
    shown = f"{printable(str(page))} shows {'it' if count == 1 else 'each'}"
    lesser = count - faults(target.document, least)
    parts = [f"{lesser:,} less grave than {least}"] * bool(lesser) + [f"{allowed:,} allowed"] * bool(allowed)
    beside = f", {lesser + allowed:,} of them not counted ({', '.join(parts)})" if parts else ""
    return Text(f"{whose}{count + allowed:,} {noun}{beside}; {about}{shown}", style="bold")


# --- CI systems -----------------------------------------------------------------------------------


def junit(documents: Sequence[Document], least: str = "support", allowed: Allowed | None = None) -> str:
    """Return a JUnit report: a suite for each target, and a test for each operator version and types.

    A test fails by findings that count. Those that are allowed, or less grave than ``least``, are shown with the
    reason: a test that has no others is skipped.
    """
    root = ElementTree.Element("testsuites")
    for target in targets(documents):
        suite = ElementTree.SubElement(root, "testsuite", name=printable(target.label))
        tests: dict[tuple[str, str], tuple[list[str], list[str]]] = {
            (row["operator"], ",".join(row["types"])): ([], []) for row in target.document["rows"]
        }
        for key, text, why in _with_reasons(target.document, least, allowed or Allowed()):
            failing, others = tests.setdefault(key, ([], []))
            (others if why else failing).append(f"{why}; {text}" if why else text)
        for (operator, types), (failing, others) in tests.items():
            test = ElementTree.SubElement(
                suite, "testcase", classname=printable(operator), name=printable(types)
            )
            if failing or others:
                found = failing or others
                kind = ElementTree.SubElement(
                    test, "failure" if failing else "skipped", message=printable(found[0], 300)
                )
                kind.text = _some_lines(found)
            if failing and others:
                ElementTree.SubElement(test, "system-out").text = _some_lines(others)
        suite.set("tests", str(len(tests)))
        suite.set("failures", str(sum(bool(failing) for failing, _ in tests.values())))
        suite.set("skipped", str(sum(bool(others and not failing) for failing, others in tests.values())))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _with_reasons(
    document: Document, least: str, allowed: Allowed
) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yield each finding's operator version and types, its text, and why it does not count; empty if it does."""
    for entry, case, finding, grade in all_faults(document):
        if "aspect" in entry:
            example = entry["example"]
            text = f"the bits depend on {entry['aspect']}: {repetition_gist(example) if example else ''}"
            reason = allowed.reason(document["target"]["name"], case, finding)
        else:
            text = f"{entry['verdict']}: {entry['id']}: {gist(entry)}"
            reason = allowed.reason(document["target"]["name"], case, finding, entry)
        why = "" if at_least(grade, least) else f"{grade} is less grave than {least}"
        if entry["allowed"]:
            why = f"allowed: {reason or ''}"
        yield (entry["operator"], ",".join(entry["types"])), text, why


def _some_lines(found: Sequence[str]) -> str:
    more = [f"and {len(found) - _MOST_LINES} more"] if len(found) > _MOST_LINES else []
    return "\n".join(printable(line, 300) for line in [*found[:_MOST_LINES], *more])
