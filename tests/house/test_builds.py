"""The kernels beyond this process: for aarch64 the same bits, and no code shared between instruction sets."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AARCH64 = [
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    "-DCMAKE_EXE_LINKER_FLAGS=-static",
]


def run(*command: str | Path) -> str:
    """Run a command and return what it prints; where it fails, fail with what matters of that."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        told = re.findall(r"(?:.*\n)?.*(?:differs|error).*", done.stdout) or done.stdout.splitlines()
        pytest.fail("\n".join([f"{command} exited {done.returncode}", *told[-30:]]), pytrace=False)
    return done.stdout


def tool(name: str) -> str:
    """Return the path of a tool, this environment's before the system's, or skip the test."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def core_check(folder: Path, *options: str) -> Path:
    """Build core_check and return its path."""
    cmake = tool("cmake")
    run(cmake, "-S", ROOT, "-B", folder, "-DHALFULP_CORE_CHECK=ON", "-DHALFULP_WERROR=ON", *options)
    run(cmake, "--build", folder, "--parallel", "2")
    return folder / "core_check"


def test_aarch64_gives_the_same_bits(tmp_path: Path) -> None:
    compiler, qemu = tool("aarch64-linux-gnu-g++"), tool("qemu-aarch64")
    # Each line is a digest of many results of one kernel and types. Here it also compares instruction sets.
    here = run(core_check(tmp_path / "here")).splitlines()
    there = run(
        qemu, core_check(tmp_path / "there", f"-DCMAKE_CXX_COMPILER={compiler}", *AARCH64)
    ).splitlines()
    assert len(here) == len(there) > 500
    assert not [lines for lines in zip(here, there, strict=True) if lines[0] != lines[1]]


def test_instruction_sets_share_no_function() -> None:
    """A weak function outside an instruction set's namespace could be linked in from another set's object."""
    if platform.machine() != "x86_64":
        pytest.skip("one instruction set only")
    nm = tool("nm")
    objects = sorted(ROOT.glob("build/*/CMakeFiles/kernels_*.dir/**/*.o"))
    if not objects:
        pytest.skip("no objects under build/: the package was not built by make")
    for path in objects:
        weak = re.findall(r"^\w+ W (.*)$", run(nm, "--demangle", path), re.MULTILINE)
        outside = [name for name in weak if not re.search(r"\bhalfulp::(scalar|avx2|avx512)::", name)]
        assert not outside, path
