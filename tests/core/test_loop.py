"""Strides, broadcasting, byte order and alignment never change a bit: everything against contiguous evaluation."""

from itertools import zip_longest

import numpy as np
import pytest
from tests.core.operands import BASES, EXPONENTS, assert_same, laid_out, swapped, unaligned, values

import halfulp as hu


def contiguous(function, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The result from packed 1-d operands of equal length in the machine's byte order."""
    # np.broadcast_arrays stops at 32 axes.
    dims = zip_longest(reversed(x.shape), reversed(y.shape), fillvalue=1)
    shape = tuple(a if b == 1 else b for a, b in dims)[::-1]
    packed = (np.broadcast_to(a, shape).astype(a.dtype.newbyteorder("="), order="C").ravel() for a in (x, y))
    return function(*packed).reshape(shape)


def random_shapes(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A shape, and two that broadcast to it together."""
    while True:
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 17, 40, 130, 260], rng.integers(0, 5)))
        if np.prod(shape) < 100_000:
            break
    x_thin, y_thin = rng.random((2, len(shape))) < 0.3
    x = tuple(1 if thin else n for n, thin in zip(shape, x_thin, strict=True))
    y = tuple(1 if thin and not other else n for n, thin, other in zip(shape, y_thin, x_thin, strict=True))
    dropped = int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.3 else 0
    if x[:dropped] == shape[:dropped]:
        y = y[dropped:]
    return shape, x, y


@pytest.mark.parametrize("round_", range(6))
def test_pow_on_random_layouts(round_, rng):
    for _ in range(300):
        shape, x_shape, y_shape = random_shapes(rng)
        x = laid_out(values(rng.choice(BASES), x_shape, rng), rng)
        y = laid_out(values(rng.choice(EXPONENTS), y_shape, rng), rng)
        what = (x.dtype, x.shape, x.strides, y.dtype, y.shape, y.strides)
        expected = contiguous(hu.pow, x, y)
        assert expected.shape == shape
        result = hu.pow(x, y)
        assert result.dtype.isnative
        assert_same(result, expected, what)
        out = laid_out(np.zeros(shape, expected.dtype), rng)
        out.flags.writeable = True
        assert hu.pow(x, y, out=out) is out
        assert_same(out, expected, what)


@pytest.mark.parametrize("round_", range(3))
def test_prelu_on_random_layouts(round_, rng):
    for _ in range(300):
        shape, _, slope_shape = random_shapes(rng)
        name = rng.choice(BASES)
        x, slope = (laid_out(values(name, s, rng), rng) for s in (shape, slope_shape))
        expected = contiguous(hu.prelu, x, slope)
        assert_same(hu.prelu(x, slope), expected)
        out = laid_out(np.zeros(shape, expected.dtype), rng)
        out.flags.writeable = True
        assert_same(hu.prelu(x, slope, out=out), expected)


@pytest.mark.parametrize("dims", [33, 64])
def test_as_many_axes_as_numpy_has(dims, rng):
    shape = [1] * dims
    shape[0], shape[dims // 2], shape[-1] = 3, 4, 5
    x = values("float32", tuple(shape), rng)
    y = values("float64", (5,), rng)
    assert_same(hu.pow(x, y), contiguous(hu.pow, x, y))
    assert_same(hu.pow(x.T, y.reshape(5, *[1] * (dims - 1))), contiguous(hu.pow, x, y).T)
    many = np.broadcast_to(x[..., :2], (*shape[:-1], 2))
    assert_same(hu.prelu(many, many), contiguous(hu.prelu, many, many))


def test_axes_that_none_can_merge(rng):
    shape = (2,) * 14
    x = values("float32", shape, rng).transpose(rng.permutation(14))
    y = values("int8", shape, rng).transpose(rng.permutation(14))
    out = np.empty(shape, np.float32).transpose(rng.permutation(14))
    assert_same(hu.pow(x, y, out=out), contiguous(hu.pow, x, y))


@pytest.mark.parametrize("layout", [swapped, unaligned, lambda a: unaligned(swapped(a))])
@pytest.mark.parametrize("name", BASES)
def test_byte_order_and_alignment(name, layout, rng):
    x, y = values(name, (3000,), rng), values(name, (3000,), rng)
    expected = hu.pow(x, y)
    assert_same(hu.pow(layout(x), layout(y)), expected)
    assert_same(hu.pow(x, y, out=layout(np.zeros_like(x))), expected)


@pytest.mark.parametrize("operation", [hu.pow, hu.prelu])
def test_no_elements_and_no_axes(operation):
    for shape in [(0,), (3, 0), (0, 4), (2, 0, 5)]:
        empty = np.zeros(shape, np.float32)
        assert operation(empty, empty).shape == shape
        assert operation(empty, np.float32(2)).shape == shape
        assert operation(empty, empty, out=empty) is empty
    single = operation(np.array(-2.0), np.array(3.0))
    assert (single.shape, single.dtype) == ((), np.float64)
    assert single == (-8 if operation is hu.pow else -6)
    out = np.array(0.0)
    assert operation(np.array(-2.0), np.array(3.0), out=out) is out
    assert out == single


@pytest.mark.parametrize("length", [*range(1, 70), 255, 256, 257, 511, 16384, 16385])
def test_a_result_does_not_depend_on_its_place(length):
    x = np.full(length, 1.7, np.float32)
    assert set(hu.pow(x, np.float32(0.7)).tolist()) == {hu.pow(np.float32(1.7), np.float32(0.7)).item()}


def test_a_read_only_input_is_read_only_still(rng):
    x = values("float32", (1000,), rng)
    x.flags.writeable = False
    before = x.tobytes()
    hu.pow(x, x)
    assert x.tobytes() == before
    with pytest.raises(hu.SpecError, match="out must be writeable"):
        hu.pow(x, x, out=x)


@pytest.mark.parametrize(
    ("dtype", "strides"), [(np.dtype("float32").newbyteorder(), (64, 4)), ("float32", (128, 8))]
)
def test_tiles_at_the_edges_that_begin_alike(dtype, strides, rng):
    """Windows over one vector: boxes of other shapes begin at the same address, and have as many elements."""
    base = rng.uniform(0.5, 3, 1600).astype(dtype)
    x = np.lib.stride_tricks.as_strided(base, (24, 384), strides)
    y = np.asfortranarray(rng.uniform(0.5, 2, (24, 384)).astype(np.float32))
    assert_same(hu.pow(x, y, out=np.empty((24, 384), np.float32)), contiguous(hu.pow, x, y))


@pytest.mark.parametrize("name", BASES)
def test_rows_with_one_slope_each(name, rng):
    """Rows of any length, whose last vector overlaps another, with slopes that need a test for NaN and others."""
    dtype = values(name, (), rng).dtype
    if hu.types.TYPES[name].kind == "float":
        special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.25, -2], np.float32).astype(dtype)
    else:
        special = values(name, (7,), rng)
    for length in [*range(1, 70), 130, 1000, 3000]:
        x = np.frombuffer(rng.bytes(2 * 14 * length * dtype.itemsize), dtype).reshape(2, 14, length)
        slope = rng.permutation(np.concatenate([special, values(name, (7,), rng)]))[:, None]
        expected = contiguous(hu.prelu, x, slope)
        assert_same(hu.prelu(x, slope), expected, length)
        in_place = x.copy()
        assert_same(hu.prelu(in_place, slope, out=in_place), expected, length)


def test_one_exponent_anywhere_in_memory(rng):
    """A table of all powers is made for this number of elements of a 16-bit type."""
    x = values("float16", (1 << 18,), rng)
    exponent = np.frombuffer(b"." + np.float64(2.5).tobytes(), np.uint8)[1:].view(np.float64)
    assert not exponent.flags.aligned
    assert_same(hu.pow(x, exponent), hu.pow(x, np.full(x.shape, 2.5)))
