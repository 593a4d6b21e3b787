"""ONNX Runtime's own fusions, made before what is left of Pow and PRelu becomes ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from onnx import ModelProto

from halfulp.errors import UnsupportedError
from halfulp.models.graph import printable
from halfulp.models.onnx import parse


def fused(model: ModelProto, file: str, ort: Any, options: Any) -> ModelProto:
    """Return a copy of a model in which ONNX Runtime has replaced subgraphs by operators of its own.

    Args:
        model: is left as it is.
        file: its name in messages.
        ort: the module onnxruntime.
        options: the ``SessionOptions`` to do it with; they come back as they were.

    Raises:
        UnsupportedError: ONNX Runtime refuses the model as it is, or the result has no place in 2 GiB.
    """
    levels = ort.GraphOptimizationLevel
    with tempfile.TemporaryDirectory(prefix="halfulp-") as folder:
        path = Path(folder) / "fused.onnx"
        wanted = {
            "optimized_model_filepath": str(path),
            # The levels above change the layout of tensors, for this processor alone.
            "graph_optimization_level": min(
                options.graph_optimization_level, levels.ORT_ENABLE_EXTENDED, key=int
            ),
            "enable_profiling": False,
        }
        before = {name: getattr(options, name) for name in wanted}
        try:
            for name, value in wanted.items():
                setattr(options, name, value)
            # Powers of constants are to be ours, so that none may be folded.
            ort.InferenceSession(
                model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=["ConstantFolding"],
            )
        except Exception as error:  # of a class of onnxruntime's own, for want of a public one
            text = str(error).strip() or type(error).__name__
            reason = printable(text.splitlines()[0].rpartition(" : ")[2])
            raise UnsupportedError(f"{file}: onnxruntime can't fuse it: {reason}") from None
        finally:
            for name, value in before.items():
                setattr(options, name, value)
        return parse(path, file=file)[0]
