"""Count what the kernels execute for an element, instructions of PTX by class: where there is no device to time them.

    python -m tests.cuda.count_instructions

Moves between registers are left out: the assembler removes most. Later phases count, for the few elements that they
decide.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from tests.cuda.build import PTX, Driver
from tests.cuda.ptx_to_cpp import CLASSES

from halfulp.types import TYPES

COUNT = 1 << 16


def counts(driver: Driver, x: np.ndarray, y: np.ndarray, *, prelu: bool) -> Sequence[float]:
    """Return how many instructions of each class an element takes."""
    driver.library.fake_executed.restype = ctypes.POINTER(ctypes.c_uint64)
    executed = driver.library.fake_executed()
    before = executed[: len(CLASSES)]
    driver.apply(x, y, np.empty_like(x), prelu=prelu, device=PTX)
    return [(after - early) / x.size for after, early in zip(executed[: len(CLASSES)], before, strict=True)]


def undecided(driver: Driver, x: np.ndarray, y: np.ndarray) -> int:
    """Return how many powers the first phase leaves."""
    memory: list[np.ndarray] = []

    def allocate(size: int) -> int:
        memory.append(np.zeros(size, np.uint8))
        return memory[-1].ctypes.data

    out = np.empty_like(x)
    driver.core.apply(False, *map(driver.operand, (x, y, out)), PTX, 0, allocate)
    return sum(int(np.unpackbits(bits).sum()) for bits in memory)


def main() -> None:
    driver = Driver(counted=True)
    rng = np.random.default_rng(1)
    shown = [i for i, name in enumerate(CLASSES) if name != "moves"]
    print("| | " + " | ".join(CLASSES[i] for i in shown) + " | all |")
    print("|---|" + "---|" * (len(shown) + 1))
    for name in ("float32", "float64", "float16", "bfloat16"):
        dtype = TYPES[name].dtype
        x = np.exp(rng.normal(0, 0.5, COUNT)).astype(dtype)
        operands = {
            f"{name} \\*\\* {name}": (x, rng.normal(0, 1, COUNT).astype(dtype), False),
            f"{name} \\*\\* 2.5": (x, np.array([2.5]), False),
            f"{name} \\*\\* 2": (x, np.array([2.0]), False),
            f"PRelu {name}": (x, np.ones(1, dtype), True),
        }
        for label, (a, b, prelu) in operands.items():
            found = counts(driver, a, b, prelu=prelu)
            numbers = [found[i] for i in shown]
            print(f"| {label} | " + " | ".join(f"{n:.1f}" for n in [*numbers, sum(numbers)]) + " |")
        many = np.exp(rng.normal(0, 2, 1 << 22)).astype(dtype)
        left = undecided(driver, many, rng.normal(0, 3, many.size).astype(dtype))
        print(f"Of {many.size} powers of {name} the first phase leaves {left}.")


if __name__ == "__main__":
    main()
