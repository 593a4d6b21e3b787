"""The findings in the forms of CI systems: a JUnit report, and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from halfulp.conformance.document import CaseEntry, Document
from halfulp.conformance.judge import FAULTS
from halfulp.conformance.report import findings, gist, repetition_gist, targets
from halfulp.errors import printable

_MOST_LINES = 20
_MOST_ANNOTATIONS = 10  # GitHub shows no more of a step


def junit(documents: Sequence[Document]) -> str:
    """Return a JUnit report: a suite for each target, and a test for each operator version and types."""
    root = ElementTree.Element("testsuites")
    for target in targets(documents):
        document = target.document
        suite = ElementTree.SubElement(root, "testsuite", name=printable(target.label))
        tests: dict[tuple[str, str], list[str]] = {
            (row["operator"], ",".join(row["types"])): [] for row in document["rows"]
        }
        for case in document["cases"]:
            if case["verdict"] in FAULTS and not case["allowed"]:
                tests.setdefault((case["operator"], ",".join(case["types"])), []).append(_line(case))
        for entry in document["reproducibility"]:
            if entry["verdict"] == "differs" and not entry["allowed"]:
                example = repetition_gist(entry["example"]) if entry["example"] else ""
                text = f"the bits depend on {entry['aspect']}: {example}"
                tests.setdefault((entry["operator"], ",".join(entry["types"])), []).append(text)
        for (operator, types), lines in tests.items():
            test = ElementTree.SubElement(
                suite, "testcase", classname=printable(operator), name=printable(types)
            )
            if lines:
                failure = ElementTree.SubElement(test, "failure", message=printable(lines[0], 300))
                more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
                failure.text = "\n".join(printable(line, 300) for line in lines[:_MOST_LINES] + more)
        suite.set("tests", str(len(tests)))
        suite.set("failures", str(sum(map(bool, tests.values()))))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def github(documents: Sequence[Document]) -> Iterator[str]:
    """Yield GitHub's commands that show the worst finding of each operator version as an error."""
    worst: dict[tuple[int, str], str] = {}
    for target, case in findings(targets(documents)):
        if case["verdict"] in FAULTS and not case["allowed"]:
            title = printable(f"{target.label}, {case['operator']}").replace("%", "%25").replace(",", "%2C")
            text = printable(_line(case), 300).replace("%", "%25")
            worst.setdefault((target.number, case["operator"]), f"::error title={title}::{text}")
    yield from list(worst.values())[:_MOST_ANNOTATIONS]


def _line(case: CaseEntry) -> str:
    return f"{case['verdict']}: {case['id']}: {gist(case)}"
