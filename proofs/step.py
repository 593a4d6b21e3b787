"""What a proof consists of."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Case = TypeVar("Case")


class Unproved(Exception):
    """A step failed: what could not be proved, in a line."""


class MissingProgram(Exception):
    """A program that proves is not installed: which, and how to get all of them, in a line."""


def run_program(
    command: Sequence[str], *, stdin: str = "", folder: str | None = None, seconds: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs that prove, in a folder, and return all that it printed.

    Args:
        command: the program and its arguments.
        stdin: its standard input.
        folder: where it runs.
        seconds: of processor time, however busy the machine is; more of them end it by SIGXCPU.

    Raises:
        MissingProgram: it is not installed.
    """
    if shutil.which(command[0]) is None:
        packages = "coq libcoq-gappa libcoq-flocq" if command[0] == "coqc" else "gappa sollya g++"
        raise MissingProgram(f"{command[0]} is not installed; on Debian: apt install {packages}")
    if seconds is not None:
        command = ["sh", "-c", f'ulimit -St {seconds}; exec "$@"', "sh", *command]
    return subprocess.run(command, input=stdin, cwd=folder, capture_output=True, text=True)


@dataclass(frozen=True)
class Step:
    """A statement and its proof. `prove` returns what it found, in a line, and raises Unproved where it fails."""

    statement: str
    prove: Callable[[], str]
    quick: bool = True  # takes seconds; else it is left to the full run


def once(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function whose results are kept; where two threads ask for one at a time, the second waits for it."""
    results: dict[object, Result] = {}
    locks: defaultdict[object, threading.RLock] = defaultdict(threading.RLock)

    @functools.wraps(function)
    def found(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        key = (arguments, *named.items())
        with locks[key]:
            if key not in results:
                results[key] = function(*arguments, **named)
            return results[key]

    return found


def each(function: Callable[[Case], Result], cases: Iterable[Case]) -> list[Result]:
    """What a function yields for each case. (Several at a time: other programs do the work.)"""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, cases))
