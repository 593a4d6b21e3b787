"""The JSON document of one target, ``halfulp.check/1``: its parts as types, and how results become one.

A list of known findings says which faults are allowed: cases by pattern, with the verdicts and a reason for each.

docs/formats/check.md describes it for people.
"""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, cast, final

from halfulp.conformance.case import ASPECTS, GROUPS, Aspect, Case, Group, Mode, parse
from halfulp.conformance.judge import FAULTS, GRADES, HISTOGRAM, VERDICTS, Judgement, Verdict, at_least
from halfulp.errors import HalfulpError
from halfulp.installed import versions
from halfulp.models.files import read_text
from halfulp.operators import instruction_set
from halfulp.specs import ids
from halfulp.types import TYPES

SCHEMA = "halfulp.check/1"

_INSTRUCTIONS = {"avx2": "AVX2", "avx512": "AVX-512"}
_UNLISTED = ("exact", "rejected")
_COUNTED = (
    *("cases", "exact", "within", "wrong", "refused", "accepted", "rejected"),
    *("crashed", "hung", "unspecified", "allowed", "not_reproducible"),
)


class Number(TypedDict):
    """An element: the shortest decimal that gives it back in its type, and its bits."""

    value: str
    bits: str


class Example(TypedDict):
    """The element of a case that is farthest off; ``ulp`` is null if it is a special value gone wrong."""

    index: list[int]
    inputs: list[Number]
    expected: Number
    got: Number
    ulp: float | None


@final  # so that a key tells it from others
class CaseEntry(TypedDict):
    """A case with a verdict other than exact and rejected."""

    id: str
    operator: str
    types: list[str]
    group: Group
    shapes: list[list[int]]
    attributes: dict[str, Any]
    constants: list[int]
    clause: str | None
    verdict: Verdict
    elements: int
    wrong: int
    max_ulp: float | None
    example: Example | None
    message: str | None
    confirmed: str | None
    allowed: bool
    grade: str | None  # of a fault: one of GRADES
    special: int  # how many NaNs, infinities and signs of zeros are wrong


class RowEntry(TypedDict):
    """All valid cases of an operator version and input types together."""

    operator: str
    types: list[str]
    verdict: Verdict
    cases: dict[str, int]
    elements: int
    misrounded: int
    max_ulp: float | None
    histogram: dict[str, int]
    worst: str | None
    message: str | None


class Cell(TypedDict):
    """A pair of special values."""

    x: str
    y: str
    expected: str
    got: str
    verdict: Verdict


class SpecialEntry(TypedDict):
    """The special-value grid of an operator version and input types."""

    operator: str
    types: list[str]
    grid: list[Cell]


class Difference(TypedDict):
    """An element that had other bits when it was computed again: the case that shows it, and both results."""

    case: str
    index: list[int]
    inputs: list[Number]
    first: Number
    again: Number


@final  # so that a key tells it from others
class ReproducibilityEntry(TypedDict):
    """Whether other surroundings change the bits of an operator version's results."""

    operator: str
    types: list[str]
    aspect: Aspect
    verdict: Literal["same", "differs", "not tested"]
    example: Difference | None
    allowed: bool


class TargetEntry(TypedDict):
    """The runtime that was checked."""

    name: str
    versions: dict[str, str]


class Selection(TypedDict):
    """The selection that the run was narrowed to; an empty or missing list is everything."""

    operators: list[str]
    versions: list[str]
    types: list[str]
    groups: NotRequired[list[str]]
    cases: NotRequired[list[str]]


class Run(TypedDict):
    """The circumstances of the check: the part of the document that may change when the results don't."""

    halfulp: str
    date: str
    mode: Mode
    selection: Selection
    machine: str
    python: str
    ulp_limit: float
    seconds: float


class Document(TypedDict):
    """The document of one target, as ``halfulp check --json`` writes it."""

    schema: str
    target: TargetEntry
    run: Run
    summary: dict[str, int]  # the numbers of cases by verdict, of allowed findings, of entries that differ
    rows: list[RowEntry]
    specials: list[SpecialEntry]
    reproducibility: list[ReproducibilityEntry]
    cases: list[CaseEntry]


