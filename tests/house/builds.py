"""Builds of the core with various compilers and options, kept under build/tests as long as nothing changes."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from halfulp import _core

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "tests"
CORE = ROOT / "core"
MODEL = ROOT / "tests" / "avx512_model"
WORST_CASES = sorted((ROOT / "data" / "worst_cases").glob("*.txt"))

# What compiles core/'s AVX-512 sources for a processor with AVX2; -DHALFULP_AVX512_MODEL=ON builds with these.
AVX512_MODEL = [
    "-march=x86-64-v3",
    "-Wno-psabi",
    "-include",
    str(MODEL / "avx512.h"),
    "-DHALFULP_ISA=avx512",
]

# What CMakeLists.txt compiles the core with, beside what each test chooses.
FLAGS = ["-std=c++20", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", f"-I{CORE}"]

# Several sources at a time, so that a compiler reads their headers once: half of what a quick build takes.
TOGETHER = "-DCMAKE_UNITY_BUILD=ON"


def cross(system: str, processor: str) -> list[str]:
    """Options to compile for another platform, by CMake's names; what is for Linux needs nothing of it to run."""
    static = ["-DCMAKE_EXE_LINKER_FLAGS=-static"] if system == "Linux" else []
    return [f"-DCMAKE_SYSTEM_NAME={system}", f"-DCMAKE_SYSTEM_PROCESSOR={processor}", *static]


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return what it prints; where it fails, fail with what matters of that."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    if done.returncode != 0:
        told = re.findall(r"(?:.*\n)?.*(?:differs|error|ERROR).*(?:\n +#.*)*", done.stdout)
        told = "\n".join(told or done.stdout.splitlines()[-30:]).splitlines()[:60]
        pytest.fail(
            "\n".join([f"{' '.join(map(str, command))} exited {done.returncode}", *told]), pytrace=False
        )
    return done.stdout


def tool(name: str) -> str:
    """Return the path of a tool, this environment's before the system's, or skip the test."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"{name} is not installed")
    if name == "rustc" and subprocess.run([path, "--version"], capture_output=True).returncode:
        pytest.skip("rustup has no toolchain here")
    return path


def build(name: str, compiler: str, *options: str, targets: Sequence[str] = ("core_check",)) -> Path:
    """Build targets with warnings as errors, and return the folder.

    They are core_check, the library halfulp, or _core, Python's module, which takes long to compile: run_tests and
    run_program let the installed one call a library that has none beside it.
    """
    cmake, compiler = tool("cmake"), tool(compiler)
    options = (*options, "-DHALFULP_WERROR=ON", f"-DCMAKE_CXX_COMPILER={compiler}")
    in_python = f"-DPython_EXECUTABLE={sys.executable}"
    options += (in_python if "_core" in targets else "-DHALFULP_CORE_CHECK=ON",)
    folder = FOLDER / name
    with outdated(folder, digest(str(ROOT), *options, *targets, sources())) as is_outdated:
        if is_outdated:  # what is unchanged is not compiled again
            run(cmake, "--fresh", "-S", ROOT, "-B", folder, *options)
            run(cmake, "--build", folder, "--parallel", "2", "--target", *targets)
    return folder


def sources() -> str:
    """A digest of the files that builds are made of."""
    return digest(ROOT / "CMakeLists.txt", CORE, ROOT / "bindings", MODEL)


def digest(*parts: str | Path) -> str:
    """A digest of texts, of files, and of all files in folders."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode() + b"\0")
            continue
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@contextmanager
def outdated(place: Path, made_of: str) -> Iterator[bool]:
    """Yield whether a file or a folder has to be made: none is there, or it was made of something else."""
    note = place.with_name(f"{place.name}.made_of")
    with locked(place):
        is_outdated = not (place.exists() and note.exists() and note.read_text() == made_of)
        if is_outdated:
            note.unlink(missing_ok=True)  # in case this is interrupted
        yield is_outdated
        note.write_text(made_of)


def program(name: str, command: Sequence[str | Path], *made_of: Path) -> Path:
    """Compile a program by a command, or return what an earlier run made of the same files; -o is added."""
    made = digest(*map(str, command), *made_of, MODEL)
    kept = FOLDER / "programs" / f"{name}-{made[:16]}"
    with locked(kept):
        if not kept.exists():
            run(*command, "-o", kept.with_suffix(".new"))
            kept.with_suffix(".new").rename(kept)
    return kept


def build_here() -> Path:
    """All instruction sets of this platform by GCC, with its report: where make built the package, or afresh."""
    for folder in folders_of_make():
        with locked(FOLDER / "package"):
            run(tool("cmake"), "--build", folder, "--target", "core_check")
        return folder
    return build("g++-report", "g++", "-DHALFULP_VECTOR_REPORT=ON")


def folders_of_make() -> list[Path]:
    """Return the folders in which make has built the package with GCC's report on loops."""
    reporting = "HALFULP_VECTOR_REPORT:UNINITIALIZED=ON", "HALFULP_VECTOR_REPORT:BOOL=ON"
    caches = (ROOT / "build").glob("*/CMakeCache.txt")
    return [cache.parent for cache in caches if any(line in cache.read_text() for line in reporting)]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of a parallel test run out of a folder, or away from a file."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def libraries(compiler: str, *names: str) -> list[Path]:
    """Shared libraries of a compiler's, where it has them; else skip the test."""
    paths = [Path(run(tool(compiler), f"-print-file-name={name}").strip()) for name in names]
    if not all(path.is_absolute() and path.exists() for path in paths):
        pytest.skip(f"{compiler} has no sanitizers here")
    return paths


def run_tests(folder: Path, *paths: str, **environment: str) -> None:
    """Run tests with the library of a build folder."""
    run_program(
        folder,
        f"import pytest, sys; sys.exit(pytest.main({['-q', '-p', 'no:cacheprovider', *paths]}))",
        **environment,
    )


def run_program(folder: Path, text: str, **environment: str) -> None:
    """Run a Python program, which may import tests' modules, with the library of a build folder."""
    with tempfile.TemporaryDirectory(prefix="halfulp-") as place:
        environment["PYTHONPATH"] = os.pathsep.join([package(folder, Path(place)), str(ROOT)])
        found = f"import halfulp._core; assert halfulp._core.__file__.startswith({place!r})"
        run(*PYTHON, "-c", f"{found}\n{text}", **environment)


# Without site, so that no editable installation comes before the copy.
PYTHON = [sys.executable, "-S"]


def package(folder: Path, target: Path) -> str:
    """Copy the package below a folder, with the library of a build folder; return the path to import it by."""
    copy = target / "halfulp"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(
        ROOT / "src" / "halfulp", copy, ignore=shutil.ignore_patterns("*.so", "*.pyc.*")
    )  # no file that is being written
    modules = [*folder.glob("_core*.so")] or [_core.__file__]
    for compiled in (folder / "libhalfulp.so", *modules):
        shutil.copy(compiled, copy)
    shutil.copytree(ROOT / "data" / "worst_cases", copy / "worst_cases")  # as a wheel has them
    return os.pathsep.join([str(target), str(Path(np.__file__).parents[1])])
