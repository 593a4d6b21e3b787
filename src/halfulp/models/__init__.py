"""Models: the graph that ONNX and OpenVINO's IR are read into, a package for each, and the walk that runs a graph."""

from __future__ import annotations

import os

from halfulp.models.graph import Model
from halfulp.models.source import Source, format_of


def load(source: Source, *, keep_unknown: bool = False) -> Model:
    """Read and check a model of any format: a path by its suffix, bytes by their first character, or a ``ModelProto``.

    ``keep_unknown`` and errors are those of the format's own ``load``.
    """
    # Imported here: only a file of a format needs the format's library.
    if format_of(source) == "onnx":
        from halfulp.models import onnx

        return onnx.load(source, keep_unknown=keep_unknown)
    assert isinstance(source, str | os.PathLike | bytes)
    from halfulp.models import openvino

    return openvino.load(source)
