"""Auditing models: ``hu.audit``."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from onnx import ModelProto

from halfulp.auditing.convert import (
    Conversion,
    Ways,
    conversion,
    fused,
    heeds_constants,
    invalid,
)
from halfulp.auditing.data import measured
from halfulp.auditing.findings import ModelReport, NodeReport
from halfulp.auditing.network import Samples
from halfulp.auditing.node import Breach, Use, breaches, notices, open_slope
from halfulp.auditing.report import AuditReport
from halfulp.auditing.target import (
    BAD,
    LOADERS,
    Asked,
    Statement,
    asked,
    default,
    judged_alike,
    statement,
)
from halfulp.auditing.uses import of_onnx, of_openvino
from halfulp.conversion.float32 import has_halves, norms_without_pow, zero_epsilons
from halfulp.conversion.opset import inline
from halfulp.conversion.repair import FACTORS, of_later_opsets, repaired
from halfulp.conversion.rules import found
from halfulp.conversion.targets import for_target
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, UnsupportedError, check_integer, check_sizes, in_shell, printable
from halfulp.integrations.onnxruntime.rewrite import DOMAIN
from halfulp.models import onnx
from halfulp.models.files import Source, format_of
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.tensors import mapped, release
from halfulp.models.onnx.walk import graphs
from halfulp.types import FLOATS

__all__ = ["audit"]

_HEAD = 1 << 24  # bytes of an .xml file, which may begin with comments

_Targets: TypeAlias = Mapping[str, tuple[Asked, ...]]  # by a file's format


def audit(
    model: Source,
    targets: Iterable[str] | None = None,
    *,
    inputs: Samples | None = None,
    samples: int = 0,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> AuditReport:
    """Report the errors and the results in runtimes of each Pow and PRelu node of a model.

    Without inputs nothing is run: types and shapes come from the file and from inference, and how runtimes behave from
    measurements that ship with the package. With inputs an ONNX network runs once for each set of them, and the report
    says where the data leaves an element type.

    Args:
        model: a path (.xml is OpenVINO's, anything else ONNX), the bytes of a file, an
            ``onnx.ModelProto``, or a folder, whose models are all audited.
        targets: runtimes, such as ``onnxruntime`` or ``onnxruntime==1.31.1``: where that version was not measured,
            the nearest one speaks for it. Without them: the runtimes that load the file (ONNX Runtime and OpenVINO
            an ONNX model, OpenVINO an IR) and are installed, or all of them if none is. ``()`` means no runtime.
        inputs: arrays by name, or several sets of them, to report the effect of the data on each node.
        samples: how many sets of inputs to make up for that, where none are given.
        dims: the sizes of symbolic dims in those.
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
        <ModelProto>: node #0 (Pow): no attribute axis; expected: no attributes, got: axis (onnx.Pow-13.C5)
        <ModelProto>: node #0 (Pow): X and Y must be broadcastable to one shape;
            X: float32[2, 3], Y: float32[2] (onnx.Pow-13.C2)
    """
    check_integer("samples", samples, 0)
    check_integer("seed", seed, 0)
    check_sizes(dims)
    names = (targets,) if isinstance(targets, str) else targets
    known = default() if names is None else dict.fromkeys(LOADERS, tuple(map(asked, names)))
    data = inputs if inputs is not None else samples or None
    if isinstance(model, str | os.PathLike) and Path(model).is_dir():
        if data is not None:
            raise HalfulpError(f"{model}: inputs are for one model, and this is a folder")
        models = tuple(_folder(Path(model), known, progress))
    else:
        models = (_audited(model, _name(model), known, data, dims, seed, progress),)
    judged = {id(target): target for each in models for target in known[each.format]}
    return AuditReport(tuple(judged.values()), models)


def _folder(folder: Path, targets: _Targets, progress: Callable[[str], None] | None) -> Iterator[ModelReport]:
    """Audit the models of a folder. The report on each of them contains any error."""
    paths = list(_models(folder))
    if not paths:
        raise HalfulpError(f"{folder}: no models in this folder", expected=".onnx, OpenVINO .xml")
    for path, reason in paths:
        name = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "replace")
        name = printable(name, most=None)
        if progress is not None:
            progress(name)
        report = ModelReport(name, format_of(path))
        try:
            if not reason:
                report = _audited(path, name, targets)
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


def _audited(
    source: Source,
    file: str,
    targets: _Targets,
    data: Samples | int | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ModelReport:
    format = format_of(source)
    judge = _Judge(targets[format], file, has_data=data is not None)
    if format != "onnx":
        if data is not None:
            way_out = f"halfulp run {in_shell(file)} -i NAME=FILE shows NaN and infinities"
            raise HalfulpError(f"{file}: inputs are looked at in ONNX models only; {way_out}", got=format)
        place = source if isinstance(source, bytes) else Path(str(source))
        uses, unread = of_openvino(place, file)
        return ModelReport(file, format, tuple(map(judge.node, uses)), targets=judge.targets, unread=unread)
    with ExitStack() as stack:
        parsed = onnx.parse(source, file=file)
        tried = Ways()
        if data is not None:
            parsed = stack.enter_context(mapped(*parsed))
            release()
            if has_halves(parsed[0]):
                tried.fused = fused(*parsed)  # as the file is: a conversion does not inline functions
            if parsed[0].functions:  # how often they are called is counted before they are written out
                onnx.build(*parsed, keep_unknown=True, check_ours=False)
            with suppress(UnsupportedError):  # the data of nodes in functions is then not measured
                inline(*parsed)
        uses = of_onnx(*parsed)
        nodes = enumerate(parsed[0].graph.node)
        ours = tuple(label(node, index, "") for index, node in nodes if node.domain == DOMAIN)
        report = ModelReport(
            file, format, tuple(map(judge.node, uses)), targets=judge.targets, ways=tried, unread=ours
        )
        report.doubts = tuple(each.why for each in of_later_opsets(*parsed[:2]))
        if has_halves(parsed[0]):
            walk = Walk(*parsed)
            factors = found(walk, FACTORS)
            report.infinite = tuple(walk.label(path, match.root) for path, match in factors)[::-1]
            report.doubts += tuple(map(str, zero_epsilons(walk))) if data is None else ()
        tried.declared = invalid(*parsed, uses, is_broken=report.is_broken)
        if data is not None and not any(node.breaks for node in report.nodes):
            try:
                report.data = measured(*parsed, uses, data, dims=dims, seed=seed, progress=progress)
            except HalfulpError:
                if not report.is_broken:
                    raise
            report.has_bodies = report.data is not None and any(path for path, _ in graphs(parsed[0].graph))
        if report.data is None:
            report.norms = norms_without_pow(*parsed)
            report.unread += ("the data, because the model is broken",) if data is not None else ()
        _try_ways(report, *parsed)
        if not report.findings:
            tried.elsewhere = judge.elsewhere(uses)
    return report


def _try_ways(report: ModelReport, proto: ModelProto, file: str, folder: Path | None) -> None:
    """Try the repairs and conversions that help a model, which is not changed, and note them in its report."""
    ways = report.ways
    said_of_all = [said for node in report.nodes for said in node.targets]
    is_open = any(node.only_if for node in report.nodes) or any(
        "broadcast" in said.groups for said in said_of_all
    )
    if report.is_broken or is_open:
        try:
            new, changes, left = repaired(proto, file, folder)
        except HalfulpError as error:  # the model needs more than a repair of these nodes
            ways.error = printable(error.message, most=None)
        else:
            ways.repaired = {change.node: change.what for change in changes}
            ways.left = {each.node: each.why for each in left}
            ways.is_valid = report.is_broken and bool(changes) and all(each.valid for each in left)
            proto = new if ways.is_valid else proto
    for target in sorted({said.target for said in said_of_all if said.is_helped}):
        try:
            ways.converted[target] = for_target(check_clauses(Walk(deepcopy(proto), file, folder)), target)
        except HalfulpError as error:
            ways.refused[target] = error.message


T = TypeVar("T")


class _Judge:
    """Judges the nodes of one model: those that share their kind and their constants once."""

    def __init__(self, targets: tuple[Asked, ...], file: str, *, has_data: bool) -> None:
        self.targets = targets
        self._file = file
        self._has_data = has_data
        self._kept: dict[Hashable, Any] = {}

    def _once(self, make: Callable[..., T], key: Hashable, *arguments: Any) -> T:
        """Return the result of a function. It is called once for each key."""
        key = make, key
        if key not in self._kept:
            self._kept[key] = make(*arguments)
        return self._kept[key]  # type: ignore[no-any-return]

    def node(self, use: Use) -> NodeReport:
        judged = self._once(self._judged, (use.kind, use.constants), use)
        kept = [each if each.constant is None else each.without_array for each in (*use.inputs, use.output)]
        attributes = dict(sorted(use.attributes.items()))
        return judged(use.label, use.operator, use.asked, tuple(kept[:-1]), kept[-1], attributes)

    def _judged(self, use: Use) -> Callable[..., NodeReport]:
        """Return the report on all nodes that are like this one; it takes the parts that differ."""
        broken = self._once(breaches, use.kind, use)
        return partial(
            NodeReport,
            is_alone=use.is_alone,
            mistaken=use.mistaken,
            breaks=broken,
            targets=tuple(self._said(use, target, broken) for target in self.targets),
            only_if=None if broken else open_slope(use),
            notices=() if broken else tuple(notices(use, self._file, has_data=self._has_data)),
        )

    def _said(self, use: Use, target: Asked, broken: Sequence[Breach]) -> Statement:
        """Return the statement about a node: without a fault, the same for all exponents that are judged alike."""
        alike = judged_alike(use, target)
        if alike is not None:
            key = use.kind, id(target), alike
            said = self._once(statement, key, use, target, broken, self._convert)
            if said.verdict not in BAD:
                return said
        return statement(use, target, broken, self._convert)

    def elsewhere(self, uses: Sequence[Use]) -> Mapping[str, str]:
        """Return the options of the conversion for a runtime that lacks these nodes; empty if there is none."""
        refused = False
        for use in uses:
            is_approximate = not use.is_prelu and use.types is not None and use.types[0] in FLOATS
            if use.types is None or (refused and is_approximate):
                continue
            changes = self._convert(use, "basic")
            if changes is not None and changes.refused is not None:
                if not is_approximate:
                    return {}
                refused = True
        if not refused:
            return {"target": "basic"}
        return {"pow": "logarithms"} | ({"prelu": "expand"} if any(use.is_prelu for use in uses) else {})

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

    The models are .onnx, and .xml that are models. Links are followed, but no folder is entered twice.
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
    if suffix != ".xml" or not path.is_file():
        return suffix == ".onnx"
    with path.open("rb") as stream:
        return b"<net" in stream.read(_HEAD)  # which another .xml does not have
