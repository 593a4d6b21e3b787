"""How far off results are: counts of elements by their distance from the right result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halfulp.conformance.schema import RowEntry
from halfulp.conformance.verdict.judge import HISTOGRAM


@dataclass(frozen=True)
class Bar:
    """The elements whose distance lies in one bucket.

    Attributes:
        bucket: the distance in ulps, or ``special``.
        count: how many elements.
        share: the part of all elements, as text.
        width: the bar's length from 0 to 100, on a logarithmic scale, so that one element in a million is seen.
    """

    bucket: str
    count: int
    share: str
    width: float


def histogram(rows: Sequence[RowEntry]) -> list[Bar]:
    """Return the bars of some rows of a document together."""
    counts: Mapping[str, int] = sum((Counter(row["histogram"]) for row in rows), Counter[str]())
    total = sum(counts.get(bucket, 0) for bucket in HISTOGRAM)
    return [_bar(bucket, counts.get(bucket, 0), total) for bucket in HISTOGRAM]


def _bar(bucket: str, count: int, total: int) -> Bar:
    if not count:
        return Bar(bucket, 0, "0", 0.0)
    width = 100 * math.log10(count + 1) / math.log10(total + 1)
    return Bar(bucket, count, percent(count, total), round(width, 1))


def percent(count: int, total: int) -> str:
    """Return a share; never 0 % or 100 % of what is not."""
    if count in (0, total):
        return "100 %" if count else "0 %"
    # As many digits as tell it from 0 and from 100 %.
    far = min(count, total - count) / total * 100
    digits = max(1, -math.floor(math.log10(far)))
    text = f"{100 * count / total:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')} %"
