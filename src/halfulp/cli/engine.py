"""Which engine ``halfulp run`` takes: ONNX Runtime with our operators in it, or halfulp's own walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfulp.errors import HalfulpError
from halfulp.models.source import format_of

if TYPE_CHECKING:
    from halfulp.models.directml.dxdispatch import Program
    from halfulp.models.graph import Model
    from halfulp.models.run.report import RunReport


class Engine(StrEnum):
    """The values of ``--engine``."""

    auto = "auto"
    onnxruntime = "onnxruntime"
    halfulp = "halfulp"


def refuse_breaches(path: Path) -> None:
    """Refuse an ONNX file in which a Pow or PRelu breaks a clause, before it runs in any engine.

    Raises:
        ModelError: the first such node, and the clause.
    """
    from halfulp.conversion.walk import Walk, check_clauses
    from halfulp.models.onnx import parse

    if format_of(path) == "onnx":
        check_clauses(Walk(*parse(path)))


def evaluate(
    engine: Engine,
    path: Path,
    model: Model | Program,
    inputs: Mapping[str, Any],
    output_folder: Path | None,
) -> tuple[dict[str, Any], RunReport, str]:
    """Return the outputs, the report, and a line that says which engine made them and why.

    Raises:
        HalfulpError: ``onnxruntime`` is asked for, and can't run the model.
    """
    from halfulp.models.run.api import run_with_report

    reason = ""
    if engine is not Engine.halfulp:
        reason = _why_not(path)
        if not reason:
            from halfulp.integrations.onnxruntime import engine as onnxruntime_engine

            try:
                outputs, report = onnxruntime_engine.run_with_report(path, model, inputs)  # type: ignore[arg-type]
            except onnxruntime_engine.Refused as refused:
                if engine is Engine.onnxruntime:
                    raise
                reason = refused.message
            else:
                return outputs, report, "engine: onnxruntime, with Pow and PRelu by halfulp"
        elif engine is Engine.onnxruntime:
            raise HalfulpError(f"{path}: not for the engine onnxruntime: {reason}")
    outputs, report = run_with_report(model, inputs, output_folder=output_folder)
    return outputs, report, f"engine: halfulp ({reason})" if reason else "engine: halfulp"


def trial(engine: Engine, path: Path, model: Model) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what runs a model once on inputs to be tried, in the engine that :func:`evaluate` will take."""
    from halfulp.models.run.api import run

    if engine is not Engine.halfulp and not _why_not(path):
        from halfulp.integrations.onnxruntime import engine as onnxruntime_engine

        try:
            return onnxruntime_engine.runner(path, model)
        except onnxruntime_engine.Refused:
            pass  # evaluate says why
    return partial(run, model)


def _why_not(path: Path) -> str:
    """Return why onnxruntime can't be asked at all, or nothing."""
    if format_of(path) != "onnx":
        return "onnxruntime runs ONNX files only"
    return "" if find_spec("onnxruntime") else "onnxruntime is not installed"
