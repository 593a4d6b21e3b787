"""The results of an audit for models and nodes: findings, remedies, and the answer for each runtime."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter

import numpy as np

from halfulp.auditing.data import NetworkData, NodeData, limits
from halfulp.auditing.target import BAD, GROUPS, LOADERS, Asked, Statement
from halfulp.auditing.uses import Use, number
from halfulp.conversion.editor import SIGNIFICANT, Change
from halfulp.conversion.repair import INFINITE, Left
from halfulp.errors import Finding, Remedy, command, in_shell, option, output_of
from halfulp.models.graph import listed
from halfulp.models.run.inputs import dtype_named
from halfulp.specs import ids
from halfulp.types import FLOATS, TYPES

WORST = ("invalid", *BAD, "depends", "shape", "unknown", "within", "wider", "right")
"""The outcomes of a node in a runtime, the worst first."""

GRAVEST = ("clause", "crashed", "hung", "refused", "wrong", "range", "depends", "shape", "within")
"""The kinds of findings about nodes, the gravest first."""

WORDS = {
    "right": "right",
    "within": "within",
    "wider": "right in float32",
    **{verdict: verdict for verdict in BAD},
    "depends": "not reproducible",
    "invalid": "invalid",
    "shape": "valid for some shapes",
    "unknown": "not known",
    "valid": "valid",
    "clause": "invalid",
    "declaration": "invalid",
    "range": "out of range",
}
"""The words for outcomes, in the order of a summary, and for kinds of findings."""


@dataclass
class ModelReport:
    """A file, its Pow and PRelu nodes, the runtimes that judge them, and the conversions tried on the whole model."""

    file: str  # as messages name it
    format: str  # "onnx" or "openvino"
    nodes: tuple[Use, ...] = ()  # in the file's order
    error: str | None = None  # why it could not be read; None where it could
    targets: tuple[Asked, ...] = ()  # the runtimes
    data: NetworkData | None = None  # the effect of the inputs on it; None without inputs
    unread: tuple[str, ...] = ()  # the parts that an audit cannot look into
    norms: int = 0  # the number of float16 norms that it writes out without a Pow as square
    has_bodies: bool = False  # whether in loops and branches the data was looked at in Pow and PRelu only
    doubts: tuple[str, ...] = ()  # about operators that the model's opset lacks
    infinite: tuple[str, ...] = ()  # the products by an infinite constant of float16
    declared: Mapping[str, str] = field(default_factory=dict)  # by node: the finding about its types
    repaired: Mapping[str, str] = field(default_factory=dict)  # the changes of hu.repair, by node
    left: Mapping[str, Left] = field(default_factory=dict)  # the nodes that it does not repair
    is_valid: bool = False  # whether the repaired model is valid
    unrepaired: str = ""  # why the model can't be repaired at all
    converted: dict[str, Sequence[Change]] = field(default_factory=dict)  # by target: the model's changes
    elsewhere: Mapping[str, str] = field(default_factory=dict)  # options of a conversion for any runtime
    fused: frozenset[str] = frozenset()  # the results of the nodes that fusing norms takes away

    @property
    def is_broken(self) -> bool:
        """Whether a node breaks a clause, or contradicts the types around it."""
        return bool(self.declared) or any(node.breaks for node in self.nodes)

    @cached_property
    def of_file(self) -> list[Finding]:
        """The findings about the file and about nodes that are not powers."""
        finding, repair = partial(Finding, self.file), Remedy(command(self.file, "repair"))
        corrected = repair if self.is_valid else Remedy("correct the model")
        others = self.data.others if self.data else ()
        return [
            *([] if self.error is None else [finding(None, "file", self.error)]),
            *(finding(node, "declaration", text, corrected) for node, text in self.declared.items()),
            *(finding(node, "range", INFINITE, repair) for node in self.infinite),
            *chain.from_iterable(_out_of_range(self, node) for node in others),
        ]

    @cached_property
    def of_nodes(self) -> list[list[Finding]]:
        """The findings of each node, and the targets in which it is off by a few ulps at most."""
        return [list(_of_node(self, node)) for node in self.nodes]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, those about the file first."""
        every = chain(self.of_file, *self.of_nodes)
        return tuple(finding for finding in every if finding.kind != "within")

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """The answer for each target, in order; none for a model without Pow and PRelu."""
        targets = enumerate(self.targets) if self.nodes else ()
        return tuple(_summary(self, index, target) for index, target in targets)


