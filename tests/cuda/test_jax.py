"""JAX's programs for CUDA: as they are compiled, and as they run, with the fake driver.

XLA's processor runs them here and passes their calls on to the handlers for CUDA (fake_xla.cpp).
"""

import ctypes
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cuda.build import Driver, stand_in
from tests.cuda.conftest import STREAM
from tests.house.builds import ROOT

import halfulp as hu
from halfulp import _cuda, cuda
from halfulp.types import TYPES

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import halfulp.integrations.jax as hjax  # noqa: E402

X = np.random.default_rng(3).uniform(-3, 9, (4, 6, 20)).astype(np.float32)
SLOPE = np.linspace(-1, 1, 6, dtype=np.float32).reshape(6, 1)
ffi_call = jax.ffi.ffi_call


def connect() -> ctypes.CDLL:
    """Return the stand-in. It gives each handler for CUDA a name on the processor, with an ending."""
    library = stand_in("fake_xla", Path(jax.ffi.include_dir()))
    library.fake_handler.restype = ctypes.c_void_p
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for number, (name, handler) in enumerate(_cuda.xla_handlers().items()):
        passes_on = library.fake_handler(number, ctypes.c_void_p(address_of(handler, None)))
        jax.ffi.register_ffi_target(name + "_on_cuda", jax.ffi.pycapsule(passes_on), platform="cpu")
        jax.ffi.register_ffi_target(name + "_without_device", handler, platform="cpu")
    return library


def call_on_cuda(name: str, *arguments: Any, **options: Any) -> Any:
    return ffi_call(name + "_on_cuda", *arguments, **options)


_xla: list[ctypes.CDLL] = []


@pytest.fixture
def xla(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """JAX's programs run on a device whose stream is STREAM."""
    if not _xla:
        _xla.append(connect())
    _xla[0].fake_device(ctypes.c_size_t(STREAM), 1)
    monkeypatch.setattr(jax.ffi, "ffi_call", call_on_cuda)
    jax.clear_caches()  # of the programs with the processor's handlers
    yield _xla[0]
    jax.clear_caches()


def same(array: Any, expected: np.ndarray) -> bool:
    got = np.asarray(array)
    return (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int32", "uint8"]
)
def test_the_bits_of_the_processors(xla, driver, name):
    jax.config.update("jax_enable_x64", True)
    x = np.abs(X).astype(TYPES[name].dtype)
    exponents, numbers = x[0, :, :1], x[0, 0].astype(np.int32)
    assert same(jax.jit(hjax.pow)(x, exponents), hu.pow(x, exponents))
    assert same(hjax.pow(x, numbers), hu.pow(x, numbers))
    for number in (2.5, -3, 2**63):
        assert same(hjax.pow(x, number), hu.pow(x, number))
    assert same(jax.jit(hjax.prelu)(x, exponents), hu.prelu(x, exponents))
    assert {line.rsplit(maxsplit=1)[1] for line in driver.log()} == {str(STREAM)}


def test_the_work_is_in_xlas_stream_and_its_memory(xla, driver):
    program = jax.jit(lambda x, slope: hjax.prelu(hjax.pow(x, 3.5), slope))
    expected = hu.prelu(hu.pow(X, 3.5), SLOPE)
    assert same(program(X, SLOPE), expected)
    assert [line.split()[0] for line in driver.log()] == ["pow_one_float32", "pow_rest", "prelu_one_float32"]
    xla.fake_device(ctypes.c_size_t(77), 1)
    assert same(program(X, SLOPE), expected)
    assert all(line.endswith("device 0 grid 1 block 256 stream 77") for line in driver.log())
    assert xla.fake_xla_blocks() == 0


def test_transformations(xla, driver):
    assert same(jax.vmap(hjax.pow, (0, None))(X, X[0, 0]), hu.pow(X, X[0, 0]))
    assert same(jax.vmap(hjax.prelu, (None, 0))(X, SLOPE), hu.prelu(np.stack([X] * 6), SLOPE[:, None, None]))
    by_x = jax.jit(jax.grad(lambda x: hjax.pow(x, 3).sum()))(X)
    np.testing.assert_allclose(by_x, 3 * X**2, rtol=1e-6)
    assert hjax.pow(X[:0], X[0]).shape == (0, 6, 20)
    assert {line.split()[0] for line in driver.log()} > {"pow_rest", "prelu_one_float32"}


def test_jaxs_own_powers(xla, driver):
    x = np.abs(X)
    with hjax.exact():
        for function, exponent in ((lambda x: x**2.7, np.float32(2.7)), (lambda x: x**-5, -5)):
            assert same(jax.jit(function)(x), hu.pow(x, exponent))
            assert [line.split()[0] for line in driver.log()] == ["pow_one_float32", "pow_rest"]


def test_errors_of_xlas_device(xla, driver):
    for stream, memory, message in ((0, 1, "no stream"), (STREAM, 0, "no memory of XLA's")):
        xla.fake_device(ctypes.c_size_t(stream), memory)
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"RESOURCE_EXHAUSTED: {message}"):
            hjax.pow(X, 2.5)
    assert not driver.log()
    assert driver.library.fake_open_contexts() == xla.fake_xla_blocks() == 0
    result = jax.ShapeDtypeStruct(X.shape, X.dtype)
    with pytest.raises(jax.errors.JaxRuntimeError, match="XLA FFI GPU context is not available"):
        ffi_call("halfulp_pow_without_device", result)(X, X)


