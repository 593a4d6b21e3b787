"""JAX: ``pow`` and ``prelu`` under jit, grad, vmap, shard_map and their compositions.

On the processor, and on CUDA's devices if the installation has kernels for them, a compiled program calls the kernels
by XLA's foreign function interface (FFI), without a copy. On other devices it calls back: operands are copied to the
processor's memory, and the result back.
"""

import warnings
from functools import cache, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.interpreters import mlir
from numpy.typing import NDArray

import halfulp.operators as hu
from halfulp import cuda
from halfulp._interop import Number, as_array, exponent_array
from halfulp.errors import HalfulpError
from halfulp.types import TYPES

__all__ = ["exact", "pow", "prelu"]
__dir__ = __all__.copy


def pow(x: Any, y: Any, /) -> jax.Array:
    """Return x to the power y, elementwise, correctly rounded, as ``hu.pow`` does.

    Args:
        x: the base, of any type that halfulp and JAX both have. A number gets y's type, but a float beside integers
            keeps its own. What JAX makes of a number under jit, and its other weakly typed scalars, count as numbers.
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
        x = _array(float(x) if _is_number(x) and (isinstance(y, float) or y < 0) else x)
        return (_pow_number if isinstance(x, jax.core.Tracer) else _pow_words)(x, y)
    y, is_number = _array(y), _is_number(x)
    x = x if is_number else _array(x)
    if is_number or (not x.ndim and x.weak_type):
        is_float = isinstance(x, float) if is_number else jnp.issubdtype(x.dtype, jnp.floating)
        dtype = jnp.result_type(float) if is_float and jnp.issubdtype(y.dtype, jnp.integer) else y.dtype
        x = _number(x, dtype) if is_number else x.astype(dtype)
    return _pow(x, y)


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


def exact() -> Any:
    """Return a context in which JAX's own powers are exact: ``x ** y``, ``jnp.power``, ``lax.pow``.

    They are on the processor, and on CUDA's devices if the installation has kernels for them. The context acts where a
    function is compiled, in this thread. A function that was compiled outside is compiled again inside, and the other
    way around. JAX's rules for types, shapes and derivatives stay.

    Raises:
        HalfulpError: XLA has no handlers.

    Example:
        >>> with exact():
        ...     jax.jit(lambda x: x**2.5)(jnp.array([2.0, 3.0]))
        Array([ 5.656854, 15.588457], dtype=float32)
    """
    if not _PLATFORMS:
        raise HalfulpError("JAX's own powers can't be replaced; call pow", got=jax.__version__)
    _replace_lowerings()
    return _EXACT(True)


def _array(operand: Any) -> jax.Array:
    """Return an operand as JAX's array. Without 64-bit types, JAX would drop the upper half of integers."""
    if isinstance(operand, jax.Array):
        return operand
    if isinstance(operand, list | tuple):
        return jnp.asarray(operand)
    operand = as_array(operand)
    if operand.dtype.name not in TYPES and operand.dtype.kind not in "bc":  # the clauses refuse these
        raise HalfulpError(f"no element type {operand.dtype}")
    array = jnp.asarray(operand)
    if operand.dtype.kind in "iu" and not np.array_equal(operand.astype(array.dtype), operand):
        lack = f"JAX has no {operand.dtype} unless jax_enable_x64 is set"
        raise HalfulpError(f"{lack}, and {array.dtype} does not hold these values")
    return array


def _is_number(operand: object) -> bool:
    return isinstance(operand, int | float) and not isinstance(operand, bool)


def _number(number: Number, dtype: np.dtype[Any]) -> jax.Array:
    array = hu.number_array(number, dtype)
    if array is None:
        raise HalfulpError(f"the number does not fit the type {dtype}", got=number)
    return jnp.asarray(array)


def _register() -> tuple[str, ...]:
    """Return JAX's names of the platforms whose programs call handlers."""
    sources = [("cpu", "cpu", hu.xla_handlers)]
    if cuda.KERNELS is not None:
        sources.append(("cuda", "CUDA", lambda: cuda.core().xla_handlers()))
    platforms = []
    for platform, name_in_xla, handlers in sources:
        try:
            for name, handler in handlers().items():
                jax.ffi.register_ffi_target(name, handler, platform=name_in_xla)
        except Exception as error:  # JAX's own class depends on the version
            line = f"powers on {name_in_xla} are computed by callbacks, because {error}"
            warnings.warn(f"halfulp.integrations.jax: {line}", stacklevel=2)
        else:
            platforms.append(platform)
    return tuple(platforms)


_PLATFORMS = _register()


def _has_handler(*dtypes: Any) -> bool:
    """Whether the handlers take these types. XLA packs those of 4 bits two to a byte."""
    return all(dtype.name in TYPES and TYPES[dtype.name].bits >= 8 for dtype in dtypes)


def _call(target: str, on_host: Any, x: jax.Array, y: jax.Array, factor: Any, **attributes: Any) -> Any:
    """Call a handler in the middle of a traced program; a NumPy function where there is no handler."""
    # The product has the result's shape, and what this version of JAX says of meshes.
    result = jax.eval_shape(lambda x, factor: x * factor.astype(x.dtype), x, factor)
    # Batches of PReLU are made equal: a batched slope must not enlarge an x without a batch.
    batching = "broadcast_all" if on_host is hu.prelu else "expand_dims"
    native = partial(jax.ffi.ffi_call(target, result, vmap_method=batching), **attributes)

    def call_back(x: jax.Array, y: jax.Array) -> Any:
        array = jax.pure_callback(
            lambda *operands: on_host(*map(np.asarray, operands)), result, x, y, vmap_method=batching
        )
        return jnp.where((x == x) | (y == y).all(), array, array)  # varies along a mesh as the operands do

    platforms = _PLATFORMS if _has_handler(x.dtype, y.dtype) else ()
    return jax.lax.platform_dependent(x, y, **dict.fromkeys(platforms, native), default=call_back)


