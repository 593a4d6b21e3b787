"""The report of an audit: as Python's objects, as JSON, as lines of text, as an HTML page."""

import json
import math
import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from textwrap import TextWrapper
from types import NoneType
from typing import Any

from halfulp.auditing.data import Limits, NetworkData, NodeData, Range
from halfulp.auditing.findings import GRAVEST, WORDS, WORST, ModelReport, Summary, few
from halfulp.auditing.target import Asked, Conversion, Statement, of_constant
from halfulp.auditing.uses import Breach, Operand, Use
from halfulp.conversion.editor import Change
from halfulp.errors import Finding, HalfulpError, Printed, command, count_of, did_you_mean, printable
from halfulp.installed import version_of
from halfulp.pages import WIDTH as PAGE_WIDTH
from halfulp.pages import Block, Code, Page, Table, document, html

SCHEMA = "halfulp.audit/1"
WIDTH = 80

Part = tuple[str, str]  # the start of a line, and a text that is wrapped after it


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
        leaving: list[tuple[str, NodeData]] = []
        for model in self.models:
            if model.data is None:
                none = "no data was looked at"
                broken = (each for each in model.findings if each.kind in ("clause", "declaration"))
                why = map(f"{none}, because the model is broken: {{}}".format, broken)
                raise HalfulpError(next(why, f"{model.file}: {none}"))
            leaving += [(f"{model.file}: node {node.label}", node) for node in model.data.leaving("float16")]
        names = dict.fromkeys(name for _, node in leaving for name in node.region)
        if leaving and not names:
            expected = "smaller data, or another type for this part"
            raise HalfulpError(f"{leaving[0][0]}: nothing of float16 holds its results", expected=expected)
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
        return text(self)

    def _counts(self) -> list[str]:
        nodes = sum(len(model.nodes) for model in self.models)
        counts = {"model": len(self.models), "node": nodes, "finding": len(self.findings)}
        return [count_of(number, noun) for noun, number in counts.items()]


# --- as a list for other tools ---------------------------------------------------------------------


_TENSORRT = "# TensorRT 10 and older. TensorRT 11 has no such options: it computes in the model's types.\n"
_REFUSED_SIGNS = {"json": None, "trtexec": ",'\"", "polygraphy": ""}
"""For each tool the signs that it takes in no name; None if it takes all."""


def _blocklist(tool: str, names: list[str]) -> str:
    if tool not in _REFUSED_SIGNS:
        raise HalfulpError(f"no list is known for {tool[:80]}; {did_you_mean(tool, _REFUSED_SIGNS)}")
    signs = _REFUSED_SIGNS[tool]
    for name in names:
        if name.startswith("#"):
            raise HalfulpError(
                f"node {name} has no name, and tools know nodes by their names",
                expected="a name for each node: in Python, node.name = node.name or node.output[0]; a float16 network"
                " needs no names for halfulp convert --float32 norms",
            )
        if signs is not None and (not name.isprintable() or {*name} & {*signs}):
            got = printable(name)
            raise HalfulpError(f"{tool} takes no layer's name with a comma or such a sign", got=got)
    if tool == "json":
        return json.dumps(names)
    if not names:
        return "# Nothing to do: with these data, float16 holds the results of every node that was looked at."
    if tool == "polygraphy":
        pairs = " ".join(shlex.quote(f"{name}:float32") for name in names)
        converts = "polygraphy convert model.onnx --output model.plan --fp16 --precision-constraints obey"
        return f"{_TENSORRT}{converts} --layer-precisions {pairs}"
    pairs = ",".join(f"{name}:fp32" for name in names)  # quotation marks would become part of the names
    options = shlex.quote(f"--layerPrecisions={pairs}"), shlex.quote(f"--layerOutputTypes={pairs}")
    return f"{_TENSORRT}trtexec --onnx=model.onnx --fp16 --precisionConstraints=obey {' '.join(options)}"


# --- as JSON -------------------------------------------------------------------------------------

# The members of each kind of object; after "=", the attribute of another name that a member has its value from.
_MEMBERS: Mapping[type, str] = {
    Asked: "name asked=version installed measured=measured.version date=measured.date mode=measured.mode",
    Breach: "clause message",
    Change: "what differs",
    Conversion: "steps refused",
    Finding: "file node kind target clause text to_do grade",
    Limits: "overflow zero",
    ModelReport: "file format error runtimes=summaries nodes data unread norms",
    NetworkData: "samples nodes norms=others inputs",
    NodeData: "node=label operator type exponent base result types=of_types lost absorbed region",
    Operand: "name type shape constant=text",
    Range: "elements nan infinite zeros least greatest",
    Statement: "target verdict max_ulp reasons depends accepts conversion grade",
    Summary: "target version right=is_right outcomes causes max_ulp text",
    Use: "node=label operator asked inputs output attributes breaks only_if notices targets",
}


