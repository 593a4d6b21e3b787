"""A real device against the processor: `make gpu`. Without one, that the comparison itself can tell."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from tests.cuda import on_device
from tests.oracle.compare import differences
from tests.oracle.grids import pow_grid

import halfulp as hu
from halfulp.cuda import undecided
from halfulp.types import TYPES

PAIRS = 10**9
Pairs = Iterable[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def device() -> None:
    assert torch.cuda.is_available(), f"torch {torch.__version__} finds no CUDA device"


def hold(pairs: Pairs, *, prelu: bool = False) -> int:
    """Compare all pairs, and return how many they were."""
    count = 0
    for x, y in pairs:
        expected = (hu.prelu if prelu else hu.pow)(x, y)
        assert not differences(on_device.computed(x, y, prelu=prelu), expected, x, y)
        count += np.broadcast(x, y).size
    return count


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_hard_cases(rng):
    print(hold(on_device.hard_pairs(rng)), "pairs of operands for powers,", end=" ")
    print(hold(on_device.prelu_pairs(rng), prelu=True), "for PRelu: the same bits")


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_all_pairs(name):
    count = hold(on_device.all_pairs(name))
    assert count == 2**32
    print(f"{name}: all {count} pairs, the same bits")


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_random_pairs(name, rng):
    print(f"{name}: {hold(on_device.random_pairs(name, PAIRS, rng))} random pairs, the same bits")
    assert undecided(0) == 0


@pytest.mark.parametrize("platform", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_jax(platform, monkeypatch, rng):
    """Compiled programs call the kernels. On the processor, that this test is right."""
    jax = pytest.importorskip("jax")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch takes memory of the device, too
    try:
        place = jax.devices(platform)[0]
    except RuntimeError as error:
        pytest.skip(str(error))
    from halfulp.integrations import jax as hjax

    def text_of(function: Any, *operands: Any) -> str:
        return str(jax.jit(function).lower(*operands).compile().as_text())

    jax.config.update("jax_enable_x64", True)
    on_gpu = platform == "gpu"
    names = [name for name, row in TYPES.items() if row.bits >= 8] if on_gpu else ["float32"]
    with jax.default_device(place):
        for name in names:
            parts = [np.broadcast_arrays(part.x, part.y) for part in pow_grid(name, name, rng)]
            x, y = (np.concatenate([pair[i].ravel() for pair in parts]) for i in (0, 1))
            for ours, theirs in ((hjax.pow, hu.pow), (hjax.prelu, hu.prelu)):
                assert np.asarray(jax.jit(ours)(x, y)).tobytes() == theirs(x, y).tobytes(), name
            for number in (2.5, -3, 2**63):
                assert np.asarray(hjax.pow(x, number)).tobytes() == hu.pow(x, number).tobytes(), name
        x = rng.uniform(-1, 8, (7, 150_001 if on_gpu else 151)).astype(np.float32)
        y = rng.normal(0, 3, x.shape[1]).astype(np.float32)

        def chain(x: Any, y: Any) -> Any:
            return hjax.prelu(hjax.pow(-hjax.pow(-x, 3), y), y), hjax.pow(y, 2.5)

        many = [jax.jit(chain)(x, y) for _ in range(100 if on_gpu else 2)]  # enqueued without a wait
        expected = [hu.prelu(hu.pow(-hu.pow(-x, 3), y), y).tobytes(), hu.pow(y, 2.5).tobytes()]
        assert all([np.asarray(result).tobytes() for result in results] == expected for results in many)
        rows = jax.vmap(hjax.pow, (0, None))(x, y)
        assert np.asarray(rows).tobytes() == hu.pow(x, y).tobytes()
        by_x = jax.jit(jax.grad(lambda x: hjax.pow(x, 3).sum()))(x)
        np.testing.assert_allclose(by_x, 3 * x**2, rtol=1e-6)
        with hjax.exact():
            assert np.asarray(jax.jit(lambda x: x**2.7)(x)).tobytes() == hu.pow(x, np.float32(2.7)).tobytes()
        for call, function in (("halfulp_pow", hjax.pow), ("halfulp_prelu", hjax.prelu)):
            assert f'custom_call_target="{call}"' in text_of(function, x, y)
            assert "callback" not in text_of(function, x, y)
    if on_gpu:
        print(f"JAX {jax.__version__}: {len(names)} types, the same bits")
        assert undecided(place.local_hardware_id) == 0
