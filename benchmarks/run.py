"""Measure halfulp side by side with NumPy and with the other libraries that are installed.

All take turns in one run, with the same operands in memory, the same number of threads and results written, where
a library can, into memory that is there already. A time is the median of its turns, with half the distance of the
quartiles beside it. Beside each peer's time stands how many of its results are not correctly rounded, and how far
off the farthest is: they are compared with halfulp's, which the tests prove against slow exact oracles.

    python benchmarks/run.py [--quick] [--only TEXT] [--docs] [--core-math FOLDER]

--docs also writes the tables and the chart of docs/performance*.md; on a quiet
machine, a quarter of an hour.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from halfulp.cli.shared import print_rows
from halfulp.installed import versions
from side_by_side import bars, chart, page
from side_by_side.line import Line, of_runs, read_csv, write_csv
from side_by_side.measure import WorkerError, elapsed, imports, workers
from side_by_side.peers import LIBRARIES
from side_by_side.rows import Row, rows
from side_by_side.vectors import CORE_MATH, absent
from side_by_side.worker import BUILD

IMPORT = "calls import"  # the row that no worker measures
ROOT = Path(__file__).parents[1]
DOCS, CHART = ROOT / "docs", ROOT / "docs" / "performance.svg"


def measure(wanted: Sequence[tuple[int, Row]], quick: bool, console: Console) -> tuple[list[Line], bool]:
    """Return the lines of rows, and whether all succeeded. A row that failed is reported and left out."""
    lines: list[Line] = []
    well = True
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with workers(quick, BUILD / "log.txt") as running, Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(wanted))
        for index, row in wanted:
            progress.update(task, description=str(row))
            seconds = (0.2 if quick else 1.5) * len(row.settings)
            try:
                lines += running.measure(index, row, seconds, least=3 if quick else 9)
            except WorkerError as error:
                well = False
                console.print(f"{row}: {error}, see {BUILD / 'log.txt'}", markup=False)
            progress.advance(task)
    return lines, well


def usable(row: Row) -> Row:
    """Return the row without the instruction sets that another kind of processor lacks."""
    if platform.machine() == "x86_64":
        return row
    return replace(row, settings=tuple(setting for setting in row.settings if not setting.isa))


def show(lines: Sequence[Line], console: Console) -> None:
    """Print the page, without empty columns. A semicolon starts a new line in a cell."""
    found = [outcome for outcome in bars.outcomes(lines) if outcome.ratio is not None]
    tables = [(group, ("", *page.COLUMNS), cells) for group, cells in page.measurements(lines)]
    for title, headers, cells in (*tables, ("bars", page.BAR_COLUMNS, page.bars(found))):
        columns = [column for column in zip(headers, *cells, strict=True) if any(column[1:])]
        shown, *rest = zip(*columns, strict=True) if columns else [headers]
        console.print(title)
        print_rows(console, shown, [[cell.replace("; ", "\n") for cell in row] for row in rest], ())


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="under three minutes; out of cache is then 2^22 elements"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only rows with this in their group or label"
    )
    parser.add_argument("--core-math", metavar="FOLDER", help="the sources of CORE-MATH, to measure it too")
    parser.add_argument("--csv", type=Path, default=BUILD / "results.csv", help="where to write all numbers")
    parser.add_argument(
        "--from", type=Path, dest="sources", metavar="CSV", nargs="+",
        help="show these numbers, of several runs the medians, and measure nothing",
    )  # fmt: skip
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the tables of docs/performance*.md, and the chart",
    )
    options = parser.parse_args()
    if options.core_math:
        os.environ[CORE_MATH] = options.core_math
    start, console = time.monotonic(), Console()
    console = console if console.is_terminal else Console(width=200)
    console.print(
        ", ".join(f"{name} {version}" for name, version in versions(*LIBRARIES).items()), highlight=False
    )
    if skipped := absent():
        told = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        console.print(f"not measured: {told}", highlight=False, markup=False)
    if options.sources:
        lines, well = of_runs([read_csv(source) for source in options.sources]), True
    else:
        wanted = [
            (index, usable(row))
            for index, row in enumerate(rows(options.quick))
            if options.only in f"{row.group} {row.label}"
        ]
        if not wanted and options.only not in IMPORT:
            parser.error(f"no row has {options.only!r} in its group or label")
        lines, well = measure(wanted, options.quick, console)
        if options.only in IMPORT:
            lines += imports(5 if options.quick else 15)
        write_csv(options.csv, lines)
    show(lines, console)
    if options.docs:
        facts = page.machine()
        for name, parts in page.parts(facts, bars.outcomes(lines), lines).items():
            path = DOCS / f"{name}.md"
            path.write_text(page.regenerate(path.read_text(), parts))
        chart.draw(lines, CHART)
    numbers = " ".join(map(str, options.sources or [options.csv]))
    console.print(f"{elapsed(start)}; all numbers: {numbers}", highlight=False)
    if not well:
        sys.exit(1)


if __name__ == "__main__":
    main()
