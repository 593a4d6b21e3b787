"""Auditing models: ``hu.audit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from onnx import ModelProto

from halfulp.auditing import dxdispatch as audit_dxdispatch
from halfulp.auditing import onnx as audit_onnx
from halfulp.auditing import openvino as audit_openvino
from halfulp.auditing.constant import describe_constant
from halfulp.auditing.findings import ModelReport, NodeReport, OperandReport
from halfulp.auditing.folder import Found, models
from halfulp.auditing.node import Operand, Use, breaches
from halfulp.auditing.report import Report
from halfulp.auditing.target import Asked, asked, default, statement
from halfulp.auditing.unspecified import touched
from halfulp.errors import HalfulpError
from halfulp.models import onnx
from halfulp.models.source import Source, folder_error, format_of

__all__ = ["audit"]


def audit(
    model: Source, targets: Iterable[str] | None = None, *, progress: Callable[[str], None] | None = None
) -> Report:
    """Say of each Pow and PRelu node of a model what is wrong or open about it, and what runtimes make of it.

    Nothing is run. Types and shapes come from the file and from inference, what runtimes do from measurements that
    ship with the package.

    Args:
        model: a path (.xml is OpenVINO's, .json is DxDispatch's, anything else ONNX), the bytes of a file, an
            ``onnx.ModelProto``, or a folder, whose models are all audited.
        targets: runtimes, such as ``onnxruntime`` or ``onnxruntime==1.31.1``: where that version was not measured,
            the nearest one speaks for it. Without them: every runtime that is installed (ONNX Runtime, OpenVINO,
            PyTorch, JAX), as of its installed version, or all that were measured where none is. ``()`` is none.
        progress: is called with the name of each file of a folder, before it is read.

    Returns:
        The report: ``.summaries`` answer for each model and runtime, ``.findings`` are what there is to act on and
        how, ``.json()`` is all of it, ``print`` shows it.

    Raises:
        ModelError, UnsupportedError: the model can't be read; in a folder that is a finding.
        HalfulpError: there is no such target, or a folder without models.

    Example:
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 13]>
        ...     g (float[2, 3] x, float[2] y) => (float[2, 3] z) { z = Pow <axis = 0> (x, y) }''')
        >>> for finding in audit(model, targets=()).findings:
        ...     print(finding)
        <ModelProto>, node #0 (Pow): breaks onnx.Pow-13.C5: no attribute axis; expected: no attributes, got: axis
        <ModelProto>, node #0 (Pow): breaks onnx.Pow-13.C2: X and Y must be broadcastable to one shape;
            X: float32[2, 3], Y: float32[2]
    """
    if targets is None:
        known = default()
    else:
        known = tuple(map(asked, (targets,) if isinstance(targets, str) else targets))
    if isinstance(model, str | os.PathLike) and Path(model).is_dir():
        return Report(known, tuple(_folder(Path(model), known, progress)))
    return Report(known, (_audited(model, _name(model), known),))


def _folder(
    folder: Path, targets: tuple[Asked, ...], progress: Callable[[str], None] | None
) -> Iterable[ModelReport]:
    nothing = True
    for found in models(folder):
        nothing = False
        if progress is not None:
            progress(found.name)
        yield _one_of_many(found, targets)
    if nothing:
        raise folder_error(folder, str(folder)) or HalfulpError(
            f"{folder}: no models in this folder", expected=".onnx, OpenVINO .xml, DxDispatch .json"
        )


def _one_of_many(found: Found, targets: tuple[Asked, ...]) -> ModelReport:
    """Audit a file; what goes wrong with it is said in its report."""
    if found.error is not None:
        return ModelReport(found.name, format_of(found.path), error=found.error)
    try:
        return _audited(found.path, found.name, targets)
    except HalfulpError as error:
        text = "; ".join(map(str.strip, str(error).splitlines()))
    except OSError as error:
        text = error.strerror or type(error).__name__
    except MemoryError:
        text = "not enough memory"
    except RecursionError:
        text = "it nests too deep"
    return ModelReport(found.name, format_of(found.path), error=text)


def _audited(source: Source, file: str, targets: tuple[Asked, ...]) -> ModelReport:
    format = format_of(source)
    found: list[Use]
    if format == "onnx":
        found = audit_onnx.uses(*onnx.parse(source, file=file))
    else:
        place = source if isinstance(source, bytes) else Path(str(source))
        found = (audit_openvino if format == "openvino" else audit_dxdispatch).uses(place, file)
    return ModelReport(file, format, tuple(_node(use, targets) for use in found))


def _node(use: Use, targets: tuple[Asked, ...]) -> NodeReport:
    broken = breaches(use)
    return NodeReport(
        use.label,
        use.operator,
        use.asked,
        tuple(map(_operand, use.inputs)),
        _operand(use.output),
        use.attributes,
        broken,
        touched(use) if use.refused is None else (),
        tuple(statement(use, target, broken) for target in targets),
    )


def _operand(operand: Operand) -> OperandReport:
    constant = None if operand.constant is None else describe_constant(operand.constant)
    return OperandReport(operand.name, operand.type, operand.shape, constant)


def _name(source: Source) -> str:
    if isinstance(source, bytes):
        return "<bytes>"
    return "<ModelProto>" if isinstance(source, ModelProto) else str(source)
