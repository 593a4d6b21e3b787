"""Messages between ``check`` and a worker: a header in JSON, then raw bytes, over a socket.

Nothing that a worker answers is unpickled or believed: it may have been overwritten by the runtime that it holds.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
import tempfile
import time
from typing import Any

import numpy as np

from halfulp._interop import Array, is_masked
from halfulp.errors import printable
from halfulp.types import TYPES, type_name

MALFORMED = (KeyError, OverflowError, SyntaxError, TypeError, ValueError)
"""The exceptions that reading a malformed answer raises."""

_LENGTHS = struct.Struct("<QQ")
_LONGEST_HEADER = 1 << 20
_PIECE = 1 << 20
_LONGEST_MESSAGE = 300
# Lines that name a place in a library, or announce the next line.
_PLACE = re.compile(r"^(Exception from |Check '.*' failed at |Traceback )|:$")
_MACHINE = re.compile(r"0x[0-9a-f]{6,}|" + re.escape(tempfile.gettempdir()) + r"/[^\s'\":,;)]*")


class Closed(Exception):
    """The other side is gone, or it sent no message."""


class Late(Exception):
    """No whole message within the time."""


def send(
    channel: socket.socket, header: dict[str, Any], payload: bytes = b"", limit: float | None = None
) -> None:
    """Send a message.

    Args:
        channel: a connected socket.
        header: an object for JSON.
        payload: any bytes.
        limit: in seconds; None waits for ever.

    Raises:
        Closed: the other side is gone.
        Late: it did not take the message in time.
    """
    text = json.dumps(header).encode()
    channel.settimeout(limit)
    try:
        channel.sendall(_LENGTHS.pack(len(text), len(payload)) + text + payload)
    except TimeoutError:
        raise Late from None
    except OSError:
        raise Closed from None


def receive(
    channel: socket.socket, limit: float | None = None, most: int = 1 << 32
) -> tuple[dict[str, Any], bytes]:
    """Return the next message.

    Args:
        channel: a connected socket.
        limit: the time for the whole message in seconds; None waits for ever.
        most: the bytes that it may have.

    Raises:
        Closed: the other side is gone, or it sent no message.
        Late: it took longer.
    """
    deadline = None if limit is None else time.monotonic() + limit
    header, payload = _LENGTHS.unpack(_exactly(channel, _LENGTHS.size, deadline))
    if header > _LONGEST_HEADER or payload > most:
        raise Closed
    try:
        message = json.loads(_exactly(channel, header, deadline))
    except (ValueError, RecursionError):
        raise Closed from None
    if not isinstance(message, dict):
        raise Closed
    return message, _exactly(channel, payload, deadline)


def _exactly(channel: socket.socket, count: int, deadline: float | None) -> bytes:
    pieces = bytearray()
    while len(pieces) < count:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise Late
        channel.settimeout(left)
        try:
            piece = channel.recv(min(count - len(pieces), _PIECE))
        except TimeoutError:
            raise Late from None
        except OSError:
            raise Closed from None
        if not piece:
            raise Closed
        pieces += piece
    return bytes(pieces)


def packed(outputs: Any) -> tuple[dict[str, Any], bytes]:
    """Return the message that holds outputs. An output that isn't a plain array of numbers becomes its type's name."""
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


def unpacked(described: list[dict[str, Any]], data: bytes) -> list[Array | str]:
    """Return the outputs that a message holds; raises one of :data:`MALFORMED` if it contradicts itself."""
    outputs: list[Array | str] = []
    start = 0
    for output in described:
        if "other" in output:
            outputs.append(str(output["other"]))
            continue
        name = output["type"]
        dtype = TYPES[name].dtype if name in TYPES else np.dtype(name)
        size = math.prod(output["shape"]) * dtype.itemsize
        outputs.append(np.frombuffer(data[start : start + size], dtype).reshape(output["shape"]))
        start += size
    if start != len(data):
        raise ValueError("bytes are left over")
    return outputs


def first_line(error: BaseException) -> str:
    """Return an error's message in one line, without addresses and temporary files, which change from run to run."""
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return the first informative line of a text, printable and not too long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if not _PLACE.search(line)), lines[0] if lines else "")
    line = printable(said, most=None)
    return _MACHINE.sub(lambda m: "0x..." if m[0].startswith("0x") else "<file>", line)[:_LONGEST_MESSAGE]
