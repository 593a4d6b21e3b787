"""Measures the rows, with a process for each setting.

If a row has two settings, their processes take turns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from halfulp.benchmark.comparison import in_turns, ratio, summary
from side_by_side.line import Line
from side_by_side.peers import environment
from side_by_side.rows import Row, Setting

_FOLDER = Path(__file__).parents[1]
_SLICES = 6  # the number of turns of two processes


class WorkerError(RuntimeError):
    """A measuring process ended early, or contradicts another one."""


class Worker:
    """A process of one setting."""

    def __init__(self, setting: Setting, quick: bool, log: Path) -> None:
        self.setting = setting
        command = [sys.executable, "-m", "side_by_side.worker", str(setting.threads)]
        path = os.pathsep.join(filter(None, (str(_FOLDER), os.environ.get("PYTHONPATH"))))
        variables = os.environ | environment(*setting) | {"PYTHONPATH": path}
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command + ["--quick"] * quick,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables,
            )  # fmt: skip

    def ask(self, row: int, seconds: float, least: int) -> dict[str, Any]:
        """Return the answer for a row."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(
                json.dumps({"row": row, "seconds": seconds, "least": least}),
                file=self._process.stdin,
                flush=True,
            )
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise WorkerError(f"the process of {self.setting} ended") from None
        return answer

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._process.wait()


class Workers:
    """The processes. Each is started when first needed, and again after it died."""

    def __init__(self, quick: bool, log: Path) -> None:
        self._quick, self._log = quick, log
        self._running: dict[Setting, Worker] = {}

    def measure(self, index: int, row: Row, seconds: float, least: int) -> list[Line]:
        """Return the lines of a row.

        Raises:
            WorkerError: a process died, or two settings gave different bits.
        """
        slices = _SLICES if len(row.settings) > 1 else 1
        answers: dict[Setting, dict[str, Any]] = {}
        for number in range(slices):
            for setting in row.settings:
                if setting not in self._running:
                    self._running[setting] = Worker(setting, self._quick, self._log)
                try:
                    answer = self._running[setting].ask(index, seconds / slices, max(1, least // slices))
                except WorkerError:
                    self._running.pop(setting).close()
                    raise
                if number == 0:
                    answers[setting] = answer
                else:
                    for name, times in answer["times"].items():
                        answers[setting]["times"][name] += times
        digests = {answer["digest"] for answer in answers.values()}
        if len(digests) > 1:
            raise WorkerError(f"halfulp's bits differ between {', '.join(map(str, answers))}")
        return [line for setting, answer in answers.items() for line in lines_of(row, setting, answer)]

    def close(self) -> None:
        """End all processes."""
        for worker in self._running.values():
            worker.close()
        self._running.clear()


def lines_of(row: Row, setting: Setting, answer: dict[str, Any]) -> Iterator[Line]:
    """Yield a line for each participant of an answer."""
    fixed = (row.group, row.label, row.place, setting.threads, setting.isa)
    ours = answer["times"]["halfulp"]
    for name, times in answer["times"].items():
        misrounded, _, farthest = answer["exactness"].get(name, (None, None, None))
        if name == "halfulp":
            misrounded, farthest = 0, 0
        yield Line(
            *fixed,
            name,
            answer["elements"],
            len(times),
            *summary(times),
            ratio(ours, times),
            misrounded,
            farthest,
        )
    for name, why in answer["refused"].items():
        yield Line(*fixed, name, answer["elements"], refused=why)


@contextmanager
def workers(quick: bool, log: Path) -> Iterator[Workers]:
    """The processes for the length of a ``with`` statement."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    with ExitStack() as stack:
        made = Workers(quick, log)
        stack.callback(made.close)
        yield made


def imports(repeats: int, modules: Sequence[str] = ("halfulp", "numpy")) -> Iterator[Line]:
    """Yield the time of importing each module in a fresh process. The modules take turns."""
    samples = {module: partial(_import_nanoseconds, module) for module in modules}
    for sample in samples.values():  # once, so that the files are compiled and cached
        sample()
    times = in_turns(samples, 0, repeats)
    for module, taken in times.items():
        yield Line(
            "calls", "import", "", 1, "", module, 1, repeats, *summary(taken), ratio(times[modules[0]], taken)
        )


def _import_nanoseconds(module: str) -> float:
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    # As for a user: installers compile the files, or an import does if it may write.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables
    )
    return 1e9 * float(done.stdout)


def elapsed(start: float) -> str:
    """Return the time since then, in words."""
    seconds = round(time.monotonic() - start)
    return f"{seconds // 60} min {seconds % 60} s"
