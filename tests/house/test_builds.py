"""The kernels beyond this process: the same bits on aarch64, vector loops, no code shared between instruction sets."""

import os
import platform
import re
from pathlib import Path

import pytest
from tests.house.builds import ROOT, TOGETHER, WORST_CASES, build, build_here, cross, run, tool

from halfulp import reference
from halfulp.conformance.cases.values import hard_pairs

KERNELS = ROOT / "core" / "kernels"
# Bytes of a vector.
WIDTHS = {"avx512": 64, "avx2": 32, "scalar": 16, "neon": 16}


@pytest.fixture
def here() -> Path:
    return build_here()


def aarch64(*options: str) -> Path:
    name = "aarch64-quick" if options == QUICKLY else "aarch64"
    return build(name, "aarch64-linux-gnu-g++", *options, *cross("Linux", "aarch64"))


REPORT = ("-DHALFULP_VECTOR_REPORT=ON",)
QUICKLY = (
    TOGETHER,
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS_DEBUG=-Og",
)  # a sixth of the compiler's time


@pytest.mark.parametrize(
    ("options", "count"), [(QUICKLY, "128"), pytest.param(REPORT, "4096", marks=pytest.mark.exhaustive)]
)
def test_aarch64_gives_the_same_bits(here, options, count):
    # Each line is a digest of many results of one kernel and types. Each run also compares its instruction sets.
    folder = aarch64(*options)
    on_this = run(here / "core_check", count, *WORST_CASES).splitlines()
    on_that = run(tool("qemu-aarch64"), folder / "core_check", count, *WORST_CASES).splitlines()
    assert len(WORST_CASES) > 20
    assert len(on_this) == len(on_that) > 1600
    assert not [lines for lines in zip(on_this, on_that, strict=True) if lines[0] != lines[1]]


def test_worst_cases_have_the_bits_of_the_oracle(here):
    """Of every instruction set, as core_check compares them, and so of aarch64."""
    few = run(here / "core_check").splitlines()
    lines = run(here / "core_check", *WORST_CASES).splitlines()
    assert lines[: len(few)] == few
    total = 0
    for line in lines[len(few) :]:
        _, x_name, y_name, count, digest = line.split()
        x, y = hard_pairs(x_name, y_name)
        assert digest == fnv(reference.pow(x, y).tobytes()), line
        total += int(count)
    assert total == sum(file.read_text().count("\n0x") for file in WORST_CASES) > 15_000


def fnv(data: bytes) -> str:
    """What core_check prints of results: their 64-bit FNV-1a hash."""
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    return f"{state:016x}"


@pytest.mark.parametrize(
    "instruction_set", ["avx512", "avx2", "scalar", pytest.param("neon", marks=pytest.mark.exhaustive)]
)
def test_marked_loops_are_vectors(instruction_set, request):
    if instruction_set == "neon":
        objects = aarch64(*REPORT) / "CMakeFiles" / "kernels_scalar.dir"
    elif platform.machine() == "x86_64":
        objects = request.getfixturevalue("here") / "CMakeFiles" / f"kernels_{instruction_set}.dir"
    else:
        pytest.skip("an instruction set of x86-64")
    made, missed = loops(objects, WIDTHS[instruction_set])
    required = marked(instruction_set)
    assert len(required) > 25
    wrong = {
        place: f"{made.count(place)} instances are vectors, {missed.count(place)} are not"
        for place, all_of_them in required.items()
        if place not in made or missed.count(place) > (0 if all_of_them else made.count(place))
    }
    assert not wrong


def marked(instruction_set: str) -> dict[str, bool]:
    """The loops that must be vectors on an instruction set, as folder/file:line, and whether each instance must.

    A mark stands beside or above a loop: ``// vector loop``, or with the sets that it holds for and whether for most
    types only: ``// vector loop: avx512 avx2 neon(most)``.
    """
    found = {}
    for path in sorted(file for kind in ("h", "cpp") for file in KERNELS.rglob(f"*.{kind}")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, start=1):
            code, mark, rest = line.partition("// vector loop")
            if not mark:
                continue
            sets = dict(re.findall(r"(\w+)(\(most\))?", rest)) or dict.fromkeys(WIDTHS, "")
            assert re.fullmatch(r"(: \w+(\(most\))?( \w+(\(most\))?)*)?", rest), (path, line)
            assert set(sets) <= set(WIDTHS), (path, line)
            place = number if code.strip() else number + 1
            assert lines[place - 1].lstrip().startswith("for ("), (path, line)
            if instruction_set in sets:
                found[f"{path.parent.name}/{path.name}:{place}"] = not sets[instruction_set]
    return found


def loops(objects: Path, width: int) -> tuple[list[str], list[str]]:
    """The loops that GCC made vectors of this width, and those that it could not, an entry for each instance."""
    made, missed = [], []
    line_of = re.compile(r"(.*?):(\d+):\d+: \w+: +(.*)")
    reports = [report.read_text(errors="replace") for report in objects.rglob("*.vectors")]
    for file, line, what in re.findall(line_of, "".join(reports)):
        place = "/".join(Path(os.path.normpath(file)).parts[-2:]) + f":{line}"
        if what == f"loop vectorized using {width} byte vectors":
            made.append(place)
        elif what == "couldn't vectorize loop":
            missed.append(place)
    return made, missed


def test_instruction_sets_share_no_function(here):
    """A weak function outside an instruction set's namespace could be linked in from another set's object."""
    if platform.machine() != "x86_64":
        pytest.skip("one instruction set only")
    objects = sorted(here.glob("CMakeFiles/kernels_*.dir/**/*.o"))
    assert len({path.relative_to(here).parts[1] for path in objects}) == 3
    for path in objects:
        weak = re.findall(r"^\w+ W (.*)$", run(tool("nm"), "--demangle", path), re.MULTILINE)
        outside = [name for name in weak if not re.search(r"\bhalfulp::(scalar|avx2|avx512)::", name)]
        assert not outside, path
