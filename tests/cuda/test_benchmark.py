"""Times on a device: how they are taken and what becomes of them, with the processor in the device's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from halfulp.errors import HalfulpError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from side_by_side import cuda

pytestmark = pytest.mark.usefixtures("torch_on_device")


def test_a_row_is_measured_beside_a_copy_and_torch() -> None:
    line = cuda.measure(cuda.Row("float32 ** float32", "float32"), 1 << 12, 3, device="cpu")
    assert {"halfulp", "torch"} <= set(line.seconds)
    assert line.copy > 0
    assert all(seconds > 0 for seconds in line.seconds.values())
    assert 0 <= line.misrounded["torch"] < 0.5
    assert "halfulp" not in line.misrounded


@pytest.mark.parametrize(
    ("row", "size"),
    [
        (cuda.Row("x", "float32"), 12),
        (cuda.Row("x", "float64"), 24),
        (cuda.Row("x", "float16", 2.0), 4),
        (cuda.Row("x", "float32", channels=64), 8),
    ],
)
def test_the_bytes_of_an_element(row: cuda.Row, size: int) -> None:
    assert row.bytes == size


def test_other_rows() -> None:
    for row in cuda.ROWS:
        line = cuda.measure(row, 1 << 17, 1, device="cpu")
        assert line.seconds["halfulp"] > 0, row


def test_no_device_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a device")
    with pytest.raises(HalfulpError, match=r"^torch .* finds no CUDA device$"):
        cuda.require_device()