# --- the findings, in the order of reports -----------------------------------------------------------


def _of_node(model: ModelReport, node: Use) -> Iterator[Finding]:
    """Give the findings about a node, and the targets in which it is off by a few ulps at most."""
    finding = partial(Finding, model.file, node.label)
    for breach in node.breaks:
        yield finding("clause", breach.message, about_clause(model, node), clause=breach.clause)
    if model.data is not None and node.data is not None:
        yield from _out_of_range(model, node.data, node.output.name)
    if node.only_if is not None:
        yield finding("shape", f"the slope fits only if {node.only_if}", about_clause(model, node))
    for said in filter(attrgetter("is_finding"), node.targets):
        remedy = about_target(model, node, said)
        if said.verdict in BAD:
            grade = "support" if said.verdict == "refused" else said.grade
            text = "; ".join(said.reasons) or said.verdict
            yield finding(said.verdict, text, remedy, said.target, grade=grade)
        if said.depends:
            text = f"the bits of a result depend on {', '.join(said.depends)}"
            yield finding("depends", text, remedy, said.target, grade="reproducibility")
    for said in filter(lambda said: said.verdict == "within", node.targets):
        text = f"up to {said.max_ulp:g} ulp" if said.max_ulp else _ZEROS
        yield finding("within", text, about_target(model, node, said), said.target)


def _out_of_range(model: ModelReport, node: NodeData, output: str | None = None) -> Iterator[Finding]:
    for type, text in node.losses():
        yield Finding(model.file, node.label, "range", text, about_range(model, node, type, output))


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


def about_clause(model: ModelReport, node: Use) -> Remedy | None:
    """Return the remedy for a node that breaks its specification."""
    if node.label in model.left:
        return model.left[node.label].remedy
    if model.repaired:
        return Remedy(command(model.file, "repair"), model.repaired.get(node.label, ""))
    if model.unrepaired:
        return Remedy("halfulp repair refuses the model", model.unrepaired)
    shown = f"; halfulp spec {node.operator} shows its clauses" if node.operator in ids() else ""
    return Remedy(f"correct the model{shown}")


def about_range(model: ModelReport, seen: NodeData, type: str, output: str | None = None) -> Remedy:
    """Return the remedy for a node whose data leaves a type; ``output`` is a power's result."""
    if seen.type != type:
        is_listed = (seen.type, type) == ("float32", "float16")
        prints = "--blocklist TOOL prints the list for a tool" if is_listed else ""
        return Remedy(f"keep it in {seen.type} when the model goes to {type}", prints)
    if not seen.region:
        way_out = "scale the data, or give this part another type"
        return Remedy(f"nothing of {type} holds such results", way_out)
    assert model.data is not None
    nodes = model.data.in_float32(type)
    reason = ""
    if seen.divisions_by_zero:
        epsilon = "then set the norm's epsilon to that of the original network"
        reason = f"{epsilon}: float16 holds none below 6e-08, and float32 does"
    elif output in model.fused and nodes == "norms":
        fuse = option(model.file, "fuse", "norms")
        reason = f"or {fuse} in its place, for one operator that runtimes compute in float32"
    return Remedy(command(model.file, "convert", float32=nodes), reason)


