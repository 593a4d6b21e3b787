"""The JSON document of one target, ``halfulp.check/1``, and how results become one.

docs/formats/check.md describes its keys. A list of known findings says which faults are allowed: cases by pattern,
with the verdicts and a reason for each.
"""

import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, filterfalse, groupby
from pathlib import Path
from typing import Any, NamedTuple

from halfulp.conformance.case import ASPECTS, GROUPS, Case, Mode, parse
from halfulp.conformance.judge import FAULTS, GRADES, HISTOGRAM, VERDICTS, Judgement, at_least
from halfulp.errors import HalfulpError
from halfulp.installed import versions
from halfulp.models.files import read_text
from halfulp.operators import instruction_set
from halfulp.specs import ids
from halfulp.types import TYPES

SCHEMA = "halfulp.check/1"

Document = dict[str, Any]
Part = dict[str, Any]  # an object in one of a document's lists
Selection = dict[str, list[str]]  # what a run was narrowed to; an empty or missing list is everything

_INSTRUCTIONS = {"avx2": "AVX2", "avx512": "AVX-512"}
_UNLISTED = ("exact", "rejected")
_COUNTED = (
    *("cases", "exact", "within", "wrong", "refused", "accepted", "rejected"),
    *("crashed", "hung", "unspecified", "allowed", "not_reproducible"),
)
_OF_A_CASE = (
    *("id", "operator", "types", "group", "shapes", "attributes", "constants", "clause", "verdict"),
    *("elements", "wrong", "max_ulp", "example", "message", "confirmed", "allowed", "grade", "special"),
)


class Result(NamedTuple):
    """One case as a document has it, not yet allowed, and the findings that its other parts are made of."""

    entry: Part
    histogram: Mapping[str, int]  # the number of elements at each distance
    grid: Sequence[Part] = ()  # a special-value grid's pairs
    aspect: str = ""  # the surroundings that differ from those of the case compared with
    same: bool | None = None  # whether both have the same bits; None if either gave no result
    example: Part | None = None  # the first element that differs


FINDINGS = (*FAULTS, "differs")  # what is the runtime's fault: verdicts, and bits that are not reproducible


def all_faults(document: Document) -> list[Part]:
    """Return the parts, cases and repetitions, that are the runtime's fault, also the allowed ones."""
    parts = document["cases"] + document["reproducibility"]
    return [part for part in parts if part["verdict"] in FINDINGS]


def grade_of(fault: Part) -> str:
    """Return the grade of a fault."""
    return str(fault.get("grade", "reproducibility"))


def faults(document: Document, least: str = "support") -> int:
    """Return the number of findings that are the runtime's fault, not allowed, and as grave as a grade."""
    return sum(not fault["allowed"] and at_least(grade_of(fault), least) for fault in all_faults(document))


# --- known findings -------------------------------------------------------------------------------

_ALLOWED = re.compile(rf"{'|'.join(FINDINGS)}|wrong<=(\d+|{'|'.join(GRADES)})")


class Entry(NamedTuple):
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

    def about(self, target: str, fault: Part) -> list[str]:
        """Return the bounds up to which it allows a finding of this target, within them or not, as ``bounds`` does."""
        is_covered = self.covers(target, fault.get("id") or fault["example"]["case"])
        return self.bounds(fault["verdict"]) if is_covered else []

    def allows(self, target: str, fault: Part) -> bool:
        """Tell whether it allows a finding about this target."""
        return any(_is_within(fault, bound) for bound in self.about(target, fault))


def _is_within(fault: Part, bound: str) -> bool:
    """Tell whether a fault is within a bound: a grade, a number of representable values, or empty for none."""
    if not bound or bound in GRADES:
        return not bound or at_least(bound, grade_of(fault))
    return fault["special"] == 0 and fault["max_ulp"] is not None and fault["max_ulp"] <= float(bound)


def stale(allowed: Iterable[Entry], target: str, results: Sequence[Result]) -> list[Entry]:
    """Return the entries about no finding, though they cover one of these cases that ran."""

    def is_stale(entry: Entry) -> bool:
        covered = [result for result in results if entry.covers(target, result.entry["id"])]
        findings = {result.entry["verdict"] for result in covered}
        findings |= {"differs" for result in covered if result.same is False}
        return bool(covered) and not any(map(entry.bounds, findings))

    return list(filter(is_stale, allowed))


def load_allowed(path: Path | str | None) -> list[Entry]:
    """Read a file of allowed findings, if any; raises HalfulpError, which names the line, if an entry is broken.

    An entry is a line; the lines after ``[NAME]`` are for the target of that name alone::

        # known in 1.31
        [onnxruntime]
        onnx.Pow-*/bfloat16,*      refused   no bfloat16 kernels
        onnx.Pow-15/int64,*/edge/* wrong     computed in double
        onnx.Pow-15/float32,*      wrong<=16 no more representable values than this
    """
    if path is None:
        return []
    path, entries, target = Path(path), list[Entry](), None
    for number, line in enumerate(map(str.strip, read_text(path, most=1 << 24).splitlines()), 1):
        if line.startswith("[") and line.endswith("]"):
            target = line[1:-1].strip()
        elif line and not line.startswith("#"):
            words, place = line.split(maxsplit=2), f"{path}, line {number}"
            if len(words) < 3:
                raise HalfulpError(f"{place}: an entry is CASES VERDICTS REASON", got=line[:100])
            verdicts = frozenset(words[1].split(","))
            if wrong := sorted(filterfalse(_ALLOWED.fullmatch, verdicts)):
                message = f"{place}: {wrong[0][:40]!r} is not a finding that can be allowed"
                raise HalfulpError(message, expected=f"{', '.join(FINDINGS)}, wrong<=ULPS or wrong<=GRADE")
            entries.append(Entry(words[0], verdicts, words[2], target, number))
    return entries


