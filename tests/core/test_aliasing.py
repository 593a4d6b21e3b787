"""``out`` may share memory with the inputs in any way: the result is as if it did not."""

import numpy as np
import pytest
from tests.core.operands import assert_same, values

import halfulp as hu


def result_and_in_place(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The result from copies, and from the very arrays."""
    expected = hu.pow(x.copy(), y.copy())
    assert hu.pow(x, y, out=out) is out
    return out, expected


def grid(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return values("float64", shape or (300, 300), rng)


PLACES = {
    "out is x": lambda a: (a, np.float64(2.5), a),
    "out is y": lambda a: (np.float64(2.5), a, a),
    "out is both": lambda a: (a, a, a),
    "out is x, y a row of it": lambda a: (a, a[7], a),
    "out is x, y a column of it": lambda a: (a, a[:, 7:8], a),
    "out is x, y an element of it": lambda a: (a, a[150, 150], a),
    "out is x, y a 0-d view of it": lambda a: (a, a[150, 150, ...], a),
    "out is x, y its transpose": lambda a: (a, a.T, a),
    "out is x's transpose": lambda a: (a, np.float64(2.5), a.T),
    "out is x reversed": lambda a: (a, np.float64(2.5), a[::-1]),
    "out a row behind x": lambda a: (a[:-1], a[:-1], a[1:]),
    "out a row before x": lambda a: (a[1:], a[1:], a[:-1]),
    "out an element behind x": lambda a: (a.ravel()[:-1], np.float64(2.5), a.ravel()[1:]),
    "out an element before y": lambda a: (np.float64(1.5), a.ravel()[1:], a.ravel()[:-1]),
    "out a byte behind x": lambda a: (
        a.view(np.uint8).ravel()[:-8].view(np.float64),
        np.float64(2.5),
        a.view(np.uint8).ravel()[1:-7].view(np.float64),
    ),
    "even to odd": lambda a: (a[::2], a[1::2], a[1::2]),
    "out is x, every other": lambda a: (a[::2, ::2], a[1::2, 1::2], a[::2, ::2]),
    "y overlaps x and out": lambda a: (a[:100], a[50:150], a[100:200]),
    "a row to all": lambda a: (a[3], a[:, 4:5], a),
}


@pytest.mark.parametrize("place", PLACES)
def test_out_shares_memory(place, rng):
    assert_same(*result_and_in_place(*PLACES[place](grid(rng))))


@pytest.mark.parametrize("type_name", ["float16", "float32", "float64"])
def test_out_of_a_few_elements_shares_memory(type_name, rng):
    for size, behind in [(1, 0), (15, 1), (16, 0), (16, 3)]:
        memory = values(type_name, (40,), rng)
        x, out = memory[:size], memory[behind : behind + size]
        for y in (memory[20 : 20 + size], memory[2 : 2 + size], memory[5]):
            assert_same(*result_and_in_place(x, y, out))


@pytest.mark.parametrize(
    "out", [np.zeros(4), np.zeros((3, 1)), np.zeros(3, np.float16), np.frombuffer(bytes(24))]
)
def test_out_of_a_few_elements_that_does_not_fit(out):
    with pytest.raises(hu.SpecError):
        hu.pow(np.full(3, 2.0), np.full(3, 3.0), out=out)
    assert not out.any()


def test_out_shares_memory_with_an_operand_of_another_type(rng):
    memory = rng.integers(0, 5, 8000).astype(np.int8)
    x = values("float64", (1000,), rng)
    for y, out in [
        (memory[:1000], memory.view(np.float64)),
        (memory[7000:], memory.view(np.float64)),
        (memory.view(np.int64), memory.view(np.float64)),
        (memory.view(np.int64)[::-1], memory.view(np.float64)),
    ]:
        memory[:] = rng.integers(0, 5, 8000)
        assert_same(*result_and_in_place(x, y, out))


@pytest.mark.parametrize("round_", range(4))
def test_random_views_of_one_buffer(round_, rng):
    def view(memory: np.ndarray) -> np.ndarray:
        """10 x 300 elements: any corner, any steps, perhaps transposed."""
        turned = memory.T if rng.random() < 0.4 else memory
        rows, columns = (int(n) for n in rng.choice([1, 1, 2, -1, -2], 2))
        part = turned[:: int(rows), :: int(columns)]
        top, left = rng.integers(0, part.shape[0] - 9), rng.integers(0, part.shape[1] - 299)
        return part[top : top + 10, left : left + 300]

    for _ in range(50):
        memory = grid(rng, 620, 620)
        assert_same(*result_and_in_place(view(memory), view(memory), view(memory)))


def test_broadcasting_operands_that_overlap_themselves(rng):
    memory = grid(rng, 4000)
    windows = np.lib.stride_tricks.sliding_window_view(memory, 1000)[::3]
    expected = hu.pow(windows.copy(), windows[:1].copy())
    assert_same(hu.pow(windows, windows[:1]), expected)


def test_prelu_in_place(rng):
    x = rng.normal(size=(50, 8, 40)).astype(np.float32)
    slope = x[0, :, :1]
    expected = hu.prelu(x.copy(), slope.copy())
    assert_same(hu.prelu(x, slope, out=x), expected)
