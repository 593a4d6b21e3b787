"""Interrupts, too little memory, and what a long life would show: leaks."""

import pytest

INTERRUPTED = """
import signal, sys
import numpy as np
import halfulp as hu

def interrupt(*_):
    raise KeyboardInterrupt

kind, = sys.argv[1:]
signal.signal(signal.SIGALRM, interrupt)
if kind == "floats":  # a hard case, read against the memory's order
    x = np.full((4000, 4000), 0x400A022D3761AF1F).view(np.float64)[::-1, ::-1].T
    y = np.full((4000, 4000), -1 / 3)
else:  # truncated real powers that take all of 64 bits
    x = np.full(20_000_000, 3)
    y = 35.7
out = np.zeros_like(x)
for _ in range(100):  # on a busy machine the signal may come before a call, or after it
    out[...] = 0
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        hu.pow(x, y, out=out)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        if out.any() and not out.all():
            print("halfway")
            break
small = hu.pow(np.full(400_000, 3.0), 2)  # the pool works on
assert (small == 9).all()
"""


@pytest.mark.not_emulated
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_an_interrupt_ends_a_call_halfway(kind, threads, python):
    assert python(INTERRUPTED, kind, HALFULP_NUM_THREADS=threads) == "halfway\n"


TOO_LITTLE_MEMORY = """
import resource, sys
import numpy as np
import halfulp as hu

x = np.full(8_000_000, 1.5)
y = x[::-1]
hu.pow(x[:300_000], 2.5)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), resource.RLIM_INFINITY))
for call in (
    lambda: hu.pow(x, y),
    lambda: hu.prelu(x, y),
    lambda: hu.pow(x, y, out=y),
    lambda: hu.op("onnx.Pow-1")(x, y),
):
    try:
        call()
    except MemoryError:
        continue
    raise SystemExit("no MemoryError")
assert (x == 1.5).all()
out = np.empty(300_000)
assert (hu.pow(x[:300_000], 2.0, out=out) == 2.25).all()
print("ok")
"""


@pytest.mark.not_emulated
@pytest.mark.parametrize("threads", ["1", "8"])
def test_too_little_memory_is_a_memory_error(threads, python):
    assert python(TOO_LITTLE_MEMORY, HALFULP_NUM_THREADS=threads) == "ok\n"


NO_THREADS_TO_BE_HAD = """
import resource
import numpy as np
import halfulp as hu

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
x = np.full(2_000_000, 1.5)
out = np.empty_like(x)
resource.setrlimit(resource.RLIMIT_AS, (used + (33 << 20), resource.RLIM_INFINITY))  # a thread's stack takes 8 MiB
assert (hu.pow(x, 2.0, out=out) == 2.25).all()
print("ok")
"""


@pytest.mark.not_emulated
def test_without_memory_for_threads_fewer_do_the_work(python):
    assert python(NO_THREADS_TO_BE_HAD, HALFULP_NUM_THREADS="64") == "ok\n"


A_RESULT_PAST_MEMORY = """
import numpy as np
import halfulp as hu
column = np.broadcast_to(np.float64(1.5), (1 << 30, 1))
try:
    hu.pow(column, column.reshape(1, -1))
except (MemoryError, ValueError) as error:
    print(type(error).__name__)
"""


def test_a_result_larger_than_any_memory(python):
    assert python(A_RESULT_PAST_MEMORY) in ("MemoryError\n", "ValueError\n")


# Each way through a call: the fast path, numbers, out, errors, planned operators, other arrays, wrapping.
LEAKS = """
import gc, sys
import ml_dtypes, numpy as np
import halfulp as hu

x = np.linspace(0.1, 9, 20_000)
y = np.float32([1.5])
swapped, masked, big = x.astype(">f8"), np.ma.masked_greater(x, 5), np.linspace(0.1, 9, 300_000)
out, operator = np.empty_like(x), hu.op("onnx.Pow-1")
small = x[:100].astype(ml_dtypes.bfloat16)

def each():
    hu.pow(x, y); hu.pow(x, 2.5); hu.pow(2, x); hu.pow(x, y, out=out); hu.pow(swapped, y)
    hu.pow(big, y); hu.prelu(x, y.astype(x.dtype)); hu.prelu(x, 0.25); hu.pow(x[1:], y, out=x[:-1])
    operator(x.reshape(4, -1), x[:4], broadcast=1, axis=0)
    hu.pow(masked, 2); hu.pow(small, 3); hu.pow([1.0, 2.0], [3]); hu.pow(np.float32(2), np.float32(3))
    for bad in (lambda: hu.pow(x, x[:3]), lambda: hu.pow("a", x), lambda: hu.prelu(x, y), lambda: hu.pow(x, y, out=y)):
        try:
            bad()
        except hu.HalfulpError:
            pass

def resident():
    gc.collect()
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

rounds = int(sys.argv[1])
for _ in range(rounds):
    each()
blocks, memory = sys.getallocatedblocks(), resident()
references = [sys.getrefcount(a) for a in (x, y, out, swapped, x.dtype, swapped.dtype, hu.pow)]
for _ in range(rounds):
    each()
gc.collect()
grown = sys.getallocatedblocks() - blocks
assert references == [sys.getrefcount(a) for a in (x, y, out, swapped, x.dtype, swapped.dtype, hu.pow)]
assert grown < rounds // 10, f"{grown} blocks in {rounds} rounds"
assert resident() - memory < 2048, f"{resident() - memory} KiB in {rounds} rounds"
print("ok")
"""


@pytest.mark.parametrize("rounds", [50, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_nothing_leaks(rounds, python):
    assert python(LEAKS, rounds) == "ok\n"


def test_the_interrupt_is_pythons_own(python):
    """Importing changes no signal handler."""
    program = "import signal; before = signal.getsignal(signal.SIGINT); import halfulp"
    assert python(f"{program}; print(signal.getsignal(signal.SIGINT) is before)") == "True\n"
