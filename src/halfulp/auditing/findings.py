"""The results of an audit for models and nodes: findings, remedies, and the answer for each runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

from halfulp.auditing.convert import Ways
from halfulp.auditing.data import NetworkData, NodeData
from halfulp.auditing.node import Breach, Use
from halfulp.auditing.target import BAD, GROUPS, LOADERS, Asked, Statement
from halfulp.conversion.repair import INFINITE
from halfulp.errors import command, in_shell, output_of
from halfulp.models.graph import listed
from halfulp.specs import ids


@dataclass(frozen=True)
class Finding:
    """One thing to act on.

    Its kind is ``file``: it can't be read; ``clause``: the node breaks its document; ``shape``: it is valid
    only for one size of an unknown dim; ``declaration``: the file declares its output otherwise than it is,
    or it reads several types where its operator takes one;
    ``range``: the data leaves a type there; ``refused``, ``wrong``, ``crashed``, ``hung``: the target's
    result; ``depends``: the target's bits depend on more than the operands.
    """

    file: str  # the model, relative to the folder where one was audited
    node: str | None  # as messages name it; None for a finding about the file
    kind: str
    target: str | None  # the runtime, where it concerns one
    clause: str | None  # the clause that is broken, where one is
    text: str  # the finding, in a line
    to_do: str | None = None  # the remedy; None if the file itself has to be corrected
    grade: str | None = None  # how ordinary the operands are that show a runtime's fault; None if not known

    @property
    def about(self) -> str:
        """The finding with its target or clause, without the place."""
        target = f"{self.target}: {self.kind}: " if self.target else ""
        cited = f" ({self.clause})" if self.clause else ""
        return f"{target}{self.text}{cited}"

    def __str__(self) -> str:
        where = self.file if self.node is None else f"{self.file}: node {self.node}"
        return f"{where}: {self.about}"


@dataclass(eq=False, kw_only=True)
class NodeReport(Use):
    """A Pow or PRelu node, and the results for it."""

    breaks: tuple[Breach, ...]  # the clauses that it breaks
    targets: tuple[Statement, ...]  # the statement about it for each target
    only_if: str | None = None  # the condition on an unknown shape under which it is valid, if any
    notices: tuple[str, ...] = ()  # remarks about a node that has no errors

    @property
    def without_findings(self) -> str:
        """The outcome of a node without findings: valid where no runtime was judged."""
        if not self.targets:
            return "valid"
        verdicts = {said.verdict for said in self.targets}
        return "unknown" if "unknown" in verdicts else "wider" if "wider" in verdicts else "right"


@dataclass
class ModelReport:
    """A file, its Pow and PRelu nodes, and the runtimes that judge them."""

    file: str  # as messages name it
    format: str  # "onnx" or "openvino"
    nodes: tuple[NodeReport, ...] = ()  # in the file's order
    error: str | None = None  # why it could not be read; None where it could
    targets: tuple[Asked, ...] = ()  # the runtimes
    ways: Ways = field(default_factory=Ways)  # the repairs and conversions that help the model
    data: NetworkData | None = None  # the effect of the inputs on it; None without inputs
    unread: tuple[str, ...] = ()  # the parts that an audit cannot look into
    norms: int = 0  # the number of float16 norms that it writes out without a Pow as square
    has_bodies: bool = False  # whether in loops and branches the data was looked at in Pow and PRelu only
    doubts: tuple[str, ...] = ()  # about operators that the model's opset lacks
    infinite: tuple[str, ...] = ()  # the products by an infinite constant of float16

    @property
    def is_broken(self) -> bool:
        """Whether a node breaks a clause, or contradicts the types around it."""
        return bool(self.ways.declared) or any(node.breaks for node in self.nodes)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, those about the file first."""
        broken = () if self.error is None else (Finding(self.file, None, "file", None, None, self.error),)
        return (*broken, *self.declarations, *self.of_others, *chain.from_iterable(self.of_nodes))

    @property
    def declarations(self) -> Iterator[Finding]:
        """The findings about values whose type is not the one that their nodes give or take."""
        to_do = command(self.file, "repair") if self.ways.is_valid else "correct the model"
        for node, text in self.ways.declared.items():
            yield Finding(self.file, node, "declaration", None, None, text, to_do)

    @property
    def of_others(self) -> Iterator[Finding]:
        """The findings about nodes that are not powers."""
        for name in self.infinite:
            yield Finding(self.file, name, "range", None, None, INFINITE, command(self.file, "repair"))
        for node in self.data.others if self.data else ():
            for type, text in node.told():
                yield Finding(self.file, node.label, "range", None, None, text, about_range(self, node, type))

    @cached_property
    def of_nodes(self) -> list[tuple[Finding, ...]]:
        """The findings of each node."""
        return [tuple(_of_node(self, node)) for node in self.nodes]

    def within(self, node: NodeReport) -> Iterator[Finding]:
        """Give the targets in which a node is off by a few ulps at most. They are not among the findings."""
        for said in node.targets:
            if said.verdict == "within":
                text = f"up to {said.max_ulp:g} ulp" if said.max_ulp else _ZEROS
                yield Finding(
                    self.file, node.label, "within", said.target, None, text, about_target(self, node, said)
                )

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """The answer for each target, in order; none for a model without Pow and PRelu."""
        targets = enumerate(self.targets) if self.nodes else ()
        return tuple(_summary(self, index, target) for index, target in targets)


