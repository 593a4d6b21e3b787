"""JAX: our bits under jit, grad, vmap and their compositions."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfulp as hu

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import halfulp.integrations.jax as hjax  # noqa: E402

RNG = np.random.default_rng(7)
X = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
Y = RNG.uniform(-2, 2, 4).astype(np.float32)


def assert_same(array: Any, expected: np.ndarray) -> None:
    """Type, shape and bits are equal."""
    got = np.asarray(array)
    assert isinstance(array, jax.Array)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


X_TYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int32", "uint16"]


@pytest.mark.parametrize(
    ("x_type", "y_type", "transform"),
    [
        *((x, y, lambda f: f) for x in X_TYPES for y in ("float32", "bfloat16", "int32")),
        *((x, "float32", jax.jit) for x in X_TYPES),
    ],
)
def test_the_bits_are_ours(x_type, y_type, transform):
    x, y = jnp.asarray(X * 3).astype(x_type), jnp.abs(jnp.asarray(Y)).astype(y_type)
    assert_same(transform(hjax.pow)(x, y), hu.pow(np.asarray(x), np.asarray(y)))
    slope = y.astype(x_type)
    assert_same(transform(hjax.prelu)(-x, slope), hu.prelu(np.asarray(-x), np.asarray(slope)))


def test_numbers_count_exactly():
    for number in (2.3, -2, 10**30 + 1):
        assert_same(jax.jit(lambda x, n=number: hjax.pow(x, n))(X), hu.pow(X, number))
    assert_same(hjax.pow(2.3, X), hu.pow(2.3, X))
    assert_same(hjax.prelu(-X, 0.1), hu.prelu(-X, 0.1))
    with pytest.raises(hu.HalfulpError, match=r"the number does not fit the type int8\s+got: 300"):
        hjax.pow(300, jnp.array([1], jnp.int8))


def test_a_float_beside_integers_is_a_float():
    integers = np.array([-1, 0, 1, 3], np.int32)
    for base in (10.0, 2.3):
        result = hjax.pow(base, jnp.asarray(integers))
        assert result.dtype == jnp.power(base, jnp.asarray(integers)).dtype
        assert_same(result, hu.pow(np.float32(base), integers))
        assert_same(jax.jit(hjax.pow)(base, jnp.asarray(integers)), result)
    assert_same(hjax.pow(10, -1.0), np.float32(0.1))
    assert_same(hjax.pow(10, -1), np.float32(0.1))
    assert hjax.pow(10, 2).dtype == jnp.power(10, 2).dtype
    assert_same(jax.jit(hjax.pow)(10, jnp.array([0.5, -1])), hu.pow(10, np.array([0.5, -1], np.float32)))
    assert_same(jax.jit(hjax.pow)(2.5, jnp.array([2], jnp.float16)), hu.pow(2.5, np.array([2], np.float16)))


def test_what_counts_as_a_number():
    assert_same(hjax.pow(2, 2.5), np.asarray(hu.pow(np.float32(2), 2.5)))
    halves = jnp.array([1.5, 2], jnp.float16)
    for base in (jnp.float32(2.3), jnp.broadcast_to(jnp.asarray(2.3), (2,))):
        assert_same(hjax.pow(base, halves), hu.pow(np.asarray(base), np.asarray(halves)))
    assert_same(jax.jit(lambda x: hjax.pow([x, x], 2.0))(3.0), np.float32([9, 9]))
    assert_same(hjax.pow(np.array([0.1]), 2.0), hu.pow(np.float32([0.1]), 2.0))


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn"])
def test_types_of_four_bits(name):
    """XLA packs them two to a byte."""
    x = jnp.array([1, 2, 3]).astype(name)
    assert_same(hjax.pow(x, x[::-1]), hu.pow(np.asarray(x), np.asarray(x)[::-1]))


def test_without_handlers(monkeypatch):
    monkeypatch.setattr(hjax, "_PLATFORMS", ())
    assert_same(jax.jit(lambda x: hjax.pow(x, x))(X), hu.pow(X, X))
    with pytest.raises(hu.HalfulpError, match="JAX's own powers can't be replaced; call pow"):
        hjax.exact()


@pytest.mark.parametrize("function", [hjax.pow, hjax.prelu, lambda x, _: hjax.pow(x, 2.5)])
def test_derivatives(function):
    check_grads(function, (jnp.asarray(X), jnp.asarray(Y)), order=1, eps=1e-2, atol=3e-2, rtol=3e-2)


def test_every_order_agrees_with_jaxs():
    x, integers = jnp.array([0.7, 1.3, 2.1]), jnp.array([2.0, 3.0, -1.0])
    for chain in (jax.hessian, lambda f: jax.jit(jax.jacrev(jax.jacfwd(f)))):
        for base, exponent in ((x, 3.5), (x, x[::-1]), (-x, integers)):
            ours = chain(lambda t, y=exponent: hjax.pow(t, y))(base)
            jaxs = chain(lambda t, y=exponent: jnp.power(t, y))(base)
            np.testing.assert_allclose(ours, jaxs, rtol=1e-4, atol=1e-6)
    by_x = jax.grad(lambda x: hjax.pow(x, jnp.array([2, 3])).sum())(jnp.array([2.0, 3.0]))
    np.testing.assert_allclose(by_x, [4, 27])
    by_y = jax.grad(lambda y: hjax.pow(jnp.array([2, 3]), y).sum().astype(jnp.float32))(x[:2])
    assert by_y.tolist() == [0, 0]  # integers are a step function


def test_tangents_of_one_operand():
    """The other's derivative, infinite or NaN, has no part in them."""
    x, y, slope = jnp.array([-2.0, 0.0, 2.0]), jnp.array([3.0, -1.0, 0.5]), jnp.array([0.25])
    ones, low = jnp.ones(3), jnp.array([-jnp.inf, -1.0, 2.0])
    assert jax.jvp(lambda x: hjax.pow(x, y), (x,), (ones,))[1].tolist()[:2] == [12, -jnp.inf]
    assert jax.jvp(lambda x: hjax.prelu(x, slope), (low,), (ones,))[1].tolist() == [0.25, 0.25, 1]
    by_slope = jax.jvp(lambda slope: hjax.prelu(low, slope), (slope,), (ones[:1],))[1]
    assert by_slope.tolist() == [-jnp.inf, -1, 0]
    by_both = jax.jvp(hjax.prelu, (x, slope), (ones, ones[:1]))[1]
    assert by_both.tolist() == [0.25 - 2, 1, 1]
    integers = jax.jvp(
        lambda y: hjax.prelu(jnp.array([-2]), y), (jnp.array([3]),), (np.zeros(1, jax.dtypes.float0),)
    )
    assert integers[0].tolist() == [-6]


