"""The report of an audit: as Python's objects, as JSON, as lines of text, as an HTML page."""

from __future__ import annotations

import json
import math
import shlex
import textwrap
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, reduce
from itertools import chain
from typing import Any

from halfulp.auditing.convert import Conversion
from halfulp.auditing.data import NetworkData, NodeData
from halfulp.auditing.findings import WORDS, Finding, ModelReport, NodeReport, Summary, few
from halfulp.auditing.node import Operand, shown
from halfulp.auditing.ranges import Range
from halfulp.auditing.target import BAD, Asked, Statement, of_constant
from halfulp.conversion.editor import Change
from halfulp.errors import HalfulpError, Printed, command, count_of, did_you_mean, printable
from halfulp.installed import version_of
from halfulp.pages import WIDTH as PAGE_WIDTH
from halfulp.pages import Block, Bullets, Code, Page, Section, Table, document, html

SCHEMA = "halfulp.audit/1"
WIDTH = 80

_GRAVEST = ("clause", "crashed", "hung", "refused", "wrong", "range", "depends", "shape", "within")
"""The kinds of findings about nodes, the gravest first."""
_WORST = ("invalid", *BAD, "depends", "shape", "unknown", "within", "wider", "right")
"""The outcomes of nodes in runtimes, the worst first."""

Told = tuple[str, str]
"""The kind of a finding, and its text."""
Part = tuple[str, str]
"""The start of a line, and a text that is wrapped after it."""


@dataclass(frozen=True, repr=False)
class AuditReport(Printed):
    """The results of an audit. ``print`` shows them as lines.

    Attributes:
        targets: the runtimes asked for, or those that are installed and load one of the models.
        models: in the order of their names.
    """

    targets: tuple[Asked, ...]
    models: tuple[ModelReport, ...]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, in the order of files and nodes."""
        return tuple(finding for model in self.models for finding in model.findings)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """The answer for each model with Pow or PRelu nodes and each target, in the order of files and targets."""
        return tuple(summary for model in self.models for summary in model.summaries)

    def blocklist(self, tool: str) -> str:
        """Return the option that makes a tool keep in float32 the nodes whose data leave float16.

        Args:
            tool: ``trtexec``, ``polygraphy``, or ``json`` for a list of names, which other tools take.

        Raises:
            HalfulpError: the tool does not exist, a node has no name (tools identify nodes by name), the audit looked
                at no data, or the outputs of a float16 network overflow, which no list of nodes prevents.
        """
        names: dict[str, None] = {}
        beyond = ""
        for model in self.models:
            if model.data is None:
                faults = (each for each in model.findings if each.kind in ("clause", "declaration"))
                if fault := next(faults, None):
                    raise HalfulpError(f"no data was looked at, because the model is broken: {fault}")
                raise HalfulpError(f"{model.file}: no data was looked at")
            for node in (*model.data.nodes.values(), *model.data.others):
                if node.overflows("float16") or node.divisions_by_zero:
                    if not node.region:
                        beyond = beyond or f"{model.file}: node {node.label}"
                    names |= dict.fromkeys(node.region)
        if beyond and not names:
            expected = "smaller data, or another type for this part"
            raise HalfulpError(f"{beyond}: nothing of float16 holds its results", expected=expected)
        return _blocklist(tool, list(names))

    def json(self) -> dict[str, Any]:
        """Return the report as JSON's objects, in a stable order, of the schema ``halfulp.audit/1``."""
        nodes = sum(len(model.nodes) for model in self.models)
        return {
            "schema": SCHEMA,
            "halfulp": version_of("halfulp") or "not installed",
            "targets": _plain(self.targets),
            "summary": {"models": len(self.models), "nodes": nodes, "findings": len(self.findings)},
            "findings": _plain(self.findings),
            "models": _plain(self.models),
        }

    def html(self) -> str:
        """Return the report as an HTML page that loads nothing: verdicts, the worst first, commands, nodes."""
        return document(_page(self))

    def _repr_html_(self) -> str:
        return html(_page(self))

    def __repr__(self) -> str:
        return f"<AuditReport: {', '.join(self._counts())}>"

    def __str__(self) -> str:
        return "\n".join(lines(self))

    def _counts(self) -> list[str]:
        nodes = sum(len(model.nodes) for model in self.models)
        counts = {"model": len(self.models), "node": nodes, "finding": len(self.findings)}
        return [count_of(number, noun) for noun, number in counts.items()]


