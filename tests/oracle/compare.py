"""Comparison bit for bit, with a message from which a failure can be taken up."""

from collections.abc import Callable, Sequence

import numpy as np
from tests.oracle.grids import Part

from halfulp.types import codes

SHOWN = 8  # disagreements in a message


def assert_same_bits(
    parts: Sequence[Part],
    core: Callable[[np.ndarray, np.ndarray], np.ndarray],
    oracle: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> None:
    """Compute every part by both and compare, types included."""
    failures = []
    for part in parts:
        found = differences(core(part.x, part.y), oracle(part.x, part.y), part.x, part.y)
        failures += [f"{part.name}: {line}" for line in found]
    assert not failures, "\n".join(failures)


def differences(got: np.ndarray, expected: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[str]:
    """How many results have other bits than expected, and the first of them with their operands: values and bits."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    wrong = np.flatnonzero(codes(got) != codes(expected))
    if not wrong.size:
        return []
    arrays = {"x": x, "y": y, "got": got, "expected": expected}
    shown = {name: np.broadcast_to(a, expected.shape).ravel()[wrong[:SHOWN]] for name, a in arrays.items()}
    lines = (
        "  ".join(f"{name}={a[i]} ({codes(a)[i]:#x})" for name, a in shown.items())
        for i in range(len(wrong[:SHOWN]))
    )
    return [f"{wrong.size} of {expected.size} differ", *lines]
