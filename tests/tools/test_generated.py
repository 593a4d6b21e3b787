"""The generated files of the core and of ONNX Runtime's kernels are what the scripts make, to the last comment.

A picture in the README shows what the command prints today.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halfulp.cli import app
from halfulp.cli.demo import NETWORKS
from halfulp.integrations.onnxruntime import rewrite
from tools import make_constants, make_pictures, make_rules

ROOT = Path(__file__).parents[2]


def test_constants_of_the_kernels() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_constants.py"], capture_output=True, text=True, check=True
    ).stdout
    assert made == (ROOT / "core" / "numerics" / "constants.h").read_text(encoding="ascii") + "\n"
    assert make_constants.generate_float32() == make_constants.OF_FLOAT32.read_text(encoding="ascii")


def test_rules_of_onnx_runtimes_kernels() -> None:
    assert make_rules.generate() == make_rules.TARGET.read_text(encoding="ascii")
    # Nodes are given the clauses of these checks.
    assert set(make_rules.checks()) == set(rewrite._SHAPE_CHECKS)


def test_the_picture_of_an_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(NETWORKS, tmp_path / "halfulp-demo")
    printed = CliRunner().invoke(app, shlex.split(make_pictures.AUDIT)[1:]).stdout
    made, kept = make_pictures.terminal(make_pictures.AUDIT, printed), (ROOT / "docs/audit.svg").read_text()
    assert re.findall(">([^<]+)<", made) == re.findall(">([^<]+)<", kept)
    assert "url(http" not in kept
