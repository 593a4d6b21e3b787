"""Cutting arrays into pieces."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.cli.apply import expanded, regions, window
from halfulp.models.files import open_npy


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 200))
def test_regions_cover_everything_once_in_order(dims: list[int], limit: int) -> None:
    shape = tuple(dims)
    places = np.arange(math.prod(shape)).reshape(shape)
    seen = []
    for region in regions(shape, limit):
        piece = places[region]
        assert piece.size <= limit
        seen.extend(piece.ravel().tolist())
    assert seen == list(range(math.prod(shape)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("shape", "own", "out"),
    [
        ((4, 5), (4, 5), (4, 5)),
        ((4, 5), (4, 5), (3, 4, 5)),
        ((4,), (4, 1), (3, 4, 5)),
        ((3, 1, 5), (3, 1, 5), (3, 4, 5)),
        ((3, 4), (3, 4, 1), (3, 4, 5)),
        ((), (), (3, 4, 5)),
        ((1, 1), (), (3, 4, 5)),
        ((3, 5), (3, 1, 5), (3, 4, 5)),
    ],
)
def test_windows_of_files(tmp_path: Path, order: str, shape: tuple, own: tuple, out: tuple) -> None:
    array = np.arange(math.prod(shape)).reshape(shape, order=order)
    np.save(tmp_path / "x.npy", array)
    file = open_npy(tmp_path / "x.npy")
    want = np.broadcast_to(array.reshape(own), out)
    for limit in (1, 3, 7, 20, 1000):
        for region in regions(out, limit):
            part = window(file, own, region)
            np.testing.assert_array_equal(np.broadcast_to(part, want[region].shape), want[region])


def test_expanded_never_copies() -> None:
    array = np.asfortranarray(np.zeros((3, 4)))
    assert np.shares_memory(expanded(array, (3, 1, 4, 1)), array)
