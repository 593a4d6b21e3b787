"""A report as lines: the answer for each model and runtime, the nodes with findings, and what is left open."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby

from halfulp.auditing.findings import ModelReport, NodeReport, findings, of_node
from halfulp.auditing.node import shown
from halfulp.auditing.summary import summaries
from halfulp.auditing.target import Asked

WIDTH = 80
_EVERYWHERE = ("N1", "N2", "N5", "N7")  # what nearly every node touches is not worth a line for each
_MOST_LABELS = 6  # of nodes with the same findings; the others are counted

Models = tuple[ModelReport, ...]


def lines(
    targets: tuple[Asked, ...], models: Models, *, width: int = WIDTH, left_open: bool = False
) -> Iterator[str]:
    """Give the lines of a report.

    Args:
        targets: the runtimes that were judged.
        models: what was found.
        width: where lines are wrapped.
        left_open: whether to say what the documents leave open, too.
    """
    for model in models:
        yield from _answers(model, width)
    for model in models:
        if model.error is None:
            yield from _findings(model, width)
    if left_open:
        yield from _open(models, width)
    if any(model.nodes for model in models):
        yield ""
        for target in targets:
            if target.measured is None or target.version not in (None, target.measured.version):
                yield from _wrapped(target.note, "", width)
    yield _total(models)


def _total(models: Models) -> str:
    nodes = sum(len(model.nodes) for model in models)
    ours = sum(bool(model.nodes) for model in models)
    found = sum(len(findings(model)) for model in models)
    return (
        f"{_count(len(models), 'model')}, {ours} with Pow or PRelu; {_count(nodes, 'node')}, "
        f"{_count(found, 'finding')}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _answers(model: ModelReport, width: int) -> Iterator[str]:
    """Give a model's name and a line for each runtime."""
    if model.error is not None:
        yield from _wrapped(f"! {model.error}", f"{model.file}: ", width)
    elif not model.nodes:
        yield f"{model.file}: no Pow, no PRelu"
    else:
        yield f"{model.file}: {_count(len(model.nodes), 'node')}"
        for summary in summaries(model):
            yield from _wrapped(str(summary), "  ", width)


def _findings(model: ModelReport, width: int) -> Iterator[str]:
    """Give the nodes with findings; those that differ in nothing but their names stand together."""
    together: dict[tuple[tuple[str, str | None], ...], list[NodeReport]] = {}
    for node in model.nodes:
        own = tuple((each.about, each.to_do) for each in of_node(model.file, node))
        if own:
            together.setdefault(own, []).append(node)
    for texts, nodes in together.items():
        yield ""
        labels = [node.label for node in nodes[:_MOST_LABELS]]
        rest = f" and {len(nodes) - _MOST_LABELS} more" if len(nodes) > _MOST_LABELS else ""
        yield from _wrapped(f"{', '.join(labels)}{rest}", f"{model.file}: ", width)
        if len(nodes) == 1 and nodes[0].inputs:
            yield from _wrapped(_described(nodes[0]), "  ", width)
        for to_do, same in groupby(texts, key=lambda each: each[1]):
            for about, _ in same:
                yield from _wrapped(about, "  ! ", width)
            if to_do is not None:
                yield from _wrapped(to_do, "  > ", width)


def _described(node: NodeReport) -> str:
    """Return a node's operator, operands and attributes, in a line."""
    attributes = [f"{name}={shown(value)}" for name, value in node.attributes.items()]
    operands = ", ".join([*map(str, node.inputs), *attributes])
    return f"{node.operator} ({node.asked}): {operands} gives {node.output}"


def _open(models: Models, width: int) -> Iterator[str]:
    """Give what the documents leave open: for each node what it alone touches, then each question once."""
    touched = {entry.question for model in models for node in model.nodes for entry in node.open}
    if not touched:
        return
    yield ""
    yield "Left open by the documents, and what halfulp does:"
    for model in models:
        for node in model.nodes:
            for entry in node.open:
                if entry.question.rule not in _EVERYWHERE:
                    rule = entry.question.rule or "other"
                    yield from _wrapped(
                        f"{model.file}, {node.label}: {rule}: {entry.where}: {entry.question.question}",
                        "  ? ",
                        width,
                    )
    for asked in sorted(touched, key=lambda each: (each.rule or "other", each.question, each.choice)):
        yield from _wrapped(f"{asked.rule or 'other'}: {asked.question} {asked.choice}", "  ", width)


def _wrapped(text: str, start: str, width: int) -> list[str]:
    """Return a text in lines; the first has a start, the others are indented."""
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=start,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
