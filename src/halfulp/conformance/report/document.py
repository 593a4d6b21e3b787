"""From results to the document of one target."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, cast

from halfulp.conformance.allow import Allowed
from halfulp.conformance.case import ASPECTS, GROUPS, Mode
from halfulp.conformance.examine import Result
from halfulp.conformance.judge import FAULTS, HISTOGRAM, VERDICTS
from halfulp.conformance.report import order
from halfulp.conformance.schema import (
    SCHEMA,
    CaseEntry,
    Document,
    ReproducibilityEntry,
    RowEntry,
    Run,
    Selection,
    SpecialEntry,
    Summary,
    TargetEntry,
)
from halfulp.conformance.targets import versions
from halfulp.operators import instruction_set

_INSTRUCTIONS = {"avx2": "AVX2", "avx512": "AVX-512"}
_UNLISTED = ("exact", "rejected")


def document(
    target: TargetEntry, run: Run, results: Iterable[Result], allowed: Allowed | None = None
) -> Document:
    """Return the document of one target, in an order that depends on nothing but the cases."""
    ordered = sorted(results, key=_order)
    allowed = allowed or Allowed()
    entries = [_case(target["name"], r, allowed) for r in ordered if r.judgement.verdict not in _UNLISTED]
    rows: list[RowEntry] = []
    specials: list[SpecialEntry] = []
    reproducibility: list[ReproducibilityEntry] = []
    for (operator, types), group in groupby(ordered, key=lambda result: (result.operator, result.types)):
        members = list(group)
        valid = [result for result in members if result.clause is None]
        if valid:
            rows.append(_row(operator, types, valid))
        # A grid that more than one case holds appears once, as its first case has it.
        grid = {
            (cell["x"], cell["y"]): cell for result in reversed(members) for cell in reversed(result.grid)
        }
        if grid:
            cells: Any = [dict(cell) for cell in reversed(grid.values())]
            specials.append({"operator": operator, "types": list(types), "grid": cells})
        reproducibility += _reproducibility(target["name"], operator, types, members, allowed)
    return {
        "schema": SCHEMA,
        "target": target,
        "run": run,
        "summary": _summary(ordered, entries, reproducibility),
        "rows": rows,
        "specials": specials,
        "reproducibility": reproducibility,
        "cases": entries,
    }


def run_entry(mode: Mode, selection: Selection, ulp_limit: float, seconds: float) -> Run:
    """Return how it was checked: on what, when, for how long."""
    return {
        "halfulp": versions("halfulp")["halfulp"],
        "date": datetime.now(UTC).date().isoformat(),
        "mode": mode,
        "selection": selection,
        "machine": f"{platform.machine()} {_INSTRUCTIONS.get(instruction_set(), instruction_set())}",
        "python": platform.python_version(),
        "ulp_limit": ulp_limit,
        "seconds": round(seconds, 1),
    }


def _order(result: Result) -> tuple[Any, ...]:
    return order(result.operator, result.types), GROUPS.index(result.group), result.id


def _row(operator: str, types: tuple[str, ...], results: Sequence[Result]) -> RowEntry:
    judged = [result.judgement for result in results]
    counts = Counter(judgement.verdict for judgement in judged)
    histogram = {key: sum(judgement.histogram[key] for judgement in judged) for key in HISTOGRAM}
    distances = [judgement.max_ulp for judgement in judged if judgement.max_ulp is not None]
    bad = max(results, key=_badness)
    reasons = [j.message for j in judged if j.verdict in ("refused", "crashed", "hung") and j.message]
    return {
        "operator": operator,
        "types": list(types),
        "verdict": max(counts, key=VERDICTS.index),
        "cases": {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        "elements": sum(judgement.elements for judgement in judged),
        "misrounded": sum(histogram.values()) - histogram["0"],
        "max_ulp": max(distances, default=None),
        "histogram": histogram,
        "worst": bad.id if bad.judgement.verdict not in (*_UNLISTED, "unspecified") else None,
        "message": reasons[0] if reasons else None,
    }


def _badness(result: Result) -> tuple[int, bool, float]:
    judgement = result.judgement
    return (
        VERDICTS.index(judgement.verdict),
        judgement.histogram["special"] > 0,
        judgement.max_ulp or 0,
    )


def _reproducibility(
    target: str, operator: str, types: tuple[str, ...], results: Sequence[Result], allowed: Allowed
) -> list[ReproducibilityEntry]:
    entries: list[ReproducibilityEntry] = []
    for aspect in ASPECTS:
        tried = [(r.id, r.repetition) for r in results if r.repetition and r.repetition.aspect == aspect]
        if not tried:
            continue
        differing = [(id, repetition) for id, repetition in tried if repetition.same is False]
        same = any(repetition.same for _, repetition in tried)
        permitted = [allowed.allows(target, id, "differs") for id, _ in differing]
        entries.append(
            {
                "operator": operator,
                "types": list(types),
                "aspect": aspect,
                "verdict": "differs" if differing else "same" if same else "not tested",
                "example": differing[0][1].example if differing else None,  # type: ignore[typeddict-item]
                "allowed": bool(permitted) and all(permitted),
            }
        )
    return entries


def _case(target: str, result: Result, allowed: Allowed) -> CaseEntry:
    verdict = result.judgement.verdict
    found = vars(result) | vars(result.judgement)
    found["attributes"] = dict(sorted(result.attributes.items()))
    found["allowed"] = verdict in FAULTS and allowed.allows(target, result.id, verdict)
    return cast(CaseEntry, {name: _plain(found[name]) for name in CaseEntry.__annotations__})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists for tuples, and as text what JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def _summary(
    results: Sequence[Result], entries: Sequence[CaseEntry], reproducibility: Sequence[ReproducibilityEntry]
) -> Summary:
    counts = Counter[str](result.judgement.verdict for result in results)
    differing = [entry for entry in reproducibility if entry["verdict"] == "differs"]
    counts["cases"] = len(results)
    counts["allowed"] = sum(e["allowed"] for e in entries) + sum(e["allowed"] for e in differing)
    counts["not_reproducible"] = len(differing)
    return cast(Summary, {name: counts[name] for name in Summary.__annotations__})
