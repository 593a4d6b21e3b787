"""ONNX files to graphs: every opset, subgraphs, the model's own functions, external data.

The file is taken to be hostile. What is wrong with it is found here, before anything runs, and
said in one line that names the file and the node. The ``onnx`` package's checker looks at each
node; names, order, cycles, functions, tensors and versions are checked here, because it leaves
gaps there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from halfulp.errors import HalfulpWarning, ModelError, printable
from halfulp.models.graph import Model
from halfulp.models.onnx.builder import build
from halfulp.models.onnx.order import in_order
from halfulp.models.onnx.tensors import LARGEST_FILE
from halfulp.models.source import Source, misnamed, read_source

_SORTED = (
    "its nodes were not in order and have been sorted; a node without a name has its number in the new order"
)


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
            line = f"{printable(name)}: {_SORTED}; halfulp repair writes it in order"
            warnings.warn(line, HalfulpWarning, stacklevel=2)
        else:
            report(_SORTED)
    return ordered, name, folder


def _message(source: Source, file: str | None) -> tuple[ModelProto, str, Path | None]:
    if isinstance(source, ModelProto):
        return source, file or "<ModelProto>", None
    data, name, path = read_source(source, LARGEST_FILE, file)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise misnamed(data, name) or ModelError("truncated, or not an ONNX model", file=name) from None
    # Files of other libraries that use protobuf may be read without an error: as an empty message.
    if not proto.HasField("graph") and (error := misnamed(data, name)) is not None:
        raise error
    # The file may itself be a link; its external data lies where the caller points.
    return proto, name, None if path is None else path.parent
