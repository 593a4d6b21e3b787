"""Documents of several targets side by side: what each says of each operator version and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from halfulp.conformance.report.verdicts import SHOWN, urgency
from halfulp.conformance.schema import CaseEntry, Difference, Document, RowEntry
from halfulp.specs import ids
from halfulp.types import TYPES


@dataclass(frozen=True)
class Target:
    """A document with the name that tells it from the others.

    Attributes:
        number: its place among the documents.
        label: the target's name, with its version where two documents have the same name.
        document: as :mod:`halfulp.conformance.schema` has it.
    """

    number: int
    label: str
    document: Document

    @property
    def versions(self) -> str:
        """What was measured: the packages and their versions."""
        return ", ".join(f"{name} {text}" for name, text in self.document["target"]["versions"].items())

    @property
    def run(self) -> str:
        """How it was measured: on which day, how thoroughly, on what."""
        run = self.document["run"]
        parts = [run["date"], f"{run['mode']} run", run["machine"], f"Python {run['python']}"]
        selection = run["selection"]
        selected = [*selection["operators"], *selection["versions"], *selection["types"]]
        if selected:
            parts.insert(2, f"only {', '.join(selected)}")
        return ", ".join(map(str, parts))

    @property
    def counts(self) -> Mapping[str, int]:
        """The summary: how many cases have which verdict."""
        return cast(Mapping[str, int], self.document["summary"])

    @property
    def faults(self) -> int:
        """How many findings make ``check`` fail."""
        found = [SHOWN[case["verdict"]].fault and not case["allowed"] for case in self.document["cases"]]
        differing = [
            entry["verdict"] == "differs" and not entry["allowed"]
            for entry in self.document["reproducibility"]
        ]
        return sum(found) + sum(differing)


@dataclass(frozen=True)
class Line:
    """What the targets say of one operator version and types; a target without a word of it is not in ``rows``."""

    operator: str
    types: tuple[str, ...]
    rows: Mapping[int, RowEntry]

    @property
    def key(self) -> str:
        """How the ids of its cases begin."""
        return f"{self.operator}/{','.join(self.types)}"

    @property
    def name(self) -> str:
        """The types as a person reads them: one name where all are the same."""
        return types_text(self.types)


def targets(documents: Sequence[Document]) -> list[Target]:
    """Name the documents."""
    names = Counter(document["target"]["name"] for document in documents)
    found = []
    for number, document in enumerate(documents):
        name, versions = document["target"]["name"], document["target"]["versions"]
        label = name
        if names[name] > 1:
            label = f"{name} {versions.get(name) or ' '.join(versions.values())}".strip()
        found.append(Target(number, label, document))
    repeated = Counter(target.label for target in found)
    return [
        Target(target.number, f"{target.label} ({target.number + 1})", target.document)
        if repeated[target.label] > 1
        else target
        for target in found
    ]


def lines(documents: Sequence[Document]) -> list[Line]:
    """Return a line for each operator version and types that a document has, in the order of the tables."""
    found: dict[tuple[str, tuple[str, ...]], dict[int, RowEntry]] = {}
    for number, document in enumerate(documents):
        for row in document["rows"]:
            found.setdefault((row["operator"], tuple(row["types"])), {})[number] = row
    return [Line(*key, found[key]) for key in sorted(found, key=lambda key: order(*key))]


def order(operator: str, types: Sequence[str]) -> tuple[Any, ...]:
    """Return what sorts operator versions and types as halfulp's own tables have them; strangers come last."""
    known = ids()
    place = known.index(operator) if operator in known else len(known)
    return place, operator, [type_order(name) for name in types]


def type_order(name: str) -> tuple[int, str]:
    """Return what sorts types as the table of types has them."""
    return (list(TYPES).index(name) if name in TYPES else len(TYPES)), name


def family(operator: str) -> str:
    """Return an operator without its version."""
    return operator.rpartition("-")[0]


def version(operator: str) -> str:
    """Return an operator's version."""
    return operator.rpartition("-")[2]


def types_text(types: Sequence[str]) -> str:
    """Return types as a person reads them."""
    return ", ".join(types if len(set(types)) > 1 else types[:1])


def distance(row: RowEntry) -> str:
    """Return how far off a row's results are, in few words; empty where none is."""
    far = [short(row["max_ulp"])] if row["max_ulp"] else []
    return ", ".join(far + ["special"] * (row["histogram"]["special"] > 0))


def short(number: float) -> str:
    """Return a number in at most five characters."""
    if abs(number) < 10_000:
        return f"{number:.4g}"
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits.removesuffix('.0')}e{int(exponent)}"


def describe(row: RowEntry) -> str:
    """Return a sentence on a row, for who can't see a colour or wants to know more."""
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
    """Return what is wrong in one case, in a line."""
    example = case["example"]
    if example is None:
        return case["message"] or (f"breaks {case['clause']}" if case["clause"] else "")
    inputs = ", ".join(number["value"] for number in example["inputs"])
    off = f", {short(example['ulp'])} ulp off" if example["ulp"] else ""
    return f"{inputs} gives {example['got']['value']}, not {example['expected']['value']}{off}"


def repetition_gist(example: Difference) -> str:
    """Return in a line an element whose bits were others when it was computed again."""
    inputs = ", ".join(number["value"] for number in example["inputs"])
    first, again = (
        f"{number['value']} ({number['bits']})" for number in (example["first"], example["again"])
    )
    return f"{inputs} gives {first}, and {again} in {example['case']}"


def worst_first(case: CaseEntry) -> tuple[Any, ...]:
    """Return what sorts findings, the worst first: a special value gone wrong is worse than any distance."""
    example = case["example"]
    special = example is not None and example["ulp"] is None
    return (
        -urgency(case["verdict"]),
        case["allowed"],
        not special,
        -(case["max_ulp"] or 0),
        -case["wrong"],
        case["id"],
    )
