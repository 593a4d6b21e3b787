"""Models: the graph that every format is read into, a package for each format, and the walk that runs a graph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from halfulp.models.graph import Model
from halfulp.models.source import Source, format_of

if TYPE_CHECKING:
    from halfulp.models.directml.dxdispatch import Program


def load(source: Source, *, keep_unknown: bool = False) -> Model | Program:
    """Read and check a model of any format: a path by its suffix, bytes by their first character, or a ``ModelProto``.

    ``keep_unknown`` and errors are those of the format's own ``load``.
    """
    # Imported here: only a file of a format needs the format's library.
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
