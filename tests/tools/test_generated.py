"""The generated files of the core and of ONNX Runtime's kernels are what the scripts make, to the last comment."""

import subprocess
import sys
from pathlib import Path

import pytest

from halfulp.integrations import onnxruntime
from tools import make_constants, make_rules

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_constants_of_the_kernels():
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_constants.py"], capture_output=True, text=True, check=True
    ).stdout
    assert made == (ROOT / "core" / "numerics" / "constants.h").read_text(encoding="ascii") + "\n"


def test_constants_of_one_float32():
    assert make_constants.generate_float32() == make_constants.OF_FLOAT32.read_text(encoding="ascii")


def test_rules_of_onnx_runtimes_kernels():
    assert make_rules.generate() == make_rules.TARGET.read_text(encoding="ascii")
    # Nodes are given the clauses of these checks.
    assert set(make_rules.checks()) == set(onnxruntime._SHAPE_CHECKS)
