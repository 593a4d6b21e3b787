"""Each reader of untrusted bytes as a function of one input, which goes on to what a user would do with what was read.

An input is to give a result, or an error of ours that a terminal can show. :func:`attempt` sees to that, for the
checked-in corpus and for the fuzzer.
"""

import ast
import atexit
import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import halfulp as hu
from halfulp.conformance import document
from halfulp.conformance.process import MALFORMED, receive, unpacked
from halfulp.models import onnx
from halfulp.models.files import read_npy, read_npz
from halfulp.models.onnx.tensors import read_pb
from halfulp.operators import powers_of

_MOST = 1 << 16  # bytes of an array that is computed with
_FOLDER = Path(tempfile.mkdtemp(prefix="halfulp-fuzzing-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


def attempt(reader: str, data: bytes) -> bool:
    """Return whether an input is read; fails where a refusal is not one line and those that show operands below it."""
    try:
        READERS[reader](data)
    except hu.HalfulpError as error:
        lines = str(error).split("\n")
        assert len(lines) <= 4, lines
        assert all(line.isprintable() for line in lines), lines
        return False
    return True


def corpus(reader: str) -> list[bytes]:
    """Return the checked-in inputs of a reader."""
    lines = (Path(__file__).parent / "corpus" / f"{reader}.txt").read_text().splitlines()
    return [ast.literal_eval(line) for line in lines]


def _onnx(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        powers_of(data)
    model = onnx.parse(data, file="net.onnx")
    graph, proto = model.graph, model.proto
    hu.audit(proto, targets=[])
    if not graph.inputs and all(node.operator.startswith(("onnx.Pow", "onnx.PRelu")) for node in graph.nodes):
        hu.run(proto)


def _npy(data: bytes) -> None:
    _compute(read_npy(_file(data, "x.npy"), np.dtype("V2")))


def _npz(data: bytes) -> None:
    for array in read_npz(_file(data, "x.npz")).values():
        _compute(array)


def _pb(data: bytes) -> None:
    _compute(read_pb(_file(data, "x.pb")))


def _allowed(data: bytes) -> None:
    allowed = document.load_allowed(_file(data, "allowed"))
    fault = {
        "id": "onnx.Pow-7/float32,float32/hard/0",
        "verdict": "wrong",
        "special": 0,
        "max_ulp": 1,
        "grade": "edges",
    }
    for entry in allowed:
        entry.allows("numpy", fault)


def _answer(data: bytes) -> None:
    """What the process that holds a runtime says to ``check``."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data[: 1 << 16])
        there.close()
        try:
            message, payload = receive(here, 1)
            unpacked(message, payload)
        except (OSError, *MALFORMED):  # by which Process says that it answered nonsense
            raise hu.HalfulpError("nonsense") from None


def _compute(array: np.ndarray) -> None:
    if array.nbytes < _MOST:
        hu.pow(array, array)


def _file(data: bytes, name: str) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


READERS: dict[str, Callable[[bytes], None]] = {
    "onnx": _onnx,
    "npy": _npy,
    "npz": _npz,
    "pb": _pb,
    "allowed": _allowed,
    "answer": _answer,
}
