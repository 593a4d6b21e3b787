"""``halfulp bench``: what a person sees, in a process of its own, because it sets the environment for libraries."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

COMMAND = [sys.executable, "-m", "halfulp", "bench"]


def test_a_table_of_times_and_exactness() -> None:
    done = subprocess.run(
        [*COMMAND, "--seconds", "0", "--threads", "1"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert "halfulp" in lines[1]
    assert "numpy" in lines[1]
    assert np.__version__ in lines[2]
    rows = [line for line in lines if " ** " in line or line.strip().startswith("PRelu")]
    assert len(rows) == 11
    assert all("±" in row for row in rows)
    assert "exact" in done.stdout
    assert "on 1 thread (" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--threads", "0"], ["--threads", "many"], ["--seconds", "-1"], ["more"]]
)
def test_usage(arguments: list[str]) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Usage: halfulp bench" in done.stderr
