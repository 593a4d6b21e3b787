"""Operands of every kind of layout, and what a call on them must give."""

import numpy as np

from halfulp.types import TYPES, codes

Array = np.ndarray

# A few types of each item size and kind: the loop sees sizes, the kernels see types.
BASES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint16", "int32", "uint64"]
EXPONENTS = [*BASES, "int4"]


def values(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Values whose powers are mostly finite, as an array of a type."""
    dtype = TYPES[name].dtype
    if TYPES[name].kind != "float":
        return rng.integers(0, 6, shape).astype(dtype)
    return rng.uniform(-0.5, 3, shape).astype(dtype)


def laid_out(array: Array, rng: np.random.Generator) -> Array:
    """Values in other memory: permuted, strided, reversed, byte-swapped, unaligned, read-only."""
    order = rng.permutation(array.ndim)
    steps = rng.integers(1, 3, array.ndim)
    memory = np.zeros([array.shape[axis] * steps[axis] for axis in order], array.dtype)
    view = memory.transpose(np.argsort(order))[(..., *(slice(None, None, int(step)) for step in steps))]
    if rng.random() < 0.3:
        view = view[(..., *(slice(None, None, int(sign)) for sign in rng.choice([1, -1], array.ndim)))]
    view[...] = array
    if rng.random() < 0.3:
        view = swapped(view)
    if rng.random() < 0.2:
        view = unaligned(view)
    if rng.random() < 0.2:
        view.flags.writeable = False
    return view


def swapped(array: Array) -> Array:
    """Values in the other byte order, where the type has two."""
    return array.astype(array.dtype.newbyteorder()) if array.dtype.isbuiltin == 1 else array


def unaligned(array: Array) -> Array:
    """Values, packed, one byte off their alignment."""
    view = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def assert_same(got: Array, expected: Array, what: object = "") -> None:
    """Type, shape and bits are equal."""
    assert (got.dtype.newbyteorder("="), got.shape) == (expected.dtype.newbyteorder("="), expected.shape), (
        what
    )
    np.testing.assert_array_equal(codes(got), codes(expected), err_msg=str(what))
