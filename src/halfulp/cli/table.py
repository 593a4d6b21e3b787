"""What ``halfulp run`` prints: the nodes of a run, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from halfulp.errors import printable
from halfulp.models.graph import Array, type_name
from halfulp.models.run.report import NodeRun, RunReport, show

_MOST_ROWS = 60
_PIPED_WIDTH = 160


def console(*, stderr: bool = False) -> Console:
    """Return a console for tables; in a file or a pipe it is wide, so that nothing is cut."""
    plain = _Console(stderr=stderr)
    return plain if plain.is_terminal else _Console(stderr=stderr, width=_PIPED_WIDTH)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled with all other errors, instead of exiting with status 1


def nodes(report: RunReport) -> Table:
    """Return the table of a run's nodes; in a long run the foreign ones are summed up by operator."""
    table = Table("node", "operator", "inputs", "outputs", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    table.add_column("evaluated by")
    total = report.seconds or 1.0
    rows = report.nodes if len(report.nodes) <= _MOST_ROWS else _grouped(report.nodes)
    for row in rows:
        label = f"{row.label}, {row.calls} times" if row.calls > 1 else row.label
        cells = [label, row.operator, "\n".join(row.inputs), "\n".join(row.outputs)]
        cells += [f"{row.seconds * 1e3:.3f}", f"{row.seconds / total:.0%}", row.engine]
        table.add_row(*map(_cell, cells))
    return table


def _grouped(rows: list[NodeRun]) -> list[NodeRun]:
    kept: list[NodeRun] = []
    groups: dict[tuple[str, str], NodeRun] = {}
    for row in rows:
        if row.operator.startswith(("onnx.Pow-", "onnx.PRelu-")):
            kept.append(row)
            continue
        group = groups.get((row.operator, row.engine))
        if group is None:
            group = groups[row.operator, row.engine] = NodeRun("all of these", row.operator, row.engine)
            kept.append(group)
        group.seconds += row.seconds
        group.calls += row.calls
    return kept


def summary(report: RunReport) -> str:
    """Return one line: how much of the run was ours."""
    engines = [row.engine for row in report.nodes]
    own = engines.count("halfulp")
    rest = len(engines) - own
    other = "ONNX Runtime" if "onnxruntime" in engines else "the onnx package's reference evaluator"
    text = f"halfulp evaluated {own} of {len(report.nodes)} nodes, {report.share:.0%} of the time"
    return f"{text}; {other} the other {rest}" if rest else text


def values(title: str, named: Mapping[str, Any]) -> Table:
    """Return a table of arrays: name, type and shape, range, count of NaNs and infinities."""
    table = Table(title, "type", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("least", "greatest", "NaN", "inf"):
        table.add_column(column, justify="right")
    for name, value in named.items():
        table.add_row(*map(_cell, (name, show(value), *_range(value))))
    return table


def _cell(text: str) -> str:
    return escape("\n".join(map(printable, text.split("\n"))))


def _range(value: Any) -> tuple[str, ...]:
    if not isinstance(value, np.ndarray) or value.size == 0:
        return ("",) * 4
    if value.dtype.kind in "biu":
        return str(value.min()), str(value.max()), "", ""
    if type_name(value.dtype) == "string" or value.dtype.kind == "c":
        return ("",) * 4
    # The small types of ml_dtypes have no reductions; all of them fit float64.
    real: Array = value if np.issubdtype(value.dtype, np.floating) else value.astype(np.float64)
    if "int" in value.dtype.name:
        return f"{real.min():.0f}", f"{real.max():.0f}", "", ""
    nan = np.isnan(real)
    infinite = int(np.isinf(real).sum())
    if nan.all():
        return "", "", str(value.size), "0"
    least, greatest = np.nanmin(real), np.nanmax(real)
    return f"{least:.6g}", f"{greatest:.6g}", str(int(nan.sum())), str(infinite)
