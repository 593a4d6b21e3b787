"""What an audit found: models, nodes, findings; as Python objects, as JSON, as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from halfulp.auditing.convert import Conversion
from halfulp.auditing.findings import Finding, ModelReport, NodeReport, OperandReport, findings
from halfulp.auditing.node import shown
from halfulp.auditing.show import lines
from halfulp.auditing.summary import Summary, summaries
from halfulp.auditing.target import Asked, Statement

SCHEMA = "halfulp.audit/1"


@dataclass(frozen=True)
class AuditReport:
    """What an audit found. ``print`` shows it as lines.

    Attributes:
        targets: what was asked for, or is installed and loads one of the models.
        models: in the order of their names.
    """

    targets: tuple[Asked, ...]
    models: tuple[ModelReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What there is to act on, in the order of files and nodes."""
        return tuple(finding for model in self.models for finding in findings(model))

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """The answer for each model with nodes of ours and each target, in the order of files and targets."""
        return tuple(summary for model in self.models for summary in summaries(model))

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
                    "to_do": finding.to_do,
                }
                for finding in found
            ],
            "models": [_model(model) for model in self.models],
        }

    def __str__(self) -> str:
        return "\n".join(lines(self.targets, self.models))


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
        "installed": target.installed,
        "measured": None if measured is None else measured.version,
        "date": None if measured is None else measured.date,
        "mode": None if measured is None else measured.mode,
    }


def _model(model: ModelReport) -> dict[str, Any]:
    return {
        "file": model.file,
        "format": model.format,
        "error": model.error,
        "runtimes": [_summary(summary) for summary in summaries(model)],
        "nodes": [_node(node) for node in model.nodes],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "target": summary.target,
        "version": summary.version,
        "right": summary.is_right,
        "outcomes": dict(summary.outcomes),
        "causes": {outcome: list(causes) for outcome, causes in summary.causes.items()},
        "max_ulp": summary.max_ulp,
        "text": summary.text,
    }


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
