"""Comparisons of a device with the processor, pair for pair: what `make gpu` runs on a real one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from tests.oracle.grids import pow_grid, prelu_grid, random_bits

from halfulp.cuda import Memory, dense_strides, launch
from halfulp.types import TYPES

DEVICE = torch.device("cuda")
_CHUNK = 1 << 24


def computed(x: np.ndarray, y: np.ndarray, *, prelu: bool = False) -> np.ndarray:
    """Return the device's result: of any two types, those that torch lacks too, as bytes."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.empty(shape, x.dtype)
    keep, places = [], []
    for array in (x, y, out):
        raw = torch.from_numpy(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).to(DEVICE)
        keep.append(raw)
        strides = dense_strides(array.shape, array.itemsize)
        places.append(Memory(raw.data_ptr(), array.dtype.name, array.shape, strides, 0))
    stream = torch.cuda.current_stream().cuda_stream if DEVICE.type == "cuda" else 0
    launch(prelu=prelu, x=places[0], y=places[1], out=places[2], stream=stream)
    return keep[2].cpu().numpy().view(x.dtype).reshape(shape)


def hard_pairs(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Special values, edges, exact cases, ties and worst cases, of every pair of types."""
    for x_name in TYPES:
        for y_name in TYPES:
            for part in pow_grid(x_name, y_name, rng):
                yield part.x, part.y


def prelu_pairs(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for name in TYPES:
        for part in prelu_grid(name, rng):
            yield part.x, part.y


def all_pairs(name: str, bases: int = 65536) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of a type of 16 bits, or those of the first so many bases."""
    codes = np.arange(65536, dtype=np.uint16).view(TYPES[name].dtype)
    step = _CHUNK // codes.size
    for first in range(0, bases, step):
        yield codes[first : min(first + step, bases), np.newaxis], codes


def random_pairs(name: str, count: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Half of any bits, and half with ordinary powers."""
    dtype: Any = TYPES[name].dtype
    for first in range(0, count, 2 * _CHUNK):
        n = min(_CHUNK, (count - first + 1) // 2)
        yield random_bits(name, rng, n), random_bits(name, rng, n)
        with np.errstate(over="ignore"):
            x = np.exp(rng.normal(0, 2, n)).astype(dtype)
        yield x, rng.normal(0, 3, n).astype(dtype)
