"""Threads, processes and instruction sets give the same bits, and no call waits without need."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from tests.core.operands import assert_same

import halfulp as hu
from halfulp import _core

DIGEST = """
import hashlib
import ml_dtypes, numpy as np
import halfulp as hu
from halfulp import _core

rng = np.random.default_rng(5)
digest = hashlib.sha256()
types = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int32", "uint8"]
for x_type in types:
    for y_type in ["float64", "float32", "float16", "int64", "int8"]:
        for length in (1, 7, 1000, 70_000):
            x = rng.uniform(-1, 8, length).astype(getattr(ml_dtypes, x_type, x_type), copy=False)
            y = rng.uniform(-4, 4, length).astype(y_type)
            digest.update(hu.pow(x, y).tobytes())
            digest.update(hu.pow(x[::-1], y[:1]).tobytes())
            digest.update(hu.prelu(x, x[::-1]).tobytes())
print(_core.instruction_set(), _core.thread_count(), digest.hexdigest())
"""


def test_same_bits_on_any_number_of_threads(python):
    printed = [python(DIGEST, HALFULP_NUM_THREADS=n).split() for n in ("1", "2", "8")]
    assert [words[1] for words in printed] == ["1", "2", "8"]
    assert len({words[2] for words in printed}) == 1


def test_same_bits_on_any_instruction_set(python):
    names = ["scalar", "avx2", "avx512"]
    sets = names[: names.index(_core.instruction_set()) + 1]
    printed = [python(DIGEST, HALFULP_ISA=name).split() for name in sets]
    assert [words[0] for words in printed] == sets
    assert len({words[2] for words in printed}) == 1


def test_an_instruction_set_that_is_not_there(python):
    said = python(
        "try:\n    import halfulp\nexcept ImportError as error:\n    print(type(error).__name__, error)",
        HALFULP_ISA="sse9",
    )
    assert said.startswith("ImportError HALFULP_ISA=sse9: this processor has only scalar")


@pytest.mark.parametrize("wanted", ["0", "many", "2.0", "-99999999999999999999"])
def test_a_number_of_threads_that_is_none(wanted, python):
    said = python(
        "try:\n    import halfulp\nexcept ImportError as error:\n    print(type(error).__name__, error)",
        HALFULP_NUM_THREADS=wanted,
    )
    assert said == (
        f"ImportError HALFULP_NUM_THREADS={wanted} is not a number of threads: expected 1 to 256, "
        "or unset it for one thread per processor\n"
    )


@pytest.mark.parametrize("wanted", ["257", "99999999999999999999"])
def test_too_many_threads_are_256(wanted, python):
    count = "from halfulp import _core; print(_core.thread_count())"
    assert python(count, HALFULP_NUM_THREADS=wanted) == "256\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to processors")
def test_as_many_threads_as_processors_that_the_process_is_bound_to(python):
    program = """
import os, sys
processors = sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]
os.sched_setaffinity(0, processors)
from halfulp import _core
print(_core.thread_count() <= len(processors), _core.thread_count())
"""
    assert python(program, 1, HALFULP_NUM_THREADS="").split() == ["True", "1"]
    assert python(program, 2, HALFULP_NUM_THREADS="").split()[0] == "True"
    assert python(program, 1, HALFULP_NUM_THREADS="3").split() == ["False", "3"]


@pytest.mark.not_emulated
def test_another_thread_makes_progress_during_a_call():
    """With the interpreter held, this thread would only see results of whole calls."""
    x = np.full(10_000_000, 1.1)
    out = np.empty_like(x)
    for _ in range(100):
        out[:] = 0
        thread = threading.Thread(target=lambda: hu.pow(x, 0.3, out=out))
        thread.start()
        seen = 0
        while thread.is_alive() and not seen:
            seen = int(out[0] != 0) and int(out[-1] == 0)
        thread.join()
        if seen:
            return
    pytest.fail("no call was seen halfway")


AT_EXIT = """
import sys, threading
import numpy as np
import halfulp as hu

def work():
    while True:
        out[-1] = 0
        hu.pow(x, x, out=out)

