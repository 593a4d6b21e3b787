"""Checking a runtime: every operator version, type and corner, compared with the exact results."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Unpack, get_args

from halfulp.conformance.case import GROUPS, Case, Mode, parse
from halfulp.conformance.cases import cases as cases_of
from halfulp.conformance.cases import chosen_types, has_types, selected, type_pairs
from halfulp.conformance.document import (
    Allowed,
    Document,
    Entry,
    Result,
    Selection,
    TargetEntry,
    document,
    dumps,
    faults,
    load_allowed,
    run_entry,
)
from halfulp.conformance.examine import Options, examined, processors
from halfulp.conformance.judge import FAULTS
from halfulp.conformance.process import LONGEST
from halfulp.conformance.targets import TargetSpec, find
from halfulp.errors import HalfulpError, Printed, check_integer, did_you_mean
from halfulp.options import CheckOptions, takes
from halfulp.specs import ids


class Progress(NamedTuple):
    """The progress of a check: rows (an operator version with types) done of the total, cases, and faults."""

    done: int
    total: int
    cases: int
    faults: int


@dataclass(frozen=True, repr=False)
class CheckReport(Printed):
    """The findings of :func:`check` about one runtime. ``print`` shows them as tables.

    Attributes:
        document: all findings, in the form that docs/formats/check.md describes.
        stale: the entries of the allow list that match cases of this run, but no finding.
        interrupted: whether Ctrl-C ended the run; the document then has the operator versions and types done by then.

    Example:
        >>> import halfulp as hu
        >>> report = hu.check("numpy", operators=["PRelu"], types=["int32"], processes=1)
        >>> report
        <CheckReport of numpy: 49 cases, 48 exact, 1 unspecified>
        >>> report.ok
        True
        >>> report.document["rows"][0]["operator"], report.document["rows"][0]["verdict"]
        ('onnx.PRelu-16', 'exact')
        >>> report.json().splitlines()[1]
        '"schema": "halfulp.check/1",'
    """

    document: Document
    stale: tuple[Entry, ...] = ()
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether the runtime has no fault, or only allowed ones."""
        return not faults(self.document)

    def json(self) -> str:
        """Return the document as JSON text."""
        return dumps([self.document])

    def __repr__(self) -> str:
        counts = {name: count for name, count in self.document["summary"].items() if count}
        shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
        return f"<CheckReport of {self.document['target']['name']}: {shown}>"

    def __str__(self) -> str:
        from rich.console import Console

        from halfulp.conformance.report import terminal

        text = io.StringIO()
        terminal.show([self.document], Console(file=text, width=110), page="halfulp check --html FILE")
        return text.getvalue()