# --- as a list for other tools ---------------------------------------------------------------------

_TENSORRT = """\
# TensorRT 10 and older. TensorRT 11 has no such options: it computes in the model's types.
"""


def _blocklist(tool: str, names: list[str]) -> str:
    if tool not in ("json", "trtexec", "polygraphy"):
        suggestion = did_you_mean(tool, ("json", "trtexec", "polygraphy"))
        raise HalfulpError(f"no list is known for {tool[:80]}; {suggestion}")
    for name in names:
        if name.startswith("#"):
            raise HalfulpError(
                f"node {name} has no name, and tools know nodes by their names",
                expected="a name for each node: in Python, node.name = node.name or node.output[0]; a float16 network"
                " needs no names for halfulp convert --float32 norms",
            )
        if tool != "json" and (not name.isprintable() or (tool == "trtexec" and {*",'"} & {*name})):
            got = printable(name)
            raise HalfulpError(f"{tool} takes no layer's name with a comma or such a sign", got=got)
    if tool == "json":
        return json.dumps(names)
    if not names:
        return "# Nothing to do: with these data, float16 holds the results of every node that was looked at."
    if tool == "trtexec":
        pairs = ",".join(f"{name}:fp32" for name in names)  # quotation marks would become part of the names
        given = shlex.quote(f"--layerPrecisions={pairs}"), shlex.quote(f"--layerOutputTypes={pairs}")
        return f"{_TENSORRT}trtexec --onnx=model.onnx --fp16 --precisionConstraints=obey {' '.join(given)}"
    pairs = " ".join(shlex.quote(f"{name}:float32") for name in names)
    converts = "polygraphy convert model.onnx --output model.plan --fp16 --precision-constraints obey"
    return f"{_TENSORRT}{converts} --layer-precisions {pairs}"


# --- as JSON -------------------------------------------------------------------------------------

# The members of each kind of object; after "=", the attribute of another name that a member has its value from.
_MEMBERS: Mapping[type, str] = {
    Change: "what differs",
    Asked: "name asked=version installed measured=measured.version date=measured.date mode=measured.mode",
    Conversion: "steps refused",
    Finding: "file node kind target clause text to_do grade",
    ModelReport: "file format error runtimes=summaries nodes data unread norms",
    NetworkData: "samples nodes=listed norms=others inputs",
    NodeData: "node=label operator type exponent base result types=of_types lost absorbed region",
    NodeReport: "node=label operator asked inputs output attributes breaks only_if notices targets",
    Operand: "name type shape constant=text",
    Range: "elements nan infinite zeros least greatest",
    Statement: "target verdict max_ulp reasons depends accepts conversion grade",
    Summary: "target version right=is_right outcomes causes max_ulp text",
}


def _plain(value: Any) -> Any:
    if type(value) in _MEMBERS:
        members = (member.partition("=") for member in _MEMBERS[type(value)].split())
        paths = {name: (path or name).split(".") for name, _, path in members}
        return {name: _plain(reduce(_attribute, path, value)) for name, path in paths.items()}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON can't represent these as numbers
    return value if value is None or isinstance(value, str | int | float | bool) else shown(value)


def _attribute(value: Any, name: str) -> Any:
    return None if value is None else getattr(value, name)


# --- as text -------------------------------------------------------------------------------------


def lines(report: AuditReport, *, width: int = WIDTH) -> Iterator[str]:
    """Give the lines of a report."""
    for start, text in _parts(report):
        yield from _wrapped(text, start, width)


