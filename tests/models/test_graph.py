"""What is known of shapes and types before anything runs."""

from __future__ import annotations

import pytest

from halfulp.errors import HalfulpError
from halfulp.models.graph import reshape, unsqueezed
from halfulp.specs.tensor import Dim, Shape


@pytest.mark.parametrize(
    ("shape", "asked", "copies", "expected"),
    [
        ((2, 3, 4), [0, -1], True, (2, 12)),
        ((2, 3), [3, 2], True, (3, 2)),
        ((2, None, "N"), [0, 0, 0, 1], False, (0, 0, 0, 1)),
        ((2, None, "N"), [0, 0, 0], True, (2, None, "N")),
        ((2, None), [-1, 4], True, (None, 4)),
        (None, [0, -1, 5], True, (None, None, 5)),
        ((0, 3), [3, 0], False, (3, 0)),
        ((), [], True, ()),
    ],
)
def test_reshape(shape: Shape, asked: list[int], copies: bool, expected: Shape) -> None:
    assert reshape(shape, asked, copies=copies) == expected


@pytest.mark.parametrize(
    ("shape", "axes", "expected"),
    [((2, "N"), [0, 3], (1, 2, "N", 1)), ((2, None), [-1], (2, None, 1)), ((), [0, -1], (1, 1))],
)
def test_unsqueezed(shape: tuple[Dim, ...], axes: list[int], expected: Shape) -> None:
    assert unsqueezed(shape, axes) == expected


@pytest.mark.parametrize(
    ("axes", "words"),
    [([0, 0], "distinct"), ([0, -4], "distinct"), ([4], "distinct"), ([*range(63)], "too many dims")],
)
def test_axes_that_are_none_of_the_output(axes: list[int], words: str) -> None:
    with pytest.raises(HalfulpError, match=words):
        unsqueezed((2, 3), axes)
    with pytest.raises(HalfulpError, match="expected: 0 to 2"):
        unsqueezed((2, 3), [-1], from_end=False)
