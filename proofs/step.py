"""The steps of a proof."""

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
    """A step failed. The message says in a line which claim was not proved."""


class MissingProgram(Exception):
    """A program is not installed. The message says in a line which, and how to install all of them."""


def run_program(
    command: Sequence[str], *, stdin: str = "", folder: str | None = None, seconds: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, and return its output.

    Args:
        command: the program and its arguments.
        stdin: its standard input.
        folder: its working directory.
        seconds: the limit of processor time. SIGXCPU ends the program if it exceeds that.

    Raises:
        MissingProgram: the program is not installed.
    """
    if shutil.which(command[0]) is None:
        packages = "coq libcoq-gappa libcoq-flocq" if command[0] == "coqc" else "gappa sollya g++"
        raise MissingProgram(f"{command[0]} is not installed; on Debian: apt install {packages}")
    if seconds is not None:
        command = ["sh", "-c", f'ulimit -St {seconds}; exec "$@"', "sh", *command]
    return subprocess.run(command, input=stdin, cwd=folder, capture_output=True, text=True)


@dataclass(frozen=True)
class Step:
    """A statement and its proof. `prove` returns its result in a line, or raises Unproved."""

    statement: str
    prove: Callable[[], str]
    quick: bool = True  # takes seconds; otherwise only the full run includes it


def once(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Cache a function's results. If two threads request the same one, the second waits for the first."""
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
    """Return a function's results for all cases. (Several run at a time, since other programs do the work.)"""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, cases))
