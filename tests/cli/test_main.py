"""What is common to the verbs: help, version, statuses, errors as text."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.models.onnx_models import single
from typer.testing import CliRunner

import halfulp.cli
import halfulp.running  # before a test replaces what it imports
from halfulp.cli import app


def test_help_of_each_verb_has_an_example():
    listing = CliRunner().invoke(app, ["--help"]).stdout
    verbs = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert verbs == [
        "audit",
        "repair",
        "convert",
        "run",
        "bench",
        "check",
        "accuracy",
        "spec",
        "exec",
        "doors",
        "demo",
    ]
    for verb in verbs:
        assert verb in listing
        result = CliRunner().invoke(app, [verb, "--help"])
        assert result.exit_code == 0
        assert f"Example: halfulp {verb} " in result.stdout  # padded if the verb is all


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option):
    result = CliRunner().invoke(app, [option])
    assert result.exit_code == 0
    assert result.stdout.startswith("halfulp")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["run", "--nonsense"],
        ["bench", "m", "--seconds", "x"],
        *(
            ["bench", *words.split()]
            for words in ("--threads 0", "--threads many", "--seconds -1", "one more")
        ),
        *(["check", "numpy", "--ulp", number] for number in ("-1", "inf")),
        *(["check", "numpy", "--time-limit", number] for number in ("0", "inf")),
        ["check", "numpy", "--processes", "0"],
        ["check", "numpy", "--fast"],
    ],
)
def test_usage(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_a_file_without_a_verb(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").touch()
    result = CliRunner().invoke(app, ["net.onnx"])
    assert result.exit_code == 2
    assert "halfulp audit net.onnx" in result.stderr


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (MemoryError(), 2, "error: not enough memory"),
        (OSError(28, "No space left on device", "z.npy"), 2, "error: z.npy: No space left on device"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_a_verb_may_meet(monkeypatch, error, status, text):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("halfulp.running.parse", fail)
    result = CliRunner().invoke(app, ["run", "m"])
    assert result.exit_code == status
    assert result.stderr.strip() == text


def test_a_terminal_that_is_not_utf8(tmp_path):
    model = single("Pow", 15, {"x": ("float64", [2]), "y": ("float64", [2])}, ("float64", [2]))
    model.graph.node[0].name = "\u2260"
    onnx.save(model, tmp_path / "m.onnx")
    for verb in ("run", "audit"):
        target = ["--target", "onnxruntime"] if verb == "audit" else []  # no other need be imported
        done = subprocess.run(
            [sys.executable, "-m", "halfulp", verb, "m.onnx", *target],
            cwd=tmp_path,
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (
            (0, 1) if verb == "audit" else (0,)
        )  # of what is installed there are findings
        assert "'?' (Pow)" in done.stdout
        assert not done.stderr


def test_starting_the_command_does_not_import_onnx():
    code = "import sys, halfulp.cli; assert 'onnx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


INTERRUPTED = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED"]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""
SCRIPT = "import sys; from halfulp.__main__ import main; sys.exit(main())"  # as pip writes it


@pytest.mark.parametrize(
    ("module", "start"),
    [
        *((module, ["-m", "halfulp"]) for module in ("numpy", "halfulp.cli", "typer", "onnx")),
        *((module, ["halfulp"]) for module in ("halfulp.operators", "halfulp.cli.models")),
    ],
)
def test_an_interrupt_while_it_is_imported(module, start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED)
    (tmp_path / "halfulp").write_text(SCRIPT)
    onnx.save(single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [2])}), tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, *start, "run", "m.onnx"],
        cwd=tmp_path,
        env=os.environ | {"INTERRUPTED": module, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_while_a_program_imports_the_package_is_its_own(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, "-c", "try:\n import halfulp\nexcept KeyboardInterrupt:\n print('mine')"],
        env=os.environ | {"INTERRUPTED": "numpy", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")


@pytest.mark.parametrize("arguments", [["run", "--help"], ["--version"], ["spec", "onnx.Pow-15"], []])
def test_a_reader_that_has_gone(arguments):
    assert run_with(arguments, stdout=closed_pipe()) == (0, "", "")


# An error of ours, and one of the command line's reader.
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["spec", "missing"], "closed"),
        (["spec", "missing"], "full"),
        (["spec", "missing"], "gone"),
        (["run"], "closed"),
        (["nonsense"], "full"),
    ],
)
def test_an_error_that_can_not_be_written(arguments, kind):
    if kind == "closed":
        command = [sys.executable, "-m", "halfulp", *arguments]
        done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *command], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")
    else:
        stream = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb") if kind == "full" else closed_pipe()
        assert run_with(arguments, stderr=stream)[:2] == (2, "")


def test_an_error_is_said_though_the_reader_of_the_output_has_gone(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        print("so far", end="")
        raise halfulp.HalfulpError("then this")

    class Gone(io.StringIO):
        def flush(self) -> None:
            if self.getvalue():
                raise BrokenPipeError

        def fileno(self) -> int:
            return os.open(os.devnull, os.O_WRONLY)

    monkeypatch.setattr("halfulp.running.parse", fail)
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    with pytest.raises(SystemExit) as caught:
        app(["run", "m"])
    assert (caught.value.code, said.getvalue()) == (2, "error: then this\n")


def test_standard_output_that_is_full():
    with open("/dev/full", "wb") as full:
        assert run_with(["spec", "onnx.Pow-15"], stdout=full) == (2, "", "error: No space left on device\n")


def closed_pipe() -> Any:
    """Return the end to write of a pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


