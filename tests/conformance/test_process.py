"""A target's process: what dies or hangs there is a result here, and nothing of it stays."""

import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from halfulp.conformance.case import Case
from halfulp.conformance.judge import Outcome
from halfulp.conformance.process import MALFORMED, Process, _answer, one_line, packed, receive, send, unpacked
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, TargetSpec, find
from halfulp.errors import HalfulpError

ROOT = Path(__file__).parents[2]
FAULTY = find("tests.conformance.faulty")
ONE = np.array([3], np.int32)
MARKED = Case("onnx.PRelu-9/int32,int32/values/0", "onnx.PRelu-9", "values", (ONE, ONE))
TWO = np.array([-2, 3], np.int32)
ORDINARY = Case("onnx.PRelu-9/int32,int32/values/1", "onnx.PRelu-9", "values", (TWO, TWO))
LONG = 600  # seconds that no answer takes, however busy the machine is


def children() -> set[int]:
    """Return the processes that this one started and that live."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def is_alive(process: int) -> bool:
    """Tell whether a process runs: nobody may care for those that are dead."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def leftovers() -> set[Path]:
    """Return the temporary folders of targets."""
    return set(Path(tempfile.gettempdir()).glob("halfulp-check-*"))


def test_a_result_has_its_bits():
    x = np.array([[0x7F81, 0x8000]], np.uint16).view("bfloat16")  # a signalling NaN, and -0
    case = Case("onnx.PRelu-16/bfloat16,bfloat16/values/0", "onnx.PRelu-16", "values", (x, x))
    with Process(find("halfulp.backend"), time_limit=LONG) as process:
        output = process.run(case)
    assert isinstance(output, np.ndarray)
    assert output.dtype == x.dtype
    assert output.shape == (1, 2)
    assert output.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (CrashedError, "crashed"),
        (type("Died", (CrashedError,), {}), "crashed"),
        (type("NoKernel", (NotOfferedError,), {}), "not offered"),
        (ValueError, "refused"),
    ],
)
def test_the_kind_of_an_error(error, kind):
    def run(case: Case) -> list[object]:
        raise error("why")

    answer, data = _answer(Target(run), pickle.dumps(ORDINARY))
    assert (answer, data) == ({"kind": kind, "message": "why"}, b"")


@pytest.mark.parametrize(
    "output",
    [
        *(np.arange(6, dtype=">i4").reshape(2, 3), np.float16(1.5), np.array([True]), np.array([1j])),
        *(np.array([3, -8], ml_dtypes.int4), np.array([[1.5]], ml_dtypes.float8_e8m0fnu)),
        *(np.broadcast_to(np.float32(2), (3, 4)), np.ma.masked_array([1.0, 2.0])),
    ],
)
def test_an_output_comes_as_it_is(output):
    header, data = packed([output])
    back = unpacked(json.loads(json.dumps(header)), data)
    assert isinstance(back, np.ndarray)
    assert back.dtype == np.asarray(output).dtype.newbyteorder("=")
    assert back.shape == np.shape(output)
    assert back.tolist() == np.asarray(output).tolist()


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ([1.0], "list"),
        (None, "NoneType"),
        (np.array(["a"]), "str32"),
        (np.array([None]), "object"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "MaskedArray"),
        (np.zeros(1, "V2"), "void16"),
        (np.zeros(1, "M8[s]"), "datetime64[s]"),
    ],
)
def test_an_output_that_is_no_array_of_numbers(output, name):
    message = f"the output is not an array of numbers: {name}"
    assert packed([output]) == ({"kind": "wrong", "message": message}, b"")


@pytest.mark.parametrize(
    ("output", "length"),
    [
        *(({"type": "float32", "shape": [1]}, length) for length in (0, 3, 5)),
        ({"type": ",f4", "shape": []}, 0),  # a SyntaxError of NumPy's
        ({"type": "float32", "shape": [0, 1 << 70]}, 0),
        ({"type": "float32", "shape": ["a"]}, 0),
        ({"type": ["float32"], "shape": []}, 0),
        ({"shape": []}, 0),
        (None, 0),
    ],
)
def test_nonsense_is_told_from_an_output(output, length):
    with pytest.raises(MALFORMED):
        unpacked(output, bytes(length))


def test_nothing_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, folders = children(), leftovers()
    for fault in ("none", "dies", "hangs"):
        monkeypatch.setenv("FAULTY", fault)
        with Process(FAULTY, time_limit=0.3) as process:
            process.run(MARKED)
    assert children() <= before  # other tests' may have ended meanwhile
    assert leftovers() == folders


def test_a_command_that_hangs_is_killed_too(monkeypatch, tmp_path):
    note = tmp_path / "pid"
    spec = find(f"sh -c 'echo $$ > {note}; sleep 600; : {{model}} {{inputs}} {{outputs}}'")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = leftovers()
    for limit in (2, 20, 200):  # on a busy machine the command may need more time to begin
        with Process(spec, time_limit=limit) as process:
            outcome = process.run(ORDINARY)
        assert isinstance(outcome, Outcome)
        assert outcome.kind == "hung"
        if note.exists() and note.read_text():
            break
    wait_for(lambda: not is_alive(int(note.read_text())))  # the signal is sent, its effect takes a moment
    assert leftovers() == folders