def _of_node(model: ModelReport, node: NodeReport) -> Iterator[Finding]:
    told = partial(Finding, model.file, node.label)
    for breach in node.breaks:
        yield told("clause", None, breach.clause, breach.message, about_clause(model, node))
    seen = None if model.data is None else model.data.nodes.get(node.label)
    if seen is not None:
        for type, text in seen.told():
            yield told("range", None, None, text, about_range(model, seen, type, node.output.name))
    if node.only_if is not None:
        text = f"the slope fits only if {node.only_if}"
        yield told("shape", None, None, text, about_clause(model, node))
    for said in node.targets:
        if not said.is_finding:
            continue
        to_do = about_target(model, node, said)
        if to_do in _EXACT.values() and seen is not None and seen.overflows(seen.type):
            first = f"first convert the model as the finding about {seen.type} says"
            to_do = f"{first}: an exact power overflows too"
        if said.verdict in BAD:
            text = "; ".join(said.reasons) or said.verdict
            grade = "support" if said.verdict == "refused" else said.grade
            yield told(said.verdict, said.target, None, text, to_do, grade)
        if said.depends:
            text = f"the bits of a result depend on {', '.join(said.depends)}"
            yield told("depends", said.target, None, text, to_do, "reproducibility")


# --- remedies ------------------------------------------------------------------------------------

_EXACT = {
    "onnxruntime": "halfulp.integrations.onnxruntime.session(model) computes it exactly within ONNX Runtime",
    "openvino": "halfulp.integrations.openvino.replace(model) computes it exactly within OpenVINO",
    "torch": "halfulp.integrations.torch.replace(module) computes it exactly within PyTorch",
    "jax": "halfulp.integrations.jax has pow and prelu that are exact within JAX",
    "numpy": "hu.pow and hu.prelu are exact on NumPy's arrays",
}
_ELSE = "halfulp run computes it exactly"
_NARROWED = ("float64", "int64", "uint64")  # by OpenVINO's CPU plugin, whatever the operators


def about_clause(model: ModelReport, node: NodeReport) -> str:
    """Return the remedy for a node that breaks its specification."""
    ways = model.ways
    why = ways.left.get(node.label)
    if why is not None and "--slopes" in why:
        return f"{command(model.file, 'repair')} needs a choice: {why}"
    if why is not None:
        return f"halfulp repair does not know how it is meant: {why}"
    if ways.repaired or ways.is_valid:
        what = ways.repaired.get(node.label)
        return command(model.file, "repair") + (f": {what}" if what else "")
    if ways.error:
        return f"halfulp repair refuses the model: {ways.error}"
    shown = f"; halfulp spec {node.operator} shows its clauses" if node.operator in ids() else ""
    return f"correct the model{shown}"


