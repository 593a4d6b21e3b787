"""The chart of time against exactness."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from side_by_side.line import Line
from side_by_side.peers import LIBRARIES
from side_by_side.rows import IN_CACHE
from side_by_side.vectors import VECTORS

_TYPES = ("float32", "float64", "float16", "bfloat16")
_COLOURS = ("#c1121f", "#457b9d", "#e07a1f", "#2a9d8f", "#7b5ea7", "#8d6e63", "#3d5a80", "#6a994e")
_SHOWN = {"arrays": LIBRARIES, "vector libraries": VECTORS}
_LEAST = 1e-4  # per cent; smaller shares are drawn on the line of the exact libraries


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw a panel for each floating type, and write it as SVG.

    The times are those of arrays in cache on one thread; misrounded results are counted in larger arrays too,
    because some types have few. Needs matplotlib.
    """
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "halfulp", "svg.fonttype": "none", "font.size": 9}
    pyplot: Any = import_module("matplotlib.pyplot")
    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6.5), layout="constrained", sharey=True)
    for panel, name in zip(panels.flat, _TYPES, strict=True):
        _panel(
            panel,
            name,
            [
                line
                for line in lines
                if line.label == f"{name} ** {name}" and line.library in _SHOWN.get(line.group, ())
            ],
        )
    for panel in panels[-1]:
        panel.set_xlabel("nanoseconds per element, one thread, in cache")
    for panel in panels[:, 0]:
        panel.set_ylabel("results that are not correctly rounded")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    # Matplotlib ends lines with spaces, which version control reports.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _panel(panel: Any, title: str, lines: Sequence[Line]) -> None:
    panel.set_title(title, loc="left", fontweight="bold")
    panel.set_xscale("log")
    panel.set_yscale("symlog", linthresh=_LEAST, linscale=0.4)
    panel.set_ylim(-_LEAST / 2, 200)
    ticks = [0, 1e-3, 1e-2, 0.1, 1, 10, 100]
    panel.set_yticks(ticks, ["none"] + [f"{tick:g} %" for tick in ticks[1:]])
    panel.set_yticks([], minor=True)
    panel.grid(alpha=0.3)
    points = sorted((_share(lines, line.library), line.ns, line.library) for line in _timed(lines))
    for place, (share, time, library) in enumerate(points):
        ours = library == "halfulp"
        colour = "#444444" if library in VECTORS else _COLOURS[LIBRARIES.index(library)]
        marker, size = ("D", 8) if ours else ("s", 5) if library in VECTORS else ("o", 6)
        panel.plot(time, share, marker, color=colour, markersize=size, clip_on=False)
        # Labels of neighbours are at different heights. At the top there is room only below.
        height = (7, 16, -14, -23)[place % 4] if share < 50 else -14
        panel.annotate(
            library, (time, share), color=colour, fontweight="bold" if ours else "normal",
            xytext=(0, height), textcoords="offset points", ha="center",
        )  # fmt: skip
    low, high = panel.get_xlim()
    panel.set_xlim(low / 1.4, high * 1.4)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")


def _timed(lines: Sequence[Line]) -> list[Line]:
    alone = [line for line in lines if (line.place, line.threads, line.isa) == (IN_CACHE, 1, "")]
    return [line for line in alone if line.ns is not None]


def _share(lines: Sequence[Line], library: str) -> float:
    own = [line for line in lines if line.library == library and line.misrounded is not None]
    return 100 * sum(line.misrounded or 0 for line in own) / sum(line.elements for line in own)
