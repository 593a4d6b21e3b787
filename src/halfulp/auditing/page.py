"""The report of an audit as an HTML page: its lines, and the ranges of the data beside those of float16."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from halfulp.auditing.data import NodeData
from halfulp.auditing.findings import ModelReport
from halfulp.auditing.ranges import Range

_LEAST, _GREATEST = 2.0**-24, 65504.0  # of float16
_WIDTH, _HEIGHT, _MARGIN = 480, 12, 30  # of a bar's row

_PAGE = Markup("""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>halfulp audit</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 0 auto; padding: 1rem; }}
pre {{ overflow-x: auto; }}
{style}
</style>
<h1>halfulp audit</h1>
{ranges}
<pre>{text}</pre>
</html>
""")
_STYLE = Markup("""figure.ranges { margin: 0 0 1.5rem; overflow-x: auto; }
figure.ranges svg { width: 100%; max-width: 44rem; height: auto; font: 11px system-ui, sans-serif; }
figure.ranges text { fill: currentColor; }
figure.ranges .float16 { fill: currentColor; opacity: .12; }
figure.ranges .base { fill: #3a7bd5; }
figure.ranges .result { fill: #2c9c69; }
figure.ranges .beyond { fill: #d64545; }""")


def page(models: tuple[ModelReport, ...], text: str) -> str:
    """Return a page that loads nothing, of the audited models and the report's lines."""
    ranges = Markup("\n").join(map(picture, models))
    return str(_PAGE.format(style=_STYLE, ranges=ranges, text=text))


def fragment(models: tuple[ModelReport, ...], text: str) -> str:
    """Return the same as a part of another page, such as a notebook."""
    ranges = Markup("\n").join(map(picture, models))
    return str(Markup("<style>{}</style>{}<pre>{}</pre>").format(_STYLE, ranges, text))


def picture(model: ModelReport) -> Markup:
    """Return the magnitudes of each node's base and result as bars, over the range of float16; empty without data."""
    nodes = list(model.data.nodes.values()) if model.data else []
    met = [range for data in nodes for range in (data.base, data.result) if range.greatest]
    if not met:
        return Markup("")
    scale = _Scale(
        min(_LEAST, *(range.least for range in met)), max(_GREATEST, *(range.greatest for range in met))
    )
    rows = Markup("").join(row for place, data in enumerate(nodes) for row in _bars(data, place, scale))
    height = (3 * len(nodes) + 2) * _HEIGHT
    ticks = Markup("").join(
        Markup('<text x="{}" y="{}" text-anchor="middle">{:.5g}</text>').format(scale.at(x), height - 2, x)
        for x in (_LEAST, 1.0, _GREATEST)
    )
    start, end = scale.at(_LEAST), scale.at(_GREATEST)
    return Markup(
        '<figure class="ranges"><figcaption>{}: magnitudes of base and result; the band is float16</figcaption>'
        '<svg viewBox="0 0 {} {}" role="img" aria-label="ranges of the data">'
        '<rect class="float16" x="{}" y="0" width="{}" height="{}"/>{}{}</svg></figure>'
    ).format(model.file, _WIDTH, height, start, end - start, height - _HEIGHT, rows, ticks)


class _Scale:
    """Places of magnitudes from the least to the greatest, on a logarithmic scale."""

    def __init__(self, least: float, greatest: float) -> None:
        self._start, end = math.log2(least), math.log2(greatest)
        self._unit = (_WIDTH - 2 * _MARGIN) / (end - self._start)

    def at(self, magnitude: float) -> float:
        """Return the place of a magnitude."""
        return round(_MARGIN + (math.log2(magnitude) - self._start) * self._unit, 1)


def _bars(data: NodeData, place: int, scale: _Scale) -> Iterator[Markup]:
    top = 3 * place * _HEIGHT
    yield Markup('<text x="{}" y="{}">{}</text>').format(_MARGIN, top + 10, data.label)
    for name, range, y in (("base", data.base, top + _HEIGHT), ("result", data.result, top + 2 * _HEIGHT)):
        if range.greatest:
            inside = min(range.greatest, _GREATEST)
            yield from _bar(name, range, range.least, inside, y, scale)
            yield from _bar("beyond", range, max(range.least, _GREATEST), range.greatest, y, scale)


def _bar(name: str, range: Range, least: float, greatest: float, y: int, scale: _Scale) -> Iterator[Markup]:
    if greatest >= least:
        width = max(scale.at(greatest) - scale.at(least), 1.5)
        yield Markup(
            '<rect class="{}" x="{}" y="{}" width="{:.1f}" height="{}"><title>{:.4g} to {:.4g}</title></rect>'
        ).format(name, scale.at(least), y, width, _HEIGHT - 3, range.least, range.greatest)
