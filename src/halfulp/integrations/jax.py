"""JAX: ``pow`` and ``prelu`` under jit, grad, vmap and their compositions, by a callback to the host.

A traced call copies operands from the compiled program to the processor's memory and the result back. It is exact, but
not fast on an accelerator.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import halfulp as hu
from halfulp._interop import Number, as_array, exponent_array
from halfulp.errors import HalfulpError
from halfulp.operators import POW, PRELU, number_array
from halfulp.types import TYPES

__all__ = ["pow", "prelu"]


def pow(x: Any, y: Any, /) -> jax.Array:
    """Return x to the power y, elementwise, correctly rounded, as ``hu.pow`` does.

    Args:
        x: the base, of any type that halfulp and JAX both have. A number gets y's type.
        y: the exponent, broadcast with x. A number is exact, even if JAX has no 64-bit types.

    Returns:
        An array of x's type and the broadcast shape.

    Raises:
        SpecError: shapes that do not broadcast, a type that the table lacks.
        HalfulpError: a number that does not fit its type, or an array of 64-bit integers that JAX would truncate to 32.

    Example:
        >>> x = jnp.array([1.0, 2.0, 3.0])
        >>> jax.jit(pow)(x, jnp.array([4, 5, 6]))
        Array([  1.,  32., 729.], dtype=float32)
        >>> jax.grad(lambda x: pow(x, 2.5).sum())(x)
        Array([ 2.5     ,  7.071068, 12.99038 ], dtype=float32)
    """
    if _is_number(y):
        return _pow_number(_array(x), y)
    y = _array(y)
    if _is_number(x):
        is_beside_integers = isinstance(x, float) and jnp.issubdtype(y.dtype, jnp.integer)
        return _pow(_number(x, jnp.result_type(float) if is_beside_integers else y.dtype), y)
    return _pow(_array(x), y)


def prelu(x: Any, slope: Any, /) -> jax.Array:
    """Return slope * x where x < 0, else x, as ``hu.prelu`` does.

    Args:
        x: an array of any type that halfulp and JAX both have.
        slope: of x's type, of a shape that broadcasts to x's. A number gets x's type.

    Returns:
        An array of x's type and shape.

    Raises:
        SpecError: types that differ, a slope that would enlarge x.
        HalfulpError: a number that does not fit x's type.

    Example:
        >>> prelu(jnp.array([-2.0, 3.0]), 0.25)
        Array([-0.5,  3. ], dtype=float32)
    """
    x = _array(x)
    return _prelu(x, _number(slope, x.dtype) if _is_number(slope) else _array(slope))


def _array(operand: Any) -> jax.Array:
    """Return an operand as JAX's array. Without 64-bit types, JAX would drop the upper half of integers."""
    if isinstance(operand, jax.Array | list | tuple):
        return jnp.asarray(operand)
    operand = as_array(operand)
    if operand.dtype.name not in TYPES and operand.dtype.kind not in "bc":  # the clauses refuse these
        raise HalfulpError(f"no element type {operand.dtype}")
    array = jnp.asarray(operand)
    if operand.dtype.kind in "iu" and not np.array_equal(operand.astype(array.dtype), operand):
        raise HalfulpError(
            f"JAX has no {operand.dtype} unless jax_enable_x64 is set, and {array.dtype} does not hold these values"
        )
    return array


def _is_number(operand: object) -> bool:
    return isinstance(operand, int | float) and not isinstance(operand, bool)


def _number(number: Number, dtype: np.dtype[Any]) -> jax.Array:
    array = number_array(number, dtype)
    if array is None:
        raise HalfulpError(f"the number does not fit the type {dtype}", got=number)
    return jnp.asarray(array)


def _on_host(function: Any, shape: Any, batching: str, x: jax.Array, *others: jax.Array) -> jax.Array:
    """Call a NumPy function in the middle of a traced program."""
    # Operands of equal rank keep a batch dimension in front in its place.
    operands = (jnp.reshape(a, (1,) * (len(shape) - a.ndim) + a.shape) for a in (x, *others))
    result = jax.ShapeDtypeStruct(shape, x.dtype)
    return jax.pure_callback(
        lambda *arrays: function(*map(np.asarray, arrays)), result, *operands, vmap_method=batching
    )


@jax.custom_jvp
def _pow(x: jax.Array, y: jax.Array) -> jax.Array:
    return _on_host(hu.pow, POW.infer(x, y).shape, "expand_dims", x, y)


@_pow.defjvp
def _pow_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    x, y = primals
    result = _pow(x, y)
    tangent = jnp.zeros_like(result)
    if jnp.issubdtype(x.dtype, jnp.floating):
        base = jnp.where((y == 0) & ((x == 0) | jnp.isnan(x)), 1, x)
        tangent += (tangents[0] * y * _pow(base, y - 1)).astype(x.dtype)
    if jnp.issubdtype(y.dtype, jnp.floating):
        base = jnp.where((x == 0) & (y >= 0), 1, x)
        tangent += (tangents[1] * _pow(base, y) * jnp.log(base)).astype(x.dtype)
    return result, tangent


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _pow_number(x: jax.Array, y: Number) -> jax.Array:
    return _on_host(lambda array: hu.pow(array, y), POW.infer(x, exponent_array(y)).shape, "expand_dims", x)


@_pow_number.defjvp
def _pow_number_jvp(y: Number, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x,) = primals
    by_x = y * _pow_number(x, y - 1) if y != 0 else jnp.zeros_like(x)
    return _pow_number(x, y), tangents[0] * by_x


@jax.custom_jvp
def _prelu(x: jax.Array, slope: jax.Array) -> jax.Array:
    # The batches are made equal: a batched slope must not enlarge an x without a batch.
    return _on_host(hu.prelu, PRELU.infer(x, slope).shape, "broadcast_all", x, slope)


@_prelu.defjvp
def _prelu_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, slope), (by_x, by_slope) = primals, tangents
    return _prelu(x, slope), jnp.where(x < 0, slope * by_x + x * by_slope, by_x)
