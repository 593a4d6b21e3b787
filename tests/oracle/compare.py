"""Comparison bit for bit, with a message from which a failure can be taken up."""

from collections.abc import Callable, Sequence

import numpy as np
from tests.oracle.grids import Part

SHOWN = 8  # disagreements in a message


def bits(array: np.ndarray) -> np.ndarray:
    """An array's bit patterns."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def generator(seed: int, *names: str) -> np.random.Generator:
    """A generator for one test, the same for the same seed and names."""
    return np.random.default_rng([seed, *"-".join(names).encode()])


def assert_same_bits(
    parts: Sequence[Part],
    core: Callable[[np.ndarray, np.ndarray], np.ndarray],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
    seed: int,
) -> None:
    """Compute every part by both and compare, types included."""
    failures = []
    for part in parts:
        got, expected = core(part.x, part.y), oracle(part.x, part.y)
        assert got.dtype == expected.dtype, part.name
        assert got.shape == expected.shape, part.name
        wrong = np.flatnonzero(bits(got) != bits(expected))
        if len(wrong):
            failures.append(f"{part.name}: {len(wrong)} of {len(got)} differ")
            failures += [describe(part, got, expected, index) for index in wrong[:SHOWN]]
    assert not failures, f"HALFULP_SEED={seed}\n" + "\n".join(failures)


def describe(part: Part, got: np.ndarray, expected: np.ndarray, index: int) -> str:
    """One disagreement: values and bits."""
    words = [
        f"{name}={array[index]} ({bits(array)[index]:#x})"
        for name, array in (("x", part.x), ("y", part.y), ("core", got), ("oracle", expected))
    ]
    return "  " + "  ".join(words)
