"""One door to every format: what a model comes as says which front end reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from halfulp.models.graph import Model

if TYPE_CHECKING:
    from onnx import ModelProto

    from halfulp.models.directml.dxdispatch import Program

Source: TypeAlias = "str | os.PathLike[str] | bytes | ModelProto"
"""What a model comes as: a path, a file's bytes, or a parsed ONNX message."""


def load(source: Source, *, keep_unknown: bool = False) -> Model | Program:
    """Read a model of any format and check it.

    Args:
        source: a path, read by its suffix: .xml is OpenVINO's, .json is DxDispatch's, anything else
            is ONNX; or bytes, read by their first character; or a ``ModelProto``.
        keep_unknown: as for :func:`halfulp.models.onnx.load`.

    Raises:
        ModelError, UnsupportedError: as the front ends'.

    Example:
        >>> from onnx import parser
        >>> load(parser.parse_model('<ir_version: 8> n (float x) => (float x) {}')).graph.name
        'n'
    """
    if isinstance(source, bytes):
        # Neither character can be the first one of an ONNX file.
        start = source[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        suffix = {b"<": ".xml", b"{": ".json", b"/": ".json"}.get(start, "")
    elif isinstance(source, str | os.PathLike):
        suffix = Path(source).suffix.lower()
    else:
        suffix = ""
    # Here, so that a format's library is needed by its own files only.
    if suffix == ".xml":
        from halfulp.models import openvino

        assert isinstance(source, str | os.PathLike | bytes)
        return openvino.load(source)
    if suffix == ".json":
        from halfulp.models.directml import dxdispatch

        assert isinstance(source, str | os.PathLike | bytes)
        return dxdispatch.load(source)
    from halfulp.models import onnx

    return onnx.load(source, keep_unknown=keep_unknown)
