"""The table of values that a run prints."""

from __future__ import annotations

import io
import pickle

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

from halfulp.cli.output import print_rows
from halfulp.cli.run import rows_of

ROWS = [
    [
        "'a_block/with_a_long_path/PRelu_12' (PRelu)",
        "onnx.PRelu-9",
        "float32[1, 3, 224, 224]\nfloat32[3, 1, 1]",
        "0.057",
    ],
    ["#1 (Pow)", "", "float32[1, 3]", "1.2"],
]


@pytest.mark.parametrize("width", [160, 80, 40, 20])
def test_no_name_and_no_shape_is_cut(width: int) -> None:
    to = Console(file=io.StringIO(), width=width)
    print_rows(to, ["node", "operator", "inputs", "ms"], ROWS, ["ms"])
    text = to.file.getvalue()  # type: ignore[attr-defined]
    assert all(cell in text for row in ROWS for each in row for cell in each.split("\n"))
    assert ("node:" in text) == (width < 160)
    assert "operator ;" not in text


SMALL = np.dtype(ml_dtypes.float8_e5m2)


@pytest.mark.parametrize(
    "dtype",
    [np.dtype(">f4"), pickle.loads(pickle.dumps(np.dtype("float32"))), np.dtype(np.longdouble), SMALL],
)
def test_every_kind_of_dtype_has_its_range(dtype: np.dtype) -> None:
    x = np.array([0.5, -2, np.nan, np.inf]).astype(dtype)
    (cells,) = rows_of({"x": x})
    assert cells[2:] == ["-2", "inf", "1", "1"]
