"""A target in a process of its own: a crash or a hang there is a result here, and the next case runs on.

Both ends are here: the process as ``check`` sees it, the messages, and the worker that holds the runtime. A message is
a header in JSON, then raw bytes, over a socket. The worker unpickles cases, because it trusts ``check``. Nothing that
it answers is unpickled or believed: the runtime that it holds may have overwritten it.
"""

import contextlib
import ctypes
import json
import os
import pickle
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from halfulp._interop import Array, is_masked
from halfulp.conformance.case import Case
from halfulp.conformance.judge import Outcome
from halfulp.conformance.targets import CrashedError, Target, TargetSpec, ending
from halfulp.errors import HalfulpError, UnsupportedError, printable
from halfulp.installed import environment, has_module
from halfulp.types import TYPES, type_name

MEMORY = 4 << 30  # the bytes that a target may allocate once it is loaded
TIME_LIMIT = 10.0  # the seconds that a target may take for a case
LONGEST = 86400.0  # the maximum time limit: the clocks of sockets have one
# The exceptions that reading a malformed answer raises.
MALFORMED = (KeyError, OverflowError, SyntaxError, TypeError, ValueError)

_START_LIMIT = 120.0  # a runtime may be large, and the disk cold
_PATIENCE = 10.0  # a process that closed its socket is about to die; on a busy machine this takes a while
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from halfulp.conformance.process import serve
serve(int(sys.argv[1]))
"""
_LENGTHS = struct.Struct("<QQ")
_LONGEST_HEADER = _PIECE = 1 << 20
# Lines that name a place in a library, or announce the next line.
_PLACE = re.compile(r"^(Exception from |Check '.*' failed at |Traceback )|:$")
_MACHINE = re.compile(r"0x[0-9a-f]{6,}|" + re.escape(gettempdir()) + r"/[^\s'\":,;)]*")


@dataclass
class Process(contextlib.AbstractContextManager["Process"]):
    """A target in a process of its own, which is started anew when it dies or is too slow."""

    spec: TargetSpec
    threads: int = 1
    time_limit: float = TIME_LIMIT
    memory: int = MEMORY
    # Those of the runtime and of the packages that take part, once it is loaded.
    versions: Mapping[str, str] = field(default_factory=dict)
    # The process, the folder of the files that it leaves when it is killed, and the socket to it.
    _worker: tuple[subprocess.Popen[bytes], TemporaryDirectory[str], socket.socket] | None = None
    _asked: int = 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> socket.socket:
        """Load the target if it is not loaded, and return the socket to it; raises HalfulpError if it does not load."""
        if self._worker is not None:
            return self._worker[-1]
        if not has_module("resource"):
            raise UnsupportedError("check needs Linux or macOS, which give a runtime's process limits")
        name = f"the target {self.spec.name}"
        channel, theirs = socket.socketpair()
        folder = TemporaryDirectory(prefix="halfulp-check-", ignore_cleanup_errors=True)
        variables = {"OPENBLAS_NUM_THREADS": str(self.threads), "JAX_PLATFORMS": "cpu", "TMPDIR": folder.name}
        path = json.dumps([entry or os.getcwd() for entry in sys.path])
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _CODE, str(theirs.fileno()), path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a group of its own, to be killed with all that it starts
                env=os.environ | environment(self.threads) | variables,
            )
        self._worker = process, folder, channel
        start = {"threads": self.threads, "memory": self.memory}
        answer = self._ask(channel, start, pickle.dumps(self.spec), _START_LIMIT)
        if isinstance(answer, Outcome):
            died = f"{answer.message} when it was loaded"
            ended = died if answer.kind == "crashed" else f"did not start in {_START_LIMIT:.0f} s"
            raise HalfulpError(f"{name} {ended}")
        header, _ = answer
        if not isinstance(versions := header.get("versions"), dict):
            self.close()
            raise HalfulpError(f"{name} does not load: {one_line(str(header.get('message')))}")
        self.versions = {str(name): str(version) for name, version in versions.items()}
        return channel

    def run(self, case: Case) -> Array | Outcome:
        """Return a case's output, or the outcome without one; raises HalfulpError if the case itself is at fault."""
        channel, request = self.start(), pickle.dumps(case)
        self._asked += 1
        answer = self._ask(channel, {"number": self._asked}, request, self.time_limit)
        if isinstance(answer, Outcome):
            return answer
        header, data = answer
        try:
            if header["number"] != self._asked:
                raise ValueError("the answer to another case")
            if (kind := header["kind"]) == "returned":
                return unpacked(header, data)
            message = one_line(str(header["message"]))
            if kind not in ("crashed", "refused", "wrong", "not offered", "fault"):
                raise ValueError(kind)
        except MALFORMED:
            self.close()
            return Outcome("crashed", "its worker answered nonsense")
        if kind == "fault":
            raise HalfulpError(f"{case.id} is not expressible as a model: {message}")
        if kind == "crashed":
            self.close()  # its state is unknown, and the next case must not suffer from it
        return Outcome(kind, message)

    def _ask(
        self, channel: socket.socket, header: dict[str, Any], payload: bytes, limit: float
    ) -> tuple[dict[str, Any], bytes] | Outcome:
        """Return the answer to a message; or end the process, and return the outcome without an answer."""
        try:
            send(channel, header, payload, limit)
            return receive(channel, limit, 2 * self.memory)
        except TimeoutError:
            self.close()
            return Outcome("hung", f"no answer in {limit:g} s")
        except OSError:
            return Outcome("crashed", self.close(_PATIENCE))
        except BaseException:
            self.close()
            raise

    def close(self, patience: float = 0) -> str:
        """End the process and all that it started. Return how it died, if by itself within ``patience`` seconds."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        process, folder, channel = worker
        channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
        code = process.poll()
        if sys.platform != "win32":  # which starts no worker
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        folder.cleanup()
        return "closed its socket" if code is None else ending(code)


# --- messages ------------------------------------------------------------------------------------


def send(
    channel: socket.socket, header: dict[str, Any], payload: bytes = b"", limit: float | None = None
) -> None:
    """Send a message within ``limit`` seconds; raises TimeoutError, or another OSError if the other side is gone."""
    text = json.dumps(header).encode()
    channel.settimeout(limit)
    channel.sendall(_LENGTHS.pack(len(text), len(payload)) + text + payload)


def receive(
    channel: socket.socket, limit: float | None = None, most: int = 1 << 32
) -> tuple[dict[str, Any], bytes]:
    """Return the next message; raises TimeoutError after ``limit`` seconds, or another OSError if it is no message."""
    deadline = None if limit is None else time.monotonic() + limit
    header, payload = _LENGTHS.unpack(_exactly(channel, _LENGTHS.size, deadline))
    if header > _LONGEST_HEADER or payload > most:
        raise ConnectionError("a message that is too long")
    try:
        message = json.loads(_exactly(channel, header, deadline))
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ConnectionError("a malformed header")
    return message, _exactly(channel, payload, deadline)


def _exactly(channel: socket.socket, count: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        # Of the time that is left at least a moment: 0 would say not to wait for what is there.
        channel.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-6))
        if not (piece := channel.recv(min(count - len(data), _PIECE))):
            raise ConnectionError("the other side is gone")
        data += piece
    return bytes(data)


def packed(outputs: Sequence[Any]) -> tuple[dict[str, Any], bytes]:
    """Return the message that holds the one output, or says why it is no plain array of numbers."""
    if len(outputs) != 1:
        return {"kind": "wrong", "message": f"{len(outputs)} outputs instead of 1"}, b""
    (output,) = outputs
    is_array = isinstance(output, np.ndarray | np.generic) and not is_masked(output)
    if is_array and (output.dtype.kind in "biufc" or type_name(output.dtype) in TYPES):
        array = np.asarray(output).astype(output.dtype.newbyteorder("="), copy=False)
        return {"kind": "returned", "type": type_name(array.dtype), "shape": array.shape}, array.tobytes()
    found = output.dtype.name if is_array else type(output).__name__
    return {"kind": "wrong", "message": f"the output is not an array of numbers: {found[:80]}"}, b""


def unpacked(header: dict[str, Any], data: bytes) -> Array:
    """Return the output that a message holds; raises one of :data:`MALFORMED` if it contradicts itself."""
    name = header["type"]
    dtype = TYPES[name].dtype if name in TYPES else np.dtype(name)
    return np.frombuffer(data, dtype).reshape(header["shape"])


def first_line(error: BaseException) -> str:
    """Return an error's message in one line, without addresses and temporary files, which change from run to run."""
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return the first informative line of a text, printable and truncated."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    informative = next((line for line in lines if not _PLACE.search(line)), lines[0] if lines else "")
    line = printable(informative, most=None)
    return _MACHINE.sub(lambda m: "0x..." if m[0].startswith("0x") else "<file>", line)[:300]


