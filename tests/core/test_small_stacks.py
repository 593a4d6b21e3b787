"""Little room: small stacks, and hardly any address space left. A call gives the right result or a MemoryError."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Every type, layout and phase: a thread with a small stack finds the same results as the main thread.
CALLS = """
import os, resource, sys, threading

root, kind, kib = sys.argv[1:]
if kind == "process" and resource.getrlimit(resource.RLIMIT_STACK)[0] != int(kib) << 10:
    resource.setrlimit(resource.RLIMIT_STACK, (int(kib) << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    os.execv(sys.executable, [*sys.orig_argv])

sys.path.insert(0, root)
import numpy as np
import halfulp as hu
from halfulp.conformance.cases.values import hard_pairs
from halfulp.types import codes
from tests.core.operands import BASES, EXPONENTS, swapped, unaligned, values

random = np.random.default_rng(5)
cases = []

def add(function, x, y):
    cases.append((function, x, y, None))
    if x.shape == np.broadcast_shapes(x.shape, y.shape):
        cases.append((function, x, y, x))  # in place

def layouts(a):
    square = a[:4096].reshape(64, 64)
    many = a[:4096].reshape((2,) * 12)
    yield from ((a, a), (a[::-1], a), (a[::2], a[1::2]), (square.T, square), (many.T, many), (square[:, :1], square))
    yield from ((square, square[:1]), (swapped(a), unaligned(a)), (a, a[:1]), (a[:16], a[:16]))

for name in BASES:
    for x, y in layouts(values(name, (5000,), random)):
        add(hu.pow, x, y)
        if np.broadcast_shapes(x.shape, y.shape) == x.shape:
            add(hu.prelu, x, y)
    for exponent in EXPONENTS:
        add(hu.pow, values(name, (1000,), random), values(exponent, (1000,), random))

tiny, huge, one = 5e-324, 1e300, 1 + 2**-52
special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -2, 2, 0.5, tiny, 1e-310, huge, one])
add(hu.pow, special.reshape(-1, 1), special)
add(hu.pow, np.full(3000, 1e-310), np.linspace(-1, 1, 3000))
add(hu.pow, np.full(3000, one), np.arange(3000) + 2**61 + 1)
for great in (3, 10, 2**62 + 1):
    add(hu.pow, np.full(3000, great), random.uniform(0, 63, 3000) / np.log2(great))
    add(hu.pow, np.full(3000, great), np.full(3000, 0.5))
for name in ("float64", "float32", "float16", "bfloat16"):
    x, y = hard_pairs(name, name)
    add(hu.pow, x, y)
    add(hu.pow, x, y.astype(np.float64))
    add(hu.pow, x, y[:1])

def compute():
    with np.errstate(all="ignore"):
        for function, x, y, out in cases:
            x = x.copy() if x is out else x
            yield function(x, y, out=None if out is None else x)

if kind == "process":
    for result in compute():
        pass
else:
    found = []
    threading.stack_size(int(kib) << 10)
    thread = threading.Thread(target=lambda: found.extend(compute()))
    thread.start()
    thread.join()
    right = list(compute())
    assert len(found) == len(right)
    for a, b in zip(found, right):
        assert np.array_equal(codes(a), codes(b))
print("ok")
"""


@pytest.mark.parametrize(("kind", "kib"), [("thread", 64), ("thread", 128), ("process", 192)])
def test_small_stacks(kind, kib, python):
    assert python(CALLS, ROOT, kind, kib, HALFULP_NUM_THREADS="1") == "ok\n"


LITTLE_ADDRESS_SPACE = """
import os, resource, sys
import numpy as np
import halfulp as hu

def limit(headroom):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + headroom, resource.RLIM_INFINITY))

def outcome(function, x, y, out, right, headroom):
    child = os.fork()
    if child == 0:
        try:
            limit(headroom)
            result = function(x, y, out=out)
            os._exit(0 if np.array_equal(result, right) else 2)
        except MemoryError:
            os._exit(1)
        except BaseException:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

outcomes = set()
for name in ("float32", "float64", "int32"):
    whole = (np.arange(1 << 18) % 5).astype(name)
    many, square = whole.reshape((2,) * 18), whole.reshape(512, 512)
    for x, y in ((whole, whole), (whole[::2], whole[1::2]), (square.T, square), (many.T, many), (square[:1], square)):
        shape = np.broadcast_shapes(x.shape, y.shape)
        for function in (hu.pow, hu.prelu) if x.shape == shape else (hu.pow,):
            right = function(x.copy(), y.copy())
            for out in (None, np.empty(shape, name), np.empty(shape, name).T.copy().T):
                for headroom in map(int, sys.argv[1:]):
                    got = outcome(function, x, y, out, right, headroom)
                    assert got in (0, 1), (name, x.strides, y.strides, function, out is None, headroom, got)
                    outcomes.add(got)
assert outcomes == {0, 1}
print("ok")
"""


@pytest.mark.parametrize(
    "kib", [(64,), pytest.param((0, 16, 64, 200, 1024, 3072), marks=pytest.mark.exhaustive)], ids=str
)
@pytest.mark.parametrize("threads", ["1", "4"])
def test_little_address_space(threads, kib, python):
    headrooms = [n << 10 for n in kib]
    assert python(LITTLE_ADDRESS_SPACE, *headrooms, HALFULP_NUM_THREADS=threads) == "ok\n"