class Fault(NamedTuple):
    """A finding that is the runtime's fault: the entry of a case, or of bits that are not reproducible."""

    entry: CaseEntry | ReproducibilityEntry
    case: str  # the id of the case that shows it
    finding: str  # one of FINDINGS
    grade: str | None

    def counts(self, least: str) -> bool:
        """Tell whether it is not allowed, and as grave as a grade."""
        return not self.entry["allowed"] and at_least(self.grade, least)


def all_faults(document: Document) -> Iterator[Fault]:
    """Yield the findings that are the runtime's fault, also the allowed ones."""
    for case in document["cases"]:
        if case["verdict"] in FAULTS:
            yield Fault(case, case["id"], case["verdict"], case["grade"])
    for entry in document["reproducibility"]:
        if entry["verdict"] == "differs":
            example = entry["example"]
            yield Fault(entry, example["case"] if example else "", "differs", "reproducibility")


def faults(document: Document, least: str = "support") -> int:
    """Return the number of findings that are the runtime's fault, not allowed, and as grave as a grade."""
    return sum(fault.counts(least) for fault in all_faults(document))


# --- known findings -------------------------------------------------------------------------------

FINDINGS = (*FAULTS, "differs")  # that can be allowed: verdicts, and bits that are not reproducible
_LARGEST_LIST = 1 << 24


@dataclass(frozen=True)
class Entry:
    """One allowed kind of finding."""

    pattern: str  # of the ids of cases, with * for any text and ? for any character
    verdicts: frozenset[str]  # the findings that are allowed; of wrong also wrong<=16 or wrong<=edges
    reason: str
    target: str | None = None  # the target's name; None for any
    line: int = 0  # its number in the file

    def __str__(self) -> str:
        target = f"[{self.target}] " if self.target else ""
        return f"{target}{self.pattern} {','.join(sorted(self.verdicts))} {self.reason}"

    def covers(self, target: str, case: str) -> bool:
        """Tell whether it is about this case of this target."""
        return self.target in (None, target) and fnmatchcase(case, self.pattern)

    def bounds(self, finding: str) -> list[str]:
        """Return the bounds up to which a finding is allowed, each empty for none; an empty list if it is not."""
        words = (word.partition("<=") for word in self.verdicts)
        return [bound for verdict, _, bound in words if verdict == finding]


def _is_within(entry: CaseEntry | None, bound: str) -> bool:
    """Tell whether a wrong case is within a bound: a grade, a number of representable values, or empty for none."""
    if not bound or entry is None:
        return not bound
    if bound in GRADES:
        return entry["grade"] is not None and at_least(bound, entry["grade"])
    return entry["special"] == 0 and entry["max_ulp"] is not None and entry["max_ulp"] <= float(bound)


@dataclass
class Allowed:
    """The entries of a file, and those that were about a finding."""

    entries: list[Entry] = field(default_factory=list)
    _used: set[Entry] = field(default_factory=set)

    def reason(self, target: str, case: str, finding: str, entry: CaseEntry | None = None) -> str | None:
        """Return the reason of the first entry that allows a finding, and remember those about it; else None.

        ``entry`` is the case's, with which bounds are compared.
        """
        found = [e for e in self.entries if e.covers(target, case) and e.bounds(finding)]
        self._used.update(found)
        allowing = (e for e in found if any(_is_within(entry, bound) for bound in e.bounds(finding)))
        return next((e.reason for e in allowing), None)

    def allows(self, target: str, entry: CaseEntry) -> bool:
        """Tell whether the verdict on a case is a fault that is allowed."""
        verdict = entry["verdict"]
        return verdict in FAULTS and self.reason(target, entry["id"], verdict, entry) is not None

    def stale(self, target: str, cases: Sequence[str]) -> list[Entry]:
        """Return the entries about no finding, though they cover one of these cases that ran."""
        unused = [e for e in self.entries if e not in self._used and e.target in (None, target)]
        return [e for e in unused if any(e.covers(target, id) for id in cases)]


