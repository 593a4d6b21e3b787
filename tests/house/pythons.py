"""The other CPythons of this machine, each with an environment in build/pythons/ that has nothing of this one's.

    python -m tests.house.pythons

makes the environments, which takes an index of packages; ``make test`` does so before its tests, which take none.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "pythons"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# What the package is built with, what it and its examples need, and what runs its tests.
NEEDS = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["models"],
    *PROJECT["tool"]["cibuildwheel"]["test-requires"],
]
# Says what an interpreter is, if packages can be compiled for it.
DESCRIPTION = """
import ensurepip, os, sys, sysconfig, venv
assert os.path.exists(sysconfig.get_path("include") + "/Python.h")
threads = "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
print(sys.implementation.name, f"{sys.version_info[0]}.{sys.version_info[1]}{threads}")
"""


@cache
def interpreters() -> dict[str, Path]:
    """Return a CPython for each version from 3.11 on that PATH or pyenv has, such as 3.13 or 3.13t."""
    here = Path(sys.base_prefix)
    paths = [here / "bin" / "python3"]
    names = ["python3", *(f"python3.{minor}{threads}" for minor in range(11, 20) for threads in ("", "t"))]
    paths += [Path(found) for name in names if (found := shutil.which(name))]
    if here.parent.name == "versions":
        paths += sorted(here.parent.glob("*/bin/python3"), reverse=True)
    by_version: dict[str, Path] = {}
    for path in paths:
        described = subprocess.run(
            [path, "-I", "-c", DESCRIPTION], capture_output=True, text=True, check=False
        )
        name, _, version = described.stdout.strip().partition(" ")
        if name == "cpython" and int(version.split(".")[1].rstrip("t")) >= 11:
            by_version.setdefault(version, path)
    return by_version


def this_version() -> str:
    """Return the version of the running interpreter, as the keys of ``interpreters`` are written."""
    return next(version for version, path in interpreters().items() if path.samefile(sys.executable))


def clean(home: Path, *folders: Path) -> dict[str, str]:
    """Return an environment with a home, PATH with further folders in front, and pip's settings only."""
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    return {k: v for k, v in os.environ.items() if k.startswith("PIP_")} | {"PATH": path, "HOME": str(home)}


def main() -> None:
    """Make an environment for each other interpreter, or bring it up to date."""
    for version, interpreter in interpreters().items():
        if version == this_version():
            continue
        folder = FOLDER / version
        python = folder / "env" / "bin" / "python"
        (folder / "home").mkdir(parents=True, exist_ok=True)
        if not python.exists():
            subprocess.run([interpreter, "-m", "venv", folder / "env"], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *NEEDS], env=clean(folder / "home"), check=True)


if __name__ == "__main__":
    main()