def _parts(report: AuditReport) -> Iterator[Part]:
    for model in report.models:
        yield from _answers(model)
    for model in report.models:
        if model.error is None:
            yield from _nodes(model, with_right=len(report.models) == 1)
            if remedies := _remedies(model):
                yield "", ""
                yield "Do this:", ""
            for remedy, reasons in remedies.items():
                yield "  ", remedy
                yield from (("    ", reason) for reason in reasons)
            yield from _notices(model)
    concerned = sum(bool(model.nodes) for model in report.models)
    if concerned:
        yield "", ""
        for target in report.targets:
            if target.measured is None:
                yield "", f"{target.name}: not measured; its documents say which nodes it accepts"
    if not report.findings and [model.format for model in report.models if model.nodes] == ["onnx"]:
        (model,) = (model for model in report.models if model.nodes)
        if model.ways.elsewhere:
            to_do = command(model.file, "convert", **model.ways.elsewhere)
            yield "if another runtime refuses it, or differs: ", to_do
    models, nodes, findings = report._counts()
    yield f"{models}, {concerned} with Pow or PRelu; {nodes}, {findings}", ""


def _answers(model: ModelReport) -> Iterator[Part]:
    """Give a model's name and a line for each runtime."""
    if model.error is not None:
        yield f"{model.file}: ", f"! {model.error}"
    elif not model.nodes:
        rest = " in the parts that were looked into" if model.unread else ""
        yield f"{model.file}: no Pow, no PRelu{rest}", ""
        if model.data is not None and model.data.samples:
            yield "  ", _of_data(model.data, 0)
    else:
        yield f"{model.file}: {count_of(len(model.nodes), 'node')}", ""
        yield from (("  ", str(summary)) for summary in model.summaries)
        if model.data is not None:
            yield "  ", _of_data(model.data, len(model.nodes))
    if model.has_bodies:
        yield "  ", "notice: in the bodies of If, Loop and Scan the data was looked at in Pow and PRelu only"
    if model.unread:
        yield "  ", f"not looked into: {few(model.unread)}"
    if model.norms:
        short = f"{count_of(model.norms, 'norm')} in float16, without a Pow as square"
        in_float32 = command(model.file, "convert", float32="norms")
        told = f"notice: {short}: x^2 overflows for |x| > 255.9; {in_float32}"
        yield "  ", told
    yield from (("  ", f"notice: {doubt}") for doubt in model.doubts)


def _of_data(data: NetworkData, nodes: int) -> str:
    """Return how many nodes leave float16 on the given data."""
    seen = data.nodes.values()
    beyond = sum(each.overflows("float16") for each in seen)
    verb = "overflows" if beyond == 1 else "overflow"
    parts = [f"{count_of(len(seen), 'node')} looked at, {beyond} of them {verb} in float16"] if nodes else []
    if data.others or not nodes:
        others = count_of(len(data.others), "other node" if nodes else "node")
        parts.append(f"{others} {'leaves' if len(data.others) == 1 else 'leave'} float16")
    if data.inputs:
        parts.append(f"float16 does not hold numbers of the inputs: {few(map(printable, data.inputs))}")
    if nodes > len(seen):
        left = count_of(nodes - len(seen), "node")
        parts.append(f"{left} not looked at: in functions, or in branches that the data do not reach")
    return f"data ({count_of(data.samples, 'sample')}): {'; '.join(parts)}"


