"""xarray: broadcasting by dimension names, coordinates, datasets, lazily on dask."""

import numpy as np
import pytest

import halfulp as hu

xr = pytest.importorskip("xarray")

X = np.random.default_rng(4).uniform(0.5, 9, (20, 30)).astype(np.float32)


@pytest.fixture
def array() -> xr.DataArray:
    return xr.DataArray(X, dims=("a", "b"), coords={"a": np.arange(20)}, name="n", attrs={"units": "m"})


def test_the_bits_are_ours(array):
    result = hu.pow(array, 2.3)
    assert (np.power(X, np.float32(2.3)) != hu.pow(X, 2.3)).any()
    assert result.dtype == np.float32
    assert result.to_numpy().tobytes() == hu.pow(X, 2.3).tobytes()
    assert result.name == "n"
    assert result.coords["a"].equals(array.coords["a"])
    assert hu.prelu(-array, 0.3).to_numpy().tobytes() == hu.prelu(-X, 0.3).tobytes()


def test_dimensions_broadcast_by_name(array):
    exponents = xr.DataArray(np.float32([1, 2, 3]), dims="c")
    result = hu.pow(array, exponents)
    assert result.dims == ("a", "b", "c")
    assert result.to_numpy().tobytes() == hu.pow(X[..., None], np.float32([1, 2, 3])).tobytes()
    rows = xr.DataArray(X[:, 0], dims="a")
    assert hu.pow(rows, array).dims == ("a", "b")


def test_coordinates_align(array):
    assert hu.pow(array, array.isel(a=slice(5, None))).shape == (15, 30)


def test_variables_and_datasets(array):
    result = hu.pow(xr.Dataset({"v": array, "w": -array}), 2)
    assert result["w"].to_numpy().tobytes() == hu.pow(-X, 2).tobytes()
    assert isinstance(hu.pow(array.variable, 2), xr.Variable)


def test_lazily_on_dask(array):
    pytest.importorskip("dask.array")
    result = hu.pow(array.chunk({"a": 7}), xr.DataArray(X[0], dims="b").chunk(11))
    assert result.chunks == ((7, 7, 6), (11, 11, 8))
    assert result.to_numpy().tobytes() == hu.pow(X, X[0]).tobytes()
