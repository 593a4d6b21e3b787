"""A real device against the processor: `make gpu`. Without one, that the comparison itself can tell."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from tests.cuda import on_device

from halfulp.benchmark.cuda import require_device
from halfulp.cuda import undecided

PAIRS = 10**9
Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def device() -> None:
    require_device()


def hold(pairs: Pairs, *, prelu: bool = False) -> int:
    """Compare all pairs, and return how many they were."""
    count = 0
    for x, y in pairs:
        assert not on_device.differences(x, y, prelu=prelu)
        count += np.broadcast(x, y).size
    return count


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_hard_cases(rng: np.random.Generator) -> None:
    print(hold(on_device.hard_pairs(rng)), "pairs of operands for powers,", end=" ")
    print(hold(on_device.prelu_pairs(rng), prelu=True), "for PRelu: the same bits")


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_all_pairs(name: str) -> None:
    count = hold(on_device.all_pairs(name))
    assert count == 2**32
    print(f"{name}: all {count} pairs, the same bits")


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_random_pairs(name: str, rng: np.random.Generator) -> None:
    print(f"{name}: {hold(on_device.random_pairs(name, PAIRS, rng))} random pairs, the same bits")
    assert undecided(0) == 0


def test_the_comparison_itself(
    kernels: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(on_device, "DEVICE", torch.device("cpu"))
    assert hold(on_device.random_pairs("float32", 3000, rng)) == 3000
    assert hold(on_device.all_pairs("bfloat16", bases=1)) == 65536
    x, y = next(on_device.hard_pairs(rng))
    assert not on_device.differences(x, y)
    assert not on_device.differences(x, y, prelu=True)
    right = on_device.computed
    monkeypatch.setattr(on_device, "computed", lambda x, y, **_: -right(x, y))
    assert on_device.differences(np.array([1.5]), np.array([2.0])) == [
        "np.float64(1.5), np.float64(2.0) gives np.float64(-2.25) and not np.float64(2.25)"
    ]
