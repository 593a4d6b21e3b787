"""CMake configures each preset of CMakePresets.json, with what they need from this environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.house.builds import ROOT, run, tool

PRESETS = json.loads((ROOT / "CMakePresets.json").read_text())


@pytest.mark.parametrize("name", [p["name"] for p in PRESETS["configurePresets"] if not p.get("hidden")])
def test_preset_configures(name: str, tmp_path: Path) -> None:
    here = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DPython_EXECUTABLE={sys.executable}"]
    run(tool("cmake"), "--preset", name, "-B", tmp_path, *here)
    assert (tmp_path / "build.ninja").exists()
    assert name in [preset["configurePreset"] for preset in PRESETS["buildPresets"]]
