"""Checking a runtime: every operator version, type and corner, compared with the exact results.

Each case is run in the target's process and judged. A batch holds the cases of one operator version and input types,
and so all that are compared with each other.
"""

import io
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Unpack, get_args

import numpy as np

from halfulp._interop import Array
from halfulp.conformance import document as documents
from halfulp.conformance.case import GROUPS, Case, Mode, broadcast, expected, operands_of, oracle, parse
from halfulp.conformance.cases import cases as cases_of
from halfulp.conformance.cases import chosen_types, selected, type_pairs
from halfulp.conformance.document import Document, Entry, Part, Result, Selection
from halfulp.conformance.judge import FAULTS, Judgement, Outcome, decimal, judge, place_of, shown, verdicts
from halfulp.conformance.process import LONGEST, MEMORY, TIME_LIMIT, Process
from halfulp.conformance.targets import TargetSpec, find
from halfulp.errors import HalfulpError, Printed, check_integer, did_you_mean
from halfulp.operators import thread_count
from halfulp.options import CheckOptions, takes
from halfulp.specs import ids
from halfulp.types import same_bits, tensor_type

MOST_HANGS = 5  # in a row: the rest of an operator version and types then counts as hung without being run
Names = Iterable[Any]  # of operators, of NumPy's types, ...; or one of them
Row = tuple[str, tuple[str, ...]]  # an operator version, and the types of its inputs


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
        return not documents.faults(self.document)

    def json(self) -> str:
        """Return the document as JSON text."""
        return documents.dumps([self.document])

    def __repr__(self) -> str:
        summary = self.document["summary"].items()
        shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary if count)
        return f"<CheckReport of {self.document['target']['name']}: {shown}>"

    def __str__(self) -> str:
        from rich.console import Console

        from halfulp.conformance.report import show

        text = io.StringIO()
        show([self.document], Console(file=text, width=110), page="halfulp check --html FILE")
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
    allowed = documents.load_allowed(allow)
    limits = {"ulp_limit": ulp_limit, "time_limit": time_limit, "threads": processors()}
    return check_target(find(target), mode, chosen, processes, allowed, progress, **limits)


def check_target(
    spec: TargetSpec,
    mode: Mode,
    selection: Selection,
    processes: int | None,
    allowed: Sequence[Entry] = (),
    progress: Callable[[Progress], None] | None = None,
    **limits: Any,
) -> CheckReport:
    """Check a target as :func:`check` does, with arguments that are known to be valid, and the limits of Examiner."""
    rows, nothing = list(rows_of(spec, selection)), f"nothing of this selection is for the target {spec.name}"
    if not rows:
        raise HalfulpError(nothing)
    results: list[Result] = []
    count, started, failed, interrupted = processes or processors(), time.monotonic(), 0, False
    try:
        # Whatever ends the loop ends the processes, and so the examinations that the pool waits for.
        with ThreadPoolExecutor(count) as pool, ExitStack() as stack:
            examiners = [stack.enter_context(Examiner(spec, **limits)) for _ in range(count)]
            versions = examiners[0].versions
            for number, of_batch in enumerate(_examined(pool, examiners, rows, mode, selection), 1):
                results += of_batch
                failed += sum(result.entry["verdict"] in FAULTS for result in of_batch)
                if progress is not None:
                    progress(Progress(number, len(rows), len(results), failed))
    except KeyboardInterrupt:
        if not results:
            raise
        interrupted = True
    if not results:
        raise HalfulpError(f"{nothing}, or among the quick cases: try --full")
    run = documents.run_entry(mode, selection, examiners[0].ulp_limit, time.monotonic() - started)
    target = {"name": spec.name, "versions": dict(sorted(versions.items()))}
    findings = documents.document(target, run, results, allowed)
    return CheckReport(findings, tuple(documents.stale(allowed, spec.name, results)), interrupted)


