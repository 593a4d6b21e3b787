"""The build's list of what a wheel contains: by its schema, and true of what is installed here."""

import json
import sys
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from tests.house.builds import ROOT, run


def check(text: str) -> dict[str, dict[str, object]]:
    """Return the components of a document that keeps its schema."""
    schema = pytest.importorskip("cyclonedx.schema")
    validation = pytest.importorskip("cyclonedx.validation.json")
    found = validation.JsonStrictValidator(schema.SchemaVersion.V1_6).validate_str(text)
    assert found is None, found
    document = json.loads(text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert document["metadata"]["component"]["version"] == project["version"]
    return {part["name"]: part for part in document["components"]}


def test_the_build_installs_it():
    (file,) = [file for file in distribution("halfulp").files or [] if file.match("sboms/halfulp.cdx.json")]
    assert file.parts[0].endswith(".dist-info")
    parts = check(Path(str(file.locate())).read_text())
    assert {"nanobind", "robin-map"} < set(parts)
    assert parts["nanobind"]["version"] == version("nanobind")


@pytest.mark.parametrize(
    ("compiler", "runtime"), [("GNU", "libgcc"), ("AppleClang", "compiler-rt"), ("Clang", "compiler-rt")]
)
def test_what_it_lists(compiler, runtime, tmp_path):
    output = tmp_path / "halfulp.cdx.json"
    run(sys.executable, ROOT / "tools" / "make_sbom.py", output, "--compiler", compiler, "12.2.0")
    parts = check(output.read_text())
    assert list(parts) == ["nanobind", "robin-map", runtime]
    for name, holder in [("nanobind", "Wenzel Jakob"), ("robin-map", "Thibaut Goetghebuer-Planchon")]:
        assert holder in json.dumps(parts[name]), "a license whose notice has to be handed on"
