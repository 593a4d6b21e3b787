"""Calls that the core answers at once look like functions of Python, and accept the same operands."""

import copy
import inspect
import pickle
from itertools import product

import numpy as np
import pytest
from tests.core.operands import assert_same
from tests.core.test_fp_environment import MODES, control_bits

import halfulp as hu
from halfulp.types import TYPES


@pytest.mark.parametrize(
    ("function", "parameters"), [(hu.pow, "x y out where dtype integers"), (hu.prelu, "x slope out")]
)
def test_it_looks_like_its_function(function, parameters):
    assert list(inspect.signature(function).parameters) == parameters.split()
    assert inspect.isroutine(function)
    assert function.__doc__.startswith("Return ")
    assert function.__module__ == "halfulp.operators"
    assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function


def test_wrong_arguments_are_errors_of_the_function():
    for call in (
        lambda: hu.pow(1),
        lambda: hu.pow(1, 2, 3),
        lambda: hu.pow(1, 2, to=3),
        lambda: hu.pow(x=1, y=2),
    ):
        with pytest.raises(TypeError, match=r"^pow\(\)"):
            call()


@pytest.mark.parametrize("exponent", [2, -3, 2.5, 2**70, np.float32(1.5), np.int8(3), np.array(2.5)])
def test_numbers_and_scalars_count_as_arrays_do(exponent):
    x = np.linspace(0.1, 2, 5, dtype=np.float32)
    powers = np.array([hu.pow(np.array([base]), np.array([exponent], float))[0] for base in x])
    assert_same(hu.pow(x, exponent), powers)
    if not isinstance(exponent, np.ndarray):
        scalars = [hu.pow(base, exponent) for base in x]
        assert {type(scalar) for scalar in scalars} == {np.float32}
        assert_same(np.array(scalars), powers)


REALS = [
    *(0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e-320, 1e-44, 0.1, 3.4e38, 1e39, 1e300, np.inf, -np.inf, np.nan, 2),
    *(-3, 2**60),
]


@pytest.mark.parametrize("kinds", list(product((float, np.float32, np.float64), repeat=2)))
def test_two_numbers_give_what_arrays_give(kinds):
    """Also in floating-point environments of every kind."""
    for a, b in product(REALS, repeat=2):
        with np.errstate(over="ignore"):
            x, y = kinds[0](a), kinds[1](b)
            # A base without a type has the exponent's.
            base = np.array([x], np.float32 if kinds == (float, np.float32) else None)
        expected = hu.pow(np.resize(base, 17), np.array([y]))[:1]
        for bits in MODES.values():
            with control_bits(bits):
                got = hu.pow(x, y)
            assert type(got) is expected.dtype.type
            assert_same(np.array([got]), expected, f"{x!r} {y!r}")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", range(1, 19))
def test_small_arrays_give_what_great_ones_give(dtype, size):
    rng = np.random.default_rng(size)
    x = np.exp(rng.uniform(-5, 5, 600)).astype(dtype)
    x[::7] *= -1
    y = rng.uniform(-9, 9, x.size).astype(dtype)
    y[::14] = np.rint(y[::14])
    expected = hu.pow(x, y)
    for start in range(0, 540, size):
        part = slice(start, start + size)
        assert_same(hu.pow(x[part], y[part]), expected[part])
        assert_same(hu.pow(x[part][None], y[part][None]), expected[part][None])
    for bits in MODES.values():
        with control_bits(bits):
            got = hu.pow(x[:size], y[:size], out=None)
        assert_same(got, expected[:size])
    of_number = hu.pow(x, dtype(2.5))
    assert_same(hu.pow(x[:size], dtype(2.5)), of_number[:size])
    assert_same(hu.pow(x[:size], 2.5), of_number[:size])
    assert_same(hu.pow(x[: 2 * size : 2], 2.5), of_number[: 2 * size : 2])


@pytest.mark.parametrize("id_", [id_ for id_ in hu.ops() if hu.op(id_)._quick is not None])
def test_an_operator_accepts_at_once_what_its_row_allows(id_):
    operator = hu.op(id_)
    for x_row in TYPES.values():
        for y_row in TYPES.values():
            x, y = np.ones(3, x_row.dtype), np.ones(3, y_row.dtype)
            try:
                operator.infer(x, y)
                allowed = True
            except hu.SpecError:
                allowed = False
            result = operator._quick(x, y)
            assert (result is not None) == allowed, (x_row.name, y_row.name)
    x, y = np.ones((2, 3), np.float32), np.ones((4, 1, 3), np.float32)
    if operator.kernel == "prelu":
        assert operator._quick(x, y) is None
    assert operator._quick(x, np.ones((4, 3), np.float32)) is None
