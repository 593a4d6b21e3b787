"""Counting misrounded results, against a slow count in Python's numbers."""

import ml_dtypes
import numpy as np
import pytest

from halfulp.benchmark.comparison import Exactness, exactness


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
def test_each_step_from_the_right_value_counts(dtype):
    right = np.array([1, -1, 0.5, -8, 0, 2], dtype)
    for steps in (1, 3):
        off = right.copy()
        for _ in range(steps):
            off[1:4] = np.nextafter(off[1:4], np.array(0, dtype))
        assert exactness(off, right) == Exactness(3, 6, steps)


def test_steps_across_zero():
    least = np.nextafter(np.float32(0), np.float32(1))
    assert exactness(np.array([-least]), np.array([least])).farthest == 3  # over both zeros
    assert exactness(np.array([-0.0]), np.array([0.0])) == Exactness(1, 1, 1)


def test_all_nans_are_one_and_a_nan_for_a_number_is_as_far_as_can_be():
    right = np.array([0x7FC00000, 0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    result = np.array([0xFFC00001, 0x3F800000, 0x3F800000], np.uint32).view(np.float32)
    assert exactness(result, right) == Exactness(1, 3, 1 << 32)


def test_infinity_is_the_neighbour_of_the_greatest_number():
    assert exactness(np.array([np.inf]), np.array([np.finfo(float).max])) == Exactness(1, 1, 1)


@pytest.mark.parametrize("name", ["int8", "int64", "uint8", "uint64"])
def test_integers_count_their_difference(name):
    info = np.iinfo(name)
    right = np.array([info.min, 5, 7], name)
    assert exactness(np.array([info.max, 5, 6], name), right) == Exactness(2, 3, info.max - info.min)


def test_strides_and_bytes():
    right = np.arange(12, dtype=np.float32).reshape(3, 4).T
    off = right.copy(order="K")
    off[2, 1] += 1
    assert exactness(off, right).misrounded == 1
    assert exactness(off, np.ascontiguousarray(right)).misrounded == 1


def test_nothing_is_compared_with_another_type_or_shape():
    with pytest.raises(ValueError, match="not comparable"):
        exactness(np.zeros(2), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="not comparable"):
        exactness(np.zeros(2), np.zeros(3))
    assert exactness(np.zeros(0), np.zeros(0)) == Exactness(0, 0, 0)
