"""Auditing models: ``hu.audit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from onnx import ModelProto

from halfulp.auditing.convert import (
    Conversion,
    conversion,
    fused,
    heeds_constants,
    invalid,
    mixed_types,
    ways,
)
from halfulp.auditing.data import measured
from halfulp.auditing.findings import ModelReport, NodeReport
from halfulp.auditing.network import Samples
from halfulp.auditing.node import Breach, Open, Use, breaches, notices, open_slope, touched
from halfulp.auditing.report import AuditReport
from halfulp.auditing.target import (
    LOADERS,
    Asked,
    Statement,
    asked,
    default,
    kind_of_exponent,
    neighbours,
    numbers_that_count,
    statement,
)
from halfulp.auditing.uses import of_dxdispatch, of_onnx, of_openvino
from halfulp.conversion.float32 import HALVES, has_halves, norms_without_pow
from halfulp.conversion.opset import inline
from halfulp.errors import REPAIR, HalfulpError, ModelError, UnsupportedError, check_integer, printable
from halfulp.models import onnx
from halfulp.models.onnx.tensors import mapped, release
from halfulp.models.source import Source, folder_error, format_of

__all__ = ["audit"]

_Targets: TypeAlias = Mapping[str, tuple[Asked, ...]]  # by a file's format

_PIECE = 1 << 20
_MARKS = {".xml": b"<net", ".json": b'"dispatchables"'}
"""The bytes that distinguish an IR file and a DxDispatch file from others of that suffix."""


def audit(
    model: Source,
    targets: Iterable[str] | None = None,
    *,
    inputs: Samples | None = None,
    samples: int = 0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> AuditReport:
    """Report the errors, open questions and results in runtimes of each Pow and PRelu node of a model.

    Without inputs nothing is run: types and shapes come from the file and from inference, and how runtimes behave from
    measurements that ship with the package. With inputs an ONNX network runs once for each set of them, and the report
    says where the data leaves an element type.

    Args:
        model: a path (.xml is OpenVINO's, .json is DxDispatch's, anything else ONNX), the bytes of a file, an
            ``onnx.ModelProto``, or a folder, whose models are all audited.
        targets: runtimes, such as ``onnxruntime`` or ``onnxruntime==1.31.1``: where that version was not measured,
            the nearest one speaks for it. Without them: the runtimes that load the file (ONNX Runtime and OpenVINO
            an ONNX model, OpenVINO an IR) and are installed, or all of them if none is. ``()`` means no runtime.
        inputs: arrays by name, or several sets of them, to report the effect of the data on each node.
        samples: how many sets of inputs to make up for that, where none are given.
        seed: for those.
        progress: is called with the name of each file of a folder, before it is read, and with each sample.

    Returns:
        The report: ``.summaries`` answer for each model and runtime, ``.findings`` are the things to act on,
        with remedies, ``.json()`` is all of it, ``print`` shows it.

    Raises:
        ModelError, UnsupportedError: the model can't be read; in a folder that is a finding.
        HalfulpError: a target is not known, or a folder has no models.

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
    check_integer("samples", samples, 0)
    check_integer("seed", seed, 0)
    if targets is None:
        known = default()
    else:
        known = dict.fromkeys(LOADERS, tuple(map(asked, (targets,) if isinstance(targets, str) else targets)))
    data = _Data(inputs if inputs is not None else samples or None, seed, progress)
    if isinstance(model, str | os.PathLike) and Path(model).is_dir():
        if data.samples is not None:
            raise HalfulpError(f"{model}: inputs are for one model, and this is a folder")
        models = tuple(_folder(Path(model), known, progress))
    else:
        models = (_audited(model, _name(model), known, data),)
    judged = {id(target): target for each in models for target in known[each.format]}
    return AuditReport(tuple(judged.values()), models)


class _Data(NamedTuple):
    samples: Samples | int | None = None
    seed: int = 0
    progress: Callable[[str], None] | None = None


