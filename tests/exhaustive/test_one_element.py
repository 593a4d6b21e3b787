"""x^y of one element (core/numerics/pow.h) against the kernels, and C's functions against it, on 10^8 random pairs."""

import re
from itertools import product
from pathlib import Path

import pytest
from tests.house.builds import CORE, FLAGS, ROOT, build, program, run, tool

import halfulp as hu
from halfulp.types import TYPES

# For each pair of types, with DirectML's rule for negative bases and without.
ELEMENTS = 100_000


@pytest.mark.exhaustive
def test_one_element_after_the_other():
    printed = run(build("one-element", "g++") / "core_check", str(ELEMENTS))
    compared = re.findall(rf"^pow(?:, domain error)? (\w+) (\w+) {ELEMENTS} ", printed, re.MULTILINE)
    assert set(compared) == set(product(TYPES, repeat=2))
    assert len(compared) * ELEMENTS > 10**8


@pytest.mark.parametrize("instruction_set", ["", "scalar"])
@pytest.mark.parametrize("millions", ["0.01", pytest.param("13", marks=pytest.mark.exhaustive)])
def test_the_functions_of_c(millions, instruction_set):
    """Eight kinds of operands, in every floating-point environment; and hard cases in each of these."""
    library = Path(hu.get_library())
    c = ROOT / "bindings" / "c"
    source = ROOT / "tests" / "exhaustive" / "one_element.cpp"
    linked = [library, f"-Wl,-rpath,{library.parent}"]
    command = [tool("g++"), *FLAGS, "-O2", "-frounding-math", f"-I{c}", source, *linked]
    compared = program("one-element", command, source, CORE, c)
    worst = [ROOT / "data" / "worst_cases" / f"{name}.txt" for name in ("float32", "float64")]
    printed = run(compared, millions, *worst, HALFULP_ISA=instruction_set)
    assert int(printed.split()[0]) == round(8e6 * float(millions))