def about_target(model: ModelReport, node: Use, said: Statement) -> Remedy | None:
    """Return the remedy for a finding about a node in a target: a conversion, or other kernels."""
    if said.is_mended and said.target in model.converted:  # the whole model can be
        return _conversion(model, node, said)
    if said.target == "openvino" and any(operand.type in _NARROWED for operand in node.inputs):
        return Remedy(_ELSE)
    exact = _EXACT.get(said.target)
    seen = node.data if model.data is not None else None
    if exact and said.is_finding and seen and seen.region and seen.overflows(seen.type):
        first = f"first convert the model as the finding about {seen.type} says"
        return Remedy(first, "an exact result overflows too")
    is_wide = model.data is None and node.inputs[0].type == "float16" and not node.is_alone
    if is_wide and said.target in LOADERS["onnx"] and model.format == "onnx":
        # These runtimes compute such networks in float32. Exact powers of float16 may overflow in them.
        in_float32 = command(model.file, "convert", float32="norms" if node.mistaken else "all")
        return Remedy(in_float32, f"then {exact}; in float16 an exact power may overflow")
    return Remedy(exact or _ELSE)


def _conversion(model: ModelReport, node: Use, said: Statement) -> Remedy | None:
    """Return the conversion after which a target takes a node."""
    changes = model.converted[said.target]
    own = (replace(change, node="") for change in changes if change.node in ("", node.label, model.file))
    steps = "; ".join(map(str, own))
    if not steps:  # a repair of the node helps
        return about_clause(model, node)
    convert = command(model.file, "convert", target=said.target)
    if model.is_valid:
        convert = convert.replace("(model", "(hu.repair(model).model")
        convert = convert.replace(f" {in_shell(model.file)} ", f" {output_of('repair', model.file)} ")
    if said.target == "onnxruntime" and "bfloat16" in steps:
        in_float32 = option(model.file, "float32", "all")
        steps += f"; or {in_float32} in its place, where it takes no other node in bfloat16 either"
    if said.groups != ("broadcast",) or node.label not in model.left:
        return Remedy(convert, steps)
    choice = f"if the slopes are the channels', as behind a Conv; if they go along the last dim, {convert}: {steps}"
    return Remedy(command(model.file, "repair", slopes="channel"), choice)


# --- remarks about valid nodes ---------------------------------------------------------------------

_NEAR = 4  # ulp


def notices(use: Use, file: str, *, has_data: bool = False) -> Iterator[str]:
    """Give remarks about a valid node of a file whose constant is unlikely to be intended."""
    if use.is_prelu:
        yield from _of_slopes(use, file)
        return
    x, y = use.inputs[0].type, str(use.second.type)
    values = np.empty(0) if use.second.values is None else use.second.values
    fractions = values[np.isfinite(values) & (values != np.rint(values))]
    kept = (*fractions[:1], *values[values < 0][:1])
    truncating = [f"the power of {number(dtype_named(y).type(value))}" for value in kept]
    if use.second.constant is None and "float" in y:
        truncating = ["floating-point exponents"]
    if truncating and x in TYPES and x not in FLOATS:
        truncated = f"an integer base to {truncating[0]}: the result is truncated to {x}"
        yield f"{truncated}; cast the base to a float to keep the fraction, as torch and JAX do"
    ulp = np.exp2(np.frexp(fractions)[1] - SIGNIFICANT.get(y, 0))
    nearest = np.rint(fractions * 2) / 2
    near = (fractions != nearest) & (abs(fractions - nearest) <= _NEAR * ulp)
    if y in SIGNIFICANT and near.any():
        written, meant = number(dtype_named(y).type(fractions[near][0])), number(nearest[near][0])
        yield f"the exponent {written} is within {_NEAR} ulp of {meant}, and may be meant as that"
    exponent = use.exponents
    if exponent in (0, 1):
        yield "x^1 is x: the node changes nothing" if exponent else "x^0 is 1, of a NaN too"
    elif exponent is not None and x == "float16" and not has_data and math.isfinite(exponent):
        overflow = limits(exponent, "float16").overflow
        if overflow is not None:
            beyond = f"|x| {'>' if exponent > 0 else '<'} {overflow:.4g}"
            way_out = "give data with --input to see whether yours does"
            yield f"x^{exponent:g} overflows in float16 for {beyond}; {way_out}"


