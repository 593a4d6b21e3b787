"""Pages as text, Markdown and HTML: for ``print``, the docs and notebooks."""

from __future__ import annotations

import html as markup
import textwrap
from itertools import zip_longest

from halfulp.pages.page import Block, Bullets, Code, Page, Table

WIDTH = 100
_GAP = "  "
_NARROW = 26  # a column of a table up to this wide is never wrapped
_LEAST = 16


# --- text ----------------------------------------------------------------------------------------


def text(page: Page, width: int = WIDTH) -> str:
    """Return a page as plain text, no line of prose wider than ``width``."""
    lines = [page.title, "=" * len(page.title), *textwrap.wrap(page.lead, width)]
    for section in page.sections:
        lines += ["", section.heading]
        for block in section.blocks:
            lines += [f"  {line}".rstrip() for line in _text_block(block, width - 2)]
    return "\n".join(lines)


def _text_block(block: Block, width: int) -> list[str]:
    if isinstance(block, Code):
        return block.text.splitlines()
    if isinstance(block, Bullets):
        wrapped = (textwrap.wrap(item, width - 2, break_on_hyphens=False) for item in block.items)
        return [("  " if number else "- ") + line for item in wrapped for number, line in enumerate(item)]
    if isinstance(block, Table):
        return _text_table(block, width)
    return textwrap.wrap(block, width)


def _text_table(table: Table, width: int) -> list[str]:
    """Return aligned columns, without the header: what stands in a column can be seen."""
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
    """Return column widths that fill the room: narrow columns as needed, wide ones share the rest."""
    widths = [size if size <= _NARROW else 0 for size in needed]
    wide = sorted((n for n, size in enumerate(widths) if not size), key=lambda n: needed[n])
    for number, column in enumerate(wide):
        share = (room - sum(widths)) // (len(wide) - number)
        widths[column] = min(needed[column], max(share, _LEAST))
    return widths


# --- Markdown ------------------------------------------------------------------------------------


def markdown(page: Page) -> str:
    """Return a page as Markdown."""
    parts = [f"# {page.title}", _escaped(page.lead)]
    for section in page.sections:
        parts.append(f"## {section.heading}")
        parts += map(markdown_block, section.blocks)
    return "\n\n".join(parts)


def markdown_block(block: Block) -> str:
    """Return one block as Markdown."""
    if isinstance(block, Code):
        return f"```{block.language}\n{block.text}\n```"
    if isinstance(block, Bullets):
        return "\n".join(f"- {_escaped(item)}" for item in block.items)
    if isinstance(block, Table):
        rows = [block.header, *block.rows]
        lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(block.header), *lines[1:]])
    return _escaped(block)


def _escaped(prose: str) -> str:
    for sign in "*_<":
        prose = prose.replace(sign, f"\\{sign}")
    return prose


def _cell(cell: str) -> str:
    if cell.startswith("https://"):
        return f"<{cell}>"
    return _escaped(cell).replace("|", "\\|")


# --- HTML ----------------------------------------------------------------------------------------


def html(page: Page) -> str:
    """Return a page as a fragment of HTML, for notebooks."""
    parts = [_element("h3", page.title), _element("p", page.lead)]
    for section in page.sections:
        parts.append(_element("h4", section.heading))
        parts += map(_html_block, section.blocks)
    return "".join(parts)


def _html_block(block: Block) -> str:
    if isinstance(block, Code):
        return f"<pre>{markup.escape(block.text)}</pre>"
    if isinstance(block, Bullets):
        return f"<ul>{''.join(_element('li', item) for item in block.items)}</ul>"
    if isinstance(block, Table):
        head = "".join(_element("th", cell) for cell in block.header)
        rows = ("".join(_html_cell(cell) for cell in row) for row in block.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _element("p", block)


def _html_cell(cell: str) -> str:
    if cell.startswith("https://"):
        return f'<td><a href="{markup.escape(cell)}">{markup.escape(cell)}</a></td>'
    return _element("td", cell)


def _element(name: str, content: str) -> str:
    return f"<{name}>{markup.escape(content)}</{name}>"
