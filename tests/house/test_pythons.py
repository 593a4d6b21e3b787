"""The package builds and runs with each other CPython of this machine, in an environment of its own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house.builds import FOLDER as BUILDS
from tests.house.builds import ROOT, digest, folders_of_make, locked, outdated, sources
from tests.house.pythons import FOLDER, clean

# The same options as make's build, whose objects of the kernels are taken: they do not depend on Python.
OPTIONS = [f"--config-settings=cmake.define.HALFULP_{name}=ON" for name in ("WERROR", "VECTOR_REPORT")]
TESTS = [f"tests/core/test_{name}.py" for name in ("quick_calls", "integers", "interpreters")]
TESTS += ["tests/house/test_pages.py"]
WITHOUT_GIL = ["tests/core/test_threads.py"]

# What would tell the build that another environment's tools made the objects.
OTHERS = shutil.ignore_patterns("CMakeCache.txt", ".skbuild-info.json")

# Those for which make test has made an environment, oldest first.
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"
VERSIONS = {python.parents[2].name for python in FOLDER.glob("*/env/bin/python")} - {THIS}
VERSIONS_IN_ORDER = sorted(VERSIONS, key=lambda version: int(version.rstrip("t").split(".")[1]))


def has_stable_abi(version: str) -> bool:
    return not version.endswith("t") and int(version.split(".")[1]) >= 12


def state() -> str:
    """Return a digest of the files that a wheel and its trial are made of."""
    return digest(ROOT / "src", ROOT / "pyproject.toml", ROOT / "README.md", Path(__file__), sources())


def compiler(made: Path) -> str:
    """Return the compiler of make's build; a Python of the system may ask for another name, and so compile all anew."""
    return re.search("^CMAKE_CXX_COMPILER:.*", (made / "CMakeCache.txt").read_text(), re.MULTILINE)[0]


def wheel(version: str) -> Path:
    """Return the wheel for a version; those with the stable ABI share the one that the oldest of them builds.

    So does the release. ``make machines`` builds the package with each.
    """
    if has_stable_abi(version):
        version = next(filter(has_stable_abi, VERSIONS_IN_ORDER))
    folder = FOLDER / version
    built, build = folder / "wheel", folder / "build"
    with outdated(built, state()) as is_outdated:
        if is_outdated:
            shutil.rmtree(built, ignore_errors=True)
            for made in folders_of_make()[: not build.exists()]:
                with locked(BUILDS / "package"):
                    copy = shutil.copytree(made, folder / "copy", ignore=OTHERS)
                copy.rename(build)
            options = ["--no-build-isolation", "--no-deps", "--no-index", f"--wheel-dir={built}", *OPTIONS]
            options += [f"--config-settings=cmake.define.{compiler(made)}" for made in folders_of_make()[:1]]
            python = folder / "env" / "bin" / "python"
            run(
                *(python, "-m", "pip", "wheel", "--quiet", *options, f"--config-settings=build-dir={build}"),
                ROOT,
            )
    return next(built.glob("*.whl"))


@pytest.mark.parametrize("version", VERSIONS_IN_ORDER)
def test_the_package_builds_and_runs(version):
    folder = FOLDER / version
    python = folder / "env" / "bin" / "python"
    file = wheel(version)
    with outdated(folder / "env", state()) as is_outdated:
        if not is_outdated:
            return
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", file)
        modules = run(python, "-c", "from halfulp import _core, _cuda; print(_core.__file__, _cuda.__file__)")
        assert modules.count(".abi3.so") == (2 if has_stable_abi(version) else 0)
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", "-c", ROOT / "pyproject.toml"]
        tests = TESTS + WITHOUT_GIL * version.endswith("t")
        run(python, "-m", "pytest", *options, *(ROOT / test for test in tests), "-k", "not page or README")


def run(python: Path, *arguments: str | Path) -> str:
    """Run an interpreter in a folder of its own, without this environment's variables."""
    home = python.parents[2] / "home"
    command = [python, *arguments]
    done = subprocess.run(command, cwd=home, env=clean(home, python.parent), capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout
