"""ONNX files to graphs: every opset, subgraphs, the model's own functions, external data.

The file is taken to be hostile. What is wrong with it is found here, before anything runs, and
said in one line that names the file and the node. The ``onnx`` package's checker looks at each
node; names, order, cycles, functions, tensors and versions are checked here, because it leaves
gaps there.
"""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from halfulp.errors import HalfulpError, HalfulpWarning, ModelError
from halfulp.models.graph import Model, printable
from halfulp.models.onnx.builder import build
from halfulp.models.onnx.order import in_order

Source: TypeAlias = str | os.PathLike[str] | bytes | ModelProto
"""What a model comes as: a path, a file's bytes, or the parsed message."""

_SORTED = (
    "its nodes were not in order and have been sorted; a node without a name has its number in the new order"
)
_LARGEST_FILE = (1 << 31) - 1  # a protobuf message ends there


def load(source: Source, *, file: str | None = None, keep_unknown: bool = False) -> Model:
    """Read an ONNX model and check it. Nodes that are not in order are sorted, with a ``HalfulpWarning``.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto`` (which is left as it is).
        file: the model's name in messages; the path, or what stands for it, where not given.
        keep_unknown: whether nodes of domains that nobody here knows are read, for who need not evaluate them.

    Raises:
        ModelError: for a file that is broken or unsafe: truncated, cyclic, with names that are
            missing or defined twice, versions or operators that don't exist, tensors whose dims
            contradict their data, external data outside the model's folder.
        UnsupportedError: for an operator of a domain that nobody here knows.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 15]>' \\
        ...        'g (float[N] x) => (float[N] y) { y = Pow(x, x) }'
        >>> load(parser.parse_model(text)).graph.nodes[0].operator
        'onnx.Pow-15'
    """
    return build(*parse(source, file=file), keep_unknown=keep_unknown)


def parse(
    source: Source, *, file: str | None = None, report: Callable[[str], None] | None = None
) -> tuple[ModelProto, str, Path | None]:
    """Return the message, unchecked, the model's name in messages, and the folder of its external data.

    The nodes are in order: if those of the source are not, they are sorted.

    Args:
        source: as for :func:`load`; a ``ModelProto`` comes back as it is, or as a sorted copy.
        file: as for :func:`load`.
        report: gets a line if the nodes were sorted; without it that is a ``HalfulpWarning``.

    Raises:
        ModelError: the file can't be read, or is no ONNX model.
        HalfulpError: the source is none of these.
    """
    proto, name, folder = _message(source, file)
    ordered, was_sorted = in_order(proto)
    if was_sorted:
        if report is None:
            warnings.warn(f"{printable(name)}: {_SORTED}", HalfulpWarning, stacklevel=2)
        else:
            report(_SORTED)
    return ordered, name, folder


def _message(source: Source, file: str | None) -> tuple[ModelProto, str, Path | None]:
    if isinstance(source, ModelProto):
        return source, file or "<ModelProto>", None
    if isinstance(source, bytes):
        name = file or "<bytes>"
        return _parse(source, name), name, None
    if not isinstance(source, str | os.PathLike):
        wanted = "a path, the bytes of a file or an onnx.ModelProto"
        raise HalfulpError(f"a model must be {wanted}", got=type(source).__name__)
    path = Path(source)
    name = file or str(path)
    # The file may itself be a link; its external data lies where the caller points.
    return _parse(_read(path, name), name), name, path.parent


def _read(path: Path, file: str) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelError("not a plain file", file=file)
        if status.st_size > _LARGEST_FILE:
            raise ModelError("larger than an ONNX file can be", file=file, expected="under 2 GiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"can't be read: {reason}", file=file) from None


def _parse(data: bytes, file: str) -> ModelProto:
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise ModelError("truncated, or not an ONNX model", file=file) from None
    return proto