def _of_slopes(use: Use, file: str) -> Iterator[str]:
    slopes = use.second.values
    if slopes is None:
        return
    if slopes.tolist() in ([0], [1]):
        yield "a slope of 1: the node changes nothing" if slopes[0] else "a slope of 0: the node is a Relu"
    x, slope = use.inputs[0].shape or (), use.second.shape
    assert slope is not None  # that of a constant
    is_last = 2 < len(x) != len(slope) and x[1:2] == x[-1:] == slope[-1:] != (1,)
    if is_last and set(slope[:-1]) <= {1} and use.row.standard == "onnx":
        along = f"the slope goes along the last dim of X, and dim 1, the channels, has {x[1]} elements, too"
        yield f"{along}; {command(file, 'repair', slopes='channel')} gives it to these"


# --- the answer for a model and a runtime ---------------------------------------------------------

_ZEROS = "zeros may have another sign"
few = partial(listed, most=6)  # returns the first names, and how many there are besides


@dataclass(frozen=True)
class Summary:
    """The outcomes of a model's nodes in a runtime."""

    file: str  # the model
    target: str  # the runtime
    version: str | None  # the measured version that speaks for it; None where none was measured
    nodes: int  # how many Pow and PRelu nodes the model has
    outcomes: Mapping[str, int]  # the number of nodes for each outcome, without zeros
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
        for outcome in filter(self.outcomes.__contains__, WORDS):
            number, causes = self.outcomes[outcome], self.causes.get(outcome)
            because = f" ({few(causes)})" if causes else ""
            if outcome == "within":
                because = f" {self.max_ulp:g} ulp" if self.max_ulp else f": {_ZEROS}"
            many = f"all {number} nodes" if number == self.nodes else f"{number} of {self.nodes} nodes"
            parts.append(f"{'its one node' if self.nodes == 1 else many} {WORDS[outcome]}{because}")
        return "; ".join(parts)

    def __str__(self) -> str:
        version = "" if self.version is None else f" {self.asked or self.version}"
        if version and self.asked not in (None, self.version):
            version += f" (measured: {self.version})"
        return f"{self.target}{version}: {self.text}"


def _summary(model: ModelReport, index: int, target: Asked) -> Summary:
    outcomes: Counter[str] = Counter()
    causes: dict[str, dict[str, None]] = defaultdict(dict)
    max_ulp = 0.0
    for node in model.nodes:
        said = node.targets[index]
        outcome, reasons = _outcome(node, said)
        outcomes[outcome] += 1
        causes[outcome] |= dict.fromkeys(reasons)
        max_ulp = max(max_ulp, (outcome == "within" and said.max_ulp) or 0)
    measured = target.spoken_for_by(model.format)
    version = None if measured is None else measured.version
    known = {outcome: tuple(why) for outcome, why in causes.items() if why}
    whose = model.file, target.name, version, len(model.nodes)
    return Summary(*whose, outcomes, known, max_ulp or None, target.version)


def _outcome(node: Use, said: Statement) -> tuple[str, Iterable[str]]:
    """Return the outcome of a node in a runtime, and the reasons for it in few words."""
    if node.breaks or node.only_if is not None:
        return "invalid" if node.breaks else "shape", said.reasons
    verdict = said.verdict
    if verdict == "unknown":
        return verdict, ["not measured" if node.types is not None else "the type of an input is not known"]
    if verdict not in BAD:
        outcome = verdict if verdict in ("within", "wider") else "right"
        return "depends" if said.depends else outcome, [f"by {aspect}" for aspect in said.depends]
    return verdict, _faults(node, said)


def _faults(node: Use, said: Statement) -> Iterable[str]:
    if not said.groups:
        return [" and ".join(dict.fromkeys(str(each.type) for each in node.inputs))]
    if said.verdict == "wrong" and said.groups == ("broadcast",) and node.is_prelu:
        return ["slopes along the wrong dim"]
    constant = "the constant slopes" if node.is_prelu else f"the exponent {node.second.text}"
    names = {**GROUPS, "constant": constant, "opset": f"opset {node.asked}"}
    return [names.get(group, group) for group in said.groups]