def _plain(value: Any) -> Any:
    if (members := _MEMBERS.get(type(value))) is not None:
        parts = (member.partition("=") for member in members.split())
        paths = {name: (path or name).split(".") for name, _, path in parts}
        return {
            name: _plain(reduce(lambda part, step: part and getattr(part, step), path, value))
            for name, path in paths.items()
        }
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON can't represent these as numbers
    return value if isinstance(value, str | int | float | NoneType) else printable(str(value))


# --- as text -------------------------------------------------------------------------------------


def text(report: AuditReport, width: int = WIDTH) -> str:
    """Return a report in lines of a width."""
    with_nodes = [model for model in report.models if model.nodes]
    sections: list[Iterable[Part]] = [chain.from_iterable(map(_answers, report.models))]
    for model in (model for model in report.models if model.error is None):
        sections += _nodes(model, with_right=len(report.models) == 1)
        if remedies := _remedies(model):
            steps = ((("  ", do), *(("    ", reason) for reason in why)) for do, why in remedies.items())
            sections.append([("Do this:", ""), *chain.from_iterable(steps)])
        sections.append(_notices(model))
    unmeasured = [target.name for target in report.targets if target.measured is None] if with_nodes else []
    end = [("", f"{name}: not measured; its documents say which nodes it accepts") for name in unmeasured]
    if not report.findings and len(with_nodes) == 1 and with_nodes[0].elsewhere:
        convert = command(with_nodes[0].file, "convert", **with_nodes[0].elsewhere)
        end.append(("if another runtime refuses it, or differs: ", convert))
    models, nodes, findings = report._counts()
    end.append((f"{models}, {len(with_nodes)} with Pow or PRelu; {nodes}, {findings}", ""))
    return _joined(sections, width) + "\n" * (1 + bool(with_nodes)) + _joined([end], width)


def _joined(sections: Iterable[Iterable[Part]], width: int) -> str:
    """Return sections with an empty line between them."""
    wrapped = ([line for part in section for line in _wrapped(*part, width)] for section in sections)
    return "\n\n".join("\n".join(lines) for lines in wrapped if lines)


def _answers(model: ModelReport) -> Iterator[Part]:
    """Give a model's name, a line for each runtime, and remarks about the whole model."""
    if model.error is not None:
        yield f"{model.file}: ", f"! {model.error}"
    elif not model.nodes:
        rest = " in the parts that were looked into" if model.unread else ""
        yield f"{model.file}: no Pow, no PRelu{rest}", ""
    else:
        yield f"{model.file}: {count_of(len(model.nodes), 'node')}", ""
    texts = [*map(str, model.summaries)]
    if model.data is not None and (model.nodes or model.data.samples):
        texts.append(_of_data(model.data, len(model.nodes)))
    if model.has_bodies:
        bodies = "in the bodies of If, Loop and Scan"
        texts.append(f"notice: {bodies} the data was looked at in Pow and PRelu only")
    if model.unread:
        texts.append(f"not looked into: {few(model.unread)}")
    if model.norms:
        short = f"{count_of(model.norms, 'norm')} in float16, without a Pow as square"
        in_float32 = command(model.file, "convert", float32="norms")
        texts.append(f"notice: {short}: x^2 overflows for |x| > 255.9; {in_float32}")
    for text in (*texts, *(f"notice: {doubt}" for doubt in model.doubts)):
        yield "  ", text


def _of_data(data: NetworkData, nodes: int) -> str:
    parts = []
    if nodes:
        beyond = sum(node.overflows("float16") for node in data.nodes)
        verb = "overflows" if beyond == 1 else "overflow"
        parts.append(f"{count_of(len(data.nodes), 'node')} looked at, {beyond} of them {verb} in float16")
    if data.others or not nodes:
        others = count_of(len(data.others), "other node" if nodes else "node")
        parts.append(f"{others} {'leaves' if len(data.others) == 1 else 'leave'} float16")
    if data.inputs:
        parts.append(f"float16 does not hold numbers of the inputs: {few(map(printable, data.inputs))}")
    if unseen := nodes - len(data.nodes):
        why = "in functions, or in branches that the data do not reach"
        parts.append(f"{count_of(unseen, 'node')} not looked at: {why}")
    return f"data ({count_of(data.samples, 'sample')}): {'; '.join(parts)}"


