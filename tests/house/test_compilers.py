"""GCC and Clang build the core; what they build gives the same bits, and passes under the sanitizers too.

Quick: that both compile each header, and GCC's sanitizers on one instruction set with the tests of the loop; Clang's
bits, the other sets, and the oracles, by ``make exhaustive``.
"""

from __future__ import annotations

import os
import platform
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.house.builds import ROOT, WORST_CASES, build, build_here, libraries, run, run_tests, tool

LOOP = ["tests/core/test_loop.py", "tests/core/test_aliasing.py"]
CORPUS = "tests/fuzzing/test_corpus.py"
BASELINE = "-DHALFULP_BASELINE_ONLY=ON"
BOTH = pytest.mark.parametrize("compiler", ["g++", "clang++"])


def check_sanitized(compiler: str, *options: str) -> None:
    """The address and undefined-behaviour sanitizers see nothing, misaligned pointers included."""
    if compiler == "clang++":
        needed = libraries(compiler, f"libclang_rt.asan-{platform.machine()}.so")
    else:
        # libstdc++ too: the address sanitizer looks for its exceptions when it starts.
        needed = libraries(compiler, "libasan.so", "libubsan.so", "libstdc++.so.6")
    name = f"{compiler}-sanitize{'-baseline' if options else ''}"
    folder = build(name, compiler, "-DHALFULP_SANITIZE=ON", *options, extension=True)
    environment = {"UBSAN_OPTIONS": "print_stacktrace=1", "LD_LIBRARY_PATH": str(needed[0].parent)}
    run(folder / "core_check", "256", *WORST_CASES, **environment)
    # The interpreter leaks, and its allocator would hide what is beyond an array's end.
    environment |= {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    run_tests(folder, *LOOP, CORPUS, **environment, LD_PRELOAD=" ".join(map(str, needed)))


@BOTH
def test_every_header_compiles_alone(compiler: str) -> None:
    """Each includes what it uses, on the baseline and in what it keeps for AVX-512."""
    headers = sorted((ROOT / "core").rglob("*.h"))
    command = [tool(compiler), "-fsyntax-only", "-std=c++20", "-DHALFULP_ISA=scalar", f"-I{ROOT / 'core'}"]
    jobs = [(*command, "-xc++", header) for header in headers]
    if platform.machine() == "x86_64":
        wide = [header for header in headers if "AVX512" in header.read_text()]
        assert wide
        jobs += [(*command, "-march=x86-64-v4", "-xc++", header) for header in wide]
    assert len(jobs) > 20
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda job: subprocess.run(job, capture_output=True, text=True), jobs))
    wrong = [done.stderr for done in said if done.returncode != 0]
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_clang_gives_the_same_bits() -> None:
    folder = build("clang++-baseline", "clang++", BASELINE, extension=True)
    assert run(folder / "core_check", *WORST_CASES) == run(build_here() / "core_check", *WORST_CASES)
    run_tests(folder, *LOOP)


def test_sanitizers() -> None:
    check_sanitized("g++", BASELINE)


@pytest.mark.exhaustive
@BOTH
def test_every_instruction_set(compiler: str) -> None:
    folder = build(compiler, compiler, extension=True)
    run(folder / "core_check", str(1 << 17), *WORST_CASES)
    run_tests(folder, *LOOP, "tests/core/test_threads.py", "tests/oracle")


@pytest.mark.exhaustive
@BOTH
def test_every_instruction_set_sanitized(compiler: str) -> None:
    check_sanitized(compiler)
