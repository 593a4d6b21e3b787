"""The table of values that a run prints."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from halfulp.cli.run import table_of

SMALL = np.dtype(ml_dtypes.float8_e5m2)


@pytest.mark.parametrize(
    "dtype",
    [np.dtype(">f4"), pickle.loads(pickle.dumps(np.dtype("float32"))), np.dtype(np.longdouble), SMALL],
)
def test_every_kind_of_dtype_has_its_range(dtype: np.dtype) -> None:
    x = np.array([0.5, -2, np.nan, np.inf]).astype(dtype)
    cells = [next(iter(column.cells)) for column in table_of("outputs", {"x": x}).columns]
    assert cells[-4:] == ["-2", "inf", "1", "1"]