@takes(CheckOptions)
def check(
    target: str | ModuleType | Callable[[Any, Any], Any],
    *,
    mode: Mode = "quick",
    versions: Iterable[str] = (),
    allow: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Compare a runtime with the exact result of every operator version, type pair and corner.

    Args:
        target: a name, such as ``"onnxruntime"``; a module with the interface of ``onnx.backend.base``, or its name;
            a function ``f(x, y)`` of two arrays of one shape, or its name, ``"module:f"`` or ``"file.py:f"``; or a
            command such as ``"mytool {model} {inputs} {outputs}"``. A function with prelu in its name is a PRelu,
            another one a Pow.
        mode: ``"quick"`` takes about a minute; ``"full"`` far longer.
        operators: only these, such as ``"Pow"`` or ``"onnx.Pow-15"``; all if empty.
        versions: only these versions, such as ``"15"``.
        types: only where an input has one of these types, or the inputs have a pair: ``"float32,int64"``.
        groups: only these groups of cases: values, special, edge, hard, broadcast, invalid, reproducibility.
        cases: only cases with these ids, in which ``*`` stands for any text.
        ulp_limit: the distance in representable values up to which a floating result is ``within``, not ``wrong``.
        time_limit: the seconds that the runtime may take for a case.
        processes: the number of processes at a time; one for each processor if not given.
        allow: a file of findings that are known, as docs/check.md describes it.
        progress: a callback that is called after each operator version and types.

    Returns:
        The report: print it, or take its ``document``. Ctrl-C ends the run, and the report has the results so far.

    Raises:
        HalfulpError: the target is unknown or does not load, or the selection is empty.

    Example:
        >>> report = check("numpy", operators=["PRelu"], types=["int32"], processes=1)
        >>> report.document["summary"]["wrong"], report.ok
        (0, True)
    """
    if mode not in get_args(Mode):
        raise HalfulpError("no such mode", expected="quick or full", got=repr(mode)[:80])
    ulp_limit, time_limit, processes = options["ulp_limit"], options["time_limit"], options["processes"]
    if not (_is_number(ulp_limit) and 0 <= ulp_limit < math.inf):
        raise HalfulpError("ulp_limit must be a number >= 0", got=repr(ulp_limit)[:80])
    if not (_is_number(time_limit) and time_limit > 0):
        raise HalfulpError("time_limit must be a number > 0", got=repr(time_limit)[:80])
    if processes is not None:
        check_integer("processes", processes, 1)
    if time_limit > LONGEST:
        raise HalfulpError("time_limit must be at most a day", got=f"{time_limit:g} s")
    chosen = selection(options["operators"], versions, options["types"], options["groups"], options["cases"])
    return check_target(
        find(target),
        mode=mode,
        selection=chosen,
        options=Options(ulp_limit, time_limit, threads=processors()),
        processes=processes,
        allowed=None if allow is None else load_allowed(allow),
        progress=progress,
    )


def has_cases(spec: TargetSpec, selection: Selection) -> bool:
    """Return whether a target takes any operator version and types of a selection."""
    return next(_rows(spec, selection), None) is not None


def check_target(
    spec: TargetSpec,
    *,
    mode: Mode,
    selection: Selection,
    options: Options,
    processes: int | None = None,
    allowed: Allowed | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> CheckReport:
    """Check a target as :func:`check` does, with arguments that are known to be valid."""
    rows = list(_rows(spec, selection))
    if not rows:
        raise HalfulpError(f"nothing of this selection is for the target {spec.name}")
    kept: list[Result] = []
    started, allowed = time.monotonic(), allowed or Allowed()
    stream = cases_of(mode, dict.fromkeys(operator for operator, _ in rows), types=selection["types"])
    grouped = groupby(stream, key=lambda case: (case.operator, parse(case.id).types))
    chosen = (list(narrowed(list(members), selection)) for row, members in grouped if row in rows)
    batches = (batch for batch in chosen if batch)
    versions: dict[str, str] = {}
    failed, interrupted = 0, False
    try:
        # Whatever ends the loop ends the processes, too.
        with closing(examined(spec, options, batches, processes or processors())) as done:
            for number, (results, of_runtime) in enumerate(done, 1):
                kept += results
                versions |= of_runtime
                failed += sum(result.entry["verdict"] in FAULTS for result in results)
                if progress is not None:
                    progress(Progress(number, len(rows), len(kept), failed))
    except KeyboardInterrupt:
        if not kept:
            raise
        interrupted = True
    if not kept:
        raise HalfulpError(
            f"nothing of this selection is for the target {spec.name}, or among the quick cases: try --full"
        )
    run = run_entry(mode, selection, options.ulp_limit, time.monotonic() - started)
    target: TargetEntry = {"name": spec.name, "versions": dict(sorted(versions.items()))}
    findings = document(target, run, kept, allowed)
    ids = [result.entry["id"] for result in kept]
    return CheckReport(findings, tuple(allowed.stale(spec.name, ids)), interrupted)


def selection(
    operators: Iterable[str],
    versions: Iterable[str],
    types: Iterable[str],
    groups: Iterable[str] = (),
    cases: Iterable[str] = (),
) -> Selection:
    """Return the selection of a run; raises HalfulpError for an unknown operator, version, type or group."""
    chosen: Selection = {
        "operators": sorted(set(map(str, _each(operators)))),
        "versions": sorted(set(map(str, _each(versions)))),
        "types": sorted(set(map(chosen_types, _each(types)))),
    }
    list(selected(chosen["operators"], chosen["versions"]))
    if known := sorted(set(map(str, _each(groups)))):
        for group in known:
            if group not in GROUPS:
                raise HalfulpError(f"no group of cases {group[:80]}; {did_you_mean(group, GROUPS)}")
        chosen["groups"] = known
    if patterns := sorted(set(map(str, _each(cases)))):
        for pattern in patterns:
            if pattern.count("/") != 3:
                form = "OPERATOR/TYPES/GROUP/NAME, with * for any text"
                raise HalfulpError(f"not the id of a case: {pattern[:80]}", expected=form)
            operator = pattern.partition("/")[0]
            if not any(fnmatchcase(id, operator) for id in ids()):
                raise HalfulpError(f"no operator {operator[:80]}; {did_you_mean(operator, ids())}")
        chosen["cases"] = patterns
    return chosen


def narrowed(batch: Iterable[Case], selection: Selection) -> Iterator[Case]:
    """Yield the chosen cases, and from a list also the cases that they are compared with."""
    groups, patterns = selection.get("groups", GROUPS), selection.get("cases", ["*"])

    def is_chosen(case: Case) -> bool:
        return case.group in groups and any(fnmatchcase(case.id, pattern) for pattern in patterns)

    others = {case.compared_with for case in batch if is_chosen(case)} if isinstance(batch, list) else set()
    return (case for case in batch if case.id in others or is_chosen(case))


def _each(names: Any) -> list[Any]:
    """Return one name, or several, as a list."""
    return list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _rows(spec: TargetSpec, selection: Selection) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the operator versions and types of a selection that are for a target."""
    patterns = ["/".join(pattern.split("/")[:2]) for pattern in selection.get("cases", ["*/*"])]
    for row in selected(selection["operators"], selection["versions"]):
        for pair in type_pairs(row):
            is_chosen = any(fnmatchcase(f"{row.id}/{','.join(pair)}", pattern) for pattern in patterns)
            if is_chosen and has_types(pair, selection["types"]) and spec.takes_types(row.id, pair):
                yield row.id, pair
