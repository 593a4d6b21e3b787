"""From cases to results: each case is run in the target's process and judged.

A batch holds the cases of one operator version and input types, and so all that are compared with each other.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast, expected, operands_of, oracle
from halfulp.conformance.document import Cell, Repetition, Result, case_entry
from halfulp.conformance.judge import (
    Judgement,
    Outcome,
    decimal,
    judge,
    place_of,
    shown,
    verdicts,
)
from halfulp.conformance.process import MEMORY, TIME_LIMIT, Process
from halfulp.conformance.targets import TargetSpec
from halfulp.errors import HalfulpError, SpecError
from halfulp.operators import thread_count
from halfulp.specs.tensor import tensor_type
from halfulp.types import codes, is_nan

MOST_HANGS = 5  # in a row: the rest of an operator version and types is then not run
_GRID = "grid"  # the names of the cases of the special-value grid begin with it


@dataclass(frozen=True)
class Options:
    """The limits of an examination."""

    ulp_limit: float = 4  # the distance in representable values up to which a floating result is ``within``
    time_limit: float = TIME_LIMIT  # the seconds that a target may take for a case
    memory: int = MEMORY  # the bytes that it may allocate once it is loaded
    threads: int = 1  # the maximum number of threads of a case


class _Answer(NamedTuple):
    """A case's right result and its output, for the cases that are compared with it."""

    right: Array | HalfulpError
    output: Array | None


