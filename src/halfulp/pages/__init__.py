"""The page of an operator version, the table of types, and how pages become text and HTML."""

import html as markup
import textwrap
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from halfulp.specs.model import MOST_ELEMENTS, OpVersion
from halfulp.types import TYPES

STANDARDS = {"onnx": "ONNX", "openvino": "OpenVINO", "directml": "DirectML", "sonnx": "SONNX"}

WIDTH = 100
_GAP = "  "
_NARROW = 26  # a column of a table up to this wide is never wrapped
_LEAST = 16


class Table(NamedTuple):
    """Rows of text below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Code(NamedTuple):
    """Text to be shown verbatim, and its language."""

    text: str
    language: str


Block = str | Table | Code | list[str]
"""A paragraph, a table, text as it is, or a list of sentences."""


class Page(NamedTuple):
    """A title, a lead of a sentence or two, and sections."""

    title: str
    lead: str
    sections: dict[str, tuple[Block, ...]]  # by heading


def page(op: OpVersion) -> Page:
    """Return the page of an operator version."""
    ports = [("input", port) for port in op.inputs] + [("output", port) for port in op.outputs]
    port_rows = tuple((kind, port.name, port.type, port.text) for kind, port in ports)
    choices = tuple((u.question, u.choice, u.rule or "") for u in op.unspecified)
    sections: dict[str, tuple[Block, ...]] = {
        "Facts": (_facts(op),),
        "Inputs and outputs": (Table(("", "name", "type", "meaning"), port_rows),),
        "Types": (_types(op),),
        "Attributes": (_attributes(op),),
        "Shapes": _shapes(op),
        "Clauses": (Table(("id", "rule"), tuple((c.id, c.text) for c in op.clauses)),),
        "Left open by the document": (Table(("question", "our choice", "contract"), choices),),
    }
    if op.body is not None:
        sections["Function body"] = (Code(op.body.rstrip(), ""),)
    if op.examples:
        sections["Examples of the document"] = (_examples(op),)
    return Page(op.id, op.summary, sections)


def _facts(op: OpVersion) -> Table:
    yes_no = {None: None, True: "yes", False: "no"}
    facts = (
        ("standard", STANDARDS[op.standard]),
        ("operator", op.name),
        ("since version", op.since_version),
        ("support level", op.support_level),
        ("function", yes_no[op.function]),
        ("shape inference", yes_no[op.shape_inference]),
        ("source", op.source),
    )
    return Table(("fact", "value"), tuple((name, value) for name, value in facts if value is not None))


def _types(op: OpVersion) -> Table:
    form = "tensor({})" if op.format == "onnx" else "{}"
    rows = []
    for variable, types in op.type_variables.items():
        spelled = filter(None, (getattr(TYPES[name], op.format) for name in types))
        rows.append((variable, ", ".join(types), ", ".join(map(form.format, spelled))))
    return Table(("variable", "types", f"as {STANDARDS[op.standard]} spells them"), tuple(rows))


def _attributes(op: OpVersion) -> Block:
    if not op.attributes:
        return "None."
    rows = []
    for attribute in op.attributes:
        options = f" One of {', '.join(map(str, attribute.values))}." if attribute.values else ""
        default = "not set" if attribute.default is None else str(attribute.default)
        default = "required" if attribute.required else default
        rows.append((attribute.name, attribute.type, default, attribute.text + options))
    return Table(("name", "type", "default", "meaning"), tuple(rows))


def _shapes(op: OpVersion) -> tuple[Block, ...]:
    rule = f"{op.outputs[0].name} has the shape of {op.inputs[0].name}."
    if len(op.inputs) == 2:
        x, y = (port.name for port in op.inputs)
        rule = f"Broadcasting ({op.broadcasting.name}): {op.broadcasting.text.format(x=x, y=y)}"
    if op.ranks is None:
        return (rule,)
    least, most = op.ranks
    ranks = f"{least}" if least == most else f"{least} to {most}"
    return rule, f"Tensors have {ranks} dimensions, no size of 0, and at most {MOST_ELEMENTS} elements."


def _examples(op: OpVersion) -> Code:
    lines = [">>> import numpy as np", ">>> import halfulp as hu", f'>>> op = hu.op("{op.id}")']
    for example in op.examples:
        keywords = [
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"
            for name, value in example.attributes.items()
        ]
        arguments = [f'("{operand.type}", {operand.shape})' for operand in example.inputs]
        called, result = "op.infer", repr(example.output)
        if example.values:
            operands = zip(example.values, example.inputs, strict=True)
            arguments = [f"np.array({values}, np.{operand.type})" for values, operand in operands]
            called, result = "op", repr(np.array(example.result, TYPES[example.output.type].dtype))
        lines += [f">>> {called}({', '.join(arguments + keywords)})  # {example.name}", *result.splitlines()]
    return Code("\n".join(lines), "pycon")


# --- text ----------------------------------------------------------------------------------------


def text(page: Page, width: int = WIDTH) -> str:
    """Return a page as plain text, no line of prose wider than ``width``."""
    lines = [page.title, "=" * len(page.title), *textwrap.wrap(page.lead, width)]
    for heading, blocks in page.sections.items():
        below = (line for block in blocks for line in _text_block(block, width - 2))
        lines += ["", heading, *(f"  {line}".rstrip() for line in below)]
    return "\n".join(lines)


def _text_block(block: Block, width: int) -> list[str]:
    if isinstance(block, Code):
        return block.text.splitlines()
    if isinstance(block, list):
        wrapped = (textwrap.wrap(item, width - 2, break_on_hyphens=False) for item in block)
        return [("  " if number else "- ") + line for item in wrapped for number, line in enumerate(item)]
    if isinstance(block, Table):
        return _text_table(block, width)
    return textwrap.wrap(block, width)


def _text_table(table: Table, width: int) -> list[str]:
    """Return aligned columns, without the header."""
    columns = [column for column in zip(*table.rows, strict=True) if any(column)]
    needed = [max(map(len, column)) for column in columns]
    widths = _column_widths(needed, width - len(_GAP) * (len(columns) - 1))
    lines: list[str] = []
    for row in zip(*columns, strict=True):
        cells = [
            # An address must stay whole, so that a terminal can open it.
            textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False)
            for cell, size in zip(row, widths, strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
            lines.append(_GAP.join(padded).rstrip())
    return lines


def _column_widths(needed: list[int], room: int) -> list[int]:
    """Return column widths that fill the room: narrow columns get the width that they need."""
    widths = [size if size <= _NARROW else 0 for size in needed]
    wide = sorted((n for n, size in enumerate(widths) if not size), key=lambda n: needed[n])
    for number, column in enumerate(wide):
        share = (room - sum(widths)) // (len(wide) - number)
        widths[column] = min(needed[column], max(share, _LEAST))
    return widths


# --- HTML ----------------------------------------------------------------------------------------


_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 0 auto; padding: 1rem; }}
pre {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
td, th {{ border: 1px solid #999; padding: .3em .6em; text-align: left; vertical-align: top; }}
</style>
"""


def document(page: Page) -> str:
    """Return a page as a file of HTML that loads nothing."""
    return f"{_HEAD.format(markup.escape(page.title))}{html(page)}\n</html>\n"


def html(page: Page) -> str:
    """Return a page as a fragment of HTML, for notebooks."""
    parts = [_element("h3", page.title), _element("p", page.lead)]
    for heading, blocks in page.sections.items():
        parts += [_element("h4", heading), *map(_html_block, blocks)]
    return "".join(parts)


def _html_block(block: Block) -> str:
    if isinstance(block, Code):
        return f"<pre>{markup.escape(block.text)}</pre>"
    if isinstance(block, list):
        return f"<ul>{''.join(_element('li', item) for item in block)}</ul>"
    if isinstance(block, Table):
        head = "".join(_element("th", cell) for cell in block.header)
        body = "".join(f"<tr>{''.join(_element('td', cell) for cell in row)}</tr>" for row in block.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _element("p", block)


def _element(name: str, content: str) -> str:
    text = markup.escape(content)
    if name == "td" and content.startswith("https://"):
        text = f'<a href="{text}">{text}</a>'
    return f"<{name}>{text}</{name}>"