def selection(
    operators: Names, versions: Names, types: Names, groups: Names = (), cases: Names = ()
) -> Selection:
    """Return the selection of a run; raises HalfulpError for an unknown operator, version, type or group."""
    chosen = {"operators": _sorted(operators), "versions": _sorted(versions)}
    chosen |= {"types": _sorted(types, chosen_types)}
    selected(chosen["operators"], chosen["versions"])
    of_cases = {"groups": _sorted(groups), "cases": _sorted(cases)}
    for name in of_cases["groups"]:
        if name not in GROUPS:
            raise HalfulpError(f"no group of cases {name[:80]}; {did_you_mean(name, GROUPS)}")
    for pattern in of_cases["cases"]:
        operator, *others = pattern.split("/")
        if len(others) != 3:
            form = "OPERATOR/TYPES/GROUP/NAME, with * for any text"
            raise HalfulpError(f"not the id of a case: {pattern[:80]}", expected=form)
        if not any(fnmatchcase(id, operator) for id in ids()):
            raise HalfulpError(f"no operator {operator[:80]}; {did_you_mean(operator, ids())}")
    return chosen | {key: names for key, names in of_cases.items() if names}


def narrowed(batch: Iterable[Case], selection: Selection) -> Iterator[Case]:
    """Yield the chosen cases, and from a list also the cases that they are compared with."""
    groups, patterns = selection.get("groups", GROUPS), selection.get("cases", ["*"])

    def is_chosen(case: Case) -> bool:
        return case.group in groups and any(fnmatchcase(case.id, pattern) for pattern in patterns)

    others = {case.compared_with for case in batch if is_chosen(case)} if isinstance(batch, list) else set()
    return (case for case in batch if case.id in others or is_chosen(case))


def _sorted(names: Any, text: Callable[[Any], str] = str) -> list[str]:
    """Return one name, or several, as sorted texts, each once."""
    is_one = isinstance(names, str) or not isinstance(names, Iterable)
    return sorted({text(name) for name in ([names] if is_one else names)})


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def rows_of(spec: TargetSpec, selection: Selection) -> Iterator[Row]:
    """Yield the operator versions and types of a selection that are for a target."""
    patterns = ["/".join(pattern.split("/")[:2]) for pattern in selection.get("cases", ["*/*"])]
    for row in selected(selection["operators"], selection["versions"]):
        for pair in type_pairs(row, selection["types"]):
            is_chosen = any(fnmatchcase(f"{row.id}/{','.join(pair)}", pattern) for pattern in patterns)
            if is_chosen and spec.takes_types(row.id, pair):
                yield row.id, pair


# --- from cases to results ----------------------------------------------------------------------


