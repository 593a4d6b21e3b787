"""What the libraries are asked for: an operator and its operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from halfulp.types import element_type

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """One computation; the result has x's type and the broadcast shape.

    Attributes:
        operator: which one.
        x: the base, or PRelu's input.
        y: the exponent, or the slope. A 0-d exponent is a constant, which a library may know beforehand.
        returned: the result is a new array, as in `z = pow(x, y)`, from those libraries that else are given
            one to put it in. Meant for small arrays, where the call is what takes the time.
    """

    operator: Literal["pow", "prelu"]
    x: Array
    y: Array
    returned: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's shape."""
        return np.broadcast_shapes(self.x.shape, self.y.shape)

    @cached_property
    def output(self) -> Array:
        """Where a library that can be told puts the result: in x's order of memory, where the shapes agree.

        One array for all, since of two that differ in nothing but their place one may take half as long again.
        """
        if self.x.shape == self.shape:
            return np.empty_like(self.x)
        return np.empty(self.shape, self.x.dtype)

    @property
    def constant(self) -> int | float | None:
        """The constant exponent as a Python number, an int where it is integral; None where there is none."""
        if self.operator != "pow" or self.y.ndim:
            return None
        value = float(self.y)
        return int(value) if value.is_integer() else value


def bases(type_name: str, size: int, seed: int = 7) -> Array:
    """Return ordinary bases: 0.01 to 10 in a floating type, -9 to 9 (0 to 9 if unsigned) in an integer one."""
    element, random = element_type(type_name), np.random.default_rng(seed)
    if element.kind == "float":
        return random.uniform(0.01, 10, size).astype(element.dtype)
    return random.integers(-9 if element.kind == "int" else 0, 10, size).astype(element.dtype)


def exponents(type_name: str, size: int, seed: int = 8) -> Array:
    """Return ordinary exponents: -4 to 4 in a floating type, 0 to 10 in an integer one."""
    element, random = element_type(type_name), np.random.default_rng(seed)
    if element.kind == "float":
        return random.uniform(-4, 4, size).astype(element.dtype)
    return random.integers(0, 11, size).astype(element.dtype)


def power(x_type: str, y_type: str, size: int) -> Case:
    """Return a power of two ordinary arrays."""
    return Case("pow", bases(x_type, size), exponents(y_type, size))


def constant_power(type_name: str, exponent: float, size: int) -> Case:
    """Return a power with a constant exponent of the base's type."""
    return Case("pow", bases(type_name, size), np.array(exponent).astype(element_type(type_name).dtype))


def prelu(type_name: str, shape: tuple[int, ...], slope_shape: tuple[int, ...]) -> Case:
    """Return a PRelu of numbers of both signs; the slopes are eighths, or small integers in an integer type."""
    element, random = element_type(type_name), np.random.default_rng(7)
    x = random.integers(-100, 100, shape, np.int8).astype(element.dtype)
    slopes = random.integers(-3, 4, slope_shape, np.int8)
    return Case("prelu", x, (slopes if element.kind == "int" else slopes / 8).astype(element.dtype))