@dataclass
class Examiner(AbstractContextManager["Examiner"]):
    """Runs and judges cases of one target, in processes that live until it is closed."""

    spec: TargetSpec
    options: Options
    _processes: dict[int, Process] = field(default_factory=dict)
    _is_closed: bool = False

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the runtime; raises HalfulpError if it does not load."""
        process = self._process(1)
        process.start()
        return process.versions

    def examine(self, cases: Iterable[Case]) -> list[Result]:
        """Run and judge the cases of an operator version and types; those compared with another come after it.

        A target may hang on everything. After ``MOST_HANGS`` cases in a row that hang, the others count as hung without
        being run, and their message says so.
        """
        answers: dict[str, _Answer] = {}
        results: list[Result] = []
        hangs = 0  # in a row, up to the last case
        for case in filter(self.spec.takes, cases):
            with np.errstate(all="ignore"):  # comparing small types with NaN warns
                other = answers.get(case.compared_with or "")
                found = self._one(case, other, is_run=hangs < MOST_HANGS)
            if found is None:
                continue
            result, answers[case.id] = found
            hangs = hangs + 1 if result.judgement.verdict == "hung" else 0
            results.append(result)
        return results

    def close(self) -> None:
        """End the processes, from any thread; an examination that runs then raises HalfulpError."""
        self._is_closed = True
        for process in list(self._processes.values()):
            process.close()

    def _process(self, threads: int) -> Process:
        if threads not in self._processes:
            limits = self.options.time_limit, self.options.memory
            self._processes[threads] = Process(self.spec, threads, *limits)
        return self._processes[threads]

    def _one(self, case: Case, other: _Answer | None, *, is_run: bool) -> tuple[Result, _Answer] | None:
        """Return the result of a case; None if the target does not offer its operator with its types."""
        right = self._expected(case, other)
        threads = min(case.threads or 1, self.options.threads)
        got: Array | str | Outcome = Outcome("hung", f"not run: {MOST_HANGS} cases one after another hung")
        if is_run:
            got = self.run(case, threads)
            if isinstance(got, Outcome) and got.kind == "not offered":
                return None
        judgement = judge(case, right, got, self.options.ulp_limit)
        output: Array | None = None
        grid: list[Cell] = []
        if isinstance(got, np.ndarray) and isinstance(right, np.ndarray) and case.clause is None:
            output = got if tensor_type(right) == tensor_type(got) else None
            if case.name.startswith(_GRID) and output is not None:
                grid = _grid(case, right, output, self.options.ulp_limit)
        repetition = None
        if case.aspect is not None:
            # With one processor there is one thread.
            comparable = other is not None and (case.aspect != "threads" or threads > 1)
            repetition = _repetition(case, output, other.output if other and comparable else None)
        entry = case_entry(case, judgement, _confirmed(case, right, judgement))
        return Result(entry, judgement, grid, repetition), _Answer(right, output)

    def run(self, case: Case, threads: int = 1) -> Array | str | Outcome:
        """Return the output, a sentence on outputs that are not one array, or the outcome without outputs."""
        answer = None if self._is_closed else self._process(threads).run(case)
        if answer is None or self._is_closed:
            self.close()  # a process may have been started since
            raise HalfulpError("the examination was ended")
        if isinstance(answer, Outcome):
            return answer
        if len(answer) != 1:
            return f"{len(answer)} outputs instead of 1"
        (output,) = answer
        return f"the output is not an array of numbers: {output}" if isinstance(output, str) else output

    def _expected(self, case: Case, other: _Answer | None) -> Array | HalfulpError:
        if other is not None and isinstance(other.right, np.ndarray):
            same = other.right if case.positions is None else other.right.ravel()[case.positions]
            return same.reshape(broadcast(case)[0].shape)
        try:
            # halfulp does not judge itself.
            own = self.spec.code == "models.Halfulp" and case.clause is None
            return np.asarray(oracle(case) if own else expected(case))
        except SpecError as error:
            if case.clause is None:
                raise
            return error


def _grid(case: Case, right: Array, output: Array, ulp_limit: float) -> list[Cell]:
    found = verdicts(case, right, output, ulp_limit)
    x, y = operands_of(case)
    return [
        {
            "x": decimal(x[index]),
            "y": decimal(y[index]),
            "expected": decimal(right[index]),
            "got": decimal(output[index]),
            "verdict": found[index].item(),
        }
        for index in np.ndindex(right.shape)
    ]


def _repetition(case: Case, here: Array | None, there: Array | None) -> Repetition:
    assert case.aspect is not None
    if here is None or there is None:
        return Repetition(case.aspect, None, None)
    first = there.ravel() if case.positions is None else there.ravel()[case.positions]
    again = here.ravel()
    differs = ~_are_same(again, first)
    if not differs.any():
        return Repetition(case.aspect, True, None)
    flat = int(differs.argmax())
    example: Any = {
        "case": case.id,
        **place_of(case, flat, here.shape),
        "first": shown(first[flat]),
        "again": shown(again[flat]),
    }
    return Repetition(case.aspect, False, example)


def _are_same(a: Array, b: Array) -> Array:
    """Return which elements have the same bits. A NaN is a NaN, whatever its payload."""
    return np.asarray((codes(a) == codes(b)) | (is_nan(a) & is_nan(b)))


def _confirmed(case: Case, right: Array | HalfulpError, judgement: Judgement) -> str | None:
    """Ask MPFR about the one element that a report shows."""
    if judgement.example is None or not isinstance(right, np.ndarray):
        return None
    index = tuple(judgement.example["index"])
    try:
        exact, found = np.asarray(oracle(case, index)), np.asarray(right[index])
    except ImportError:
        return None
    if not _are_same(exact, found):
        raise HalfulpError(
            f"{case.id}: halfulp and MPFR disagree at {list(index)}",
            expected=shown(exact)["bits"],
            got=shown(found)["bits"],
        )
    return "MPFR"


# --- batches -------------------------------------------------------------------------------------

Batch = list[Case]
Examined = tuple[list[Result], dict[str, str]]  # the results of a batch, and the versions of the runtime


def processors() -> int:
    """Return the number of threads that the core takes, or OMP_NUM_THREADS if that is less."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    is_number = text.isascii() and text.isdigit() and int(text) > 0
    return min(thread_count(), int(text)) if is_number else thread_count()


def examined(
    spec: TargetSpec, options: Options, batches: Iterable[Batch], processes: int
) -> Generator[Examined, None, None]:
    """Examine batches in ``processes`` processes of the target at a time, and yield each when it is done."""
    with ExitStack() as stack, ThreadPoolExecutor(processes) as pool:
        examiners = [stack.enter_context(Examiner(spec, options)) for _ in range(processes)]
        versions = examiners[0].versions
        free = examiners[::-1]  # one for each thread; the process of the first runs already

        def examine(batch: Batch) -> Examined:
            examiner = free.pop()
            try:
                return examiner.examine(batch), versions
            finally:
                free.append(examiner)

        try:
            # All batches of a full run do not fit into memory.
            waiting = iter(batches)
            running: set[Future[Examined]] = set()
            while running := running | {
                pool.submit(examine, batch) for batch in islice(waiting, processes + 1 - len(running))
            }:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            # The running examinations wait for these processes.
            for examiner in examiners:
                examiner.close()
            pool.shutdown(cancel_futures=True)
            raise
