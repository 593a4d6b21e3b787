"""One door to every format: what a model comes as says which front end reads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from halfulp.models.graph import Model
from halfulp.models.source import Source, format_of

if TYPE_CHECKING:
    from halfulp.models.directml.dxdispatch import Program


def load(source: Source, *, keep_unknown: bool = False) -> Model | Program:
    """Read a model of any format and check it.

    Args:
        source: a path, read by its suffix: .xml is OpenVINO's, .json is DxDispatch's, anything else
            is ONNX; or bytes, read by their first character; or a ``ModelProto``.
        keep_unknown: as for :func:`halfulp.models.onnx.load`.

    Raises:
        ModelError, UnsupportedError: as the front ends'.
    """
    # Imported here, so that a format's library is needed by its own files only.
    format = format_of(source)
    if format == "onnx":
        from halfulp.models import onnx

        return onnx.load(source, keep_unknown=keep_unknown)
    assert isinstance(source, str | os.PathLike | bytes)
    if format == "openvino":
        from halfulp.models import openvino

        return openvino.load(source)
    from halfulp.models.directml import dxdispatch

    return dxdispatch.load(source)
