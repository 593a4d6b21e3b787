"""The kernels' bits against the processor's: their PTX, translated, and what a host's compiler makes of them."""

from typing import Any

import numpy as np
import pytest
from tests.cuda.build import HOST, PTX, Driver
from tests.oracle.compare import differences
from tests.oracle.grids import Part, pow_grid, prelu_grid, random_bits, specials

import halfulp as hu
from halfulp.conformance.cases.values import outer
from halfulp.types import TYPES

DEVICES = pytest.mark.parametrize("device", [PTX, HOST], ids=["ptx", "host"])
# The types that have kernels of their own.
OWN = ["float64", "float32", "float16", "bfloat16"]


def compare(
    driver: Driver, device: int, x: np.ndarray, y: Any, *, prelu: bool = False, out: Any = None
) -> None:
    """Compare a result of the device with the processor's, bit for bit."""
    expected = (hu.prelu if prelu else hu.pow)(x, y)
    result = np.empty_like(expected) if out is None else out
    result[...] = np.ones((), result.dtype)
    driver.apply(x, y, result, prelu=prelu, device=device)
    assert not differences(result, expected, x, y)


@pytest.mark.parametrize("x_name", TYPES)
def test_powers_of_every_pair_of_types(driver, rng, x_name):
    """Special values with each other, and random bits; the hard cases of some pairs (of the others, below)."""
    for y_name in TYPES:
        parts = [Part("specials", *outer(specials(x_name), specials(y_name)))]
        parts.append(Part("random bits", random_bits(x_name, rng, 500), random_bits(y_name, rng, 500)))
        if x_name in OWN and y_name in (*OWN, "int64", "uint8"):
            parts += pow_grid(x_name, y_name, rng)
        compare_parts(driver, parts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("x_name", TYPES)
def test_hard_cases_of_every_pair_of_types(driver, rng, x_name):
    for y_name in TYPES:
        compare_parts(driver, pow_grid(x_name, y_name, rng))


def compare_parts(driver: Driver, parts: list[Part]) -> None:
    x, y = (np.concatenate([getattr(part, n) for part in parts]) for n in ("x", "y"))
    for device in (PTX, HOST):
        compare(driver, device, x, y)


@pytest.mark.parametrize("name", TYPES)
def test_prelu_of_every_type(driver, rng, name):
    for part in prelu_grid(name, rng):
        for device in (PTX, HOST):
            compare(driver, device, part.x, part.y, prelu=True)
            compare(driver, device, part.x, part.y[:1], prelu=True)


@DEVICES
@pytest.mark.parametrize("name", OWN)
def test_random_powers(driver, rng, name, device):
    dtype = TYPES[name].dtype
    x = np.exp(rng.normal(0, 2, 40_000)).astype(dtype)
    compare(driver, device, x, rng.normal(0, 3, x.size).astype(dtype))
    compare(driver, device, random_bits(name, rng, x.size), random_bits(name, rng, x.size))


@DEVICES
@pytest.mark.parametrize("name", OWN)
def test_one_exponent(driver, rng, name, device):
    """Those that have a formula, and others."""
    if TYPES[name].bits == 16:
        x = np.arange(0, 65536, 5, dtype=np.uint16).view(TYPES[name].dtype)
    else:
        x = np.concatenate([part.x for part in pow_grid(name, name, rng)] + [random_bits(name, rng, 4000)])
        x = x[: x.size // 4 * 4]
    for y in (2, 0.5, -1, 3, 4, -2, -0.5, 1.5, 0, 1, 2.2, -3.7, np.inf, -np.inf, np.nan, 1e300):
        compare(driver, device, x, np.array([y]))
    for integer in (2, -1, 2**53 + 1, -(2**63), 2**63 - 1):
        compare(driver, device, x, np.array([integer]))
    assert any(line.startswith(f"pow_one_{name}") for line in driver.log())


@DEVICES
@pytest.mark.parametrize("y_name", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("name", ["float32", "float64", "int32"])
def test_numbers_in_an_operands_place(driver, rng, name, y_name, device):
    x, y = random_bits(name, rng, 3000), random_bits(y_name, rng, 3000)
    result = np.empty_like(x)
    driver.apply(x, driver.number(3, y_name), result, device=device)
    np.testing.assert_array_equal(result, hu.pow(x, np.array(3, y_name)))
    driver.apply(driver.number(7, name), y, result, device=device)
    np.testing.assert_array_equal(result, hu.pow(np.array(7, name), y))
    driver.apply(x, driver.number(2, name), result, prelu=True, device=device)
    np.testing.assert_array_equal(result, hu.prelu(x, np.array(2, name)))


def views(array: np.ndarray) -> dict[str, np.ndarray]:
    """Views of (4, 6, 10, 12) elements of an array of (8, 6, 10, 12)."""
    return {
        "contiguous": array[:4],
        "steps": array[::2],
        "backwards": array[3::-1],
        "transposed": array[:4].transpose(0, 3, 2, 1).copy().transpose(0, 3, 2, 1),
        "inner steps": np.repeat(array[:4], 2, axis=3)[..., ::2],
        "one": array[:1, :1, :1, :1],
        "per channel": array[:1, :, :1, :1],
        "per column": array[0, 0, 0],
        "per row": array[:4, :1, :, :1],
        "misaligned": np.concatenate([array.ravel()[:1], array.ravel()])[1:].reshape(array.shape)[:4],
    }


@DEVICES
@pytest.mark.parametrize("name", [*OWN, "int16"])
@pytest.mark.parametrize("prelu", [False, True], ids=["pow", "prelu"])
def test_layouts(driver, rng, name, prelu, device):
    shape = (8, 6, 10, 12)
    bases = views(random_bits(name, rng, 8 * 6 * 10 * 12).reshape(shape))
    others = views(random_bits(name, rng, 8 * 6 * 10 * 12).reshape(shape))
    for x_kind in ("contiguous", "steps", "backwards", "transposed", "inner steps", "misaligned"):
        for y_kind in others:
            compare(driver, device, bases[x_kind], others[y_kind], prelu=prelu)
    for x_kind in ("one", "per channel", "per column"):
        if not prelu:
            compare(driver, device, bases[x_kind], others["contiguous"])
    for out in views(np.empty(shape, TYPES[name].dtype)).values():
        if out.shape == (4, 6, 10, 12):
            compare(driver, device, bases["contiguous"], others["per channel"], prelu=prelu, out=out)


@DEVICES
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "int64"])
def test_the_output_may_be_an_operand(driver, rng, name, device):
    """Also for what the first phase leaves undecided: special values, subnormal numbers, ties."""
    parts = pow_grid(name, name, rng)
    x, y = (np.concatenate([getattr(part, n) for part in parts]) for n in ("x", "y"))
    expected = hu.pow(x, y).tobytes()
    for step in (1, 2):
        for target in (0, 1):
            operands = [np.repeat(a, step)[::step] for a in (x, y)]
            driver.apply(*operands, operands[target], device=device)
            assert operands[target].tobytes() == expected


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 3, 4, 255, 256, 257, 1023, 1025, 4099])
def test_any_number_of_elements(driver, rng, n, device):
    for name in OWN:
        x, y = random_bits(name, rng, n), random_bits(name, rng, n)
        compare(driver, device, x, y)
        compare(driver, device, x, y[:1] if n else y)
        compare(driver, device, x, y, prelu=True)


@DEVICES
def test_nothing_is_undecidable(driver, rng, device):
    parts = [part for part in pow_grid("float64", "float64", rng) if part.name == "worst cases"]
    compare(driver, device, parts[0].x, parts[0].y)
    assert driver.core.undecided(device) == 0


@pytest.mark.exhaustive
@DEVICES
@pytest.mark.parametrize("name", OWN)
def test_many_powers(driver, rng, name, device):
    dtype = TYPES[name].dtype
    for _ in range(50):
        n = 1_000_000
        with np.errstate(over="ignore"):
            x = np.exp(rng.normal(0, 2, n)).astype(dtype)
        compare(driver, device, x, rng.normal(0, 3, n).astype(dtype))
        compare(driver, device, random_bits(name, rng, n), random_bits(name, rng, n))
