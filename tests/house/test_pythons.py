"""The package builds and runs with each other CPython of this machine, in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from tests.house.builds import FOLDER as BUILDS
from tests.house.builds import ROOT, folders_of_make, locked, sources
from tests.house.pythons import FOLDER, clean, interpreters, this_version

# The same options as make's build, whose objects of the kernels are taken: they do not depend on Python.
OPTIONS = [f"--config-settings=cmake.define.HALFULP_{name}=ON" for name in ("WERROR", "VECTOR_REPORT")]
TESTS = [f"tests/core/test_{name}.py" for name in ("quick_calls", "integers", "interpreters")]
TESTS += ["tests/house/test_pages.py"]
WITHOUT_GIL = ["tests/core/test_threads.py"]

# What would tell the build that another environment's tools made the objects.
OTHERS = shutil.ignore_patterns("CMakeCache.txt", ".skbuild-info.json")


@pytest.mark.parametrize("version", sorted(set(interpreters()) - {this_version()}))
def test_the_package_builds_and_runs(version: str) -> None:
    folder = FOLDER / version
    python = folder / "env" / "bin" / "python"
    if not python.exists():
        pytest.skip("make test makes its environment")
    with locked(folder / "package"):
        files = [
            *sorted((ROOT / "src").rglob("*.py")),
            ROOT / "pyproject.toml",
            ROOT / "README.md",
            Path(__file__),
        ]
        state = sha256(b"".join(path.read_bytes() for path in files)).hexdigest() + sources()
        passed = folder / "passed"
        if passed.exists() and passed.read_text() == state:
            return
        build = folder / "build"
        for made in folders_of_make()[: not build.exists()]:
            with locked(BUILDS / "package"):
                copy = shutil.copytree(made, folder / "copy", ignore=OTHERS)
            copy.rename(build)
        install = ["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
        run(python, *install, "--force-reinstall", f"--config-settings=build-dir={build}", *OPTIONS, ROOT)
        modules = run(
            python,
            "-c",
            "from halfulp import _core, _cuda; print(_core.__file__, _cuda.__file__)",
        )
        if not version.endswith("t") and int(version.split(".")[1]) >= 12:
            assert modules.count(".abi3.so") == 2
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-c", ROOT / "pyproject.toml"]
        tests = TESTS + WITHOUT_GIL * version.endswith("t")
        run(python, "-m", "pytest", *options, *(ROOT / test for test in tests), "-k", "not page or README")
        passed.write_text(state)


def run(python: Path, *arguments: str | Path) -> str:
    """Run an interpreter in a folder of its own, without this environment's variables."""
    home = python.parents[2] / "home"
    command = [python, *arguments]
    done = subprocess.run(command, cwd=home, env=clean(home, python.parent), capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout
