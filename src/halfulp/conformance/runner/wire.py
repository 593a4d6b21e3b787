"""Messages between ``check`` and a worker: a header in JSON, then raw bytes, over a socket.

Nothing that a worker answers is unpickled or believed: it may have been overwritten by the runtime that it holds.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

_LENGTHS = struct.Struct("<QQ")
_LONGEST_HEADER = 1 << 20
_PIECE = 1 << 20


class Closed(Exception):
    """The other side is gone, or what it sent is no message."""


class Late(Exception):
    """No whole message within the time."""


def send(
    channel: socket.socket, header: dict[str, Any], payload: bytes = b"", limit: float | None = None
) -> None:
    """Send a message.

    Args:
        channel: a connected socket.
        header: what JSON holds.
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
        Closed: the other side is gone, or what it sent is no message.
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
