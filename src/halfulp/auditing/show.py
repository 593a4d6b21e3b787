"""A report as text: a table for each model, then findings, what a conversion does, and the open questions."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from halfulp.auditing.findings import ModelReport, NodeReport, findings
from halfulp.auditing.node import shown
from halfulp.auditing.target import Asked, Statement, names
from halfulp.auditing.unspecified import Open

_WIDTH = 160
_EVERYWHERE = ("N1", "N2", "N5", "N7")  # what nearly every node touches is not worth a line for each
_COLOURS = {
    "exact": "green",
    "within": "green",
    "wrong": "red",
    "refused": "red",
    "crashed": "red",
    "hung": "red",
}


Models = tuple[ModelReport, ...]


def text(targets: tuple[Asked, ...], models: Models) -> str:
    """Return a report as plain text.

    Example:
        >>> print(text((), ()))
        0 models, 0 with Pow or PRelu; 0 nodes, 0 findings
        ...
    """
    console = Console(file=io.StringIO(), width=_WIDTH, color_system=None)
    console.print(show(targets, models))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().rstrip()


def show(targets: tuple[Asked, ...], models: Models) -> Group:
    """Return what a console prints of a report."""
    parts: list[Table | Text | str] = []
    with_nodes = [model for model in models if model.nodes or model.error is not None]
    for model in with_nodes:
        parts += _model(model, targets)
        parts.append("")
    parts += _questions(models)
    parts += [Text(target.note) for target in targets]
    if not targets:
        parts.append(
            Text(f"No target was asked for; what {', '.join(names())} would do, --target NAME says.")
        )
    parts.insert(0, Text(_summary(models)))
    return Group(*parts)


def _summary(models: Models) -> str:
    nodes = sum(len(model.nodes) for model in models)
    ours = sum(bool(model.nodes) for model in models)
    found = sum(len(findings(model)) for model in models)
    return (
        f"{_count(len(models), 'model')}, {ours} with Pow or PRelu; {_count(nodes, 'node')}, "
        f"{_count(found, 'finding')}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _model(model: ModelReport, targets: tuple[Asked, ...]) -> Iterator[Table | Text]:
    yield Text(model.file, style="bold")
    if model.nodes:
        yield _table(model, targets)
    # The file is named above.
    for finding in findings(model):
        where = "" if finding.node is None else f"{finding.node}: "
        yield Text(f"  ! {where}{finding.about}")
    for node in model.nodes:
        for entry in node.open:
            if entry.question.rule not in _EVERYWHERE:
                yield Text(f"  ? {node.label}: {_entry(entry)}")
        for said in node.targets:
            yield from _conversion(node, said)


def _entry(entry: Open) -> str:
    return f"left open ({entry.question.rule or 'other'}): {entry.where}: {entry.question.question}"


def _table(model: ModelReport, targets: tuple[Asked, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("node", "operator", "inputs", "output", "attributes", "left open"):
        table.add_column(column, overflow="fold")
    for target in targets:
        table.add_column(escape(target.name), overflow="fold")
    for node in model.nodes:
        cells = [
            node.label,
            f"{node.operator}\n({node.asked})",
            "\n".join(map(str, node.inputs)),
            str(node.output),
            "\n".join(f"{name}={shown(value)}" for name, value in node.attributes.items()),
            ", ".join(dict.fromkeys(entry.question.rule or "other" for entry in node.open)),
        ]
        table.add_row(*map(escape, cells), *map(_verdict, node.targets))
    return table


def _verdict(said: Statement) -> str:
    text = said.verdict
    if said.max_ulp is not None and said.verdict in ("within", "wrong"):
        text += f", {said.max_ulp:g} {said.unit}"
    if said.depends:
        text += f"\ndepends on {', '.join(said.depends)}"
    colour = "yellow" if said.depends and said.verdict in ("exact", "within") else _COLOURS.get(said.verdict)
    return f"[{colour}]{escape(text)}[/]" if colour else escape(text)


def _conversion(node: NodeReport, said: Statement) -> Iterator[Text]:
    found = said.conversion
    if found is None:
        return
    start = f"  > {node.label}: convert --target {said.target}: "
    if found.refused is not None:
        yield Text(f"{start}refuses: {found.refused}")
    for step in found.steps:
        yield Text(f"{start}{step}")


def _questions(models: Models) -> Iterator[Text | str]:
    """Give each open question that some node touches, once."""
    nodes = [node for model in models for node in model.nodes]
    touched = {entry.question for node in nodes for entry in node.open}
    if not touched:
        return
    yield Text("Left open by the documents, and what halfulp does:", style="bold")
    for asked in sorted(touched, key=lambda each: (each.rule or "other", each.question, each.choice)):
        yield Text(f"  {asked.rule or 'other'}: {asked.question} {asked.choice}")
    yield ""
