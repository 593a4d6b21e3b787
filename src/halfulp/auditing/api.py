"""Auditing models: ``hu.audit``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from onnx import ModelProto

from halfulp.auditing.data import NetworkData, Samples, measured, without_functions
from halfulp.auditing.findings import ModelReport, notices
from halfulp.auditing.report import AuditReport
from halfulp.auditing.target import Asked, Conversion, Convert, asked, conversion, heeds_constants, statement
from halfulp.auditing.uses import Use, breaches, of_onnx, of_openvino, open_slope
from halfulp.conversion.float32 import has_halves, norms_without_pow, zero_epsilons
from halfulp.conversion.passes import is_harmless, refusal, run_passes
from halfulp.conversion.repair import FACTORS, contradicted, of_later_opsets, of_one_type, repaired
from halfulp.conversion.rules import found
from halfulp.conversion.spellings import fuse_norms
from halfulp.conversion.targets import TARGET
from halfulp.conversion.verify import Feed
from halfulp.conversion.walk import Walk, check_clauses, drop_unreached
from halfulp.errors import HalfulpError, check_integer, check_sizes, in_shell, printable
from halfulp.integrations.onnxruntime import DOMAIN
from halfulp.models import onnx
from halfulp.models.files import Source, format_of
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import release, type_of
from halfulp.models.onnx.walk import every_node, graphs, is_ours, reached

__all__ = ["audit"]

_Targets: TypeAlias = Mapping[str, tuple[Asked, ...]]  # by a file's format
_Measure: TypeAlias = Callable[..., NetworkData]


def audit(
    model: Source,
    targets: Iterable[str] | None = None,
    *,
    samples: int = 0,
    inputs: Samples | None = None,
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
    by_format = asked((targets,) if isinstance(targets, str) else targets)
    data = inputs if inputs is not None else samples or None
    made_up = Feed(seed, dims, progress=progress)
    measure = None if data is None else partial(measured, samples=data, feed=made_up)
    if not isinstance(model, str | os.PathLike) or not Path(model).is_dir():
        name = {bytes: "<bytes>", ModelProto: "<ModelProto>"}.get(type(model)) or str(model)
        models: tuple[ModelReport, ...] = (_audited(model, name, by_format, measure),)
    elif data is not None:
        raise HalfulpError(f"{model}: inputs are for one model, and this is a folder")
    else:
        models = tuple(_folder(Path(model), by_format, progress))
    judged = {id(target): target for report in models for target in by_format[report.format]}
    return AuditReport(tuple(judged.values()), models)


def _folder(folder: Path, targets: _Targets, progress: Callable[[str], None] | None) -> Iterator[ModelReport]:
    """Audit the models of a folder. The report on each of them contains any error."""
    if not (paths := _models(folder)):
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
        except (OSError, MemoryError, RecursionError) as error:
            texts = {MemoryError: "not enough memory", RecursionError: "it nests too deep"}
            reason = texts.get(type(error)) or getattr(error, "strerror", None) or type(error).__name__
        report.error = reason or None
        yield report


def _models(folder: Path) -> list[tuple[Path, str]]:
    """Return a folder's models by name, each with the reason if it can't be read; links lead to no folder twice."""
    models, entered, todo = list[tuple[Path, str]](), set[str](), [folder]
    while todo:  # os.walk calls itself for each folder within
        here = todo.pop()
        try:
            if not os.path.isdir(here):
                models += [(here, "")] * _is_model(here)
            elif (real := os.path.realpath(here)) not in entered:
                entered.add(real)
                found_here = map(Path, os.scandir(here))
                todo += sorted(found_here, key=lambda path: (os.path.isdir(path), path), reverse=True)
        except OSError as error:
            models.append((here, f"can't be read: {error.strerror}"))
    return models


def _is_model(path: Path) -> bool:
    """Return whether a file has a model's suffix and the mark of its format, without loading it into memory."""
    suffix = path.suffix.lower()
    if suffix != ".xml" or not path.is_file():
        return suffix == ".onnx"
    with path.open("rb") as stream:
        # Another .xml does not have it. Comments may stand before it.
        return b"<net" in stream.read(1 << 24)


