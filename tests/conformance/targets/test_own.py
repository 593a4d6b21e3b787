"""The targets that an author of a runtime writes: a function, a class, a file, a program on standard input."""

import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from onnx.backend.test.loader import load_model_tests
from typer.testing import CliRunner, Result

import halfulp as hu
from halfulp.cli import app
from halfulp.conformance.cases import case
from halfulp.conformance.export import Exported, export
from halfulp.conformance.targets import find
from halfulp.errors import HalfulpError

PAGE = (Path(__file__).parents[3] / "docs/how-to/check-your-runtime.md").read_text()
LITTLE = ["--types", "float32,float32", "--group", "special", "--processes", "1"]
GRID = "onnx.Pow-15/float32,float32/special/grid"


def block(start: str) -> str:
    """Return the block of code of the page that begins with a comment."""
    (found,) = re.findall(rf"```\w+\n(?=\S* ?{re.escape(start)})(.*?)```", PAGE, re.DOTALL)
    return str(found)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "my_kernel.py").write_text(block("my_kernel.py"))
    return tmp_path


def test_accuracy_of_what_is_in_this_folder(here):
    few = ["--types", "float32", "--count", "64", "--rounds", "0"]
    result = CliRunner().invoke(app, ["accuracy", "my_kernel:pow", *few])
    assert result.exit_code == 0, result.output
    assert "misrounded" in result.stdout
    (here / "my_prelu.py").write_text("def prelu(x, y): return x\n")
    (here / "no.py").write_text(
        "import sys\n"
        "while line := sys.stdin.buffer.readline().split():\n"
        "    sys.stdin.buffer.read(int(line[-2]) + int(line[-1]))\n"
        "    print('no powers', flush=True)\n"
    )
    for target in (["my_prelu.py:prelu"], ["--command", f"no={sys.executable} no.py"]):
        result = CliRunner().invoke(app, ["accuracy", *target, *few, "--json", "a.json"])
        assert result.exit_code == 2, result.output
        name = "no" if "--command" in target else target[0]
        assert f"{name}: no powers of float32, and accuracy measures powers; halfulp check" in result.stderr
        assert result.stdout == ""
        assert not Path("a.json").exists()


@pytest.mark.parametrize("target", ["my_kernel:pow", "my_kernel.py:pow", "./my_kernel.py:pow"])
def test_a_function_in_this_folder(target):
    result = run(target, *LITTLE, "--json", "-")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["target"]["name"] == target
    (row,) = document["rows"]
    assert (row["operator"], row["types"]) == ("onnx.Pow-15", ["float32"] * 2)
    assert "refused" not in row["cases"]
    assert {cell["got"] for cell in document["specials"][0]["grid"] if cell["x"] == "-1"} >= {"nan"}
    assert document["run"]["selection"]["groups"] == ["special"]


def test_a_function_is_not_offered_for_other_types():
    result = run("my_kernel:pow", "--types", "float64,float64", "--processes", "1")
    assert result.exit_code == 2
    assert "nothing of this selection is for the target my_kernel:pow" in result.stderr


def test_a_function_itself(here):
    report = hu.check(np.power, types="float32,float32", groups="special", processes=1)
    assert report.ok, report
    program = here / "program.py"
    program.write_text(
        "import numpy as np, halfulp as hu\n"
        "def prelu(x, slope): return np.where(x < 0, x * slope, x)\n"
        "if __name__ == '__main__':\n"
        "    print(hu.check(prelu, types='int32', processes=1).document['rows'][0]['operator'])\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "onnx.PRelu-16\n"
    with pytest.raises(HalfulpError, match="a function must be in a file"):
        hu.check(lambda x, y: x)


def test_the_test_of_the_page(here):
    """A group of cases fails, and the failure shows the table."""
    (here / "test_powers.py").write_text(block("test_powers.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command.append("test_powers.py::test_powers[special]")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout, done.stdout
    assert "≠ wrong" in done.stdout


def test_the_backend_of_the_page(here):
    (here / "my_backend.py").write_text(block("my_backend.py"))
    assert run("my_backend", "--case", GRID, "--processes", "1").exit_code == 0


def test_modules_and_classes():
    assert find(types.ModuleType("halfulp.backend")).argument == "halfulp.backend"
    report = hu.check("halfulp.backend:HalfulpBackend", cases=GRID, processes=1)
    assert report.ok
    assert {row["operator"] for row in report.document["rows"]} == {"onnx.Pow-15"}
    assert report.document["summary"]["cases"] == 1
    assert find("NP") == find("NumPy") == find("numpy")


def test_a_program_in_c(here):
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no compiler of C")
    (here / "my_kernel.c").write_text(block("my_kernel.c"))
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "my_kernel.c", "-o", "my_kernel", "-lm"], check=True)
    result = run("--command", "./my_kernel", *LITTLE, "--junit", "report.xml")
    assert result.exit_code == 1, result.output
    assert "gives nan" in result.stdout
    assert '<testsuite name="my_kernel" tests="1" failures="1"' in (here / "report.xml").read_text()
    (here / "known.txt").write_text("onnx.Pow-*/float32,float32/* wrong expf(y log x)\n")
    result = run("--command", "./my_kernel", *LITTLE, "--allow", "known.txt", "--json", "a.json")
    assert result.exit_code == 0, result.output
    assert json.loads((here / "a.json").read_text())["summary"]["allowed"] > 0


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import os; os.abort()", "died of SIGABRT"),
        ("print('hello', flush=True); input()", "its answer is neither ok nor no: hello"),
    ],
)
def test_a_command_that_is_not_right(program, says, here):
    (here / "program.py").write_text(program)
    result = run("--command", f"{sys.executable} program.py", *LITTLE)
    assert result.exit_code == 1, result.output
    closing = f"every case fails alike ({says}): is the target or its command right?"
    assert closing in " ".join(result.stdout.split())


def test_exports(here):
    ids = ("onnx.Pow-15/float32,float32/values/0", "onnx.PRelu-16/float32,float32/broadcast/2x3x4,4")
    chosen = [*map(case, ids)]
    x, y = chosen[0].inputs
    assert export(here / "csv", chosen, format="csv") == Exported(2, 0, 0)
    head, first, *rest = (here / "csv/cases.csv").read_text().splitlines()
    bits = [int(text, 16) for text in first.split(",")[3:6]]
    assert head.startswith("operator,x type,y type,x,y,expected")
    assert [a.view("u4").ravel()[0] for a in (x, y, hu.pow(x, y))] == bits
    assert len(rest) == x.size - 1 + 24
    export(here / "c", chosen, format="c")
    text = (here / "c/cases.h").read_text()
    assert f"Pow_15_float32_float32[] = {{\n  {{0x{bits[0]:x}, 0x{bits[1]:x}, 0x{bits[2]:x}}}," in text
    if compiler := shutil.which("cc"):
        subprocess.run([compiler, "-fsyntax-only", "-x", "c", str(here / "c/cases.h")], check=True)
    export(here / "onnx", chosen)
    assert len(load_model_tests(str(here / "onnx"), "valid")) == 2


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_device_behind_the_name_is_that_of_the_option(name):
    pytest.importorskip(name)
    on_cuda = find(f"{name}:cuda")
    assert (on_cuda.name, on_cuda.argument) == (f"{name} (cuda)", "cuda")
    assert find(f"{name}:cpu") == find(name)
