"""The process that holds a runtime: it takes cases, and sends back what came out of them.

What it is asked is pickled, because ``check`` is to be trusted; what it answers is not (see ``wire``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import re
import resource
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halfulp._args import is_masked
from halfulp.conformance.runner.targets import CrashedError
from halfulp.conformance.runner.wire import Closed, receive, send
from halfulp.errors import printable
from halfulp.types import TYPES, type_name

if TYPE_CHECKING:
    from halfulp.conformance.runner.targets import Target

assert sys.platform != "win32"  # where process.py starts none

_LONGEST_MESSAGE = 300
_PR_SET_PDEATHSIG = 1
# Lines that say where in a library it happened, or that what happened comes next.
_PLACE = re.compile(r"^(Exception from |Check '.*' failed at |Traceback )|:$")
_MACHINE = re.compile(r"0x[0-9a-f]{6,}|" + re.escape(tempfile.gettempdir()) + r"/[^\s'\":,;)]*")


def serve(descriptor: int) -> None:
    """Answer until the other side closes the socket; this is all that a worker process does."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _die_with_parent()
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # what a runtime starts must not hold it open
    with contextlib.suppress(Closed):
        start, target_bytes = receive(channel)
        try:
            target = pickle.loads(target_bytes).open(start["threads"])
            versions = target.versions()
        except BaseException as error:  # a library may even exit when it is imported
            send(channel, {"kind": "unusable", "message": f"{type(error).__name__}: {first_line(error)}"})
            return
        limit_memory(start["memory"])
        send(channel, {"kind": "ready", "versions": versions})
        own = os.getpid()
        while True:
            asked, case_bytes = receive(channel)
            answer, data = _answer(target, case_bytes)
            if os.getpid() != own:
                # The runtime forked, and its child came back from the call: what was asked was not asked of it.
                os._exit(1)
            send(channel, answer | {"number": asked["number"]}, data)


def _answer(target: Target, case_bytes: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        prepared = target.prepare(pickle.loads(case_bytes))
    except Exception as error:
        return {"kind": "fault", "message": f"{type(error).__name__}: {first_line(error)}"}, b""
    try:
        return packed(target.run(prepared))
    except MemoryError:
        return {"kind": "crashed", "message": "out of memory"}, b""
    except CrashedError as error:
        return {"kind": "crashed", "message": first_line(error)}, b""
    except Exception as error:
        return {"kind": "refused", "message": first_line(error)}, b""


def packed(outputs: Any) -> tuple[dict[str, Any], bytes]:
    """Return the message that holds outputs. Of one that is not a plain array of numbers it has only the type."""
    described: list[dict[str, Any]] = []
    data = []
    for output in outputs:
        is_plain = isinstance(output, np.ndarray | np.generic) and not is_masked(output)
        array = np.asarray(output) if is_plain else None
        if array is None or not (array.dtype.kind in "biufc" or type_name(array.dtype) in TYPES):
            kind = type(output).__name__ if array is None else array.dtype.name
            described.append({"other": str(kind)[:80]})
            continue
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        described.append({"type": type_name(array.dtype), "shape": list(array.shape)})
        data.append(array.tobytes())
    return {"kind": "returned", "outputs": described}, b"".join(data)


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line without what changes from run to run."""
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return the first line of a text that says something, printable and not too long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if not _PLACE.search(line)), lines[0] if lines else "")
    line = printable(said, most=None)
    return _MACHINE.sub(lambda m: "0x..." if m[0].startswith("0x") else "<file>", line)[:_LONGEST_MESSAGE]


def _die_with_parent() -> None:
    """Ask Linux to end this process when the one that started it dies, which a runtime that hangs can't notice."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def limit_memory(allowance: int) -> None:
    """Let this process and those that it starts take so many bytes more than it has now, on Linux.

    The limit is on data, not on addresses: runtimes reserve far more of these than they use.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except (OSError, ValueError, IndexError):
        return
    used = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = used + allowance if hard == resource.RLIM_INFINITY else min(used + allowance, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