def load_allowed(path: Path | str) -> Allowed:
    """Read a file of allowed findings; raises HalfulpError, which names the line, if an entry is broken.

    An entry is a line; the lines after ``[NAME]`` are for the target of that name alone::

        # known in 1.31
        [onnxruntime]
        onnx.Pow-*/bfloat16,*      refused   no bfloat16 kernels
        onnx.Pow-15/int64,*/edge/* wrong     computed in double
        onnx.Pow-15/float32,*      wrong<=16 no more representable values than this
    """
    path, entries, target = Path(path), list[Entry](), None
    for number, line in enumerate(map(str.strip, read_text(path, _LARGEST_LIST).splitlines()), 1):
        if line.startswith("[") and line.endswith("]"):
            target = line[1:-1].strip()
        elif line and not line.startswith("#"):
            words, place = line.split(maxsplit=2), f"{path}, line {number}"
            if len(words) < 3:
                raise HalfulpError(f"{place}: an entry is CASES VERDICTS REASON", got=line[:100])
            entries.append(Entry(words[0], frozenset(words[1].split(",")), words[2], target, number))
            for word in sorted(entries[-1].verdicts - {*FINDINGS}):
                verdict, _, bound = word.partition("<=")
                if verdict != "wrong" or not (bound in GRADES or bound.isdecimal()):
                    message = f"{place}: {word[:40]!r} is not a finding that can be allowed"
                    expected = f"{', '.join(FINDINGS)}, wrong<=ULPS or wrong<=GRADE"
                    raise HalfulpError(message, expected=expected)
    return Allowed(entries)


# --- from results to a document ------------------------------------------------------------------


class Repetition(NamedTuple):
    """The comparison of a result with that of the same computation in other surroundings."""

    aspect: Aspect  # the difference between the surroundings
    same: bool | None  # whether both have the same bits; None if either gave no result
    example: Difference | None  # the first element that differs


class Result(NamedTuple):
    """One case's entry, not yet allowed, and the findings that the other parts of a document are made of."""

    entry: CaseEntry
    judgement: Judgement
    grid: list[Cell]
    repetition: Repetition | None


def case_entry(case: Case, judgement: Judgement, confirmed: str | None) -> CaseEntry:
    """Return the entry of a case that was judged."""
    found = vars(case) | vars(judgement) | {"confirmed": confirmed, "allowed": False}
    found["special"] = judgement.histogram["special"]
    found |= {"types": parse(case.id).types, "shapes": case.shapes, "constants": sorted(case.constants)}
    found["attributes"] = dict(sorted(case.attributes.items()))
    return cast(CaseEntry, {name: _plain(found[name]) for name in CaseEntry.__annotations__})


def order(operator: str, types: Sequence[str]) -> tuple[Any, ...]:
    """Return a key that sorts operator versions and types as halfulp's own tables do."""
    return ids().index(operator), [type_order(name) for name in types]


def type_order(name: str) -> int:
    """Return a key that sorts types as the table of types does."""
    return list(TYPES).index(name)


def machine() -> str:
    """Return this machine's architecture, and the instructions that halfulp takes."""
    return f"{platform.machine()} {_INSTRUCTIONS.get(instruction_set(), instruction_set())}"


def run_entry(mode: Mode, selection: Selection, ulp_limit: float, seconds: float) -> Run:
    """Return the circumstances of a check that ends now."""
    return {
        "halfulp": versions("halfulp")["halfulp"],
        "date": datetime.now(UTC).date().isoformat(),
        "mode": mode,
        "selection": selection,
        "machine": machine(),
        "python": platform.python_version(),
        "ulp_limit": ulp_limit,
        "seconds": round(seconds, 1),
    }


