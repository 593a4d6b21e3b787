"""The floating-point environment that a caller left: no bit depends on it, and it is the same afterwards."""

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.core.operands import assert_same

import halfulp as hu
from halfulp import operators

MACHINE = platform.machine()
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or MACHINE not in ("x86_64", "aarch64"),
    reason="the layout of fenv_t is known for Linux on x86-64 and aarch64",
)

# Where fenv_t keeps the control word, and its bits.
OFFSET = {"x86_64": 28, "aarch64": 0}.get(MACHINE, 0)
FLUSH = {"x86_64": 0x8040, "aarch64": 1 << 24}.get(MACHINE, 0)  # outputs, and on x86-64 inputs too
ROUNDING = {"x86_64": 13, "aarch64": 22}.get(MACHINE, 0)
CONTROL_BITS = {"x86_64": 0xFFC0, "aarch64": 0xFFFFFFFF}.get(MACHINE, 0)  # the others are flags
MODES = {
    "flush to zero": FLUSH,
    "toward one infinity": 1 << ROUNDING,
    "toward the other infinity": 2 << ROUNDING,
    "toward zero": 3 << ROUNDING,
    "toward zero, flush to zero": (3 << ROUNDING) | FLUSH,
}

libm = ctypes.CDLL("libm.so.6") if sys.platform == "linux" else None


def control_word() -> int:
    environment = (ctypes.c_ubyte * 64)()
    libm.fegetenv(environment)
    return ctypes.c_uint32.from_buffer(environment, OFFSET).value & CONTROL_BITS


@contextmanager
def control_bits(bits: int) -> Iterator[int]:
    """The calling thread's control word with some bits set; gives the word."""
    before = (ctypes.c_ubyte * 64)()
    changed = (ctypes.c_ubyte * 64)()
    libm.fegetenv(before)
    libm.fegetenv(changed)
    ctypes.c_uint32.from_buffer(changed, OFFSET).value |= bits
    try:
        libm.fesetenv(changed)
        yield control_word()
    finally:
        libm.fesetenv(before)


def calls() -> dict[str, Callable[[], np.ndarray]]:
    """Calls whose results would differ: subnormal operands and results, inexact ones, small and large arrays."""
    rng = np.random.default_rng(6)
    small = np.array([5e-324, -1e-310, 2.2e-308, 1.5, 1e-200], np.float64)
    big = rng.uniform(0.5, 2, 200_000).astype(np.float32)
    exponents = rng.uniform(-140, -110, 200_000).astype(np.float32)
    half = big.astype(np.float16)
    twenty, third = np.float32(-20.3), np.float32(1 / 3)
    quarters = np.full(300, 0.25, np.float32)
    tiny = np.linspace(-1e-45, -1e-38, 200_000, dtype=np.float32)
    constant = hu.op("directml.ELEMENT_WISE_CONSTANT_POW-3_0")
    bias = hu.op("directml.ELEMENT_WISE_POW-3_0")
    return {
        "pow, few": lambda: hu.pow(small, np.array([1.0, 1.0, 1.01, 0.1, 1.6])),
        "pow, many": lambda: hu.pow(big, exponents),
        "pow, integer exponents": lambda: hu.pow(big, np.int8(-127)),
        "pow, float16": lambda: hu.pow(half, twenty),
        "pow, integers": lambda: hu.pow(np.arange(50), np.array(0.7)),
        "pow, a number as base": lambda: hu.pow(0.3, exponents[:300]),
        "prelu, a number as slope": lambda: hu.prelu(-big, 0.3),
        "prelu, a tiny number as slope": lambda: hu.prelu(-big[:300], 1e-40),
        "a constant exponent": lambda: constant(big[:300], Exponent=0.3),
        "prelu, few": lambda: hu.prelu(small, np.array(0.3)),
        "prelu, many": lambda: hu.prelu(tiny, third),
        "a tiny scale": lambda: bias(big[:300], quarters, ScaleBias=(1e-40, 0.0)),
        "scale and bias": lambda: bias(big[:300], exponents[:300], ScaleBias=(1.1, 0.1)),
    }


@pytest.mark.parametrize("mode", MODES)
def test_same_bits_and_the_callers_state_is_restored(mode):
    cases = calls()
    expected = {name: call() for name, call in cases.items()}
    for name, call in cases.items():
        operators._kept_number.cache_clear()
        with control_bits(MODES[mode]) as word:
            got, after = call(), control_word()
        assert after == word, name
        assert_same(got, expected[name], name)


POOL_MADE_UNDER_FLUSHING = """
import ctypes, hashlib, sys
import numpy as np
import halfulp as hu
x = np.full(2_000_000, 0.5, np.float32)
y = np.linspace(100, 149, x.size, dtype=np.float32)
if sys.argv[1] != "0":
    libm = ctypes.CDLL("libm.so.6")
    state = (ctypes.c_ubyte * 64)()
    libm.fegetenv(state)
    ctypes.c_uint32.from_buffer(state, int(sys.argv[2])).value |= int(sys.argv[1])
    libm.fesetenv(state)
print(hashlib.sha256(hu.pow(x, y).tobytes()).hexdigest())
"""


def test_worker_threads_inherit_nothing(python):
    """A thread starts with its creator's control word: the pool must not keep it."""
    results = {python(POOL_MADE_UNDER_FLUSHING, bits, OFFSET) for bits in (0, *MODES.values())}
    assert len(results) == 1


TRAPS = """
import ctypes
import numpy as np
import halfulp as hu
x, y = np.array([1e300, -1.0, 0.0, 1e-300]), np.array([3.0, 0.5, -1.0, 3.0])
libm = ctypes.CDLL("libm.so.6")
state = (ctypes.c_ubyte * 64)()
libm.fegetenv(state)
ctypes.c_uint32.from_buffer(state, 28).value &= ~0x0e80  # invalid, division by zero, overflow, underflow not masked
libm.fesetenv(state)
result = hu.pow(x, y)
libm.fesetenv(ctypes.c_void_p(-1))  # FE_DFL_ENV
print(result.tolist())
"""


@pytest.mark.skipif(MACHINE != "x86_64", reason="aarch64 need not have traps")
def test_exceptions_that_trap(python):
    assert python(TRAPS).strip() == "[inf, nan, inf, 0.0]"
