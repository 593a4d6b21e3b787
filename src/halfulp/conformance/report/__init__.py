"""Reports on the findings of ``halfulp check``: documents of several targets side by side, in words for people.

``terminal`` shows them as tables, ``page`` as one self-contained HTML page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from halfulp.conformance.document import (
    CaseEntry,
    Difference,
    Document,
    ReproducibilityEntry,
    RowEntry,
    order,
)
from halfulp.conformance.judge import GRADES


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

URGENCY = (
    *("rejected", "exact", "unspecified", "within"),
    *("refused", "accepted", "wrong", "hung", "crashed"),
)
"""The verdicts in the order in which a person wants to see them, the most urgent last."""


class Target(NamedTuple):
    """A document with the name of its target."""

    number: int  # its place among the documents
    label: str  # the target's name
    document: Document

    @property
    def versions(self) -> str:
        """The measured packages with their versions."""
        return ", ".join(f"{name} {text}" for name, text in self.document["target"]["versions"].items())

    @property
    def run(self) -> str:
        """The circumstances of the run: its date, mode and machine."""
        run = self.document["run"]
        selected = [
            name for names in cast(Mapping[str, list[str]], run["selection"]).values() for name in names
        ]
        only = [f"only {', '.join(selected)}"] if selected else []
        parts = [run["date"], f"{run['mode']} run", *only, run["machine"], f"Python {run['python']}"]
        return ", ".join(map(str, parts))


class Line(NamedTuple):
    """One operator version and types, with the row of each target that has one."""

    operator: str
    types: tuple[str, ...]
    rows: Mapping[int, RowEntry]

    @property
    def name(self) -> str:
        """The types as a person reads them: one name where all are the same."""
        return types_text(self.types)


def targets(documents: Sequence[Document]) -> list[Target]:
    """Name the documents of a run, in which no two targets have one name."""
    return [Target(place, document["target"]["name"], document) for place, document in enumerate(documents)]


def lines(documents: Sequence[Document]) -> list[Line]:
    """Return a line for each operator version and types that a document has, in the order of the tables."""
    found: dict[tuple[str, tuple[str, ...]], dict[int, RowEntry]] = {}
    for number, document in enumerate(documents):
        for row in document["rows"]:
            found.setdefault((row["operator"], tuple(row["types"])), {})[number] = row
    return [Line(*key, found[key]) for key in sorted(found, key=lambda key: order(*key))]


def findings(targets: Sequence[Target]) -> list[tuple[Target, CaseEntry]]:
    """Return the cases of all targets, the worst first: by verdict, by grade, and special values before distances."""

    def order(pair: tuple[Target, CaseEntry]) -> tuple[Any, ...]:
        target, case = pair
        special = case["example"] is not None and case["example"]["ulp"] is None
        grade = -list(GRADES).index(case["grade"] or "support")
        distance = (grade, not special, -(case["max_ulp"] or 0), -case["wrong"])
        return -URGENCY.index(case["verdict"]), case["allowed"], *distance, case["id"], target.number

    return sorted(((target, case) for target in targets for case in target.document["cases"]), key=order)


# --- in words ------------------------------------------------------------------------------------


def family(operator: str) -> str:
    """Return an operator without its version."""
    return operator.rpartition("-")[0]


def types_text(types: Sequence[str]) -> str:
    """Return types as a person reads them."""
    return ", ".join(types if len(set(types)) > 1 else types[:1])


def distance(*rows: RowEntry) -> str:
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


def describe(row: RowEntry) -> str:
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


def gist(case: CaseEntry) -> str:
    """Return one case's finding in a line."""
    example = case["example"]
    if example is None:
        return case["message"] or (f"breaks {case['clause']}" if case["clause"] else "")
    inputs = ", ".join(number["value"] for number in example["inputs"])
    off = f", {short(example['ulp'])} ulp off" if example["ulp"] else ""
    return f"{inputs} gives {example['got']['value']}, not {example['expected']['value']}{off}"


def repetition_place(entry: ReproducibilityEntry) -> str:
    """Return the operator version and types of an entry, and whether the finding is allowed."""
    return f"{entry['operator']} {types_text(entry['types'])}{' (allowed)' if entry['allowed'] else ''}"


def repetition_gist(example: Difference) -> str:
    """Return one line about an element that had other bits when it was computed again."""
    inputs = ", ".join(number["value"] for number in example["inputs"])
    first, again = (
        f"{number['value']} ({number['bits']})" for number in (example["first"], example["again"])
    )
    return f"{inputs} gives {first}, and {again} in {example['case']}"
