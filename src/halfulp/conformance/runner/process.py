"""A target in a process of its own: a crash or a hang there is a result here, and the next case runs on."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import IO, Any

from halfulp._interop import Array
from halfulp.benchmark.peers import environment
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets import TargetSpec, death
from halfulp.conformance.runner.wire import MALFORMED, Closed, Late, one_line, receive, send, unpacked
from halfulp.conformance.verdict.judge import Outcome
from halfulp.errors import HalfulpError, UnsupportedError

MEMORY = 4 << 30
"""The bytes that a target may take beyond those that it has once it is loaded."""

TIME_LIMIT = 10.0
"""The seconds that a target may take for a case."""

LONGEST = 86400.0
"""The longest time limit in seconds: clocks of sockets don't take any number."""

_START_LIMIT = 120.0  # a runtime may be large, and the disk cold
_PATIENCE = 10.0  # a process whose socket is closed is about to die, on a busy machine not at once
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from halfulp.conformance.runner.worker import serve
serve(int(sys.argv[1]))
"""


@dataclass
class Process:
    """A target in a process of its own, which is started anew when it dies or is too slow.

    Attributes:
        spec: the target.
        threads: the number of threads that it may use.
        time_limit: the seconds that it may take for a case.
        memory: the bytes that it may take beyond those that it has once it is loaded.
        versions: of the runtime and of what takes part, by package; known once it has started.
    """

    spec: TargetSpec
    threads: int = 1
    time_limit: float = TIME_LIMIT
    memory: int = MEMORY
    versions: dict[str, str] = field(default_factory=dict, init=False)
    _running: _Running | None = field(default=None, init=False)
    _asked: int = field(default=0, init=False)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Load the target, unless that has been done.

        Raises:
            HalfulpError: it can't be loaded.
            UnsupportedError: as on Windows, a process can't be given a socket, limits, and a group to end it by.
        """
        if self._running is not None:
            return
        if not (hasattr(os, "killpg") and hasattr(signal, "SIGKILL") and find_spec("resource")):
            raise UnsupportedError("check needs Linux or macOS, which give a runtime's process limits")
        running = _Running(self.threads)
        try:
            start = {"threads": self.threads, "memory": self.memory}
            send(running.channel, start, pickle.dumps(self.spec), _START_LIMIT)
            answer, _ = receive(running.channel, _START_LIMIT)
        except Late:
            running.end()
            raise HalfulpError(f"the target {self.spec.name} did not start in {_START_LIMIT:.0f} s") from None
        except Closed:
            death = running.end(_PATIENCE)
            raise HalfulpError(f"the target {self.spec.name} {death} when it was loaded") from None
        except BaseException:
            running.end()
            raise
        versions = answer.get("versions")
        if answer.get("kind") != "ready" or not isinstance(versions, dict):
            running.end()
            raise HalfulpError(
                f"the target {self.spec.name} can't be loaded: {one_line(str(answer.get('message')))}"
            )
        self._running = running
        self.versions = {str(name): str(version) for name, version in versions.items()}

    def run(self, case: Case) -> list[Array | str] | Outcome:
        """Run a case.

        Returns:
            The outputs (the type's name instead of one that is no array of numbers), or the outcome without outputs.

        Raises:
            HalfulpError: the target can't be loaded, or the case itself is at fault.
        """
        self.start()
        running = self._running
        assert running is not None
        self._asked += 1
        try:
            send(running.channel, {"number": self._asked}, pickle.dumps(case), self.time_limit)
            answer, data = receive(running.channel, self.time_limit, most=2 * self.memory)
        except Late:
            self.close()
            return Outcome("hung", f"no answer in {self.time_limit:g} s")
        except Closed:
            self._running = None
            return Outcome("crashed", running.end(_PATIENCE))
        except BaseException:
            self.close()
            raise
        try:
            return self._outcome(case, answer, data)
        except HalfulpError:
            raise
        except MALFORMED:
            self.close()
            return Outcome("crashed", "its worker answered nonsense")

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _outcome(self, case: Case, answer: dict[str, Any], data: bytes) -> list[Array | str] | Outcome:
        if answer["number"] != self._asked:
            raise ValueError("the answer to another case")
        kind = answer["kind"]
        if kind == "returned":
            return unpacked(answer["outputs"], data)
        message = one_line(str(answer["message"]))
        if kind == "refused":
            return Outcome("refused", message)
        if kind == "crashed":
            self.close()  # whatever its state is, the next case is not to suffer from it
            return Outcome("crashed", message)
        if kind == "fault":
            raise HalfulpError(f"{case.id} can't be made into a model: {message}")
        raise ValueError(kind)


class _Running:
    """A worker process and the socket to it."""

    def __init__(self, threads: int) -> None:
        self.channel, theirs = socket.socketpair()
        path = json.dumps([entry or os.getcwd() for entry in sys.path])
        # The files that it leaves when it is killed are deleted with this folder.
        self._folder = tempfile.TemporaryDirectory(prefix="halfulp-check-", ignore_cleanup_errors=True)
        variables = {k: v for k, v in environment(threads).items() if not k.startswith("MALLOC_")}
        variables |= {
            "OPENBLAS_NUM_THREADS": str(threads),
            "JAX_PLATFORMS": "cpu",
            "TMPDIR": self._folder.name,
        }
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CODE, str(theirs.fileno()), path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a group of its own, to be killed with all that it starts
                    env=os.environ | variables,
                )
            except BaseException:
                self.channel.close()
                self._folder.cleanup()
                raise
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def end(self, patience: float = 0) -> str:
        """Kill it with all that it started. Return how it died, if it did by itself within ``patience`` seconds."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        code = self._process.poll()
        if sys.platform != "win32":  # where none is started
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(1)
        self._folder.cleanup()
        if code is None:
            return "closed its socket"
        return death(-code) if code < 0 else f"exited with status {code}"

    def _read(self, stream: IO[bytes]) -> None:
        # Its output is noise, but it must not wait for a reader.
        with stream:
            while stream.read(1 << 16):
                pass
