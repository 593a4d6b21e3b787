"""What an audit found: models, nodes, findings; as Python objects, as JSON, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from halfulp.conformance.audit_convert import Conversion
from halfulp.conformance.audit_node import Breach, shown
from halfulp.conformance.audit_open import Open
from halfulp.conformance.audit_target import Asked, Statement
from halfulp.models.graph import describe
from halfulp.specs.tensor import Shape

SCHEMA = "halfulp.audit/1"

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

    Example:
        >>> print(Finding("m.onnx", "'p' (Pow)", "wrong", "special values", "openvino"))
        m.onnx, node 'p' (Pow): openvino: wrong: special values
    """

    file: str
    node: str | None
    kind: Kind
    text: str
    target: str | None = None
    clause: str | None = None

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
    """A file and its nodes of ours; ``error`` says why it could not be read."""

    file: str
    format: str
    nodes: tuple[NodeReport, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Report:
    """What an audit found. ``print`` shows it as tables.

    Attributes:
        targets: what was asked for.
        models: in the order of their names.
    """

    targets: tuple[Asked, ...]
    models: tuple[ModelReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What there is to act on, in the order of files and nodes."""
        return tuple(finding for model in self.models for finding in findings(model))

    def json(self) -> dict[str, Any]:
        """Return the report as JSON's objects, in a stable order, of the schema ``halfulp.audit/1``."""
        found = self.findings
        nodes = sum(len(model.nodes) for model in self.models)
        return {
            "schema": SCHEMA,
            "halfulp": _version(),
            "targets": [_asked(target) for target in self.targets],
            "summary": {"models": len(self.models), "nodes": nodes, "findings": len(found)},
            "findings": [
                {
                    "file": finding.file,
                    "node": finding.node,
                    "kind": finding.kind,
                    "target": finding.target,
                    "clause": finding.clause,
                    "text": finding.text,
                }
                for finding in found
            ],
            "models": [_model(model) for model in self.models],
        }

    def __str__(self) -> str:
        from halfulp.conformance.audit_show import text  # which needs rich

        return text(self)


def findings(model: ModelReport) -> tuple[Finding, ...]:
    """Return the findings of a model."""
    found: list[Finding] = []
    if model.error is not None:
        found.append(Finding(model.file, None, "file", model.error))
    for node in model.nodes:
        found += [Finding(model.file, node.label, "clause", b.message, clause=b.clause) for b in node.breaks]
        for said in node.targets:
            if said.verdict in ("refused", "wrong", "crashed", "hung"):
                kind: Kind = said.verdict  # type: ignore[assignment]
                text = "; ".join(said.reasons) or said.verdict
                found.append(Finding(model.file, node.label, kind, text, said.target))
            if said.depends:
                text = f"the bits of a result depend on {', '.join(said.depends)}"
                found.append(Finding(model.file, node.label, "depends", text, said.target))
    return tuple(found)


def _version() -> str:
    try:
        return version("halfulp")
    except PackageNotFoundError:
        return "not installed"


def _asked(target: Asked) -> dict[str, Any]:
    measured = target.measured
    return {
        "name": target.name,
        "asked": target.version,
        "measured": None if measured is None else measured.version,
        "date": None if measured is None else measured.date,
        "mode": None if measured is None else measured.mode,
    }


def _model(model: ModelReport) -> dict[str, Any]:
    nodes = [_node(node) for node in model.nodes]
    return {"file": model.file, "format": model.format, "error": model.error, "nodes": nodes}


def _node(node: NodeReport) -> dict[str, Any]:
    return {
        "node": node.label,
        "operator": node.operator,
        "asked": node.asked,
        "inputs": [_operand(operand) for operand in node.inputs],
        "output": _operand(node.output),
        "attributes": {name: _value(value) for name, value in sorted(node.attributes.items())},
        "breaks": [{"clause": breach.clause, "message": breach.message} for breach in node.breaks],
        "open": [
            {
                "question": entry.question.question,
                "choice": entry.question.choice,
                "rule": entry.question.rule,
                "where": entry.where,
            }
            for entry in node.open
        ],
        "targets": [_statement(said) for said in node.targets],
    }


def _operand(operand: OperandReport) -> dict[str, Any]:
    shape = None if operand.shape is None else list(operand.shape)
    return {"name": operand.name, "type": operand.type, "shape": shape, "constant": operand.constant}


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no numbers for these
    if isinstance(value, str | int | float | bool):
        return value
    return [_value(each) for each in value] if isinstance(value, list | tuple) else shown(value)


def _statement(said: Statement) -> dict[str, Any]:
    return {
        "target": said.target,
        "verdict": said.verdict,
        "max_ulp": said.max_ulp,
        "reasons": list(said.reasons),
        "depends": list(said.depends),
        "accepts": list(said.accepts),
        "conversion": _conversion(said.conversion),
    }


def _conversion(conversion: Conversion | None) -> dict[str, Any] | None:
    if conversion is None:
        return None
    steps = [{"what": step.what, "differs": step.differs} for step in conversion.steps]
    return {"steps": steps, "refused": conversion.refused}
