"""From measurements to lines, tables, bars, CSV and page: with made-up times."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ANSWER = {
    "elements": 1000,
    "times": {
        "halfulp": [1.0, 2.0, 3.0],
        "numpy": [2.0, 4.0, 6.0],
        "torch": [0.5, 1.0, 1.0],
        "beside": [1.0, 1.0, 1.0],
        "memory, ordinary stores": [1.0, 2.0, 3.0],
        "memory, streaming stores": [0.5, 1.0, 1.5],
    },
    "exactness": {"numpy": [210, 1000, 1], "torch": [3, 1000, 70]},
    "refused": {"numba": "no such type"},
}


def lines_of(measure: Any, rows: Any, group: str, label: str, place: str, threads: int = 1) -> list[Any]:
    row = next(r for r in rows.rows() if (r.group, r.label, r.place) == (group, label, place))
    return list(measure.lines_of(row, rows.Setting(threads), ANSWER))


@pytest.fixture
def lines(measure: Any, rows: Any) -> list[Any]:
    return lines_of(measure, rows, "arrays", "float32 ** float32", "in cache")


def test_lines(lines):
    ours, numpy, torch = lines[:3]
    assert (ours.library, ours.ns, ours.low, ours.high, ours.least, ours.turns) == (
        "halfulp",
        2,
        1.5,
        2.5,
        1,
        3,
    )
    assert (ours.misrounded, ours.ratio) == (0, 1)
    assert (numpy.misrounded, numpy.ratio, torch.ratio, torch.farthest) == (210, 0.5, 2, 70)
    assert (lines[-1].library, lines[-1].refused, lines[-1].ns) == ("numba", "no such type", None)


def test_csv_gives_back_the_lines(lines, line, tmp_path):
    line.write_csv(tmp_path / "new" / "lines.csv", lines)
    text = (tmp_path / "new" / "lines.csv").read_text().splitlines()
    assert text[0].startswith("group,label,place,threads,isa,library,elements,turns,ns,")
    assert text[2] == "arrays,float32 ** float32,in cache,1,,numpy,1000,3,4,3,5,2,0.5,210,1,"
    assert line.read_csv(tmp_path / "new" / "lines.csv") == lines


def test_of_several_runs_the_medians_are_shown(lines, line):
    slow, slower = (
        [
            replace(each, ns=each.ns and factor * each.ns, ratio=each.ratio and each.ratio / factor)
            for each in lines
        ]
        for factor in (3, 9)
    )
    merged = line.of_runs([slow, slower[1:], lines[1:]])
    assert [(each.library, each.ns, each.ratio) for each in merged] == [
        (each.library, each.ns, each.ratio) for each in slow
    ]


def test_a_bar_takes_the_worst_row_and_the_faster_of_several(bars, rows, measure):
    lines = lines_of(measure, rows, "constants", "float32 ** 2", "out of cache")
    slower = lines_of(measure, rows, "constants", "float32 ** 0.5", "out of cache")
    slower = [type(line)(**vars(line) | {"ratio": 3 * line.ratio if line.ratio else None}) for line in slower]
    labels = ("float32 ** 2", "float32 ** 0.5")
    for against, ratio in (
        ("memory", 6.0),
        (bars.FASTEST, 6.0),
        ("numpy", 1.5),
        ("beside", 6.0),
        ("jax", None),
    ):
        for reach in (ratio, 1.4, None):
            bar = bars.Bar("", "constants", labels, against, reach, None, places=("out of cache",))
            (outcome,) = bars.outcomes(lines + slower, [bar])
            assert outcome.ratio == ratio
            assert outcome.worst == ("" if ratio is None else "float32 ** 0.5")
            assert outcome.met is (None if ratio is None or reach is None else ratio <= reach)


def test_page(bars, page, lines):
    pages = page.parts(["a machine", r"with \1"], bars.outcomes(lines), lines)
    parts = pages["performance"] | pages["performance-tables"]
    text = (
        "before\n"
        + "".join(f"<!-- {name}:begin -->\nold\n<!-- {name}:end -->\n" for name in parts)
        + "after\n"
    )
    made = page.regenerate(text, parts)
    assert made.startswith("before\n<!-- machine:begin -->\n- a machine\n- with \\1\n<!-- machine:end -->\n")
    assert made.endswith("<!-- bars:end -->\nafter\n")
    assert r"| float32 \*\* float32, in cache | 2.00 ±25% | 4.00 ±25%; 21 % off |" in made
    assert r"| float32 \*\* float32, in cache | 2.00 | 4.00; 21 % off |" in made
    assert "old" not in made
    assert "| float32 arrays, in cache | numpy | 0.95 | 0.87 | 0.50 | yes |" in made
    assert "### Arrays\n\n|  | halfulp | numpy | torch | numba | memory |\n" in made
    assert page.regenerate(made, parts) == made
    with pytest.raises(ValueError, match="no part named machine"):
        page.regenerate("", parts)


def test_the_first_page_has_the_rows_of_its_list_only(bars, page, rows, measure):
    assert {row[:3] for row in page.MAIN} <= {(row.group, row.label, row.place) for row in rows.rows()}
    lines = lines_of(measure, rows, "integers", "int32 ** int32", "in cache")
    pages = page.parts(["a machine"], bars.outcomes(lines), lines)
    assert "int32" not in pages["performance"]["main"]
    assert pages["performance-tables"]["tables"].startswith("### Integers\n\n|  | halfulp |")


def test_the_pages_of_the_docs_have_all_parts(bars, page):
    for name, parts in page.parts(page.machine(), bars.outcomes([]), []).items():
        text = (Path(__file__).parents[3] / "docs" / f"{name}.md").read_text()
        assert page.regenerate(text, parts)