x = np.full(20_000_000, 1.5, np.float32)
out = np.empty_like(x)
threading.Thread(target=work, daemon=True).start()
while not (out[0] > 0 and out[-1] == 0):  # a call has begun, and does not end soon
    pass
print("ends")
"""


@pytest.mark.not_emulated
def test_a_daemon_thread_within_a_call_at_exit(python):
    """The interpreter ends as without it: no abort."""
    for _ in range(3):
        assert python(AT_EXIT) == "ends\n"


FORKS_IN_A_HANDLER = """
import os, signal, sys
import numpy as np
import halfulp as hu

exec(sys.argv[1])
x = np.random.default_rng(0).random(4_000_000) * 100
expected = hu.pow(x, x)
out = x.copy()
child = None
in_call = False

def handler(*_):
    global child, in_call
    if not in_call:
        return
    in_call = False  # another signal may come within this handler
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(300)  # a child that waits for threads that it does not have is killed

signal.signal(signal.SIGALRM, handler)
for base in (x, out):  # the second is written in place
    child = None
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    while child is None:  # until a signal comes within a call
        out[:] = x
        in_call = True
        hu.pow(base, x, out=out)
        in_call = False
    if child > 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
    right = out.tobytes() == expected.tobytes() and hu.pow(x, x).tobytes() == expected.tobytes()
    if child == 0:
        os._exit(0 if right else 3)
    print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.not_emulated
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("pass", id="own"),
        pytest.param("import torch, halfulp.integrations.torch", id="torch's", marks=pytest.mark.exhaustive),
    ],
)
def test_a_signal_handler_forks_during_a_call(before, python):
    """Parent and child return from the handler, and both end the call with all results."""
    if "torch" in before:
        pytest.importorskip("torch")
    said = python(FORKS_IN_A_HANDLER, before, HALFULP_NUM_THREADS="4", OMP_NUM_THREADS="4")
    assert said.splitlines() == ["True 0", "True 0"]


@pytest.mark.filterwarnings("ignore:.*fork:Warning")
@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_eight_threads_and_forks_in_between(seconds):
    rng = np.random.default_rng(8)
    cases = []
    for length in (3, 1000, 30_000, 300_000):
        x = rng.uniform(0.1, 9, length).astype(np.float32)
        y = rng.uniform(-3, 3, length).astype(np.float32)
        cases.append((x, y, hu.pow(x, y), hu.prelu(-x, y)))
    finished = threading.Event()
    wrong: list[str] = []
    counts = [0] * 8

    def call(number: int) -> None:
        out = np.empty(300_000, np.float32)
        while not wrong and not (finished.is_set() and counts[number]):
            x, y, powers, products = cases[counts[number] % len(cases)]
            target = out[: len(x)]
            if hu.pow(x, y).tobytes() != powers.tobytes():
                wrong.append("pow")
            if hu.pow(x, y, out=target).tobytes() != powers.tobytes():
                wrong.append("pow, out")
            if hu.prelu(-x, y).tobytes() != products.tobytes():
                wrong.append("prelu")
            counts[number] += 1

    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    forks = 0
    while time.monotonic() < end and not wrong:
        wrong += in_a_child(lambda: hu.pow(cases[3][0], cases[3][1]).tobytes() == cases[3][2].tobytes())
        forks += 1
        time.sleep(0.02)
    finished.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert min(counts) > 0
    assert forks > 0


def in_a_child(check: Callable[[], bool]) -> list[str]:
    """Forks; in the child calls check, under a time limit. Says what went wrong."""
    child = os.fork()
    if child == 0:
        signal.alarm(300)  # a child that waits for threads that it does not have is killed
        try:
            os._exit(0 if check() else 3)
        finally:  # an error must not make a second pytest of it
            os._exit(4)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [] if status == 0 else [f"the child ended with {status}"]


@pytest.mark.filterwarnings("ignore:.*fork:Warning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes(method):
    x = np.linspace(0.1, 9, 100_000)
    with multiprocessing.get_context(method).Pool(2) as pool:
        parts = pool.starmap(hu.pow, [(part, 1.7) for part in np.split(x, 4)])
    assert_same(np.concatenate(parts), hu.pow(x, 1.7))
