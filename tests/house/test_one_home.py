"""What has one home in the tree, and comes back nowhere else."""

from __future__ import annotations

import re

import pytest
from tests.house.builds import ROOT


def files_with(pattern: str, *folders: str) -> set[str]:
    """Return the Python files of these folders that match a pattern."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)) for path in paths if re.search(pattern, path.read_text())}


@pytest.mark.parametrize(
    ("pattern", "folders", "homes"),
    [
        # halfulp.installed.version_of
        ("PackageNotFoundError", ("src", "benchmarks"), {"src/halfulp/installed.py"}),
        # in_turns is the measuring loop; the other two take single samples for it.
        (
            "perf_counter",
            ("src/halfulp/benchmark", "benchmarks"),
            {f"src/halfulp/benchmark/{name}.py" for name in ("timing", "cuda")}
            | {"benchmarks/side_by_side/measure.py"},
        ),
        # halfulp._core counts processors.
        ("sched_getaffinity|cpu_count", ("src", "benchmarks", "tools"), set()),
        # QUESTIONS is the one table of open questions; a row names the key and the text of its own.
        (
            '"(slope-of-rank-1|shapes-without-broadcast|differing-sizes)"',
            ("src",),
            {"src/halfulp/specs/unspecified.py"}
            | {f"src/halfulp/specs/rows/{name}.py" for name in ("onnx", "directml")},
        ),
        # halfulp.cli.inputs.sizes
        ("--dim is for inputs that are made up", ("src",), {"src/halfulp/cli/inputs.py"}),
    ],
)
def test_it_has_one_home(pattern: str, folders: tuple[str, ...], homes: set[str]) -> None:
    assert files_with(pattern, *folders) == homes


def test_no_page_of_the_site_is_kept() -> None:
    assert not list((ROOT / "docs").rglob("*.html"))
