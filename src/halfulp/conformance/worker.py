"""The process that holds a runtime: it takes cases, and sends back their outcomes.

It unpickles the cases, because it trusts ``check``. Its answers are never unpickled (see ``process``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from halfulp.conformance.process import first_line, packed, receive, send
from halfulp.conformance.targets import CrashedError, Target

assert sys.platform != "win32"  # where process.py starts none

_PR_SET_PDEATHSIG = 1


def serve(descriptor: int) -> None:
    """Answer until the other side closes the socket; this is all that a worker process does."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # When the parent dies, Linux ends this process: a runtime that hangs can't notice that.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)  # a runtime's own processes must not hold it open
    with contextlib.suppress(OSError):
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
                # The runtime forked, and this is its child: nobody asked it.
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


def limit_memory(allowance: int) -> None:
    """Let this process and those that it starts take ``allowance`` more bytes than it has now, on Linux.

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
