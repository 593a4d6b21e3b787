"""The report of an audit as an HTML page: its lines, and the ranges of the data beside those of float16."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from halfulp.auditing.data import NodeData
from halfulp.auditing.findings import ModelReport

_LEAST, _GREATEST = 2.0**-24, 65504.0  # of float16
_WIDTH, _HEIGHT, _MARGIN = 480, 12, 30  # of a bar's row

_STYLE = """figure.ranges { margin: 0 0 1.5rem; overflow-x: auto; }
figure.ranges svg { width: 100%; max-width: 44rem; height: auto; font: 11px system-ui, sans-serif; }
figure.ranges text { fill: currentColor; }
figure.ranges .float16 { fill: currentColor; opacity: .12; }
figure.ranges .base { fill: #3a7bd5; }
figure.ranges .result { fill: #2c9c69; }
figure.ranges .beyond { fill: #d64545; }"""
_HEAD = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>halfulp audit</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 0 auto; padding: 1rem; }}
pre {{ overflow-x: auto; }}
{_STYLE}
</style>
<h1>halfulp audit</h1>
"""


def page(models: tuple[ModelReport, ...], text: str) -> str:
    """Return a page that loads nothing, of the audited models and the report's lines."""
    return f"{_HEAD}{_body(models, text)}\n</html>\n"


def fragment(models: tuple[ModelReport, ...], text: str) -> str:
    """Return the same as a part of another page, such as a notebook."""
    return f"<style>{_STYLE}</style>{_body(models, text)}"


def _body(models: tuple[ModelReport, ...], text: str) -> str:
    pictures = "\n".join(map(_picture, models))
    return f"{pictures}\n<pre>{escape(text)}</pre>"


def _picture(model: ModelReport) -> str:
    """Return the magnitudes of each node's base and result as bars, over the range of float16; empty without data."""
    nodes = list(model.data.nodes.values()) if model.data else []
    met = [range for data in nodes for range in (data.base, data.result) if range.greatest]
    if not met:
        return ""
    least, greatest = min(range.least for range in met), max(range.greatest for range in met)
    first, last = math.log2(min(_LEAST, least)), math.log2(max(_GREATEST, greatest))

    def at(magnitude: float) -> float:
        """Return the place of a magnitude on a logarithmic scale."""
        share = (math.log2(magnitude) - first) / (last - first)
        return round(_MARGIN + share * (_WIDTH - 2 * _MARGIN), 1)

    start, end = at(_LEAST), at(_GREATEST)
    height = (3 * len(nodes) + 1) * _HEIGHT
    bars = "".join(bar for place, data in enumerate(nodes) for bar in _bars(data, place, at))
    ticks = "".join(
        f'<text x="{at(x)}" y="{height + _HEIGHT - 2}" text-anchor="middle">{x:.5g}</text>'
        for x in (_LEAST, 1.0, _GREATEST)
    )
    return (
        f'<figure class="ranges"><figcaption>{escape(model.file)}: magnitudes of base and result; the band is float16'
        f'</figcaption><svg viewBox="0 0 {_WIDTH} {height + _HEIGHT}" role="img" aria-label="ranges of the data">'
        f'<rect class="float16" x="{start}" y="0" width="{end - start}" height="{height}"/>{bars}{ticks}</svg></figure>'
    )


def _bars(data: NodeData, place: int, at: Callable[[float], float]) -> Iterator[str]:
    top = 3 * place * _HEIGHT
    yield f'<text x="{_MARGIN}" y="{top + 10}">{escape(data.label)}</text>'
    for name, range, y in (("base", data.base, top + _HEIGHT), ("result", data.result, top + 2 * _HEIGHT)):
        parts = ((name, range.least, min(range.greatest, _GREATEST)), ("beyond", _GREATEST, range.greatest))
        for kind, least, greatest in parts if range.greatest else ():
            start, end = at(max(least, range.least)), at(greatest)
            if end >= start:
                yield (
                    f'<rect class="{kind}" x="{start}" y="{y}" width="{max(end - start, 1.5):.1f}"'
                    f' height="{_HEIGHT - 3}"><title>{range.least:.4g} to {range.greatest:.4g}</title></rect>'
                )
