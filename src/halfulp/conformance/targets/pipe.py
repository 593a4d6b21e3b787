"""A program that computes many cases on its standard input and output: a kernel in C or any other language.

A request is a line of text, then the elements of x and those of y, little-endian, in arrays of one shape::

    pow float32 int64 1000 4000 8000

It names the operation (pow or prelu), the types of x and y, the number of elements, and the bytes of x and of y. The
answer is a line ``ok``, then the result's elements, of x's type; or a line ``no``, with a reason, if the program does
not offer this. NumPy's names of types are used. Types of less than 8 bits take a byte for each element.
"""

from __future__ import annotations

import shlex
import subprocess

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, death
from halfulp.conformance.targets.arrays import Prepared, prepare
from halfulp.types import element_type

_LONGEST_LINE = 1000


class Pipe(Target):
    """Starts the program of a command once, and asks it for each case."""

    def __init__(self, threads: int, argument: str) -> None:
        """Start it; its argument is the command."""
        words = shlex.split(argument)
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def prepare(self, case: Case) -> Prepared:
        return prepare(case)

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = (
            operand.astype(operand.dtype.newbyteorder("<"))
            for operand in np.broadcast_arrays(prepared.x, prepared.y)
        )
        name = "prelu" if prepared.is_prelu else "pow"
        types = (element_type(operand.dtype).name for operand in (prepared.x, prepared.y))
        line = " ".join((name, *types, *map(str, (x.size, x.nbytes, y.nbytes))))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n".encode() + x.tobytes() + y.tobytes())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._dead() from None
        answer = self._process.stdout.readline(_LONGEST_LINE).decode(errors="replace").split(maxsplit=1)
        if not answer:
            raise self._dead()
        if answer[0] == "no":
            raise NotOfferedError("".join(answer[1:]))
        if answer != ["ok"]:
            raise CrashedError(f"its answer is neither ok nor no: {' '.join(answer)}")
        data = self._process.stdout.read(x.nbytes)
        if len(data) < x.nbytes:
            raise self._dead()
        return [np.frombuffer(data, x.dtype).reshape(x.shape)]

    def _dead(self) -> CrashedError:
        code = self._process.wait()
        return CrashedError(death(-code) if code < 0 else f"exited with status {code}")