def _folder(folder: Path, targets: _Targets, progress: Callable[[str], None] | None) -> Iterator[ModelReport]:
    """Audit the models of a folder. The report on each of them contains any error."""
    nothing = True
    for path, reason in _models(folder):
        nothing = False
        name = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "replace")
        name = printable(name, most=None)
        if progress is not None:
            progress(name)
        report = ModelReport(name, format_of(path))
        try:
            if not reason:
                report = _audited(path, name, targets, _Data())
        except HalfulpError as error:
            reason = "; ".join(map(str.strip, str(error).splitlines()))
        except OSError as error:
            reason = error.strerror or type(error).__name__
        except MemoryError:
            reason = "not enough memory"
        except RecursionError:
            reason = "it nests too deep"
        report.error = reason or None
        yield report
    if nothing:
        raise folder_error(folder, str(folder)) or HalfulpError(
            f"{folder}: no models in this folder", expected=".onnx, OpenVINO .xml, DxDispatch .json"
        )


def _audited(source: Source, file: str, targets: _Targets, data: _Data) -> ModelReport:
    format = format_of(source)
    judge = _Judge(targets[format], has_data=data.samples is not None)
    if format != "onnx":
        if data.samples is not None:
            way_out = "halfulp run -i NAME=FILE shows NaN and infinities"
            raise HalfulpError(f"{file}: inputs are looked at in ONNX models only; {way_out}", got=format)
        place = source if isinstance(source, bytes) else Path(str(source))
        found, unread = (of_openvino if format == "openvino" else of_dxdispatch)(place, file)
        return ModelReport(file, format, tuple(map(judge.node, found)), targets=judge.targets, unread=unread)
    with ExitStack() as stack:
        parsed = onnx.parse(source, file=file)
        fused_powers: frozenset[str] = frozenset()
        if data.samples is not None:
            parsed = stack.enter_context(mapped(*parsed))
            release()
            if has_halves(parsed[0]):
                fused_powers = fused(*parsed)  # as the file is: a conversion does not inline functions
            if parsed[0].functions:  # how often they are called is counted before they are written out
                onnx.build(*parsed, keep_unknown=True, check_ours=False)
            with suppress(UnsupportedError):  # the data of nodes in functions is then not measured
                inline(*parsed)
        found = of_onnx(*parsed)
        report = ModelReport(file, format, tuple(map(judge.node, found)), targets=judge.targets)
        is_broken = any(node.breaks for node in report.nodes)
        faults = invalid(*parsed, found, is_broken=is_broken)
        if data.samples is not None and not mixed_types(found):
            _refuse_broken(report)
            with suppress(*[HalfulpError] if faults else []):  # then no runtime need take it
                report.data = measured(*parsed, found, data.samples, seed=data.seed, progress=data.progress)
        else:
            report.norms = norms_without_pow(*parsed)
        if report.nodes or faults:
            report.ways = ways(
                *parsed,
                is_broken=is_broken,
                is_open=any(node.only_if for node in report.nodes),
                targets={said.target for node in report.nodes for said in node.targets if said.is_helped},
                fused=fused_powers,
                invalid=faults,
            )
    return report


def _refuse_broken(report: ModelReport) -> None:
    """Refuse to run a model with a node that breaks a clause, and say what helps."""
    for node in report.nodes:
        for breach in node.breaks:
            message = f"{breach.message}; {REPAIR}, and an audit without data says how"
            raise ModelError(message, file=report.file, node=node.label, clause=breach.clause)


_CONSTANT = "\0"  # placeholder for the constant's values, in texts that nodes of one kind share

T = TypeVar("T")


class _Judged(NamedTuple):
    """The results for a node, as its report has them."""

    breaks: tuple[Breach, ...]
    open: tuple[Open, ...]
    targets: tuple[Statement, ...]
    only_if: str | None
    notices: tuple[str, ...] = ()