@pytest.mark.parametrize("ending", ["", "_on_cuda"])
def test_calls_that_are_refused(xla, driver, ending):
    x = jnp.asarray(X)
    for name, operands, attributes in (
        ("pow", (x, x[0, 0, :7]), {}),
        ("pow", (x[..., None], x), {}),
        ("pow", (x, x.astype(jnp.complex64)), {}),
        ("pow", (x, x, x), {}),
        ("prelu", (x, x.astype(jnp.float16)), {}),
        ("pow_of_number", (x, jnp.zeros(2, jnp.uint32)), {}),
        ("pow_of_number", (x, jnp.zeros(2, jnp.uint32)), {"exponent_type": np.int32(99)}),
        ("pow_of_number", (x, jnp.zeros(2, jnp.uint32)), {"exponent_type": np.int64(0)}),
    ):
        call = ffi_call(f"halfulp_{name}{ending}", jax.ShapeDtypeStruct(X.shape, X.dtype))
        with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT: "):
            call(*operands, **attributes)
    assert not driver.log()


def test_no_driver(python):
    program = """
        import ctypes
        from tests.cuda import test_jax as on_cuda
        on_cuda.connect().fake_device(ctypes.c_size_t(42), 1)
        on_cuda.jax.ffi.ffi_call = on_cuda.call_on_cuda
        try:
            on_cuda.hjax.pow(on_cuda.X, 2.5)
        except on_cuda.jax.errors.JaxRuntimeError as error:
            print(error)
    """
    told = python(textwrap.dedent(program), PYTHONPATH=str(ROOT))
    if "no NVIDIA driver" not in told:
        pytest.skip("this machine has a driver")
    assert told.startswith("INTERNAL: halfulp: no NVIDIA driver: cannot load libcuda.so.1")


@pytest.fixture
def with_kernels(kernels: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """As where the integration is imported with kernels at hand. Returns the platforms and names of the handlers."""
    names: list[tuple[str, str]] = []
    monkeypatch.setattr(
        jax.ffi, "register_ffi_target", lambda name, _, platform: names.append((platform, name))
    )
    monkeypatch.setattr(hjax, "_PLATFORMS", hjax._register())
    jax.clear_caches()
    hjax._replace_lowerings.cache_clear()
    yield names
    jax.clear_caches()
    hjax._replace_lowerings.cache_clear()


def test_registration(with_kernels):
    assert hjax._PLATFORMS == ("cpu", "cuda")
    calls = ("halfulp_pow", "halfulp_pow_of_number", "halfulp_prelu")
    assert with_kernels == [(platform, name) for platform in ("cpu", "CUDA") for name in calls]


@pytest.mark.usefixtures("with_kernels")
def test_programs_for_cuda():
    def text_of(function: Any, *operands: Any) -> str:
        return jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()

    def both(x: Any) -> Any:
        return x**2.5 + x**7

    float64, int64 = (f"mhlo.backend_config = {{exponent_type = {place} : i32}}" for place in (0, 16))
    for call, attributes, function, operands in (
        ("halfulp_pow", "mhlo.backend_config = {}", hjax.pow, (X, X[0])),
        ("halfulp_prelu", "mhlo.backend_config = {}", hjax.prelu, (X, SLOPE)),
        ("halfulp_pow_of_number", float64, lambda x: hjax.pow(x, 2.5), (X,)),
        ("halfulp_pow_of_number", int64, lambda x: hjax.pow(x, 2), (X,)),
        ("halfulp_pow_of_number", int64, jax.vmap(jax.grad(lambda x: hjax.pow(x, 2))), (X[0, 0],)),
    ):
        text = text_of(function, *operands)
        assert f"custom_call @{call}(" in text
        assert attributes in text
        assert "callback" not in text
    assert "custom_call" not in text_of(both, X)
    with hjax.exact():
        text = text_of(both, X)
    assert "custom_call @halfulp_pow(" in text
    assert int64 in text
    assert "stablehlo.power" not in text


def test_without_kernels_programs_for_cuda_call_back(with_kernels, monkeypatch):
    monkeypatch.setattr(cuda, "KERNELS", None)
    assert hjax._register() == ("cpu",)
    assert "CUDA" not in dict(with_kernels[-3:])