def _audited(source: Source, file: str, targets: _Targets, measure: _Measure | None = None) -> ModelReport:
    """Audit one model; ``measure`` runs an ONNX model on data."""
    report = ModelReport(file, kind := format_of(source), targets=targets[kind])
    if report.format == "onnx":
        model = onnx.parse(source, file=file)
        with nullcontext(model) if measure is None else model.mapped() as model:
            _audit_onnx(report, model, measure)
    elif measure is not None:
        way_out = f"halfulp run {in_shell(file)} -i NAME=FILE shows NaN and infinities"
        raise HalfulpError(f"{file}: inputs are looked at in ONNX models only; {way_out}", got=report.format)
    else:
        text = source if isinstance(source, bytes) else Path(str(source))
        report.nodes, report.unread = of_openvino(text, file)
        _judge(report.nodes, report.targets, file)
    for node in report.nodes:
        node.let_go()
    return report


def _audit_onnx(report: ModelReport, model: Onnx, measure: _Measure | None) -> None:
    if measure is not None:
        release()
        # Hostile files are refused, and the calls of functions counted, before functions are written out.
        model.check(check_ours=False)
        if has_halves(model.proto):
            report.fused = _fused(model)  # as the file is: a conversion does not inline functions
        model = without_functions(model)
    report.nodes = uses = of_onnx(model)
    convert = _judge(uses, report.targets, report.file, has_data=measure is not None)
    nodes = model.proto.graph.node
    report.unread = tuple(model.scope().label(node) for node in nodes if node.domain == DOMAIN)
    report.doubts = tuple(of_later_opsets(model))
    if has_halves(model.proto):
        factors = found(model.scopes(), FACTORS)
        report.infinite = tuple(match.view.scope.label(match.root) for match in factors)[::-1]
        report.doubts += tuple(map(str, zero_epsilons(model))) if measure is None else ()
    report.declared = _invalid(model, uses, is_broken=report.is_broken)
    if measure is not None and not any(node.breaks for node in report.nodes):
        with suppress(HalfulpError) if report.is_broken else nullcontext():
            report.data = measure(model, uses)
    if report.data is not None:
        report.has_bodies = any(path for path, _ in graphs(model.proto.graph))
    else:
        report.norms = norms_without_pow(model)
        report.unread += ("the data, because the model is broken",) * (measure is not None)
    _try_conversions(report, model)
    if not report.findings:
        report.elsewhere = _elsewhere(uses, convert)


def _try_conversions(report: ModelReport, model: Onnx) -> None:
    """Try the repair and the conversions that help a model, which is not changed, and note them in its report."""
    statements = [said for node in report.nodes for said in node.targets]
    is_broadcast = any("broadcast" in said.groups for said in statements)
    if report.is_broken or is_broadcast or any(node.only_if for node in report.nodes):
        try:
            new, changes, left = repaired(model)
        except HalfulpError as error:  # the model needs more than a repair of these nodes
            report.unrepaired = printable(error.message, most=None)
        else:
            report.repaired = {change.node: change.what for change in changes}
            report.left = {doubt.node or doubt.file: doubt for doubt in left}
            report.is_valid = report.is_broken and bool(changes) and all(doubt.valid for doubt in left)
            model = new if report.is_valid else model  # that the conversions are tried on
    for target in sorted({said.target for said in statements if said.is_mended}):
        with suppress(HalfulpError):
            walk = Walk(model.copy(), types=model.types)
            changes = drop_unreached(walk) + check_clauses(walk)
            report.converted[target] = changes + run_passes(walk, *((each, target) for each in TARGET))


def _fused(model: Onnx) -> frozenset[str]:
    """Return the results of the nodes that become part of one operator if norms are fused."""
    copy = model.copy()
    run_passes(Walk(copy), (fuse_norms, "norms"))
    if refusal(copy.proto) is not None and refusal(model.proto) is None:
        return frozenset()
    graphs = (model.proto.graph, copy.proto.graph)
    before, after = ({name for node in every_node(graph) for name in node.output} for graph in graphs)
    return frozenset(before - after)


