"""tools/make_accuracy.py: the page of the results that are there."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("gmpy2")
PATH = Path(__file__).parents[2] / "tools/make_accuracy.py"


def test_a_page_of_one_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("make_accuracy", PATH)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    worst = {"x": "2 0x4000", "y": "3 0x4200", "expected": "8 0x4800", "got": "8.01 0x4801"}
    one = {"elements": 100, "misrounded": 3, "special": 0, "max_ulp": 1.25, "worst": worst}
    entry = {
        "type": "float16",
        "ranges": dict.fromkeys(("ordinary", "wide", "hard", "search"), one),
        "special_values": 10,
        "special_wrong": 1,
        "special_example": "0^0 gives nan, not 1",
        "differs": ["position"],
        "message": None,
    }
    refused = entry | {"type": "bfloat16", "ranges": {}, "message": "refused: no such type"}
    run = {"date": "2026-11-26", "machine": "x86_64 avx2"}
    document = {
        "target": {"name": "libm", "versions": {"glibc": "2.36"}},
        "run": run,
        "types": [entry, refused],
    }
    (tmp_path / "libm.json").write_text(json.dumps([document]))
    measured: list[str] = []
    monkeypatch.setattr(tool, "PAGE", tmp_path / "accuracy.md")
    monkeypatch.setattr(tool, "measure", lambda spec, folder: measured.append(spec.name))
    monkeypatch.setattr(sys, "argv", ["make_accuracy.py", "libm", "--folder", str(tmp_path)])
    tool.main()
    assert measured == ["libm"]
    text = (tmp_path / "accuracy.md").read_text()
    assert "| libm 2.36 | float16 | 3 % | 3 % | 3 % | 1.25 | 1 of 10 | position |" in text
    assert "| libm 2.36 | bfloat16 | refused: no such type |" in text
    assert (
        "- libm, float16: (2 0x4000) ^ (3 0x4200) gives 8.01 0x4801, not 8 0x4800; 0^0 gives nan, not 1"
        in text
    )
