"""Powers of float32 that are nearly, but not quite, rounding boundaries: compiles ties.cpp, decides what it lists.

python tests/exhaustive/ties.py     # all exponents, and the nearest found
"""

import ctypes
import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tests.house.builds import CORE, FLAGS, program, tool

SOURCE = Path(__file__).with_name("ties.cpp")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
ROOM = 1 << 16
SMALL_EXPONENT = 15  # 3^16 has more than 25 bits


class Exponent(NamedTuple):
    """y = n / 2^k."""

    n: int
    k: int


class Near(NamedTuple):
    """A base, the number of 25 bits that its power is near, and how far above it, relatively, the power is."""

    x: float
    y: Exponent
    number: float
    distance: float


class Found(NamedTuple):
    """How many powers were looked at, and those that are near a number of 25 bits."""

    powers: int
    exact: list[Near]
    inexact: list[Near]


# Where x is no power of two and y neither 0 nor 1, only these have powers of at most 25 bits: a negative y would need
# 1/x, 3^16 has 26 bits, and so x = 3^16 has more than 24.
EXPONENTS = [Exponent(n, 0) for n in range(2, SMALL_EXPONENT + 1)] + [
    Exponent(n, k) for k in (1, 2, 3, 4) for n in range(1, SMALL_EXPONENT + 1, 2)
]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled source."""
    options = [*FLAGS, "-O3", "-march=native", *WARNINGS, "-Wno-unused-function", "-shared", "-fPIC"]
    loaded = ctypes.CDLL(str(program("ties", [tool("c++"), *options, SOURCE], SOURCE, CORE)))
    loaded.near_powers.restype = ctypes.c_int64
    loaded.near_powers.argtypes = [*[ctypes.c_int] * 3, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    loaded.pair_phase_error.restype = ctypes.c_double
    loaded.takes_for_ties.restype = ctypes.c_bool
    loaded.takes_for_ties.argtypes = [ctypes.c_double]
    return loaded


def near_powers(y: Exponent, e: int) -> Iterator[Near]:
    """The powers of x = 1 ... 2 (1 - 2^-24) times 2^e that ties.cpp lists, decided by fractions."""
    significands, numbers = np.empty(ROOM, np.uint32), np.empty(ROOM)
    listed = library().near_powers(y.k, e, y.n, ROOM, significands.ctypes.data, numbers.ctypes.data)
    assert listed <= ROOM, "more near powers than there is room for"
    for significand, number in zip(significands[:listed].tolist(), numbers[:listed].tolist(), strict=True):
        x = significand * 2.0 ** (e - 23)
        # (x^y / number)^(2^k) = x^n / number^(2^k) = 1 + excess
        excess = Fraction(x) ** y.n / Fraction(number) ** 2**y.k - 1
        yield Near(x, y, number, float(excess) / 2**y.k)


def search(exponents: list[Exponent]) -> Found:
    """All bases: x 2^(2^k) has the power x^y 2^n, so that 2^k exponents of x stand for all."""
    work = [(y, e) for y in exponents for e in range(2**y.k)]
    near: list[Near] = []
    library()  # compiled once, before the threads
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda job: list(near_powers(*job)), work):
            near += found
    exact = [power for power in near if power.distance == 0]
    return Found(len(work) << 23, exact, [power for power in near if power.distance != 0])


def significant_bits(number: float) -> int:
    """How many bits the number's significand has, zeros at its end not counted."""
    numerator, _ = number.as_integer_ratio()
    return (numerator // (numerator & -numerator)).bit_length()


def uncertainty(number: float) -> float:
    """How far from a number, relatively, a power may be that the double-double phase cannot tell from it.

    Both lie in an interval of twice the phase's error around a value of at least sqrt(1/2). To that error
    round_to adds 2^-52 of the grid's spacing, which is at most 2^(2.5 - bits) for a midpoint of so many bits.
    """
    return 2**1.5 * (library().pair_phase_error() + 2.0 ** (-49.5 - significant_bits(number)))


def confused(found: Found) -> list[Near]:
    """The powers that the double-double phase could take for a number of 25 bits that they are not."""
    return [power for power in found.inexact if abs(power.distance) <= uncertainty(power.number)]


def report(found: Found) -> str:
    """What a search came to."""
    nearest = min(found.inexact, key=lambda power: abs(power.distance))
    room = min(abs(power.distance) / uncertainty(power.number) for power in found.inexact)
    return (
        f"{found.powers} powers: {len(found.exact)} are numbers of at most 25 bits; of the others\n"
        f"{len(found.inexact)} are within 2^-46 of one, nearest {nearest.x.hex()} ** ({nearest.y.n}/{2**nearest.y.k}) "
        f"by 2^{np.log2(abs(nearest.distance)):.2f};\n{len(confused(found))} could be taken for it "
        f"by the double-double phase, whose uncertainty is at least {room:.1f} times smaller"
    )


if __name__ == "__main__":
    print(report(search(EXPONENTS)))
