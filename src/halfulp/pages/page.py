"""What the page of an operator version says, whatever it is printed on, and which version takes which types."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from halfulp.specs import find, ids
from halfulp.specs.model import Example, OpVersion
from halfulp.specs.tensor import TensorType
from halfulp.types import TYPES, ElementType

STANDARDS = {"onnx": "ONNX", "openvino": "OpenVINO", "directml": "DirectML"}


@dataclass(frozen=True)
class Table:
    """Rows of text below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Text to be shown as it is, and its language."""

    text: str
    language: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


Block = str | Table | Code | Bullets


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A title, a lead of a sentence or two, and sections."""

    title: str
    lead: str
    sections: tuple[Section, ...]


def page(op: OpVersion) -> Page:
    """Return the page of an operator version."""
    sections = [
        Section("Facts", (_facts(op),)),
        Section("Inputs and outputs", (_ports(op),)),
        Section("Types", (_types(op),)),
        Section("Attributes", (_attributes(op),)),
        Section("Shapes", _shapes(op)),
        Section("Clauses", (Table(("id", "rule"), tuple((c.id, c.text) for c in op.clauses)),)),
        Section("Left open by the document", (_unspecified(op),)),
    ]
    if op.body is not None:
        sections.append(Section("Function body", (Code(op.body.rstrip(), ""),)))
    if op.examples:
        sections.append(Section("Examples of the document", (_examples(op),)))
    return Page(op.id, op.summary, tuple(sections))


def _facts(op: OpVersion) -> Table:
    facts = (
        ("standard", STANDARDS[op.standard]),
        ("operator", op.name),
        ("since version", op.since_version),
        ("support level", op.support_level),
        ("function", _yes_no(op.function)),
        ("shape inference", _yes_no(op.shape_inference)),
        ("source", op.source),
    )
    return Table(("fact", "value"), tuple((name, value) for name, value in facts if value is not None))


def _yes_no(value: bool | None) -> str | None:
    return None if value is None else ("yes" if value else "no")


def _ports(op: OpVersion) -> Table:
    ports = [("input", port) for port in op.inputs] + [("output", port) for port in op.outputs]
    rows = tuple((kind, port.name, port.type, port.text) for kind, port in ports)
    return Table(("", "name", "type", "meaning"), rows)


def _types(op: OpVersion) -> Table:
    rows = tuple(
        (variable, ", ".join(types), ", ".join(filter(None, (_spelled(op, t) for t in types))))
        for variable, types in op.type_variables.items()
    )
    return Table(("variable", "types", f"as {STANDARDS[op.standard]} spells them"), rows)


def _spelled(op: OpVersion, name: str) -> str | None:
    row: ElementType = TYPES[name]
    if op.standard == "onnx":
        return f"tensor({row.onnx})"
    return row.openvino if op.standard == "openvino" else row.directml


def _attributes(op: OpVersion) -> Block:
    if not op.attributes:
        return "None."
    rows = []
    for attribute in op.attributes:
        text = attribute.text
        if attribute.values:
            text = f"{text} One of {', '.join(map(str, attribute.values))}."
        default = "required" if attribute.required else str(attribute.default)
        if attribute.default is None and not attribute.required:
            default = "not set"
        rows.append((attribute.name, attribute.type, default, text))
    return Table(("name", "type", "default", "meaning"), tuple(rows))


def _shapes(op: OpVersion) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if len(op.inputs) == 2:
        blocks.append(rule_text(op))
    else:
        blocks.append(f"{op.outputs[0].name} has the shape of {op.inputs[0].name}.")
    if op.limits is not None:
        blocks.append(limits_text(op))
    return tuple(blocks)


def rule_text(op: OpVersion) -> str:
    """Return the broadcasting rule in the operator's own names, with the rule's name before it."""
    x, y = (port.name for port in op.inputs)
    return f"Broadcasting ({op.broadcasting.name}): {op.broadcasting.text.format(x=x, y=y)}"


def limits_text(op: OpVersion) -> str:
    """Return the bounds on ranks and sizes; an empty string where there are none."""
    if op.limits is None:
        return ""
    least, most = op.limits.ranks
    ranks = f"{least}" if least == most else f"{least} to {most}"
    return f"Tensors have {ranks} dimensions, no size of 0, and at most {op.limits.elements} elements."


def _unspecified(op: OpVersion) -> Table:
    rows = tuple((u.question, u.choice, u.rule or "") for u in op.unspecified)
    return Table(("question", "our choice", "contract"), rows)


def _examples(op: OpVersion) -> Code:
    lines = [">>> import numpy as np", ">>> import halfulp as hu", f'>>> op = hu.op("{op.id}")']
    for example in op.examples:
        lines += _call(example) if example.values else _inference(example)
    return Code("\n".join(lines), "pycon")


def _call(example: Example) -> list[str]:
    arguments = [
        f"np.array({values}, np.{operand.type})"
        for values, operand in zip(example.values, example.inputs, strict=True)
    ]
    result = np.array(example.result, TYPES[example.output.type].dtype)
    return [
        f">>> op({', '.join(arguments + _keywords(example))})  # {example.name}",
        *repr(result).splitlines(),
    ]


def _inference(example: Example) -> list[str]:
    arguments = [_pair(operand) for operand in example.inputs]
    return [
        f">>> op.infer({', '.join(arguments + _keywords(example))})  # {example.name}",
        repr(example.output),
    ]


def _pair(operand: TensorType) -> str:
    return f'("{operand.type}", {operand.shape})'


def _keywords(example: Example) -> list[str]:
    return [f"{name}={_literal(value)}" for name, value in example.attributes.items()]


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


# --- the table of all operator versions ----------------------------------------------------------

LEGEND = (
    "x: the first input, and with it the output, may have this type. y: the second input may, whatever"
    " the first one's type is. x=y: both inputs may, and then they share it."
)


def matrix() -> Table:
    """Return the table: a row per operator version, and a column per type or group of types.

    Types that every version treats alike share a column.
    """
    ops = [find(id) for id in ids()]
    columns = {name: tuple(_marks(op, name) for op in ops) for name in TYPES}
    # Sorting by first appearance keeps the order of the type table.
    first = {cells: number for number, cells in reversed(list(enumerate(columns.values())))}
    names = sorted(columns, key=lambda name: first[columns[name]])
    groups = [list(group) for _, group in groupby(names, key=lambda name: columns[name])]
    header = ("operator version", *(", ".join(group) for group in groups))
    rows = tuple((op.id, *(columns[group[0]][number] for group in groups)) for number, op in enumerate(ops))
    return Table(header, rows)


def _marks(op: OpVersion, name: str) -> str:
    takes = [name in op.type_variables[port.type] for port in op.inputs]
    marks = [mark for mark, taken in zip("xy", takes, strict=False) if taken]
    same_type = len({port.type for port in op.inputs}) == 1
    return ("=" if same_type else ", ").join(marks)