# --- the worker ----------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Answer until the other side closes the socket. A worker process does nothing else."""
    resource: Any = import_module("resource")  # Windows, which lacks it, starts no worker
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # When the parent dies, Linux ends this process: a runtime that hangs can't notice that.
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # a runtime's own processes must not hold it open
    with contextlib.suppress(OSError):
        start, target_bytes = receive(channel)
        try:
            target = pickle.loads(target_bytes).open(start["threads"])
        except BaseException as error:  # a library may even exit when it is imported
            send(channel, {"kind": "unusable", "message": f"{type(error).__name__}: {first_line(error)}"})
            return
        with contextlib.suppress(OSError):  # only Linux has this file
            pages = int(Path("/proc/self/statm").read_text().split()[5])
            limit = start["memory"] + pages * resource.getpagesize()
            # Of data: runtimes reserve far more addresses. A limit of the parent's stays.
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        send(channel, {"kind": "ready", "versions": target.versions})
        own = os.getpid()
        while True:
            asked, case_bytes = receive(channel)
            answer, data = _answer(target, case_bytes)
            if os.getpid() != own:
                # The runtime forked, and this is the child, which was not asked.
                os._exit(1)
            send(channel, answer | {"number": asked["number"]}, data)


def _answer(target: Target, case_bytes: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        prepared = target.prepare(pickle.loads(case_bytes))
    except Exception as error:
        return {"kind": "fault", "message": f"{type(error).__name__}: {first_line(error)}"}, b""
    try:
        return packed(target.run(*prepared))
    except MemoryError:
        return {"kind": "crashed", "message": "out of memory"}, b""
    except Exception as error:
        kind = "crashed" if isinstance(error, CrashedError) else "refused"
        kind = "not offered" if isinstance(error, target.not_offered) else kind
        return {"kind": kind, "message": first_line(error)}, b""
