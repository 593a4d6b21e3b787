"""What was said in several places, and is said in one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/halfulp"


@pytest.mark.parametrize(
    ("form", "home"),
    [
        (r"onnx\.inliner\.\w+\(|import onnx\.inliner", ""),  # models/onnx/inline.py inlines
        (r"def \w*make_identity", "models/onnx/infer.py"),
        (r"""\(?["']Pow["'], ["']PRelu["']\)""", "models/onnx/walk.py"),
        (r"""== ["']ai\.onnx["']""", "models/onnx/walk.py"),
        (r"1_000_000", "models/onnx/walk.py"),
        (r"-> Iterator\[(tuple\[str, )?(NodeProto|GraphProto|Owner)\]", "models/onnx/walk.py"),
        (r"def (inner_path|identity|reached)\(", "models/onnx/walk.py"),
    ],
)
def test_one_file_says_it(form: str, home: str) -> None:
    files = [path for path in SOURCE.rglob("*.py") if re.search(form, path.read_text())]
    names = {path.relative_to(SOURCE).as_posix() for path in files}
    assert names <= {home}, f"use {home or 'models/onnx/inline.py'}"
