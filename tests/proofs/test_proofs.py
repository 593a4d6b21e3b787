"""The proofs fail for a core with a fault. (That they hold without one, .ci/run looks at: python -m proofs --quick.)"""

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

QUOTIENT = "s = (m - 1)/(m + 1), fused"


@dataclass(frozen=True)
class Fault:
    """A text of a header, what stands there instead, and the proof that must fail: its part, and its step if one is
    enough."""

    header: Path
    right: str
    wrong: str
    part: str
    step: str


def read(block: str) -> tuple[str, Fault]:
    """Return the name of a fault, and the fault, as faults.txt describes one."""
    name, proof, header, right, wrong = (line[2 * bool(i) :] for i, line in enumerate(block.splitlines()))
    part, _, step = proof.partition(": ")
    return name, Fault(Path(header), right, wrong, part, step)


FAULTS = dict(map(read, Path(__file__).with_name("faults.txt").read_text("utf-8").split("\n\n")))


def proofs(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    for needed in ("gappa", "sollya", "g++"):
        tool(needed)
    command = [sys.executable, "-m", "proofs", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# The quick tests try one fault by each of the programs; make exhaustive tries all.
QUICK = {"an entry of the table of sixteenths", "a square taken for none", "an exponent with another period"}
TRIED = [
    pytest.param(fault, id=name, marks=[] if name in QUICK else [pytest.mark.exhaustive])
    for name, fault in FAULTS.items()
]


def test_each_fault_stands_for_a_text_of_its_header():
    headers = {fault.header: (ROOT / "core" / fault.header).read_text() for fault in FAULTS.values()}
    assert [name for name, fault in FAULTS.items() if fault.right not in headers[fault.header]] == []


@pytest.mark.parametrize("fault", TRIED)
def test_a_fault_is_found(fault, tmp_path):
    shutil.copytree(ROOT / "core", tmp_path / "core")
    path = tmp_path / "core" / fault.header
    path.write_text(path.read_text().replace(fault.right, fault.wrong))
    done = proofs("--core", tmp_path / "core", "--only", fault.step, fault.part)
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout
    assert "does not compile" not in done.stdout


def test_a_missing_program_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "proofs", "--quick", "rounding", "fast"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "python -m proofs: g++ is not installed; on Debian: apt install gappa sollya g++\n"


def test_a_proof_holds_without_a_fault():
    done = proofs("--only", QUOTIENT, "fast")
    assert done.returncode == 0, done.stdout
    assert "all proved" in done.stdout


def test_a_constant_is_not_the_node_of_that_number():
    """A product with the constant 0 once counted as one with node 0."""
    function = Function("products")
    function.add(Node("input", name="x"))
    function.add(Node("mul", (0, 0)))
    function.add(Node("mul", (Constant(Fraction(0)), 0)))
    assert function.first == [0, 1, 2]
    errors = RoundingErrors(function, {"x": Input(Interval.of(1, 2))})
    assert errors.ranges[1] == Interval.of(1, 4)
    assert errors.ranges[2] == Interval.of(0, 0)
