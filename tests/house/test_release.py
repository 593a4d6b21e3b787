"""What names the version and the date of a release agrees."""

import re
import tomllib

from tests.house.builds import ROOT

import halfulp as hu

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_versions_and_dates_agree():
    citation = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert hu.__version__ == PROJECT["version"] == citation["version"]
    assert headings[:2] == ["[Unreleased]", f"[{PROJECT['version']}] - {citation['date-released']}"]


def test_users_are_bound_to_no_version():
    """What is pinned is in tests/constraints.txt, beside NVIDIA's compiler, whose bytes are compared."""
    extras = PROJECT["optional-dependencies"]
    wanted = [PROJECT["dependencies"], *(extras[name] for name in extras if name != "kernels")]
    assert not [
        requirement
        for requirements in wanted
        for requirement in requirements
        if "==" in requirement.partition(";")[0]
    ]
    constraints = (ROOT / "tests" / "constraints.txt").read_text()
    for name in re.findall(r"^([\w-]+)==", constraints, re.MULTILINE):
        assert any(requirement.startswith(f"{name}>=") for requirement in extras[name])
