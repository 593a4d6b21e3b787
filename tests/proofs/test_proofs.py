"""The quick proofs hold, and fail for a core with a fault."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from proofs.errors import Input, RoundingErrors
from proofs.interval import Interval
from proofs.trace import Constant, Function, Node
from tests.house.builds import ROOT, tool

NUMERICS = Path("numerics")
FAST, PAIRS, CONSTANTS = NUMERICS / "pow_fast.h", NUMERICS / "pow_dd.h", NUMERICS / "constants.h"

# A header, a text in it, what stands there instead, and the part whose proof must fail.
FAULTS = {
    "a coefficient of the logarithm": (CONSTANTS, "0x1.2776c295f01cfp-1", "0x1.2776c2a5f01cfp-1", "fast"),
    "the last coefficient of the power": (
        CONSTANTS,
        "0x1.63d1363666bf3p-20",
        "0x1.73d1363666bf3p-20",
        "fast",
    ),
    "a smaller fast_error_of_t": (FAST, "fast_error_of_t = 0x1.8p-46", "fast_error_of_t = 0x1.8p-47", "fast"),
    "a smaller fast_error_of_exp2": (FAST, "0x1.5p-40", "0x1.0p-40", "fast"),
    "the quotient by a reciprocal of a float": (
        FAST,
        "return {(m - 1) / (m + 1),",
        "return {static_cast<float>((m - 1) / (m + 1)),",
        "fast",
    ),
    "a wrong divisor": (FAST, "(m - 1) / (m + 1)", "(m - 1) / (m + 0x1.0000001p0)", "fast"),
    "a logarithm without its exponent": (
        FAST,
        "static_cast<double>(x.e));",
        "static_cast<double>(0));",
        "fast",
    ),
    "a power to halves": (FAST, "t - (shifted - round_magic)", "t - (shifted - round_magic) * 0.5", "fast"),
    "a pair's low coefficient": (
        CONSTANTS,
        "0x1.abc9e3b2cb985p-56",
        "0x1.abc9e3b2cb985p-55",
        "double_double",
    ),
    "a power's low part dropped": (
        PAIRS,
        "return {sum.high, sum.low + multiply_add(inner.low, x, Real(c[from].low))};",
        "return {sum.high, sum.low + Real(c[from].low)};",
        "double_double",
    ),
    "a smaller quotient_error": (PAIRS, "quotient_error{0x1p-69", "quotient_error{0x1p-70", "double_double"),
    "a greater t.low": (PAIRS, "greatest_t_low = 0x1p-37", "greatest_t_low = 0x1p-30", "double_double"),
}


def proofs(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    for needed in ("gappa", "sollya", "g++"):
        tool(needed)
    command = [sys.executable, "-m", "proofs", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_quick_proofs_hold() -> None:
    done = proofs()
    assert done.returncode == 0, done.stdout
    assert "all proved" in done.stdout


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path) -> None:
    header, right, wrong, part = FAULTS[fault]
    shutil.copytree(ROOT / "core", tmp_path / "core")
    path = tmp_path / "core" / header
    text = path.read_text()
    assert text.count(right) >= 1
    path.write_text(text.replace(right, wrong))
    done = proofs("--core", tmp_path / "core", part)
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout


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