def _nodes(model: ModelReport, *, with_right: bool) -> Iterator[Iterable[Part]]:
    """Give sections with a verdict and the findings; that of the nodes that are right last, if at all."""
    of_file = list[Part]()
    for finding in model.of_file:
        of_file += (f"{model.file}: {WORDS[finding.kind]}: ", str(finding.node)), ("  ! ", finding.about)
    yield of_file
    groups: dict[Hashable, tuple[list[Finding], list[Use]]] = {}  # that differ in names and constants only
    for node, findings in zip(model.nodes, model.of_nodes, strict=True):
        if findings or with_right:
            constant = of_constant(node)
            texts = tuple((finding.kind, finding.about.replace(constant, "")) for finding in findings)
            alike = node.is_prelu, texts or node.without_findings
            groups.setdefault(alike, ([*findings], []))[1].append(node)
    for group in sorted(groups.values(), key=lambda group: not group[0]):
        yield _group(model, *group)


def _group(model: ModelReport, findings: list[Finding], nodes: list[Use]) -> Iterator[Part]:
    """Give the nodes that are alike, with the findings about the first one."""
    node, *others = nodes
    kinds = [finding.kind for finding in findings]
    gravest = min(kinds, key=GRAVEST.index, default=node.without_findings)
    many = f"{len(nodes)} nodes: " * bool(others)
    yield f"{model.file}: {WORDS[gravest]}: {many}", few(node.label for node in nodes)
    if node.inputs and not others:
        attributes = [f"{name}={printable(str(value))}" for name, value in node.attributes.items()]
        operands = ", ".join([*map(str, node.inputs), *attributes])
        yield "  ", f"{node.operator} ({node.asked}): {operands} gives {node.output}"
    constants = few(dict.fromkeys(node.second.text or "" for node in nodes))
    first, all_constants = of_constant(node), of_constant(node, constants)
    for finding in findings:
        yield "  ~ " if finding.kind == "within" else "  ! ", finding.about.replace(first, all_constants)


def _remedies(model: ModelReport) -> dict[str, list[str]]:
    """Return for each remedy its reasons, with their nodes where not all have the same."""
    remedies: dict[str, dict[str, dict[str, None]]] = {}
    findings = chain(model.of_file, *model.of_nodes)
    ranks = {"clause": 0, "within": 2}  # a repair comes before the conversion of what it makes
    for finding in sorted(findings, key=lambda finding: ranks.get(finding.kind, 1)):
        if finding.remedy is not None:
            reasons = remedies.setdefault(finding.remedy.action, {})
            reasons.setdefault(finding.remedy.reason, {})[str(finding.node)] = None
    named = len(remedies) > 1 or any(len(reasons) > 1 for reasons in remedies.values())
    texts = {
        action: [": ".join(filter(None, (few(nodes) * named, reason))) for reason, nodes in reasons.items()]
        for action, reasons in remedies.items()
    }
    return {action: list(filter(None, reasons)) for action, reasons in texts.items()}


def _notices(model: ModelReport) -> list[Part]:
    """Return each remark once, with its nodes."""
    labels: dict[str, list[str]] = {}
    for node in model.nodes:
        for notice in node.notices:
            labels.setdefault(notice, []).append(node.label)
    return [(f"{model.file}, {few(labels[notice])}: ", f"notice: {notice}") for notice in labels]


def _wrapped(start: str, text: str, width: int) -> list[str]:
    """Return a text in lines; the first has a start, the others are indented. A command is not wrapped."""
    if not text or text.startswith("halfulp "):
        return [start + text]
    wrapper = TextWrapper(max(width, 40), start, "    ", break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)


# --- as a page -----------------------------------------------------------------------------------


def _page(report: AuditReport) -> Page:
    remedies: list[Block] = []
    nodes: dict[str, tuple[Block, ...]] = {}
    for model in (model for model in report.models if model.error is None):
        for remedy, reasons in _remedies(model).items():
            remedies += [Code(remedy, ""), *[reasons] * bool(reasons)]
        sections = [*_nodes(model, with_right=len(report.models) == 1), _notices(model)]
        if listed := _joined(sections, PAGE_WIDTH):
            nodes[f"Nodes of {model.file}"] = (Code(listed, ""),)
    verdicts = Table(("model", "runtime", "verdict"), tuple(_verdicts(report)))
    page = {"Verdicts": (verdicts,), "Do this": tuple(remedies), **nodes}
    filled = {heading: blocks for heading, blocks in page.items() if blocks}
    return Page("halfulp audit", ", ".join(report._counts()), filled)


def _verdicts(report: AuditReport) -> Iterator[tuple[str, str, str]]:
    """Give the verdicts, those of runtimes with the worst first."""
    yield from ((model.file, "", model.error) for model in report.models if model.error is not None)
    for summary in sorted(report.summaries, key=lambda summary: min(map(WORST.index, summary.outcomes))):
        runtime, _, verdict = str(summary).partition(": ")
        yield summary.file, runtime, verdict
    for model in report.models:
        if model.error is None and not model.nodes:
            yield model.file, "", "no Pow, no PRelu"
        if model.data is not None:
            yield model.file, "", _of_data(model.data, len(model.nodes))