def about_range(model: ModelReport, found: NodeData, type: str, output: str | None = None) -> str:
    """Return the remedy for a node whose data leaves a type; ``output`` is a power's result."""
    if found.type != type:
        return f"keep it in {found.type} when the model goes to {type}: --blocklist TOOL prints the list for a tool"
    if not found.region:
        return f"nothing of {type} holds such results: scale the data, or give this part another type"
    nodes = _in_float32(model, type)
    to_do = command(model.file, "convert", float32=nodes)
    if found.divisions_by_zero:
        epsilon = "set the norm's epsilon to that of the original network: float16 holds none below 6e-08"
        return f"{to_do}: then {epsilon}, and float32 does"
    if output not in model.ways.fused or nodes != "norms":
        return to_do
    option = 'fuse="norms"' if model.file.startswith("<") else "--fuse norms"
    return f"{to_do}: or {option} in its place, for one operator that runtimes compute in float32"


def _in_float32(model: ModelReport, type: str) -> str:
    """Return the nodes that the data require in float32, in the form of ``convert --float32``."""
    assert model.data is not None
    seen = (*model.data.nodes.values(), *model.data.others)
    found = [each for each in seen if each.overflows(type) or (type == "float16" and each.divisions_by_zero)]
    if all(each.is_in_norm for each in found):
        return "norms"
    return ",".join(dict.fromkeys(name for each in found for name in each.region))


def about_target(model: ModelReport, node: NodeReport, said: Statement) -> str:
    """Return the remedy for a finding about a node in a target.

    If the target does not take the node unchanged, or its only error is to broadcast differently, a
    conversion helps, provided that the whole model can be converted. Everything else needs other kernels.
    """
    taken_otherwise = said.verdict in ("refused", "crashed", "hung") or (
        said.groups == ("broadcast",) and not said.depends
    )
    ways, alone = model.ways, said.conversion
    if taken_otherwise and said.is_helped and alone is not None and said.target not in ways.refused:
        changes = ways.converted.get(said.target, alone.steps)
        own = (replace(change, node="") for change in changes if change.node in ("", node.label, model.file))
        steps = "; ".join(map(str, own))
        if not steps and node.label in ways.repaired:
            return about_clause(model, node)
        to_do = command(model.file, "convert", target=said.target)
        if ways.is_valid:
            to_do = to_do.replace("(model", "(hu.repair(model).model")
            to_do = to_do.replace(f" {in_shell(model.file)} ", f" {output_of('repair', model.file)} ")
        if said.target == "onnxruntime" and "bfloat16" in steps:
            option = 'float32="all"' if model.file.startswith("<") else "--float32 all"
            steps += f"; or {option} in its place, where it takes no other node in bfloat16 either"
        if "--slopes channel" in ways.left.get(node.label, ""):
            to_do, last = command(model.file, "repair", slopes="channel"), to_do
            steps = f"if the slopes are the channels', as behind a Conv; if they go along the last dim, {last}: {steps}"
        return f"{to_do}: {steps}"
    if said.target == "openvino" and any(each.type in _NARROWED for each in node.inputs):
        return _ELSE
    to_do = _EXACT.get(said.target, _ELSE)
    is_wide = model.data is None and node.inputs[0].type == "float16" and not node.is_alone
    if is_wide and said.target in LOADERS["onnx"] and model.format == "onnx":
        # These runtimes compute such networks in float32. Exact powers of float16 may overflow in them.
        in_float32 = command(model.file, "convert", float32="norms" if node.mistaken else "all")
        to_do = f"{in_float32}: then {to_do}; in float16 an exact power may overflow"
    return to_do


# --- the answer for a model and a runtime ---------------------------------------------------------

_ZEROS = "zeros may have another sign"

OUTCOMES = ("right", "within", "wider", *BAD, "depends", "invalid", "shape", "unknown")
"""The possible outcomes of a node in a runtime."""

WORDS = {
    **{kind: kind for kind in (*OUTCOMES, "valid")},
    "wider": "right in float32",
    "depends": "not reproducible",
    "shape": "valid for some shapes",
    "unknown": "not known",
    "clause": "invalid",
    "declaration": "invalid",
    "range": "out of range",
}
"""The words for outcomes and for kinds of findings."""


def few(names: Iterable[str]) -> str:
    """Return the first names, and how many there are besides."""
    return listed(names, 6)


