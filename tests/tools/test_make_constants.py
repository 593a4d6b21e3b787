"""The constants of the kernels are what the script makes, to the last bit and comment."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_script_makes_the_file() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_constants.py"], capture_output=True, text=True, check=True
    ).stdout
    assert made == (ROOT / "core" / "numerics" / "constants.h").read_text(encoding="ascii") + "\n"