def run_with(arguments: list[str], **streams: Any) -> tuple[int, str, str]:
    """Run the command line with other streams than pipes, and return the status and what was caught."""
    done = subprocess.run(
        [sys.executable, "-m", "halfulp", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams,
        text=True,
        check=False,
    )
    for stream in streams.values():
        stream.close()
    return done.returncode, done.stdout or "", done.stderr or ""


def test_main_is_the_entry_point(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["halfulp", "--version"])
    with pytest.raises(SystemExit) as caught:
        halfulp.cli.main()
    assert caught.value.code == 0


@pytest.mark.parametrize("name", ["HALFULP_ISA", "HALFULP_NUM_THREADS"])
@pytest.mark.parametrize("start", [["-m", "halfulp"], [str(Path(sys.executable).with_name("halfulp"))]])
def test_a_wrong_variable_is_a_line(start, name):
    done = subprocess.run(
        [sys.executable, *start, "spec", "onnx.Pow-7"],
        env=os.environ | {name: "abc"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {name}=abc")


def test_a_protobuf_that_onnx_does_not_take_is_a_line(tmp_path):
    package = tmp_path / "google" / "protobuf"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text(
        'raise TypeError("Descriptors cannot be created directly.\\n")'
    )
    (tmp_path / "google" / "__init__.py").touch()
    (tmp_path / "m.onnx").write_bytes(b"model")
    done = subprocess.run(
        [sys.executable, "-m", "halfulp", "run", tmp_path / "m.onnx"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: onnx can't be imported: pip install --upgrade onnx protobuf (TypeError: ")


SHOWS = "PYTHONFAULTHANDLER=1 before the command shows where"
CRASHES = f"error: net.xml: OpenVINO ended the process (SIGFPE); {SHOWS}\n"
ABORTS = f"error: net.onnx: the onnx package or a runtime ended the process (SIGABRT); {SHOWS}\n"
KILLED = "error: net.onnx: the system ended the process (SIGKILL), as it does where memory is short\n"
HANGS = """\
error: net.xml: it takes more than 1 s, and OpenVINO may hang; HALFULP_TIMEOUT=SECONDS gives it more
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize(
    ("file", "end", "status", "said"),
    [
        ("net.xml", "os.kill(os.getpid(), signal.SIGFPE)", 2, CRASHES),
        ("net.onnx", "os.abort()", 2, ABORTS),
        ("net.onnx", "os.kill(os.getpid(), signal.SIGKILL)", 2, KILLED),
        ("net.xml", "os.kill(os.getpid(), signal.SIGTERM)", 143, ""),
        ("net.xml", "sys.exit(1)", 1, ""),
        ("net.xml", "time.sleep(60)", 2, HANGS),
        ("net.onnx", "time.sleep(2)", 0, ""),
    ],
)
def test_a_crash_or_a_hang_inside_a_library_is_a_line(file, end, status, said):
    code = f"""
import os, signal, sys, time
import halfulp.cli as cli
sys.argv = ["halfulp", "run", {file!r}]
cli.app = lambda **_: {end}
cli.main()
"""
    environment = os.environ | ({"HALFULP_TIMEOUT": "1"} if "sleep" in end else {})
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)
