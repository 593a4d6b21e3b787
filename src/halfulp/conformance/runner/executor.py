"""Where cases are examined: in processes here, or on the workers of a Dask cluster.

A batch holds the cases of one operator version and input types, and so all that are compared with each other.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from halfulp.conformance.case import Case
from halfulp.conformance.runner.examine import Examiner, Options, Result
from halfulp.conformance.runner.targets import TargetSpec
from halfulp.errors import HalfulpError
from halfulp.operators import thread_count

Batch = list[Case]
_ADDRESS = re.compile(r"([a-z]+://)?[^\s/]+:\d+(/\S*)?|inproc://\S+")
_PATIENCE = 10  # in seconds, for the answer of a Dask scheduler

Tell = Callable[[list[Result]], None]
"""Is told the results of each batch, from one thread at a time."""


class Examined(NamedTuple):
    """The results of all batches, in no order, and the versions of what was examined."""

    results: list[Result]
    versions: dict[str, str]


def processors() -> int:
    """Return how many threads the core takes, or OMP_NUM_THREADS where that is less."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    is_number = text.isascii() and text.isdigit() and int(text) > 0
    return min(thread_count(), int(text)) if is_number else thread_count()


def locally(
    spec: TargetSpec, options: Options, batches: Iterable[Batch], processes: int, tell: Tell
) -> Examined:
    """Examine batches in so many processes of the target at a time.

    Raises:
        HalfulpError: the target can't be loaded, or a case is at fault.
    """
    results: list[Result] = []
    with _examiners(spec, options, processes) as examiners, ThreadPoolExecutor(processes) as pool:
        versions = examiners[0].versions
        free = list(examiners)
        lock = threading.Lock()

        def examine(batch: Batch) -> list[Result]:
            with lock:
                examiner = free.pop()
            try:
                return examiner.examine(batch)
            finally:
                with lock:
                    free.append(examiner)

        try:
            for found in _in_turn(lambda batch: pool.submit(examine, batch), batches, processes + 1):
                results += found
                tell(found)
        except BaseException:
            # Those that run now are waiting for their processes.
            for examiner in examiners:
                examiner.close()
            pool.shutdown(cancel_futures=True)
            raise
    return Examined(results, versions)


@contextmanager
def _examiners(spec: TargetSpec, options: Options, count: int) -> Iterator[list[Examiner]]:
    examiners = [Examiner(spec, options) for _ in range(count)]
    try:
        yield examiners
    finally:
        for examiner in examiners:
            examiner.close()


def _in_turn(submit: Callable[[Batch], Any], batches: Iterable[Batch], most: int) -> Iterator[list[Result]]:
    """Submit batches, never more than so many ahead of what is done: a full run's don't fit into memory."""
    running: set[Future[list[Result]]] = set()
    for batch in batches:
        running.add(submit(batch))
        if len(running) >= most:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


def on_dask(
    spec: TargetSpec, options: Options, batches: Iterable[Batch], address: str, tell: Tell
) -> Examined:
    """Examine batches on the workers of a Dask cluster, which need halfulp and the target installed.

    Args:
        spec: the target.
        options: how to examine.
        batches: the cases.
        address: the scheduler's, such as ``tcp://10.0.0.1:8786``.
        tell: is told the results.

    Raises:
        HalfulpError: dask is not installed, the scheduler does not answer or has no workers, or as ``locally``.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise HalfulpError("--dask needs the package distributed: pip install distributed") from None
    if not _ADDRESS.fullmatch(str(address)):  # the client would try for long, and complain on stderr
        raise HalfulpError(
            f"no Dask scheduler at {str(address)[:80]}", expected="an address such as tcp://10.0.0.1:8786"
        )
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise HalfulpError(f"no Dask scheduler at {address}: {str(error)[:100]}") from None
    with client, client.as_current():
        slots = sum(client.nthreads().values())
        if not slots:
            raise HalfulpError(f"the Dask cluster at {address} has no workers")
        results: list[Result] = []
        versions: dict[str, str] = {}
        waiting = iter(batches)
        first = [
            client.submit(_on_worker, spec, options, batch, pure=False) for batch in _take(waiting, 2 * slots)
        ]
        running = distributed.as_completed(first)
        for future in running:
            found, versions = _result(future, address)
            results += found
            tell(found)
            for batch in _take(waiting, 1):
                running.add(client.submit(_on_worker, spec, options, batch, pure=False))
    return Examined(results, versions)


def _result(future: Any, address: str) -> tuple[list[Result], dict[str, str]]:
    try:
        found: tuple[list[Result], dict[str, str]] = future.result()
    except HalfulpError:
        raise
    except Exception as error:  # of many kinds: a worker was killed, or has no halfulp
        line = (str(error).splitlines() or [""])[0]
        raise HalfulpError(f"a worker of {address} failed: {type(error).__name__}: {line[:200]}") from None
    return found


def _take(batches: Iterator[Batch], count: int) -> Iterator[Batch]:
    for _ in range(count):
        try:
            yield next(batches)
        except StopIteration:
            return


_kept = threading.local()


def _on_worker(spec: TargetSpec, options: Options, batch: Batch) -> tuple[list[Result], dict[str, str]]:
    """Examine a batch on a thread of a worker; the target's process stays for the thread's next batch."""
    examiner = getattr(_kept, "examiner", None)
    if examiner is None or (examiner.spec, examiner.options) != (spec, options):
        if examiner is not None:
            examiner.close()
        examiner = _kept.examiner = Examiner(spec, options)
    return examiner.examine(batch), examiner.versions
