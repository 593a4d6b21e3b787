"""How calls are divided into tiles (core/array/tiling.h)."""

import json
import subprocess
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.core.operands import laid_out, swapped, unaligned
from tests.house.builds import CORE, program, tool

ARITHMETIC, MEMORY = 0, 2
TILE, BLOCK, RUN, PANEL_ROWS = 256, 2048, 8192, 16  # core/simd/tile.h, and a panel's rows


def tilings(*calls: tuple[np.ndarray, np.ndarray, np.ndarray], bound_by: int) -> list[dict[str, Any]]:
    """The tilings of calls: x, y and the output, to whose shape x and y are broadcast."""
    lines = []
    for x, y, out in calls:
        numbers = [bound_by, out.ndim, *out.shape]
        for operand in (np.broadcast_to(x, out.shape), np.broadcast_to(y, out.shape), out):
            native = operand.dtype.isnative
            numbers += [operand.ctypes.data, operand.itemsize, int(not native), *operand.strides]
        lines.append(" ".join(map(str, numbers)))
    sources = Path(__file__).with_name("tiling.cpp"), CORE / "array" / "tiling.cpp"
    command = [tool("g++"), "-std=c++20", "-O0", "-Wall", "-Werror", f"-I{CORE}", *sources]
    done = subprocess.run(
        [program("tiling", command, *sources, CORE)],
        input="\n".join(lines),
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def tiling(x: np.ndarray, y: np.ndarray, out: np.ndarray, bound_by: int = MEMORY) -> dict[str, Any]:
    return tilings((x, y, out), bound_by=bound_by)[0]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def test_packed_operands_are_one_vector():
    found = tiling(zeros(30, 40, 50), zeros(30, 40, 50), zeros(30, 40, 50))
    assert found["flat"] == 1
    assert (found["shape"], found["tile"]) == ([60000], [RUN])
    assert (found["tiles"], found["chunks"]) == (8, 1)


def test_a_transposed_input_is_read_in_panels():
    found = tiling(zeros(400, 300).T, zeros(300, 400), zeros(300, 400))
    assert (found["panel"], found["tile"]) == (1, [PANEL_ROWS, TILE])
    assert found["order"] == [1, 0]  # panels follow each other along the input's adjacent elements


def test_long_rows_with_one_exponent_each_are_not_joined():
    apart = zeros(300, 500)[:, :400]
    assert tiling(apart, zeros(300, 1), zeros(300, 400))["tile"] == [1, 400]
    assert tiling(zeros(300, 40), zeros(300, 1), zeros(300, 40), ARITHMETIC)["tile"] == [BLOCK // 40, 40]


@pytest.mark.parametrize(
    ("shape", "slopes", "bound_by", "tile"),
    [
        ((300, 400), (300, 1), MEMORY, (RUN // 400, 400)),
        ((300, 400), (300, 1), ARITHMETIC, (RUN // 400, 400)),
        ((4, 20, 50), (20, 1), MEMORY, (1, 20, 50)),
        ((3, 20000), (3, 1), MEMORY, (1, RUN)),
        ((300, 40), (300, 1), ARITHMETIC, None),  # vectors of exponents are faster
        ((300, 15), (300, 1), MEMORY, None),  # shorter than a vector
        ((4, 20, 20), (20, 1), MEMORY, None),  # one copy of the slopes serves all tiles
        ((300, 25), (300, 1), MEMORY, None),  # to copy the slopes is faster than to begin each row
        ((4, 300, 40), (300, 1), MEMORY, (1, RUN // 40, 40)),
    ],
)
def test_rows_with_one_slope_each(shape, slopes, bound_by, tile):
    found = tiling(zeros(*shape), zeros(*slopes), zeros(*shape), bound_by)
    assert found["rows"] == (tile is not None)
    if tile is not None:
        assert tuple(found["tile"]) == tile


def test_rows_that_are_apart_or_swapped_or_unaligned_are_copied():
    x, slopes = zeros(300, 400), zeros(300, 1)
    for other in (swapped(x), zeros(300, 500)[:, :400], unaligned(x)):
        assert tiling(other, slopes, x)["rows"] == tiling(x, slopes, other)["rows"] == 0
    assert tiling(x, swapped(slopes), x)["rows"] == 0


def test_only_large_outputs_elsewhere_are_streamed():
    large, small = np.broadcast_to(np.float32(0), (1 << 24,)), zeros(1000)
    out = np.empty(1 << 24, np.float32)
    assert tiling(large, large, out)["streams"] == 1
    assert tiling(large, large, out, ARITHMETIC)["streams"] == 0
    assert tiling(out, large, out)["streams"] == 0
    assert tiling(small, small, zeros(1000))["streams"] == 0


def test_tiles_cover_any_layout(rng):
    calls = []
    for _ in range(300):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 17, 40, 130, 260], rng.integers(0, 5)))
        if prod(shape) < 200_000:
            thin = tuple(1 if rng.random() < 0.3 else n for n in shape)
            calls.append(tuple(laid_out(zeros(*s), rng) for s in (shape, thin, shape)))
    for (_, _, out), found in zip(calls, tilings(*calls, bound_by=MEMORY), strict=True):
        assert prod(found["shape"]) == out.size
        assert (
            found["elements"]
            == prod(found["tile"])
            <= (RUN if found["rows"] or found["flat"] else PANEL_ROWS * TILE if found["panel"] else BLOCK)
        )
        assert found["along"] == [-(-n // t) for n, t in zip(found["shape"], found["tile"], strict=True)]
        assert found["tiles"] == prod(found["along"])
        assert sorted(found["order"]) == list(range(len(found["shape"])))
        assert (
            found["axes"] == [i for i, n in enumerate(found["tile"]) if n > 1] or found["tiles"] == out.size
        )
        assert found["out"] == sorted(map(abs, found["out"]), reverse=True)