class _Judge:
    """Judges the nodes of one model: each kind of node once, for all values of its constants."""

    def __init__(self, targets: tuple[Asked, ...], *, has_data: bool) -> None:
        self.targets = targets
        self._has_data = has_data
        self._kept: dict[Hashable, Any] = {}

    def _once(self, make: Callable[..., T], key: Hashable, *arguments: Any) -> T:
        """Return the result of a function. It is called once for each key."""
        key = make, key
        if key not in self._kept:
            self._kept[key] = make(*arguments)
        return self._kept[key]  # type: ignore[no-any-return]

    def node(self, use: Use) -> NodeReport:
        around: tuple[str | None, ...] = ()
        if any(operand.type in HALVES for operand in use.inputs):
            around = tuple(group.example for target in self.targets for group in neighbours(use, target))
        judged = self._once(self._judged, (use.kind, use.constants, around), use, around)
        kept = [each if each.constant is None else each.without_array for each in (*use.inputs, use.output)]
        attributes = dict(sorted(use.attributes.items()))
        return NodeReport(
            use.label, use.operator, use.asked, tuple(kept[:-1]), kept[-1], attributes, **judged._asdict()
        )

    def _judged(self, use: Use, around: Hashable) -> _Judged:
        """Return the results for a node with its own constants."""
        kind = self._once(self._kind, (use.kind, self._of_constants(use), around), use)
        text = use.second.text or ""
        left_open = [Open(question, where.replace(_CONSTANT, text)) for question, where in kind.open]
        said = [each.with_constant(_CONSTANT, text) for each in kind.targets]
        noticed = () if kind.breaks else tuple(notices(use, has_data=self._has_data))
        return kind._replace(open=tuple(left_open), targets=tuple(said), notices=noticed)

    def _kind(self, use: Use) -> _Judged:
        """Return the results for all nodes of a kind, with a placeholder for the constant's values."""
        use = use.with_text(_CONSTANT)
        broken = self._once(breaches, use.kind, use)
        return _Judged(
            breaks=broken,
            open=touched(use) if use.refused is None else (),
            targets=tuple(statement(use, target, broken, self._convert) for target in self.targets),
            only_if=None if broken else open_slope(use),
        )

    def _of_constants(self, use: Use) -> Hashable:
        """Return the part of a node's constants that is judged: an exponent's kind, or else their values."""
        if use.refused is not None or self._once(self._heeded, use.kind, use):
            return use.constants
        kind = kind_of_exponent(use, self._once(numbers_that_count, use.kind, use, self.targets))
        return use.constants if kind is None else kind

    def _heeded(self, use: Use) -> bool:
        return any(heeds_constants(use, target.name) for target in self.targets)

    def _convert(self, use: Use, target: str) -> Conversion | None:
        constants = use.constants if heeds_constants(use, target) else None
        return self._once(conversion, (use.kind, target, constants), use, target)


def _name(source: Source) -> str:
    if isinstance(source, bytes):
        return "<bytes>"
    return "<ModelProto>" if isinstance(source, ModelProto) else str(source)


# --- the models of a folder ----------------------------------------------------------------------


def _models(folder: Path) -> Iterator[tuple[Path, str]]:
    """Give the models of a folder in the order of their names, each with the reason if it can't be read.

    The models are .onnx, and .xml and .json that are models. Links are followed, but no folder is entered twice.
    """
    entered: set[tuple[int, int]] = set()
    unreadable: list[OSError] = []
    for here, folders, files in os.walk(folder, onerror=unreadable.append, followlinks=True):
        status = os.stat(here)
        is_known = (status.st_dev, status.st_ino) in entered
        entered.add((status.st_dev, status.st_ino))
        folders[:] = [] if is_known else sorted(folders)
        yield from _refusals(unreadable)
        for path in map(Path(here).joinpath, [] if is_known else sorted(files)):
            try:
                if _is_model(path):
                    yield path, ""
            except OSError as error:
                yield path, f"can't be read: {error.strerror}"
    yield from _refusals(unreadable)


def _refusals(unreadable: list[OSError]) -> Iterator[tuple[Path, str]]:
    """Give each folder that could not be entered, once."""
    while unreadable:
        error = unreadable.pop(0)
        yield Path(error.filename), f"can't be read: {error.strerror}"


def _is_model(path: Path) -> bool:
    """Return whether a file has a model's suffix and the mark of its format, without loading it into memory."""
    suffix = path.suffix.lower()
    if suffix not in _MARKS or not path.is_file():
        return suffix == ".onnx"
    with path.open("rb") as stream:
        before = b""
        while piece := stream.read(_PIECE):
            if _MARKS[suffix] in before + piece:
                return True
            before = piece[-len(_MARKS[suffix]) :]
    return False
