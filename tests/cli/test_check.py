"""``halfulp check`` on the command line: what a person sees, and what a script is told."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from halfulp.cli import app
from halfulp.conformance.case import Case
from halfulp.conformance.targets import BUILT_IN

pytest.importorskip("gmpy2")
pytest.importorskip("jinja2")

LITTLE = ["--operator", "onnx.PRelu-7", "--types", "float16", "--processes", "1"]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each check a second process, which would ask what more threads do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def run(*arguments: str) -> Result:
    """Run the command line."""
    return CliRunner().invoke(app, ["check", *arguments])


@pytest.mark.parametrize(("option", "start"), [("--json", '{\n"schema"'), ("--html", "<!doctype html>")])
def test_standard_output_is_for_what_is_asked_for_there(option, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("onnx-reference", *LITTLE, option, "-", "--export", "cases")
    assert result.exit_code == 1
    assert result.stdout.startswith(start)
    assert "finding" not in result.stdout.splitlines()[-1]
    assert "written to cases" in result.stderr
    assert "18 findings; " in result.stderr
    # It does not say where it was made.
    assert str(tmp_path) not in result.stdout
    assert sys.prefix not in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["cases"]


def test_the_targets_are_listed():
    result = run("--list")
    assert [line.split()[0] for line in result.stdout.splitlines() if "pip install" in line] == [
        name for name in BUILT_IN if name != "libm"
    ]


def test_an_entry_of_several_targets_is_about_the_findings_of_any(tmp_path):
    """An entry that allows a finding of one target is not named for the others, whichever is checked first."""
    known = tmp_path / "known.txt"
    known.write_text("* wrong,accepted of onnx-reference\n*/values/* hung never\n")
    for targets in (("onnx-reference", "halfulp"), ("halfulp", "onnx-reference")):
        result = run(*targets, *LITTLE, "--allow", str(known))
        assert result.exit_code == 0
        named = [line for line in result.stderr.splitlines() if "nothing of this kind" in line]
        assert [re.findall(r"line (\d), ([\w-]+):", line) for line in named] == [
            [("2", name)] for name in targets
        ]


def test_how_far_off_is_wrong(tmp_path):
    """NumPy's powers are never far off, and not all exact."""
    arguments = [
        *("numpy", "--operator", "onnx.Pow-15", "--types", "float64", "--group", "values", "--json"),
        f"{tmp_path}/a",
    ]
    counts = []
    for limit in ("0", "1000"):
        run(*arguments, "--ulp", limit)
        document = json.loads((tmp_path / "a").read_text())
        counts.append(document["summary"]["within"])
        assert document["run"]["ulp_limit"] == float(limit)
    assert counts[0] < counts[1]


def test_an_interrupted_check_has_results_so_far(tmp_path, monkeypatch):
    arguments = ["numpy", "--operator=onnx.PRelu-16", "--processes=1"]
    arguments += ["--types=int32", "--types=int64", "--types=uint64"]
    file = tmp_path / "a.json"

    def interrupted(batch: list[Case]) -> Iterator[Case]:
        if batch[0].types[0] == "uint64":
            raise KeyboardInterrupt
        yield from batch

    monkeypatch.setattr("halfulp.conformance.check.narrowed", lambda batch, _: interrupted(batch))
    result = run(*arguments, "--json", str(file))
    assert result.exit_code == 130, result.output
    assert "interrupted: these are the results so far" in result.stderr
    assert [row["types"][0] for row in json.loads(file.read_text())["rows"]] == ["int32", "int64"]


def test_without_a_target_what_is_installed_is_checked(monkeypatch):
    monkeypatch.setattr("halfulp.conformance.targets.DEFAULT", ("numpy", "onnx-reference"))
    result = run("--json", "-", *LITTLE)  # NumPy does not take PRelu-7
    assert json.loads(result.stdout)["target"]["name"] == "onnx-reference"
    assert "no target is named; checking the installed runtimes: onnx-reference" in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--json", "a.json", "--export", "b"]])
def test_nothing_is_installed(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("halfulp.conformance.targets.DEFAULT", ())
    result = run(*arguments)
    assert result.exit_code == 2
    assert "nothing to check: no runtime that takes this is installed" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_device_that_is_not_there():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a device")
    result = run("torch:cuda")
    assert result.exit_code == 2
    assert "the target torch (cuda) does not load: " in result.stderr
    assert re.search("CUDA|NVIDIA", result.stderr)  # torch's builds for processors and for CUDA


def test_what_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run("numpy", "--html", str(tmp_path / "a.html"))
    assert result.exit_code == 2
    assert result.stderr == "error: pages need jinja2: pip install 'halfulp[check]'\n"
    monkeypatch.setattr("halfulp.conformance.targets.has_module", lambda name: False)
    monkeypatch.delitem(sys.modules, "gmpy2", raising=False)
    result = run("halfulp")
    assert result.exit_code == 2
    assert (
        "the target halfulp needs gmpy2, which is not installed: pip install 'halfulp[check]'"
        in result.stderr
    )


def test_an_interrupt_leaves_nothing(tmp_path):
    """A hanging target is interrupted: no file, no process."""
    command = "sh -c 'sleep 600; : {model} {inputs} {outputs}'"
    # Who started us may have had the signal ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from halfulp.cli import main; main()"
    checking = subprocess.Popen(
        [sys.executable, "-c", code, "check", "--command", command, *LITTLE, "--json", f"{tmp_path}/a.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("halfulp-check-*/halfulp-check-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    checking.send_signal(signal.SIGINT)
    try:
        _, errors = checking.communicate(timeout=600)
    finally:
        checking.kill()
    assert checking.returncode == 130, errors
    assert b"Traceback" not in errors
    assert not list(tmp_path.iterdir())