def document(target: TargetEntry, run: Run, results: Iterable[Result], allowed: Allowed) -> Document:
    """Return the document of one target, in an order that depends on nothing but the cases."""
    ordered = sorted(results, key=_place)
    for entry, *_ in ordered:
        entry["allowed"] = allowed.allows(target["name"], entry)
    entries = [entry for entry, *_ in ordered if entry["verdict"] not in _UNLISTED]
    rows: list[RowEntry] = []
    specials: list[SpecialEntry] = []
    reproducibility: list[ReproducibilityEntry] = []
    for _, group in groupby(ordered, key=lambda result: _place(result)[0]):
        members = list(group)
        operator, kinds = members[0].entry["operator"], members[0].entry["types"]
        if valid := [result for result in members if result.entry["clause"] is None]:
            rows.append(_row(operator, kinds, valid))
        # A pair that is in the grids of several cases appears once, as the first case has it.
        grid: dict[tuple[str, str], Cell] = {}
        for cell in (cell for result in members for cell in result.grid):
            grid.setdefault((cell["x"], cell["y"]), cell)
        if grid:
            specials.append({"operator": operator, "types": kinds, "grid": list(grid.values())})
        reproducibility += _reproducibility(target["name"], operator, kinds, members, allowed)
    differing = [entry for entry in reproducibility if entry["verdict"] == "differs"]
    counts = dict(Counter[str](entry["verdict"] for entry, *_ in ordered)) | {
        "cases": len(ordered),
        "allowed": sum(entry["allowed"] for entry in (*entries, *differing)),
        "not_reproducible": len(differing),
    }
    return {
        "schema": SCHEMA,
        "target": target,
        "run": run,
        "summary": {name: counts.get(name, 0) for name in _COUNTED},
        "rows": rows,
        "specials": specials,
        "reproducibility": reproducibility,
        "cases": entries,
    }


def _place(result: Result) -> tuple[Any, ...]:
    entry = result.entry
    return order(entry["operator"], entry["types"]), GROUPS.index(entry["group"]), entry["id"]


def _row(operator: str, types: list[str], results: Sequence[Result]) -> RowEntry:
    judged = [result.judgement for result in results]
    counts = Counter(judgement.verdict for judgement in judged)
    histogram = {key: sum(judgement.histogram[key] for judgement in judged) for key in HISTOGRAM}
    badness = [(VERDICTS.index(j.verdict), j.histogram["special"] > 0, j.max_ulp or 0) for j in judged]
    bad = results[badness.index(max(badness))]
    reasons = [j.message for j in judged if j.verdict in ("refused", "crashed", "hung") and j.message]
    return {
        "operator": operator,
        "types": types,
        "verdict": max(counts, key=VERDICTS.index),
        "cases": {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        "elements": sum(judgement.elements for judgement in judged),
        "misrounded": sum(histogram.values()) - histogram["0"],
        "max_ulp": max((j.max_ulp for j in judged if j.max_ulp is not None), default=None),
        "histogram": histogram,
        "worst": bad.entry["id"] if bad.entry["verdict"] not in (*_UNLISTED, "unspecified") else None,
        "message": reasons[0] if reasons else None,
    }


def _reproducibility(
    target: str, operator: str, types: list[str], results: Sequence[Result], allowed: Allowed
) -> Iterator[ReproducibilityEntry]:
    for aspect in ASPECTS:
        tried = [
            (r.entry["id"], r.repetition) for r in results if r.repetition and r.repetition.aspect == aspect
        ]
        differing = [(id, repetition.example) for id, repetition in tried if repetition.same is False]
        permitted = [allowed.reason(target, id, "differs") is not None for id, _ in differing]
        same: Any = "same" if any(repetition.same for _, repetition in tried) else "not tested"
        if tried:
            yield {
                "operator": operator,
                "types": types,
                "aspect": aspect,
                "verdict": "differs" if differing else same,
                "example": differing[0][1] if differing else None,
                "allowed": bool(differing) and all(permitted),
            }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: tuples become lists, and values that JSON lacks become texts."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | bool | int | float | None) else str(value)


# --- from a document to text ------------------------------------------------------------------


def dumps(documents: list[Document]) -> str:
    """Return the text of a file: one document as itself, several as a list.

    A line holds one entry, so that two files differ in the lines of the entries that differ.
    """
    texts = [_text(document) for document in documents]
    return texts[0] + "\n" if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]\n"


def _text(document: Document) -> str:
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n" + ",\n".join(f"  {_line(item)}" for item in value) + "\n]"
        else:
            text = _line(value)
        parts.append(f"{_line(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
