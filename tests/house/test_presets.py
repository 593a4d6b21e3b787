"""CMake configures each preset of CMakePresets.json, with what they need from this environment."""

import json
import sys

import pytest
from tests.house.builds import ROOT, run, tool

PRESETS = json.loads((ROOT / "CMakePresets.json").read_text())


# Two have all that the others have; make exhaustive takes all.
NAMES = [
    pytest.param(
        preset["name"], marks=[] if preset["name"] in ("asan", "model") else [pytest.mark.exhaustive]
    )
    for preset in PRESETS["configurePresets"]
    if not preset.get("hidden")
]


@pytest.mark.parametrize("name", NAMES)
def test_preset_configures(name, tmp_path):
    here = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DPython_EXECUTABLE={sys.executable}"]
    run(tool("cmake"), "--preset", name, "-B", tmp_path, *here)
    assert (tmp_path / "build.ninja").exists()
    assert name in [preset["configurePreset"] for preset in PRESETS["buildPresets"]]
