"""Write docs/operators/, a page per operator version, and the list of all with their types, from the rows.

    python tools/generate_docs.py            write them
    python tools/generate_docs.py --check    list the pages that are out of date, and exit with 1 if there are any

The pages depend only on the rows, so that two runs give the same bytes.
"""

from __future__ import annotations

import argparse
import re
import sys
from itertools import groupby
from pathlib import Path

from halfulp.pages import STANDARDS, Block, Code, Page, Table, page
from halfulp.specs import OpVersion, find, ids
from halfulp.types import TYPES

ROOT = Path(__file__).resolve().parents[1]
OPERATORS = Path("docs/operators")
MADE_BY = "<!-- Made by tools/generate_docs.py from the rows in src/halfulp/specs/: change those. -->"
LEGEND = (
    "x: the first input, and with it the output, may have this type. y: the second input may, whatever"
    " the first one's type is. x=y: both inputs may, and then they share it."
)


def predecessor(op: OpVersion) -> OpVersion | None:
    """Return the version before this one; None for the first."""
    of_operator = [id for id in ids() if id.rpartition("-")[0] == op.id.rpartition("-")[0]]
    number = of_operator.index(op.id)
    return find(of_operator[number - 1]) if number else None


def operator_page(op: OpVersion) -> str:
    """Return the page of an operator version as Markdown."""
    older = predecessor(op)
    before = f"[The version before, {older.id}]({older.id}.md) · " if older else ""
    links = f"{before}[All operator versions](index.md) · [The numeric contract](../numerics.md)"
    return f"{MADE_BY}\n\n{markdown(page(op))}\n\n{links}\n"


def index_page() -> str:
    """Return the list of all operator versions, with the matrix of their types."""
    parts = [MADE_BY, "# Operator versions"]
    for standard, name in STANDARDS.items():
        ops = [find(id) for id in ids() if find(id).standard == standard]
        rows = tuple((f"[{op.id}]({op.id}.md)", op.since_version, op.broadcasting.name) for op in ops)
        table = Table(("operator version", "since", "broadcasting"), rows)
        parts += [f"## {name}", _unescaped(table)]
    parts += ["## Types", _matrix()]
    return "\n\n".join(parts) + "\n"


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


def _matrix() -> str:
    """Return the matrix of versions and types as Markdown, with links from the ids to their pages."""
    table = matrix()
    header = tuple(cell.replace(", ", "<br>") for cell in table.header)
    rows = tuple((f"[{id}]({id}.md)", *cells) for id, *cells in table.rows)
    return f"{_unescaped(Table(header, rows))}\n\n{LEGEND}"


def _unescaped(table: Table) -> str:
    """Return a table as Markdown; its cells are Markdown already."""
    lines = ["| " + " | ".join(row) + " |" for row in (table.header, *table.rows)]
    return "\n".join([lines[0], "|" + "---|" * len(table.header), *lines[1:]])


def markdown(page: Page) -> str:
    """Return a page as Markdown."""
    parts = [f"# {page.title}", _escaped(page.lead)]
    for heading, blocks in page.sections.items():
        parts.append(f"## {heading}")
        parts += map(_markdown_block, blocks)
    return "\n\n".join(parts)


def _markdown_block(block: Block) -> str:
    """Return one block as Markdown."""
    if isinstance(block, Code):
        return f"```{block.language}\n{block.text}\n```"
    if isinstance(block, list):
        return "\n".join(f"- {_escaped(item)}" for item in block)
    if isinstance(block, Table):
        rows = [block.header, *block.rows]
        lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(block.header), *lines[1:]])
    return _escaped(block)


def _escaped(prose: str) -> str:
    return re.sub(r"[*_<]", r"\\\g<0>", prose)


def _cell(cell: str) -> str:
    return f"<{cell}>" if cell.startswith("https://") else _escaped(cell).replace("|", "\\|")


def generate() -> dict[Path, str]:
    """Return every generated file: its path below the root, and its text."""
    files = {OPERATORS / f"{id}.md": operator_page(find(id)) for id in ids()}
    files[OPERATORS / "index.md"] = index_page()
    return files


def out_of_date(root: Path = ROOT) -> list[Path]:
    """Return the paths of files that differ from the generated ones, and of pages without a row."""
    files = generate()
    stray = {path.relative_to(root) for path in (root / OPERATORS).glob("*")} - files.keys()
    return sorted(
        stray
        | {
            path
            for path, text in files.items()
            if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
        }
    )


def main() -> int:
    """Write the files, or with --check only list those out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    if parser.parse_args().check:
        stale = out_of_date()
        for path in stale:
            print(f"{path} is out of date: run python tools/generate_docs.py", file=sys.stderr)
        return 1 if stale else 0
    (ROOT / OPERATORS).mkdir(parents=True, exist_ok=True)
    files = generate()
    for path in out_of_date():
        if path in files:
            (ROOT / path).write_text(files[path], encoding="utf-8", newline="\n")
        else:
            (ROOT / path).unlink()
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