@dataclass(frozen=True)
class Summary:
    """The outcomes of a model's nodes in a runtime."""

    file: str  # the model
    target: str  # the runtime
    version: str | None  # the measured version that speaks for it; None where none was measured
    nodes: int  # how many Pow and PRelu nodes the model has
    outcomes: Mapping[str, int]  # the number of nodes for each key of OUTCOMES, without zeros
    causes: Mapping[str, tuple[str, ...]]  # the reasons for each outcome, in few words
    max_ulp: float | None = None  # how far off the nodes that are "within" may be; None if there are none
    asked: str | None = None  # the version asked for or installed, if any

    @property
    def is_right(self) -> bool:
        """Whether each node is known to give the bits of the exact result."""
        return set(self.outcomes) <= {"right"}

    @property
    def text(self) -> str:
        """The line, without the runtime's name."""
        parts = []
        for outcome in filter(self.outcomes.__contains__, OUTCOMES):
            number, causes = self.outcomes[outcome], self.causes.get(outcome)
            because = f" ({few(causes)})" if causes else ""
            if outcome == "within":
                because = f" {self.max_ulp:g} ulp" if self.max_ulp else f": {_ZEROS}"
            many = f"all {number} nodes" if number == self.nodes else f"{number} of {self.nodes} nodes"
            parts.append(f"{'its one node' if self.nodes == 1 else many} {WORDS[outcome]}{because}")
        return "; ".join(parts)

    def __str__(self) -> str:
        version = "" if self.version is None else f" {self.asked or self.version}"
        measured = (
            f" (measured: {self.version})" if version and self.asked not in (None, self.version) else ""
        )
        return f"{self.target}{version}{measured}: {self.text}"


def _summary(model: ModelReport, index: int, target: Asked) -> Summary:
    outcomes: Counter[str] = Counter()
    causes: dict[str, dict[str, None]] = {}
    ulps = []
    for node in model.nodes:
        said = node.targets[index]
        outcome = _outcome(node, said)
        outcomes[outcome] += 1
        causes.setdefault(outcome, {}).update(dict.fromkeys(_causes(node, said, outcome)))
        if outcome == "within" and said.max_ulp is not None:
            ulps.append(said.max_ulp)
    measured = target.spoken_for_by(model.format)
    return Summary(
        model.file,
        target.name,
        None if measured is None else measured.version,
        len(model.nodes),
        outcomes,
        {outcome: tuple(why) for outcome, why in causes.items() if why},
        max(ulps, default=None),
        target.version,
    )


def _outcome(node: NodeReport, said: Statement) -> str:
    if node.breaks:
        return "invalid"
    if node.only_if is not None:
        return "shape"
    if said.verdict in BAD or said.verdict == "unknown":
        return said.verdict
    if said.depends:
        return "depends"
    return said.verdict if said.verdict in ("within", "wider") else "right"


def _causes(node: NodeReport, said: Statement, outcome: str) -> tuple[str, ...]:
    """Return the reason for a node's outcome, in few words."""
    if outcome in ("right", "within", "wider"):
        return ()
    if outcome in ("invalid", "shape"):
        return said.reasons
    if outcome == "depends":
        return tuple(f"by {aspect}" for aspect in said.depends)
    if outcome == "unknown":
        typed = all(operand.type is not None for operand in node.inputs)
        return ("not measured" if typed else "the type of an input is not known",)
    if not said.groups:
        types = dict.fromkeys(operand.type for operand in node.inputs if operand.type is not None)
        return (" and ".join(types),) if types else ()
    if outcome == "wrong" and said.groups == ("broadcast",) and node.is_prelu:
        return ("slopes along the wrong dim",)
    found = {"constant": _constant(node), "opset": f"opset {node.asked}"}
    return tuple(found.get(group) or GROUPS.get(group, group) for group in said.groups)


def _constant(node: NodeReport) -> str:
    if node.is_prelu:
        return "the constant slopes"
    exponent = node.inputs[-1].text if len(node.inputs) == 2 else node.attributes.get("Exponent")
    return "the constant exponent" if exponent is None else f"the exponent {exponent}"
