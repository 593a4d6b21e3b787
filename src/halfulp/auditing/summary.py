"""The answer for a model and a runtime: how many nodes come out right, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from halfulp.auditing.findings import ModelReport, NodeReport
from halfulp.auditing.target import GROUPS, Asked, Statement

OUTCOMES = {
    "right": "right",
    "within": "within",
    "wrong": "wrong",
    "refused": "refused",
    "crashed": "crashed",
    "hung": "hung",
    "depends": "not reproducible",
    "invalid": "invalid",
    "unknown": "not known",
}
"""What can become of a node in a runtime, and how a line says it."""


@dataclass(frozen=True)
class Summary:
    """What a runtime makes of a model.

    Attributes:
        file: the model.
        target: the runtime.
        version: the measured version that speaks for it; None where none was measured.
        nodes: how many Pow and PRelu nodes the model has.
        outcomes: how many of them come out so, by the keys of ``OUTCOMES``; none is 0.
        causes: for each outcome why, in few words.
        max_ulp: how far off the nodes that are ``within`` may be; None where there are none.
        asked: the version asked for or installed; None where there is none.
    """

    file: str
    target: str
    version: str | None
    nodes: int
    outcomes: Mapping[str, int]
    causes: Mapping[str, tuple[str, ...]]
    max_ulp: float | None = None
    asked: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether each node is known to come out right: with the bits of the exact result."""
        return set(self.outcomes) <= {"right"}

    @property
    def text(self) -> str:
        """The line, without the runtime's name."""
        parts = []
        for outcome, words in OUTCOMES.items():
            # Where something is found the nodes that are right go without saying.
            if outcome in self.outcomes and (
                outcome != "right" or self.outcomes.keys() <= {"right", "within"}
            ):
                causes = self.causes.get(outcome, ())
                because = f" ({', '.join(causes)})" if causes else ""
                if outcome == "within":
                    because = f" {self.max_ulp or 0:g} ulp"
                parts.append(f"{self._many(self.outcomes[outcome])} {words}{because}")
        return "; ".join(parts)

    def _many(self, number: int) -> str:
        if self.nodes == 1:
            return "its one node"
        return f"all {number} nodes" if number == self.nodes else f"{number} of {self.nodes} nodes"

    def __str__(self) -> str:
        if self.version is None:
            return f"{self.target}: {self.text}"
        nearest = "" if self.asked in (None, self.version) else f" (nearest to {self.asked})"
        return f"{self.target} {self.version}{nearest}: {self.text}"


def summaries(model: ModelReport) -> tuple[Summary, ...]:
    """Return what each target makes of a model, in the targets' order; nothing for a model without nodes of ours."""
    if not model.nodes:
        return ()
    return tuple(_summary(model, index, target) for index, target in enumerate(model.targets))


def _summary(model: ModelReport, index: int, target: Asked) -> Summary:
    outcomes: dict[str, int] = {}
    causes: dict[str, dict[str, None]] = {}
    ulps = []
    for node in model.nodes:
        said = node.targets[index]
        outcome = _outcome(node, said)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
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
    if said.verdict in ("wrong", "refused", "crashed", "hung", "unknown"):
        return said.verdict
    if said.depends:
        return "depends"
    return "within" if said.verdict == "within" else "right"


def _causes(node: NodeReport, said: Statement, outcome: str) -> tuple[str, ...]:
    """Return why a node comes out as it does, in few words."""
    if outcome in ("right", "within", "invalid"):
        return ()
    if outcome == "depends":
        return tuple(f"by {aspect}" for aspect in said.depends)
    if outcome == "unknown":
        typed = all(operand.type is not None for operand in node.inputs)
        return ("not measured" if typed else "the type of an input is not known",)
    if not said.groups:
        types = dict.fromkeys(operand.type for operand in node.inputs if operand.type is not None)
        return (" and ".join(types),) if types else ()
    if outcome == "wrong" and said.groups == ("broadcast",) and ".PRe" in node.operator:
        return ("slopes along the wrong dim",)
    found = {"constant": _constant(node), "opset": f"opset {node.asked}"}
    return tuple(found.get(group) or GROUPS.get(group, group) for group in said.groups)


def _constant(node: NodeReport) -> str:
    if ".PR" in node.operator:
        return "the constant slopes"
    exponent = node.inputs[-1].constant if len(node.inputs) == 2 else node.attributes.get("Exponent")
    return "the constant exponent" if exponent is None else f"the exponent {exponent}"
