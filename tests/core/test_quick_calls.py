"""Calls that the core answers at once look like functions of Python, and accept the same operands."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from tests.core.operands import assert_same

import halfulp as hu
from halfulp.types import TYPES


@pytest.mark.parametrize(
    ("function", "parameters"), [(hu.pow, "x y out integers"), (hu.prelu, "x slope out")]
)
def test_it_looks_like_its_function(function: Any, parameters: str) -> None:
    assert list(inspect.signature(function).parameters) == parameters.split()
    assert inspect.isroutine(function)
    assert function.__doc__.startswith("Return ")
    assert function.__module__ == "halfulp.operators"
    assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function


@pytest.mark.parametrize("keywords", [{"out": None}, {"integers": "wrap"}, {"out": None, "integers": "wrap"}])
def test_keywords(keywords: dict[str, Any]) -> None:
    x = np.arange(4, dtype=np.float32)
    assert_same(hu.pow(x, x, **keywords), hu.pow(x, x))


def test_wrong_arguments_are_errors_of_the_function() -> None:
    for call in (
        lambda: hu.pow(1),
        lambda: hu.pow(1, 2, 3),
        lambda: hu.pow(1, 2, to=3),
        lambda: hu.pow(x=1, y=2),
    ):
        with pytest.raises(TypeError, match=r"^pow\(\)"):
            call()


@pytest.mark.parametrize("exponent", [2, -3, 2.5, 2**70, np.float32(1.5), np.int8(3), np.array(2.5)])
def test_numbers_and_scalars_count_as_arrays_do(exponent: Any) -> None:
    x = np.linspace(0.1, 2, 5, dtype=np.float32)
    powers = np.array([hu.pow(np.array([base]), np.array([exponent], float))[0] for base in x])
    assert_same(hu.pow(x, exponent), powers)
    if not isinstance(exponent, np.ndarray):
        scalars = [hu.pow(base, exponent) for base in x]
        assert {type(scalar) for scalar in scalars} == {np.float32}
        assert_same(np.array(scalars), powers)


@pytest.mark.parametrize("id_", [id_ for id_ in hu.ops() if hu.op(id_)._quick is not None])
def test_an_operator_accepts_at_once_what_its_row_allows(id_: str) -> None:
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