def test_vmap():
    x, y, many = jnp.asarray(X), jnp.asarray(Y), jnp.asarray(RNG.uniform(-2, 2, (3, 4)).astype(np.float32))
    vmap = jax.vmap
    assert_same(vmap(hjax.pow, (0, None))(x, y), hu.pow(X, Y))
    assert_same(vmap(hjax.pow, (None, 0))(x, many), hu.pow(X[None], np.asarray(many)[:, None]))
    assert_same(vmap(hjax.pow, (1, None))(x, 2.5), hu.pow(X.T, 2.5))
    expected = hu.prelu(np.broadcast_to(-X, (3, 3, 4)), np.asarray(many)[:, None])
    assert_same(vmap(hjax.prelu, (None, 0))(-x, many), expected)


@pytest.fixture
def no_wide_types() -> Iterator[None]:
    """JAX as it comes: a peer of the benchmark, in the same process, allows 64-bit types."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("no_wide_types")
def test_integers_that_jax_would_cut_are_refused():
    small, large = np.array([2, 3, 4, 5]), np.array([2, 3, 4, 2**32])
    assert hjax.pow(X, small).tolist() == hu.pow(np.asarray(X), small).tolist()
    for call in (lambda y: hjax.pow(X, y), lambda y: hjax.pow(y, X), lambda y: hjax.prelu(y, y)):
        with pytest.raises(hu.HalfulpError, match="JAX has no int64 unless jax_enable_x64 is set"):
            call(large)
        with pytest.raises(hu.HalfulpError, match="JAX has no int64 unless jax_enable_x64 is set"):
            jax.jit(lambda call=call: call(large))()


def test_what_is_refused_is_refused_at_once():
    with pytest.raises(hu.SpecError, match="X and Y must be broadcastable"):
        jax.jit(hjax.pow)(X, Y[:3])
    with pytest.raises(hu.SpecError, match="slope must be broadcastable to X"):
        jax.jit(hjax.prelu)(X[:, :1], Y)
    with pytest.raises(hu.SpecError, match="must have the same type"):
        hjax.prelu(X, jnp.arange(4))
    with pytest.raises(hu.SpecError, match="Y must have a type that T1 allows"):
        hjax.pow(X, True)


@pytest.mark.parametrize("name", ["pow", "prelu"])
def test_programs_call_the_kernels_without_python(name):
    x = RNG.uniform(-2, 2, 300_000).astype(np.float32)  # enough for several threads
    program = jax.jit(getattr(hjax, name)).lower(x, x[::-1]).compile()
    assert f'custom_call_target="halfulp_{name}"' in program.as_text()
    assert "callback" not in program.as_text()
    assert_same(program(x, x[::-1].copy()), getattr(hu, name)(x, x[::-1]))
    assert_same(hjax.pow(x.astype(np.float16), 2.7), hu.pow(x.astype(np.float16), 2.7))  # by a table


def test_a_platform_that_takes_no_handlers_leaves_the_others(monkeypatch):
    def register(name: str, handler: Any, *, platform: str) -> None:
        if platform == "CUDA":
            raise ValueError("no such platform")

    monkeypatch.setattr(jax.ffi, "register_ffi_target", register)
    monkeypatch.setattr(hjax.cuda, "KERNELS", "kernels.ptx")
    core = SimpleNamespace(xla_handlers=lambda: {"halfulp_pow": None})
    monkeypatch.setattr(hjax.cuda, "core", lambda: core)
    with pytest.warns(
        UserWarning, match="powers on CUDA are computed by callbacks, because no such platform"
    ):
        assert hjax._register() == ("cpu",)


def test_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "a")
    along = jax.sharding.PartitionSpec("a")

    def on_mesh(function: Any, *operands: Any) -> Any:
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=along, out_specs=along))(*operands)

    assert_same(on_mesh(hjax.pow, X, X), hu.pow(X, X))
    assert_same(on_mesh(lambda x: hjax.pow(x, 2.7), X), hu.pow(X, 2.7))
    by_x = on_mesh(lambda x: jax.grad(lambda x: hjax.prelu(hjax.pow(x, 3), 0.5).sum())(x), X)
    np.testing.assert_allclose(by_x, 3 * X**2, rtol=1e-6)


def test_an_exported_program_with_symbolic_dims():
    (n,) = export.symbolic_shape("n")
    names = ("halfulp_pow", "halfulp_pow_of_number", "halfulp_prelu")
    allowed = [export.DisabledSafetyCheck.custom_call(name) for name in names]

    def program(x: Any) -> Any:
        return hjax.prelu(hjax.pow(jnp.concatenate([x, x]), hjax.pow(x, 2.5)[:1]), -X[0])

    exported = export.export(jax.jit(program), disabled_checks=allowed)(
        jax.ShapeDtypeStruct((n, 4), np.float32)
    )
    for rows in (1, 3):
        assert_same(exported.call(X[:rows]), np.asarray(program(X[:rows])))
    with pytest.raises(hu.SpecError, match="broadcast"):
        export.export(jax.jit(lambda x: hjax.pow(x, Y[:3])))(jax.ShapeDtypeStruct((n, 4), np.float32))


def test_jaxs_own_powers():
    x = RNG.uniform(0.5, 2, 100_000).astype(np.float32)
    exponent = np.float32(2.7)
    for function, expected in (
        (jax.jit(lambda x: x**2.7), hu.pow(x, exponent)),
        (jax.jit(lambda x: x**-5), hu.pow(x, -5)),
        (jax.vmap(lambda x: jax.lax.cond(x > 1, lambda: x**7, lambda: x**7)), hu.pow(x, 7)),
        (
            jax.jit(lambda x: jnp.power(x, 2.7).astype("bfloat16") ** 3),
            hu.pow(hu.pow(x, exponent).astype(jnp.bfloat16), 3),
        ),
    ):
        before = np.asarray(function(x))
        assert before.tobytes() != expected.tobytes()
        with hjax.exact():
            assert_same(function(x), expected)
        assert_same(function(x), before)
    with hjax.exact():
        assert jax.grad(lambda x: x**3)(2.0) == 12
        assert (jnp.array([2j, 3]) ** 2).dtype == jnp.complex64
