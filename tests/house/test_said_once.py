"""What one file says, and no other says again: facts and mechanisms that stood in several places once."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, settings
from tests.house.builds import ROOT

SRC = "src/halfulp/"

HOMES: dict[str, tuple[str, set[str]]] = {
    # files and machines
    "which path stays inside a folder": (r"is_relative_to\(root|resolve\(strict", {f"{SRC}models/files.py"}),
    "how much of a file is read": (r"stream\.read\(\)|read_bytes\(", {f"{SRC}models/files.py"}),
    "how much memory is free": (r"MemAvailable|SC_PHYS_PAGES|virtual_memory", {f"{SRC}models/memory.py"}),
    "how many processors there are": (r"cpu_count|sched_getaffinity", set()),  # halfulp._core counts them
    "whether a package is installed": (r"PackageNotFoundError", {f"{SRC}installed.py"}),
    "which format a suffix stands for": (
        r"suffix\.lower\(\) (==|not in|in) [^\n]*\.xml\"",
        {f"{SRC}models/files.py"},
    ),
    # ONNX models
    "how functions are inlined": (r"onnx\.inliner\.\w+\(|import onnx\.inliner", set()),
    "which operators halfulp has": (r"""\(?["']Pow["'], ["']PRelu["']\)""", {f"{SRC}models/onnx/walk.py"}),
    "ONNX's two names of its domain": (r"""== ["']ai\.onnx["']""", {f"{SRC}models/onnx/walk.py"}),
}


def files_with(pattern: str, *folders: str) -> set[str]:
    """Return the Python files of these folders that match a pattern."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {
        path.relative_to(ROOT).as_posix() for path in paths if re.search(pattern, path.read_text("utf-8"))
    }


@pytest.mark.parametrize("fact", HOMES)
def test_one_file_says_it(fact: str) -> None:
    pattern, homes = HOMES[fact]
    assert files_with(pattern, "src") == homes


def test_benchmarks_have_one_measuring_loop() -> None:
    # in_turns is the loop; the other two take single samples for it.
    homes = {
        f"{SRC}benchmark/timing.py",
        "benchmarks/side_by_side/cuda.py",
        "benchmarks/side_by_side/measure.py",
    }
    assert files_with("perf_counter", f"{SRC}benchmark", "benchmarks") == homes
    assert not files_with("cpu_count|sched_getaffinity|PackageNotFoundError", "benchmarks")


def test_no_test_fails_by_the_time_of_an_example() -> None:
    """Hypothesis gives an example 200 ms by default, which a busy machine exceeds: a profile takes that away."""
    assert files_with(r"deadline=\w", "tests") == {"tests/conftest.py"}
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_no_page_of_the_site_is_kept() -> None:
    assert not list((ROOT / "docs").rglob("*.html"))