def _invalid(model: Onnx, uses: Sequence[Use], *, is_broken: bool) -> dict[str, str]:
    """Return the findings about a model's other nodes, by node; without any, that of the onnx package's checker.

    The checker stops at a Pow or PRelu that breaks a clause, and looks into functions that nothing calls.
    """
    proto, scopes = model.proto, dict.fromkeys(use.scope for use in uses if use.scope is not None)
    texts = {
        name: f"its output is declared as {declared}, and is {type_of(made.i)}: {_REFUSED}"
        for name, node, made, declared in contradicted(proto)
        if node.op_type == "Cast"
    }
    for _, graph in graphs(proto.graph):
        names = Counter(node.name for node in graph.node if node.name)
        same = "another node of its graph has the same name: ONNX Runtime refuses to load the model"
        nodes = enumerate(graph.node)
        texts |= {label(node, index, ""): same for index, node in nodes if names[node.name] > 1}
    texts |= _mixed(scopes)
    if texts or is_broken or len(reached(proto)) != len(proto.functions):
        return texts
    refused = refusal(proto, with_weights=False)
    if refused is None:
        return texts
    if not scopes:
        texts = dict(_mixed([model.scope()]))
    if not texts and not is_harmless(refused, proto):
        texts[refused.node or "the model"] = f"the onnx package's checker refuses it: {refused.reason}"
    return texts


_REFUSED = "runtimes refuse to load the model"


def _mixed(scopes: Iterable[Scope]) -> Iterator[tuple[str, str]]:
    """Give the nodes of these graphs whose operator does not take their inputs' types, and why."""
    for scope in scopes:
        for node in scope.owner.node:
            is_mixed = len({scope.value(name).type for name in node.input}) > 1 and not is_ours(node)
            for inputs, _ in of_one_type(node, scope.opset) if is_mixed else ():
                types = list(dict.fromkeys(scope.value(name).type for name in inputs.values()))
                if None not in types and len(types) > 1:
                    said = " and ".join(map(str, types))
                    text = f"its inputs are {said}, and {node.op_type} takes one type: {_REFUSED}"
                    yield scope.label(node), text


def _judge(uses: Iterable[Use], targets: tuple[Asked, ...], file: str, *, has_data: bool = False) -> Convert:
    """Note the results for nodes in them: those that share their kind and their constants are judged once.

    Return the function that tries a conversion of a node, for each kind of nodes once.
    """
    kept: dict[Hashable, Any] = {}

    def once(make: Callable[..., Any], key: Hashable, *arguments: Any) -> Any:
        key = make, key
        if key not in kept:
            kept[key] = make(*arguments)
        return kept[key]

    def convert(use: Use, target: str) -> Conversion | None:
        constants = use.constants if heeds_constants(use, target) else None
        tried: Conversion | None = once(conversion, (use.kind, target, constants), use, target)
        return tried

    def judged(use: Use) -> tuple[Any, ...]:
        broken = once(breaches, use.kind, use)
        statements = tuple(statement(use, target, broken, convert) for target in targets)
        if broken:
            return broken, statements, None, ()
        return broken, statements, open_slope(use), tuple(notices(use, file, has_data=has_data))

    for use in uses:
        use.breaks, use.targets, use.only_if, use.notices = once(judged, (use.kind, use.constants), use)
        use.attributes = dict(sorted(use.attributes.items()))
    return convert


def _elsewhere(uses: Sequence[Use], convert: Convert) -> Mapping[str, str]:
    """Return the options of the conversion for a runtime that lacks these nodes; empty if there is none."""
    for use in filter(attrgetter("types"), sorted(uses, key=attrgetter("is_float_power"))):
        tried = convert(use, "basic")
        if tried is not None and tried.refused is not None:
            prelu = {"prelu": "expand"} if any(each.is_prelu for each in uses) else {}
            return {"pow": "logarithms", **prelu} if use.is_float_power else {}
    return {"target": "basic"}