def _nodes(model: ModelReport, *, with_right: bool) -> Iterator[Part]:
    """Give the nodes with the gravest verdict and the findings; the nodes that are right last, if at all.

    Nodes that differ only in their names and constants are grouped.
    """
    others = (*model.declarations, *model.of_others)
    if others:
        yield "", ""
    for finding in others:
        yield f"{model.file}: {WORDS[finding.kind]}: ", str(finding.node)
        yield "  ! ", finding.about
    together: dict[Hashable, tuple[list[Told], list[NodeReport]]] = {}
    for node, found in zip(model.nodes, model.of_nodes, strict=True):
        told = [(each.kind, each.about) for each in (*found, *model.within(node))]
        if told or with_right:
            own = of_constant(node)
            texts = tuple((kind, text.replace(own, "")) for kind, text in told)
            alike = node.is_prelu, texts or node.without_findings
            together.setdefault(alike, (told, []))[1].append(node)
    for told, nodes in sorted(together.values(), key=lambda each: not each[0]):
        gravest = min((kind for kind, _ in told), key=_GRAVEST.index, default=nodes[0].without_findings)
        many = f"{len(nodes)} nodes: " if len(nodes) > 1 else ""
        yield "", ""
        yield f"{model.file}: {WORDS[gravest]}: {many}", few(node.label for node in nodes)
        if len(nodes) == 1 and nodes[0].inputs:
            (node,) = nodes
            given = [f"{name}={shown(value)}" for name, value in node.attributes.items()]
            operands = ", ".join([*map(str, node.inputs), *given])
            yield "  ", f"{node.operator} ({node.asked}): {operands} gives {node.output}"
        constants = few(dict.fromkeys(node.second.text or "" for node in nodes))
        own, every = of_constant(nodes[0]), of_constant(nodes[0], constants)
        for kind, about in told:
            yield "  ~ " if kind == "within" else "  ! ", about.replace(own, every)


def _remedies(model: ModelReport) -> dict[str, list[str]]:
    """Return for each remedy its reasons, with their nodes where not all have the same."""
    remedies: dict[str, dict[str, dict[str, None]]] = {}
    for finding in (*model.findings, *chain.from_iterable(map(model.within, model.nodes))):
        if finding.to_do is not None:
            remedy, _, reason = finding.to_do.partition(": ")
            remedies.setdefault(remedy, {}).setdefault(reason, {})[str(finding.node)] = None
    named = len(remedies) > 1 or any(len(nodes_by_reason) > 1 for nodes_by_reason in remedies.values())
    reasons = {
        remedy: [": ".join(filter(None, (few(nodes) * named, reason))) for reason, nodes in entries.items()]
        for remedy, entries in remedies.items()
    }
    return {remedy: list(filter(None, texts)) for remedy, texts in reasons.items()}


def _notices(model: ModelReport) -> Iterator[Part]:
    """Give each remark once, with its nodes."""
    together: dict[str, list[str]] = {}
    for node in model.nodes:
        for notice in node.notices:
            together.setdefault(notice, []).append(node.label)
    if together:
        yield "", ""
    for notice, labels in together.items():
        yield f"{model.file}, {few(labels)}: ", f"notice: {notice}"


def _wrapped(text: str, start: str, width: int) -> list[str]:
    """Return a text in lines; the first has a start, the others are indented. A command is not wrapped."""
    if not text or text.startswith("halfulp "):
        return [start + text]
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=start,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# --- as a page -----------------------------------------------------------------------------------


def _page(report: AuditReport) -> Page:
    verdicts = [(model.file, "", model.error) for model in report.models if model.error is not None]
    for said in sorted(report.summaries, key=lambda said: min(map(_WORST.index, said.outcomes))):
        runtime, _, verdict = str(said).partition(": ")
        verdicts.append((said.file, runtime, verdict))
    for model in report.models:
        if model.error is None and not model.nodes:
            verdicts.append((model.file, "", "no Pow, no PRelu"))
        if model.data is not None:
            verdicts.append((model.file, "", _of_data(model.data, len(model.nodes))))
    sections = [Section("Verdicts", (Table(("model", "runtime", "verdict"), tuple(verdicts)),))]
    remedies: list[Block] = []
    for model in report.models:
        for remedy, reasons in _remedies(model).items() if model.error is None else ():
            remedies += [Code(remedy, ""), *[Bullets(tuple(reasons))] * bool(reasons)]
    if remedies:
        sections.append(Section("Do this", tuple(remedies)))
    for model in report.models:
        parts = chain(_nodes(model, with_right=len(report.models) == 1), _notices(model))
        wrapped = chain.from_iterable(_wrapped(text, start, PAGE_WIDTH) for start, text in parts)
        if model.error is None and (text := "\n".join(wrapped).strip()):
            sections.append(Section(f"Nodes of {model.file}", (Code(text, ""),)))
    return Page("halfulp audit", ", ".join(report._counts()), tuple(sections))
