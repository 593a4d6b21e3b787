"""GCC and Clang build the core; what they build gives the same bits, and passes under the sanitizers too.

Quick: that Clang compiles the headers, and GCC's sanitizers on one instruction set with all pairs of types and some
of the tests of the loop. By ``make exhaustive``: that each header compiles alone, core_check and all tests of the loop
under the sanitizers, on every instruction set, Clang's bits, and the oracles.
"""

import os
import platform
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.house.builds import (
    ROOT,
    TOGETHER,
    WORST_CASES,
    build,
    build_here,
    libraries,
    run,
    run_program,
    run_tests,
    tool,
)

LOOP = ["tests/core/test_loop.py", "tests/core/test_aliasing.py"]
CORPUS = "tests/fuzzing/test_corpus.py"
BOTH_PARTS = ["core_check", "halfulp"]
BASELINE = "-DHALFULP_ISA=baseline"
BOTH = pytest.mark.parametrize("compiler", ["g++", "clang++"])


@pytest.fixture(autouse=True)
def no_instruction_set_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build may lack the one that the environment names."""
    monkeypatch.delenv("HALFULP_ISA", raising=False)


# Every pair of types: random operands, one exponent for all, and the hard cases of core_check; DirectML's rules.
PAIRS = """
import numpy as np
import halfulp as hu
from halfulp.types import TYPES
from halfulp.conformance.cases.values import hard_pairs
from tests.oracle.grids import random_bits, specials
rng = np.random.default_rng(1)
for name, row in TYPES.items():
    x = np.concatenate([specials(name), random_bits(name, rng, 200)])
    hu.prelu(x, x[::-1])
    for other in TYPES:
        y = np.concatenate([specials(other), random_bits(other, rng, 200)])
        n = min(x.size, y.size)
        hu.pow(x[:n], y[:n])
        hu.pow(x, y[-1:])
        hu.pow(*hard_pairs(name, other))
for name in ("float32", "float16", "int32", "uint8"):
    x, y = random_bits(name, rng, 200), random_bits(name, rng, 200)
    hu.op("directml.ELEMENT_WISE_POW-3_0")(x, y, ScaleBias={"Scale": 1.5, "Bias": -0.25})
"""


def check_sanitized(compiler: str, *options: str, quick: bool = False) -> None:
    """The address and undefined-behaviour sanitizers see nothing, misaligned pointers included."""
    if compiler == "clang++":
        needed = libraries(compiler, f"libclang_rt.asan-{platform.machine()}.so")
    else:
        # libstdc++ too: the address sanitizer looks for its exceptions when it starts.
        needed = libraries(compiler, "libasan.so", "libubsan.so", "libstdc++.so.6")
    name = f"{compiler}-sanitize{'-quick' if quick else '-baseline' if options else ''}"
    # The sanitized core_check alone takes as long to compile as the kernels.
    targets = ["halfulp"] if quick else ["core_check", "_core"]
    options = (*options, TOGETHER) if quick else options
    folder = build(name, compiler, "-DHALFULP_SANITIZE=ON", *options, targets=targets)
    environment = {"UBSAN_OPTIONS": "print_stacktrace=1", "LD_LIBRARY_PATH": str(needed[0].parent)}
    if not quick:
        run(folder / "core_check", "256", *WORST_CASES, **environment)
    # The interpreter leaks, and its allocator would hide what is beyond an array's end.
    environment |= {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    environment["LD_PRELOAD"] = " ".join(map(str, needed))
    # Of the readers those that hand arrays to the core.
    few = "not mutated and not [onnx] and not [openvino] and (not random or [0])"
    few += " and (not one_slope or float32 or float16) and (not its_place or [15] or [511])"
    some = ["-k", few] if quick else []
    run_tests(folder, *some, *LOOP, CORPUS, **environment)
    if quick:
        run_program(folder, PAIRS, **environment)


def headers() -> list[tuple[str, list[Path]]]:
    """The headers with flags that compile them: the baseline, and AVX-512 for those that keep something for it."""
    every = sorted((ROOT / "core").rglob("*.h"))
    wide = [header for header in every if "AVX512" in header.read_text()]
    assert len(every) > 20
    assert wide
    return [("", every), *([("-march=x86-64-v4", wide)] if platform.machine() == "x86_64" else [])]


def check_syntax(compiler: str, flags: str, text: str) -> str:
    """Compile a text, and return what the compiler says of it."""
    command = [compiler, "-fsyntax-only", "-std=c++20", "-DHALFULP_ISA=scalar", f"-I{ROOT / 'core'}"]
    command += [*flags.split(), "-xc++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.exhaustive
def test_every_header_compiles_alone():
    """Each includes what it uses."""
    compiler = tool("g++")
    jobs = [(flags, header) for flags, some in headers() for header in some]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda job: check_syntax(compiler, job[0], f'#include "{job[1]}"'), jobs)
        wrong = [text for text in said if text]
    assert not wrong, "\n".join(wrong)


def test_clang_compiles_the_headers():
    """All in one file: that each includes what it uses, make exhaustive shows, with GCC and the same library."""
    for flags, some in headers():
        wrong = check_syntax(tool("clang++"), flags, "".join(f'#include "{header}"\n' for header in some))
        assert not wrong, wrong


@pytest.mark.exhaustive
def test_clang_gives_the_same_bits():
    folder = build("clang++-baseline", "clang++", BASELINE, targets=BOTH_PARTS)
    assert run(folder / "core_check", *WORST_CASES) == run(build_here() / "core_check", *WORST_CASES)
    run_tests(folder, *LOOP)


def test_sanitizers():
    check_sanitized("g++", BASELINE, quick=True)


@pytest.mark.exhaustive
def test_sanitizers_on_all_tests_of_the_loop():
    check_sanitized("g++", BASELINE)


@pytest.mark.exhaustive
@BOTH
def test_every_instruction_set(compiler):
    folder = build(compiler, compiler, targets=BOTH_PARTS)
    run(folder / "core_check", str(1 << 17), *WORST_CASES)
    run_tests(folder, *LOOP, "tests/core/test_threads.py", "tests/oracle")


@pytest.mark.exhaustive
@BOTH
def test_every_instruction_set_sanitized(compiler):
    check_sanitized(compiler)


@pytest.mark.parametrize(
    ("identity", "version", "said"),
    [("GNU", "10.2", "needs GCC 11 or later"), ("Clang", "13.0", "needs Clang 14 or later")],
)
def test_a_compiler_that_is_too_old_is_refused_before_it_compiles(identity, version, said, tmp_path):
    known = {"ID_RUN": "1", "ID": identity, "VERSION": version, "FORCED": "1"}
    options = [f"-DCMAKE_CXX_COMPILER_{name}={value}" for name, value in known.items()]
    command = [
        tool("cmake"),
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        "-S",
        ROOT,
        "-B",
        tmp_path,
    ]
    configured = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert configured.returncode != 0
    assert said in configured.stderr