# --- from results to a document ------------------------------------------------------------------


def case_entry(case: Case, judgement: Judgement, confirmed: str | None) -> Part:
    """Return the entry of a case that was judged."""
    facts = vars(case) | vars(judgement) | parse(case.id)._asdict()
    facts |= {"shapes": case.shapes, "constants": sorted(case.constants), "allowed": False}
    facts |= {"attributes": dict(sorted(case.attributes.items())), "confirmed": confirmed}
    facts["special"] = judgement.histogram["special"]
    text = json.dumps({name: facts[name] for name in _OF_A_CASE}, default=str)
    return dict(json.loads(text, parse_constant=lambda name: str(float(name))))  # an infinity is a text


def order(operator: str, types: Sequence[str]) -> tuple[Any, ...]:
    """Return a key that sorts operator versions and types as halfulp's own tables do."""
    return ids().index(operator), list(map([*TYPES].index, types))


def machine() -> str:
    """Return this machine's architecture, and the instructions that halfulp takes."""
    return f"{platform.machine()} {_INSTRUCTIONS.get(instruction_set(), instruction_set())}"


def run_entry(mode: Mode, selection: Selection, ulp_limit: float, seconds: float) -> Part:
    """Return the circumstances of a check that ends now: the part that may change when the results don't."""
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


def document(target: Part, run: Part, results: Iterable[Result], allowed: Sequence[Entry]) -> Document:
    """Return the document of one target, in an order that depends on nothing but the cases."""

    def place(result: Result) -> tuple[Any, ...]:
        entry = result.entry
        return order(entry["operator"], entry["types"]), GROUPS.index(entry["group"]), entry["id"]

    def is_allowed(fault: Part) -> bool:
        return any(entry.allows(target["name"], fault) for entry in allowed)

    ordered = sorted(results, key=place)
    cases = [result.entry for result in ordered]
    for case in cases:
        case["allowed"] = is_allowed(case)
    parts: dict[str, list[Part]] = {"rows": [], "specials": [], "reproducibility": []}
    for (operator, types), group in groupby(ordered, key=lambda r: (r.entry["operator"], r.entry["types"])):
        members, head = list(group), {"operator": operator, "types": types}
        if valid := [result for result in members if result.entry["clause"] is None]:
            parts["rows"].append(head | _row(valid))
        # A pair that is in the grids of several cases appears once, as the first case has it.
        grid: dict[tuple[str, str], Part] = {}
        for cell in chain.from_iterable(result.grid for result in members):
            grid.setdefault((cell["x"], cell["y"]), cell)
        if grid:
            parts["specials"].append(head | {"grid": list(grid.values())})
        for aspect in ASPECTS:
            if tried := [result for result in members if result.aspect == aspect]:
                parts["reproducibility"].append(head | _repetition(aspect, tried, is_allowed))
    differing = [part for part in parts["reproducibility"] if part["verdict"] == "differs"]
    counts = Counter[str](case["verdict"] for case in cases)
    allowed_ones = sum(part["allowed"] for part in (*cases, *differing))
    counts.update(cases=len(cases), allowed=allowed_ones, not_reproducible=len(differing))
    summary = {name: counts[name] for name in _COUNTED}
    listed = [case for case in cases if case["verdict"] not in _UNLISTED]
    return {"schema": SCHEMA, "target": target, "run": run, "summary": summary, **parts, "cases": listed}


def _row(results: Sequence[Result]) -> Part:
    """Return the row of the valid cases of an operator version and types, without these."""
    cases = [result.entry for result in results]
    counts = Counter(case["verdict"] for case in cases)
    histogram = {key: sum(result.histogram[key] for result in results) for key in HISTOGRAM}
    distances = [case["max_ulp"] for case in cases if case["max_ulp"] is not None]
    # Those with special values gone wrong are the last of a verdict.
    worst = max(cases, key=lambda c: (VERDICTS.index(c["verdict"]), c["special"] > 0, c["max_ulp"] or 0))
    failed = ("refused", "crashed", "hung")
    return {
        "verdict": max(counts, key=VERDICTS.index),
        "cases": {verdict: counts[verdict] for verdict in sorted(counts, key=VERDICTS.index)},
        "elements": sum(case["elements"] for case in cases),
        "misrounded": sum(histogram.values()) - histogram["0"],
        "max_ulp": max(distances, default=None),
        "histogram": histogram,
        "worst": worst["id"] if worst["verdict"] not in (*_UNLISTED, "unspecified") else None,
        "message": next((c["message"] for c in cases if c["verdict"] in failed and c["message"]), None),
    }


def _repetition(aspect: str, tried: Sequence[Result], is_allowed: Callable[[Part], bool]) -> Part:
    """Return whether the bits depend on an aspect that was tried."""
    if found := [{"verdict": "differs", "example": r.example} for r in tried if r.same is False]:
        return {"aspect": aspect, **found[0], "allowed": all(map(is_allowed, found))}
    verdict = "same" if any(result.same for result in tried) else "not tested"
    return {"aspect": aspect, "verdict": verdict, "example": None, "allowed": False}


# --- from a document to text ------------------------------------------------------------------


def dumps(documents: list[Document]) -> str:
    """Return a file's text, one document or a list of several, with a line for each entry, so that files compare."""
    line = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    texts = []
    for document in documents:
        parts = []
        for key, value in document.items():
            items = ",\n".join(f"  {line(item)}" for item in value) if isinstance(value, list) else ""
            parts.append(f'"{key}": ' + (f"[\n{items}\n]" if items else line(value)))
        texts.append("{\n" + ",\n".join(parts) + "\n}")
    return texts[0] + "\n" if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]\n"