@lru_cache(maxsize=256, typed=True)
def _words(number: Number) -> tuple[NDArray[np.uint32], str]:
    """Return an exponent as the handler takes it, its element in two halves, and its type."""
    array = exponent_array(number)
    return array.reshape(1).view(np.uint32), array.dtype.name


def _pow_words(x: jax.Array, number: Number) -> jax.Array:
    """Return powers by one program for all exponents of a type."""
    words, type = _words(number)
    return _program(type)(x, words)


@cache
def _program(type: str) -> Any:
    """Return the program for exponents of a type, which jit keeps with less work than a static argument."""

    def on_host(x: NDArray[Any], words: NDArray[np.uint32]) -> Any:
        return hu.pow(x, words.ravel().view(type))

    def pow_words(x: jax.Array, words: NDArray[np.uint32]) -> Any:
        _refuse(hu.POW, x, np.float64(0))
        words, place = jnp.asarray(words), np.int32(list(TYPES).index(type))
        return _call("halfulp_pow_of_number", on_host, x, words, words[0], exponent_type=place)

    return jax.jit(pow_words)


def _refuse(operator: hu.Operator, *operands: Any) -> None:
    """Refuse types and shapes. The dims of an exported program may be expressions, which count as symbols."""
    shapes = [[dim if isinstance(dim, int) else str(dim) for dim in a.shape] for a in operands]
    operator.infer(*((a.dtype, shape) for a, shape in zip(operands, shapes, strict=True)))


def _with_derivatives(operator: hu.Operator, *products: Any) -> Any:
    """Return an operator as a function of JAX. ``products`` are a tangent times the derivative by each operand."""
    name = operator.name.lower()

    def function(x: jax.Array, y: jax.Array) -> Any:
        _refuse(operator, x, y)
        # Axes in front, so that a batch axis in front of one of them stays in its place.
        rank = max(x.ndim, y.ndim)
        x, y = (jnp.reshape(array, (1,) * (rank - array.ndim) + array.shape) for array in (x, y))
        return _call(f"halfulp_{name}", getattr(hu, name), x, y, y)

    function.__name__ = name  # which programs show
    derivable = jax.custom_jvp(function)
    compiled = jax.jit(derivable)

    # With symbolic zeros, because a 0 times an infinite derivative would be NaN.
    @partial(derivable.defjvp, symbolic_zeros=True)
    def jvp(operands: Any, tangents: Any) -> Any:
        result = compiled(*operands)
        if not jnp.issubdtype(result.dtype, jnp.floating):
            return result, np.zeros(result.shape, jax.dtypes.float0)
        asked = ((by, d) for by, d in zip(products, tangents, strict=True) if not isinstance(d, SymbolicZero))
        return result, sum((by(d, *operands).astype(result.dtype) for by, d in asked), jnp.zeros_like(result))

    return compiled


def _pow_by_x(d: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    base = jnp.where((y == 0) & ((x == 0) | jnp.isnan(x)), 1, x)
    return d * y * _pow(base, y - 1)


def _pow_by_y(d: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    base = jnp.where((x == 0) & (y >= 0), 1, x)
    return d * _pow(base, y) * jnp.log(base)


_pow = _with_derivatives(hu.POW, _pow_by_x, _pow_by_y)
_prelu = _with_derivatives(
    hu.PRELU, lambda d, x, slope: jnp.where(x < 0, slope * d, d), lambda d, x, _: jnp.where(x < 0, x * d, 0)
)
_pow_number = jax.custom_jvp(_pow_words, nondiff_argnums=(1,))


@_pow_number.defjvp
def _pow_number_jvp(y: Number, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x,) = primals
    by_x = y * _pow_number(x, y - 1) if y != 0 else jnp.zeros_like(x)
    return _pow_number(x, y), tangents[0] * by_x


# JAX's own powers. The context is a part of the keys of jit's caches: a program that was compiled inside is never used
# outside, and the other way around.

_EXACT: Any = jax.make_user_context(False)


@cache
def _replace_lowerings() -> None:
    """Let JAX's powers be compiled to calls of the handlers in the context, and to the same as before elsewhere."""
    own = {jax.lax.pow_p: _pow, jax.lax.integer_pow_p: lambda x, *, y: _pow_words(x, y)}
    for primitive, function in own.items():
        entry = mlir._lowerings[primitive]
        before = getattr(entry, "rule", entry)  # depends on the version
        for platform in _PLATFORMS:
            mlir.register_lowering(primitive, partial(_lower, before, function), platform=platform)


def _lower(before: Any, function: Any, context: Any, *operands: Any, **parameters: Any) -> Any:
    is_exact = _EXACT.value and _has_handler(*(operand.dtype for operand in context.avals_in))
    rule = mlir.lower_fun(function, multiple_results=False) if is_exact else before
    return rule(context, *operands, **parameters)
