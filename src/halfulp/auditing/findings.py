"""What an audit says of each model and node, and what of it there is to act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from halfulp.auditing.advice import about_clause, about_target
from halfulp.auditing.node import Breach
from halfulp.auditing.target import Asked, Statement
from halfulp.auditing.unspecified import Open
from halfulp.models.graph import describe
from halfulp.specs.tensor import Shape

Kind = Literal["file", "clause", "refused", "wrong", "crashed", "hung", "depends"]


@dataclass(frozen=True)
class Finding:
    """One thing to act on.

    Attributes:
        file: the model, relative to the folder where one was audited.
        node: as messages name it; None for what concerns the file.
        kind: ``file``: it can't be read; ``clause``: the node breaks its document; ``refused``, ``wrong``,
            ``crashed``, ``hung``: what the target does with it; ``depends``: the target's bits depend on more
            than the operands.
        text: what, in a line.
        target: the runtime, where it concerns one.
        clause: the clause that is broken, where one is.
        to_do: what to do about it; None where there is nothing but to mend the file.
    """

    file: str
    node: str | None
    kind: Kind
    text: str
    target: str | None = None
    clause: str | None = None
    to_do: str | None = None

    @property
    def about(self) -> str:
        """What, and of which target or clause, without the place."""
        target = f"{self.target}: {self.kind}: " if self.target else ""
        clause = f"breaks {self.clause}: " if self.clause else ""
        return f"{target}{clause}{self.text}"

    def __str__(self) -> str:
        where = self.file if self.node is None else f"{self.file}, node {self.node}"
        return f"{where}: {self.about}"


@dataclass(frozen=True)
class OperandReport:
    """An input or output of a node; ``constant`` holds the values that it always has, as text."""

    name: str
    type: str | None
    shape: Shape
    constant: str | None = None

    def __str__(self) -> str:
        text = describe(self.type, self.shape)
        return text if self.constant is None else f"{text} = {self.constant}"


@dataclass(frozen=True)
class NodeReport:
    """A Pow or PRelu node.

    Attributes:
        label: how messages name it.
        operator: the id of the version in force.
        asked: the opset or feature level that puts it in force.
        inputs, output, attributes: as the file has them, or inference finds them.
        breaks: the clauses that it breaks.
        open: what its document leaves open, as far as this node can touch it.
        targets: what each target makes of it.
    """

    label: str
    operator: str
    asked: str
    inputs: tuple[OperandReport, ...]
    output: OperandReport
    attributes: Mapping[str, Any]
    breaks: tuple[Breach, ...]
    open: tuple[Open, ...]
    targets: tuple[Statement, ...]


@dataclass(frozen=True)
class ModelReport:
    """A file, its nodes of ours, and the runtimes that judge them; ``error`` says why it could not be read."""

    file: str
    format: str
    nodes: tuple[NodeReport, ...] = ()
    error: str | None = None
    targets: tuple[Asked, ...] = ()


def findings(model: ModelReport) -> tuple[Finding, ...]:
    """Return the findings of a model."""
    broken = () if model.error is None else (Finding(model.file, None, "file", model.error),)
    return (*broken, *(finding for node in model.nodes for finding in of_node(model.file, node)))


def of_node(file: str, node: NodeReport) -> Iterator[Finding]:
    """Give the findings of a node."""
    if node.breaks:
        mend = about_clause(node.operator)
        for breach in node.breaks:
            yield Finding(file, node.label, "clause", breach.message, clause=breach.clause, to_do=mend)
    for said in node.targets:
        to_do = about_target(file, said) if said.is_finding else None
        if said.verdict in ("refused", "wrong", "crashed", "hung"):
            kind: Kind = said.verdict  # type: ignore[assignment]
            text = "; ".join(said.reasons) or said.verdict
            yield Finding(file, node.label, kind, text, said.target, to_do=to_do)
        if said.depends:
            text = f"the bits of a result depend on {', '.join(said.depends)}"
            yield Finding(file, node.label, "depends", text, said.target, to_do=to_do)
