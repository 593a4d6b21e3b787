"""The kernels for AVX-512 by a model of its intrinsics: they run on any x86-64 processor with AVX2."""

import re
from pathlib import Path

import pytest
from tests.house.builds import (
    AVX512_MODEL,
    ROOT,
    TOGETHER,
    WORST_CASES,
    build,
    build_here,
    locked,
    program,
    run,
    run_tests,
    tool,
)

MODEL = ROOT / "tests" / "avx512_model"
DIGESTS = MODEL / "digests.cpp"
# What the processor must have: of Linux's names for x86-64-v3 and v4, those that tell them apart from less.
AVX2 = {"avx2", "fma", "f16c", "bmi2"}
AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# The oracles of what is written for AVX-512: powers and PReLU of the long floating types, formulas of constant
# exponents with special values among the bases, tables of 16-bit types. make exhaustive takes all oracles.
TESTS = (
    "(test_pow[ or by_phases or test_prelu[ or formula or among_others or (every_base_of_16_bits and -0.5))"
)
LONG_FLOATS = f"{TESTS} and not float8 and not float4 and not int"


@pytest.fixture(scope="module")
def features() -> set[str]:
    """The features of this processor, which must have AVX2."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*: (.*)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE)
    features = set(found[1].split()) if found else set()
    if not features >= AVX2:
        pytest.skip("the model needs a processor with AVX2")
    return features


@pytest.fixture
def without_avx512(features: set[str]) -> None:
    if features >= AVX512:
        pytest.skip("the processor itself runs these kernels, in tests/oracle and core_check")


@pytest.fixture
def model(features: set[str]) -> Path:
    return build("avx512-model", "g++", "-DHALFULP_AVX512_MODEL=ON", TOGETHER, targets=["halfulp"])


def core_check(model: Path) -> Path:
    """The program with the model's kernels; check.cpp, long to compile, is the same for all."""
    here, check = build_here(), model / "core_check"
    main, kernels = (
        sorted(folder.glob(f"CMakeFiles/{objects}.o"))
        for folder, objects in ((here, "core_check.dir/core/check.cpp"), (model, "kernels_avx512.dir/**/*"))
    )
    flags = ["-std=c++20", "-O1", "-DHALFULP_AVX512_MODEL", "-DHALFULP_WITH_avx512", f"-I{ROOT / 'core'}"]
    with locked(check):
        run(tool("g++"), *flags, ROOT / "core" / "dispatch.cpp", *main, *kernels, "-o", check)
    return check


@pytest.mark.usefixtures("without_avx512")
def test_same_bits_as_the_other_instruction_sets(model):
    few = "256"  # the model is slow
    expected = run(build_here() / "core_check", few, *WORST_CASES)
    assert run(core_check(model), few, *WORST_CASES) == expected


@pytest.mark.usefixtures("without_avx512")
def test_long_floats(model):
    run_tests(model, "tests/oracle", "-k", LONG_FLOATS, HALFULP_ISA="avx512")


@pytest.mark.exhaustive
def test_oracles(model):
    run(core_check(model), str(1 << 17), *WORST_CASES)
    run_tests(model, "tests/oracle", HALFULP_ISA="avx512")


@pytest.mark.exhaustive
def test_reciprocal_root_of_every_base(model):
    """It begins with the processor's estimate, which may be another on each."""
    test = "tests/exhaustive/test_constant_exponents.py::test_every_base[-0.5]"
    run_tests(model, "-m", "exhaustive", test, HALFULP_ISA="avx512")


def digests(*flags: str) -> tuple[list[str], float, float]:
    """What digests.cpp prints: of all intrinsics, and the estimate's errors in units of 2^-14."""
    command = [tool("g++"), "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    *lines, last = run(program("digests", [*command, DIGESTS], DIGESTS)).splitlines()
    _, least, greatest = last.split()
    return lines, float(least), float(greatest)


def test_estimate_is_as_wrong_as_may_be(features):
    _, least, greatest = digests(*AVX512_MODEL)
    assert -1 < least < -0.999
    assert 0.999 < greatest < 1


def test_model_gives_the_processors_bits(features):
    if not features >= AVX512:
        pytest.skip("this processor has no AVX-512")
    # GCC 12 warns of operands that its own intrinsics leave undefined.
    native = ["-march=x86-64-v4", "-DHALFULP_ISA=avx512", "-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    by_processor, least, greatest = digests(*native)
    by_model, _, _ = digests(*AVX512_MODEL)
    assert len(by_model) == len(by_processor) > 80
    assert not [lines for lines in zip(by_model, by_processor, strict=True) if lines[0] != lines[1]]
    assert -1 < least < greatest < 1


def test_model_has_what_the_kernels_use():
    """No more and no less, and each is compared with the processor."""
    kernels = "".join(path.read_text() for path in sorted((ROOT / "core").rglob("*.h")))
    used = set(re.findall(r"\b_mm512_\w+|\b_mm256_maskz?_\w+|\b_mm256_cmp\w+_mask\b", kernels))
    modelled = set(
        re.findall(r"^(?:inline|#define) .*?\b(_mm\d+_\w+)\(", (MODEL / "avx512.h").read_text(), re.MULTILINE)
    )
    assert modelled == used
    assert set(re.findall(r"\b_mm\d+_\w+", DIGESTS.read_text())) == used
