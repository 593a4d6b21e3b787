"""Facts that stand in one file each: no other file of the package finds them out for itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/halfulp"

OWNERS = {
    "which path stays inside a folder": (r"is_relative_to\(root|resolve\(strict", {"models/files.py"}),
    "how much memory is free": (r"MemAvailable|SC_PHYS_PAGES|virtual_memory", {"models/memory.py"}),
    "how many processors there are": (r"cpu_count|sched_getaffinity", set()),
    "how much of a file is read": (r"stream\.read\(\)|read_bytes\(", {"models/files.py"}),
    "which format a suffix stands for": (r"suffix\.lower\(\) (==|not in|in) [^\n]*\.(xml|json)\"", set()),
    "which format begins with which character": (r"_STARTS\b", {"models/source.py"}),
    "what a run reports": (r"^class RunReport", {"models/run/report.py"}),
}


@pytest.mark.parametrize("fact", OWNERS)
def test_one_file_knows(fact: str) -> None:
    pattern, owners = OWNERS[fact]
    files = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    assert {name for name, text in files.items() if re.search(pattern, text, re.MULTILINE)} == owners