def test_threads_are_set_before_a_runtime_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    note = tmp_path / "threads"
    spec = find(
        f"sh -c 'echo $OMP_NUM_THREADS $HALFULP_NUM_THREADS > {note}; : {{model}} {{inputs}} {{outputs}}'"
    )
    with Process(spec, threads=3, time_limit=LONG) as process:
        process.run(ORDINARY)
    assert note.read_text() == "3 3\n"


@pytest.mark.parametrize(
    ("name", "program", "text"),
    [
        (
            "leaves_at_import",
            "import os; os._exit(5)",
            "leaves_at_import exited with status 5 when it was loaded",
        ),
        (
            "fails_at_import",
            "raise ImportError('no libfoo.so\\nmore')",
            "does not load: ImportError: no libfoo.so",
        ),
        ("exits_at_import", "raise SystemExit('no licence')", "does not load: SystemExit: no licence"),
        ("no_backend", "x = 1", "no_backend has neither prepare nor run_model"),
    ],
)
def test_a_target_that_can_not_be_loaded(name, program, text, tmp_path, monkeypatch):
    (tmp_path / f"{name}.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    with Process(find(name)) as process, pytest.raises(HalfulpError) as caught:
        process.start()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_case_that_is_at_fault_is_not_the_targets_fault():
    broken = Case("onnx.Pow-7/a/values/0", "onnx.Pow-7", "values", (np.zeros(2, np.complex64),) * 2)
    with (
        Process(TargetSpec("onnx-reference", "models.reference")) as process,
        pytest.raises(HalfulpError) as caught,
    ):
        process.run(broken)
    assert "is not expressible as a model" in str(caught.value)


def test_a_message_that_is_none():
    """A header that is too long, not JSON, no object; a length that lies; half a message; silence."""
    lengths = struct.Struct("<QQ")
    for data in (
        lengths.pack(1 << 40, 0),
        lengths.pack(2, 1 << 60),
        lengths.pack(3, 0) + b"{]}",
        lengths.pack(2, 0) + b"[]",
        lengths.pack(3000, 0) + b"[" * 3000,
    ):
        here, there = socket.socketpair()
        with here, there:
            there.sendall(data)
            with pytest.raises(ConnectionError):
                receive(here, 1)
    here, there = socket.socketpair()
    with here, there:
        there.sendall(lengths.pack(2, 0) + b"{")
        with pytest.raises(TimeoutError):
            receive(here, 0.1)
        with pytest.raises(TimeoutError):
            send(here, {}, bytes(1 << 24), 0.1)
        there.close()
        with pytest.raises(ConnectionError):
            receive(here, 1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Exception from src/a.cpp:1:\n  Check 'x' failed at src/b.cpp:2:\nno such type\n", "no such type"),
        ("failed with Failure:\n-- Pow-1 with a message:\nshapes differ.\n\nSummary:\n", "shapes differ."),
        ("\n\n", ""),
        ("a\x1b[31mb\x00", "a?[31mb?"),
        ("Exception from here:", "Exception from here:"),
        ("x" * 10_000, "x" * 300),
        (f"can't open {tempfile.gettempdir()}/halfulp-abc/model.onnx: gone", "can't open <file>: gone"),
    ],
)
def test_one_line_of_a_message(text, line):
    assert one_line(text) == line


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_killed_check_leaves_no_process(tmp_path):
    note = tmp_path / "pid"
    code = (
        "import numpy as np\n"
        "from halfulp.conformance.case import Case\n"
        "from halfulp.conformance.process import Process\n"
        "from halfulp.conformance.targets import find\n"
        "x = np.array([3], np.int32)\n"
        "with Process(find('stuck'), time_limit=60) as process:\n"
        "    process.run(Case('a/b/values/0', 'onnx.PRelu-9', 'values', (x, x)))\n"
    )
    (tmp_path / "stuck.py").write_text(
        "import os, pathlib, signal\n"
        "def run_model(model, inputs, device):\n"
        f"    pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    checking = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    wait_for(note.exists)
    wait_for(lambda: note.read_text() != "")
    checking.kill()
    checking.wait()
    wait_for(lambda: not is_alive(int(note.read_text())))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds, or fail."""
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interrupt_ends_the_process():
    """In a process of its own: OpenVINO, which other tests load, may leave this one a freed stack for signals."""
    call = "from tests.conformance import test_process; test_process.interrupted()"
    environment = os.environ | {"FAULTY": "hangs", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", call], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def interrupted() -> None:
    """Interrupt a call that hangs; nothing of the process is left."""
    before = children()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)

    def run(process: Process) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        process.run(MARKED)

    with Process(FAULTY) as process:
        process.start()
        with pytest.raises(KeyboardInterrupt):
            run(process)
    assert children() == before
