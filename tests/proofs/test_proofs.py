"""The proofs fail for a core with a fault. (That they hold without one, .ci/run looks at: python -m proofs --quick.)"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from proofs.errors import Input, RoundingErrors
from proofs.interval import Interval
from proofs.trace import Constant, Function, Node
from tests.house.builds import ROOT, tool

NUMERICS, KERNELS = Path("numerics"), Path("kernels")
FAST, PAIRS, CONSTANTS = NUMERICS / "pow_fast.h", NUMERICS / "pow_dd.h", NUMERICS / "constants.h"
FLOATS, FLOAT64 = NUMERICS / "pow_pairs.h", NUMERICS / "pow_fast_float64.h"
LANES, EXACT, INTEGERS = KERNELS / "float" / "lanes.h", NUMERICS / "pow_exact.h", NUMERICS / "pow_int.h"
QUOTIENT, POWER = "s = (m - 1)/(m + 1), fused", "2^t"


@dataclass(frozen=True)
class Fault:
    """A text of a header, what stands there instead, and the proof that must fail: its part, and its step if one is
    enough."""

    header: Path
    right: str
    wrong: str
    part: str
    step: str = ""


FAULTS = {
    "a wrong divisor": Fault(FAST, "(m - 1) / (m + 1)", "(m - 1) / (m + 0x1.0000001p0)", "fast", QUOTIENT),
    "a coefficient of the logarithm": Fault(
        CONSTANTS, "0x1.2776c295f01cfp-1", "0x1.2776c2a5f01cfp-1", "fast", "fast_error, fused"
    ),
    "the last coefficient of the power": Fault(
        CONSTANTS, "0x1.63d1363666bf3p-20", "0x1.73d1363666bf3p-20", "fast", "fast_error, fused"
    ),
    "half of fast_error_of_t": Fault(
        FAST, "fast_error_of_t = 0x1.8p-46", "fast_error_of_t = 0x1.8p-47", "fast", "fast_error, fused"
    ),
    "the quotient as a float": Fault(
        FAST, "return {(m - 1) / (m + 1),", "return {static_cast<float>((m - 1) / (m + 1)),", "fast", QUOTIENT
    ),
    "a power to halves": Fault(
        FAST, "t - (shifted - round_magic)", "t - (shifted - round_magic) * 0.5", "fast", POWER
    ),
    "a lesser pair_error": Fault(
        FLOATS, "error = 0x1.8p-35f", "error = 0x1.5p-35f", "pairs", "error of pairs of floats, AVX-512"
    ),
    "a half logarithm whose low part is rounded to less": Fault(
        FLOATS,
        "fused(square * v, cubic, start.whole_low + lost)",
        "square * v * cubic + (start.whole_low + lost)",
        "pairs",
        "ln(x)/2",
    ),
    "a renormalized t that loses its low part": Fault(
        FLOATS,
        "return {high, t.low - (high - t.high)};",
        "return {high, t.low - t.low};",
        "pairs",
        "y ln(x)/2",
    ),
    "exponents that are not renormalized": Fault(
        FLOATS, "least_great_y = 4;", "least_great_y = 16;", "pairs", "error of pairs of floats, AVX-512"
    ),
    "an r with which v is rounded": Fault(
        CONSTANTS,
        "0x1.e800000000000p-2f",
        "0x1.e810000000000p-2f",
        "pairs",
        "ln(x)/2 in pairs of floats, AVX-512",
    ),
    "an error that does not grow with |y|": Fault(
        FLOATS, "error_of_y = 0x1.3p-38f", "error_of_y = 0", "pairs", "error of pairs of floats, AVX-512"
    ),
    "a lesser error of rows": Fault(
        FLOATS,
        "error_of_y = 0x1.cp-39f",
        "error_of_y = 0x1.4p-39f",
        "pairs",
        "error of pairs of floats, AVX2",
    ),
    "a row's r with which v is rounded": Fault(
        CONSTANTS,
        "{0x1.fe00000000000p-1f, ",
        "{0x1.fe10000000000p-1f, ",
        "pairs",
        "ln(x)/2 in pairs of floats, AVX2",
    ),
    "an entry of a table of pairs": Fault(
        CONSTANTS, "0x1.563dc29ffa000p-3", "0x1.563dc29ff8000p-3", "double_double", "the table of logarithms"
    ),
    "a pair's low coefficient": Fault(
        CONSTANTS, "0x1.abc6796734c5fp-56", "0x1.abc6796734c5fp-55", "double_double", "2^t, fused"
    ),
    "a fused operation dropped": Fault(
        PAIRS,
        "return {sum.high, sum.low + multiply_add(inner.low, x, Real(c[from].low))};",
        "return {sum.high, sum.low + Real(c[from].low)};",
        "double_double",
        "2^t, fused",
    ),
    "a lesser double_double_error": Fault(
        PAIRS, "double_double_error{0x1.3p-71", "double_double_error{0x1.1p-71", "double_double", "2^t, fused"
    ),
    "parts of a binade moved": Fault(
        FLOAT64, "(uint64_t{1} << 37)", "(uint64_t{1} << 36)", "fast_float64", "x = m 2^e"
    ),
    "an entry of float64's table": Fault(
        CONSTANTS, "0x1.0101575890000p-8", "0x1.0101575880000p-8", "fast_float64", "the table of logarithms"
    ),
    "a lesser float64_error": Fault(
        FLOAT64,
        "float64_error = 0x1.1p-68",
        "float64_error = 0x1p-69",
        "fast_float64",
        "float64_error, fused",
    ),
    "a lesser float64_error_of_low": Fault(
        FLOAT64, "of_low = 0x1.cp-49", "of_low = 0x1.cp-50", "fast_float64", "float64_error, fused"
    ),
    "a greater t where octaves are apart": Fault(
        FLOAT64, "t_on_grid = 750", "t_on_grid = 1500", "fast_float64", "float64_error, fused"
    ),
    "a greater error where octaves are apart": Fault(
        FLOAT64, "error_on_grid = 0x1p-55", "error_on_grid = 0x1p-54", "fast_float64", "float64_error, fused"
    ),
    "a narrower interval for one float": Fault(
        NUMERICS / "pow_fast_float32.h",
        "float32_error = 0x1p-37",
        "float32_error = 0x1p-39",
        "fast_float32",
        "float32_error, fused",
    ),
    "a float taken for one of the part below": Fault(
        NUMERICS / "pow_fast_float32.h",
        "binade = (x - least_of_float32_parts)",
        "binade = (x + 1 - least_of_float32_parts)",
        "fast_float32",
        "x = m 2^e",
    ),
    "an entry of the table of sixteenths": Fault(
        CONSTANTS,
        "0x1.08598b59e4000p-5",
        "0x1.08598b59e0000p-5",
        "fast_sixteenths",
        "the table of half logarithms",
    ),
    "ends that lose more as doubles than they are farther apart": Fault(
        NUMERICS / "pow_fast_sixteenths.h",
        "of_ends = 0x1p-51",
        "of_ends = 0x1p-53",
        "fast_sixteenths",
        "its ends",
    ),
    "a low part that may be great": Fault(
        NUMERICS / "pow_fast_sixteenths.h",
        "return fast_two_sum(sum, low);",
        "return {sum, low};",
        "fast_sixteenths",
        "what v^3 P loses",
    ),
    "fewer error_bits": Fault(EXACT, "error_bits = 32", "error_bits = 24", "exact_phase", "2^error_bits"),
    "a constant of 32 limbs": Fault(
        CONSTANTS, "0xc9e3b39803f2f6af", "0xc9e3b39803f2f6ae", "exact_phase", "ln 2"
    ),
    "a narrower test of lower bits": Fault(
        LANES, "(2 * fast_error * 0x1p53)", "(fast_error * 0x1p53)", "rounding", "fill_normal"
    ),
    "a rounding test without room": Fault(
        PAIRS,
        "multiply_add(big, 0x1p-104, power.error)",
        "multiply_add(big, 0x1p-106, power.error)",
        "rounding",
        "round_to,",
    ),
    "ties to odd": Fault(
        Path("formats/convert.h"),
        "residual == half && (sticky || (integer & 1))",
        "residual == half && (sticky || !(integer & 1))",
        "rounding",
        "elements",
    ),
    "zero to a negative power": Fault(
        NUMERICS / "pow_special.h",
        "great != small ? infinite_power",
        "great == small ? infinite_power",
        "special_values",
        "bfloat16",
    ),
    "a square taken for none": Fault(
        EXACT, "(x.significand & 7) != 1", "(x.significand & 15) != 1", "exact_cases", "square roots"
    ),
    "an exponent without its ties": Fault(
        NUMERICS / "pow_closed_form.h", "y >= 1 && y <= 15", "y >= 1 && y <= 13", "exact_cases", "exponents"
    ),
    "an exponent with another period": Fault(
        INTEGERS, "Exponent{1} << (bits - 2)", "Exponent{1} << (bits - 3)", "integers", "periods"
    ),
    "a series that ends early": Fault(
        INTEGERS, "if constexpr (bits <= shift)", "if constexpr (bits <= shift + 8)", "integers", "series"
    ),
    "a product copied": Fault(
        NUMERICS / "prelu.h", "select(base < 0, encode", "select(base <= 0, encode", "prelu", "float8_e5m2"
    ),
}


def proofs(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    for needed in ("gappa", "sollya", "g++"):
        tool(needed)
    command = [sys.executable, "-m", "proofs", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# The quick tests try the first fault of each part, so one that is quick to find; make exhaustive tries all.
FIRST = {fault.part: name for name, fault in reversed(FAULTS.items())}
TRIED = [
    pytest.param(fault, id=name, marks=[] if FIRST[fault.part] == name else [pytest.mark.exhaustive])
    for name, fault in FAULTS.items()
]


@pytest.mark.parametrize("fault", TRIED)
def test_a_fault_is_found(fault: Fault, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "core", tmp_path / "core")
    path = tmp_path / "core" / fault.header
    text = path.read_text()
    assert text.count(fault.right) >= 1
    path.write_text(text.replace(fault.right, fault.wrong))
    done = proofs("--core", tmp_path / "core", "--only", fault.step, fault.part)
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout
    assert "does not compile" not in done.stdout


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proofs", "--quick", "rounding", "fast"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "python -m proofs: g++ is not installed; on Debian: apt install gappa sollya g++\n"


def test_a_proof_holds_without_a_fault() -> None:
    done = proofs("--only", QUOTIENT, "fast")
    assert done.returncode == 0, done.stdout
    assert "all proved" in done.stdout


def test_a_constant_is_not_the_node_of_that_number() -> None:
    """A product with the constant 0 once counted as one with node 0."""
    function = Function("products")
    function.add(Node("input", name="x"))
    function.add(Node("mul", (0, 0)))
    function.add(Node("mul", (Constant(Fraction(0)), 0)))
    assert function.first == [0, 1, 2]
    errors = RoundingErrors(function, {"x": Input(Interval.of(1, 2))})
    assert errors.ranges[1] == Interval.of(1, 4)
    assert errors.ranges[2] == Interval.of(0, 0)