@dataclass
class Examiner(AbstractContextManager["Examiner"]):
    """Runs and judges cases of one target, in processes that live until it is closed."""

    spec: TargetSpec
    ulp_limit: float = 4  # the distance in representable values up to which a floating result is ``within``
    time_limit: float = TIME_LIMIT  # the seconds that the target may take for a case
    memory: int = MEMORY  # the bytes that it may allocate once it is loaded
    threads: int = 1  # the maximum number of threads of a case
    _processes: dict[int, Process] = field(default_factory=dict)
    _is_closed: bool = False

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the runtime; raises HalfulpError if it does not load."""
        process = self._process(1)
        process.start()
        return dict(process.versions)

    @np.errstate(all="ignore")  # comparing small types with NaN warns
    def examine(self, cases: Iterable[Case]) -> list[Result]:
        """Run and judge the cases of an operator version and types; those compared with another come after it."""
        answers: dict[str | None, tuple[Array | None, Array | None]] = {}  # the right result, and the output
        not_run = Outcome("hung", f"not run: {MOST_HANGS} cases one after another hung")
        results, hangs = list[Result](), 0  # hangs in a row, up to the last case
        for case in filter(self.spec.takes, cases):
            threads = min(case.threads or 1, self.threads)
            got = self.run(case, threads) if hangs < MOST_HANGS else not_run
            if isinstance(got, Outcome) and got.kind == "not offered":
                continue
            right, there = answers.get(case.compared_with, (None, None))
            if case.aspect == "threads" and threads == 1:  # with one processor there is one
                there = None
            right = self._right(case, right) if case.clause is None else None
            here: Array | None = None
            if isinstance(got, np.ndarray) and right is not None and tensor_type(got) == tensor_type(right):
                here = got
            answers[case.id] = right, here
            judgement = judge(case, right, got, self.ulp_limit)
            hangs = hangs + 1 if judgement.verdict == "hung" else 0
            entry = documents.case_entry(case, judgement, _confirmed(case, right, judgement))
            grid = _grid(case, right, here, self.ulp_limit)
            same, example = _compared(case, here, there)
            results.append(Result(entry, judgement.histogram, grid, case.aspect or "", same, example))
        return results

    def close(self) -> None:
        """End the processes, from any thread; an examination that runs then raises HalfulpError."""
        self._is_closed = True
        for process in list(self._processes.values()):
            process.close()

    def _process(self, threads: int) -> Process:
        process = Process(self.spec, threads, self.time_limit, self.memory)  # not started yet
        return self._processes.setdefault(threads, process)

    def run(self, case: Case, threads: int = 1) -> Array | Outcome:
        """Return the output, or the outcome without one."""
        answer = None if self._is_closed else self._process(threads).run(case)
        if answer is None or self._is_closed:
            self.close()  # a process may have been started since
            raise HalfulpError("the examination was ended")
        return answer

    def _right(self, case: Case, other: Array | None) -> Array:
        if other is not None:
            return case.elements_of(other).reshape(broadcast(case)[0].shape)
        # halfulp does not judge itself.
        return np.asarray(oracle(case) if self.spec.code == "models.halfulp" else expected(case))


def _grid(case: Case, right: Any, output: Array | None, ulp_limit: float) -> list[Part]:
    """Return the pairs of a grid of special values; of another case, or without an output, none."""
    if output is None or not case.name.startswith("grid"):
        return []
    columns = (*operands_of(case), right, output, verdicts(case, right, output, ulp_limit))
    return [
        dict(zip(("x", "y", "expected", "got"), map(decimal, elements), strict=True))
        | {"verdict": str(verdict)}
        for *elements, verdict in zip(*(column.ravel() for column in columns), strict=True)
    ]


def _compared(case: Case, here: Array | None, there: Array | None) -> tuple[bool | None, Part | None]:
    """Return whether two outputs have the same bits, None if one is missing, and the first that differ."""
    if here is None or there is None:
        return None, None
    first, again = case.elements_of(there), here.ravel()
    differs = ~same_bits(again, first)
    if not differs.any():
        return True, None
    flat = int(differs.argmax())
    bits = {"first": shown(first[flat]), "again": shown(again[flat])}
    return False, {"case": case.id, **place_of(case, flat, here.shape), **bits}


def _confirmed(case: Case, right: Array | None, judgement: Judgement) -> str | None:
    """Ask MPFR about the one element that a report shows."""
    if judgement.example is None or right is None:
        return None
    index = tuple(judgement.example["index"])
    try:
        exact, own = np.asarray(oracle(case, index)), np.asarray(right[index])
    except ImportError:
        return None
    if not same_bits(exact, own):
        message, bits = f"{case.id}: halfulp and MPFR disagree at {list(index)}", shown(exact)["bits"]
        raise HalfulpError(message, expected=bits, got=shown(own)["bits"])
    return "MPFR"


def processors() -> int:
    """Return the number of threads that the core takes, or OMP_NUM_THREADS if that is less."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    is_number = text.isascii() and text.isdigit() and int(text) > 0
    return min(thread_count(), int(text)) if is_number else thread_count()


def _examined(
    pool: Executor, examiners: list[Examiner], rows: list[Row], mode: Mode, selection: Selection
) -> Iterator[list[Result]]:
    """Yield the results of each row's chosen cases when they are done; each examiner has a process of the target."""
    stream = cases_of(mode, dict.fromkeys(operator for operator, _ in rows), types=selection["types"])
    of_rows = groupby(stream, key=lambda case: (case.operator, parse(case.id).types))
    # All batches of a full run do not fit into memory.
    batches = (list(narrowed(list(members), selection)) for row, members in of_rows if row in rows)
    running: dict[Future[list[Result]], Examiner] = {}
    free = examiners  # the process of the first runs already
    while running := running | {
        pool.submit(examiner.examine, batch): examiner
        for examiner, batch in zip(free, filter(None, batches), strict=False)
    }:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        free = [running.pop(future) for future in done]
        yield from (future.result() for future in done)
