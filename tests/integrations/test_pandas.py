"""pandas: our bits, with alignment, names and NA types."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp._interop import Ufunc, overriding_result

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 9, 2000).astype(np.float32)
Y = RNG.uniform(-3, 3, 2000).astype(np.float32)


def test_the_bits_are_ours() -> None:
    """pandas computes ufuncs that it knows by name itself; ours must not be taken for one."""
    expected = hu.pow(X, Y)
    assert (np.power(X, Y) != expected).any(), "these operands tell the two powers apart"
    series, other = pd.Series(X, name="x"), pd.Series(Y)
    for result in (hu.pow(series, Y), hu.pow(series, other), hu.pow(X, other)):
        assert isinstance(result, pd.Series)
        assert result.dtype == np.float32
        assert result.to_numpy().tobytes() == expected.tobytes()
    assert hu.pow(series, 2).name == "x"
    frame = pd.DataFrame({"a": X, "b": Y})
    result = hu.pow(frame.abs(), 2.5)
    assert result["b"].to_numpy().tobytes() == hu.pow(np.abs(Y), 2.5).tobytes()


def test_alignment() -> None:
    x = pd.Series([1.0, 2.0, 3.0], index=list("abc"))
    y = pd.Series([2.0, 3.0, 4.0], index=list("bcd"))
    result = hu.pow(x, y)
    pd.testing.assert_series_equal(result, pd.Series([1.0, 4.0, 27.0, np.nan], index=list("abcd")))
    x_frame, y_frame = x.to_frame("p"), pd.DataFrame({"q": y})
    assert hu.pow(x_frame, y_frame).columns.tolist() == ["p", "q"]


@pytest.mark.parametrize("dtype", ["Int64", "Int8", "UInt16", "Float32", "Float64"])
def test_missing_values_stay_missing(dtype: str) -> None:
    x = pd.Series([1, None, 3], dtype=dtype)
    y = pd.Series([2, 2, None], dtype=dtype)
    pd.testing.assert_series_equal(hu.pow(x, y), pd.Series([1, None, None], dtype=dtype))
    pd.testing.assert_series_equal(hu.pow(x, 2), pd.Series([1, None, 9], dtype=dtype))
    pd.testing.assert_series_equal(hu.prelu(x, y), pd.Series([1, None, None], dtype=dtype))


def test_frames() -> None:
    frame = pd.DataFrame({"p": np.float32([1, 2]), "q": np.float32([3, 4])}, index=["a", "b"])
    expected = pd.DataFrame({"p": np.float32([1, 4]), "q": np.float32([27, 256])}, index=["a", "b"])
    pd.testing.assert_frame_equal(hu.pow(frame, frame), expected)
    assert hu.pow(frame, np.float32([2, 3]))["q"].tolist() == [27, 64]
    assert hu.prelu(-frame, 0.5)["p"].tolist() == [-0.5, -1]
    index = hu.pow(pd.Index([1.0, 2.0]), 2)
    assert isinstance(index, pd.Index)


def test_a_number_takes_each_columns_type() -> None:
    wide = pd.DataFrame({"p": [2.0, 3.0], "q": [3**37, 2]})  # an integer that float64 does not hold
    for number in (1, np.int64(1), np.float32(1), wide**0):
        assert hu.pow(wide, number)["q"].tolist() == [3**37, 2]
    frame = pd.DataFrame({"p": np.float32([1, 2]), "q": [3.0, 4.0], "r": pd.array([5, None], "Int8")})
    for result in (hu.pow(frame, 2), hu.pow(2, frame), hu.prelu(frame, 3)):
        assert result.dtypes.astype(str).tolist() == ["float32", "float64", "Int8"]
    assert hu.pow(frame, 2)["r"].tolist() == [25, pd.NA]
    assert hu.pow(2, frame)["r"].tolist() == [32, pd.NA]


def test_frames_of_several_types_are_computed_by_columns() -> None:
    x = pd.DataFrame({"p": np.float32([2, 3]), "q": pd.array([2, None], "Int8"), "r": [2, 3]})
    result = hu.pow(x, x[["r", "q", "p"]])
    assert result.dtypes.astype(str).tolist() == ["float32", "Int8", "int64"]
    assert result.to_numpy().tolist() == [[4, 4, 4], [27, pd.NA, 27]]
    assert hu.prelu(-x, x)["p"].tolist() == [-4, -9]
    assert x["p"].tolist() == [2, 3]
    plain, other = x[["p", "r", "p"]], x[["r", "p", "p"]].set_axis(["p", "r", "p"], axis=1)
    pd.testing.assert_frame_equal(hu.pow(plain, other), (plain**other).astype({"p": "float32", "r": "int64"}))
    x.columns = ["p", "p", "p"]
    assert hu.pow(x, x).dtypes.astype(str).tolist() == ["float32", "Int8", "int64"]
    for call in (lambda: hu.pow(x, np.ones((2, 3))), lambda: hu.op("onnx.Pow-15")(x, 1.0)):
        with pytest.raises(
            hu.HalfulpError, match=r"its columns have several types; .*\s+got: \['Int8', 'float32'"
        ):
            call()


@pytest.mark.parametrize("function", [hu.pow, hu.float_power])
def test_two_frames_take_one_call_for_the_columns_of_two_types(function: Any) -> None:
    """pandas keeps the columns of a type in one array, in any order, or in several arrays."""
    generator = np.random.default_rng(8)
    columns = [
        generator.integers(1, 9, 5).astype(kind) for kind in ("f4", "i8", "f8", "f4", "f8", "i8", "f4")
    ]
    whole = pd.DataFrame(dict(zip("abcdefg", columns, strict=True)))
    in_pieces = pd.DataFrame(index=whole.index)
    for name in "gcadfbe":
        in_pieces.insert(len(in_pieces.columns) // 2, name, whole[name])
    frames = [whole, whole[list("fgeacbd")][list("abcdefg")], in_pieces[list("abcdefg")]]
    frames += [whole.astype("f8"), whole.astype({"b": "f4", "e": "i8"}), whole.iloc[::-1].iloc[::-1]]
    for x, y in itertools.product(frames, repeat=2):
        result = function(x, y)
        for name in x:
            expected = function(x[name].to_numpy(), y[name].to_numpy())
            assert result[name].dtype == expected.dtype
            assert result[name].tolist() == expected.tolist()
    calls: list[int] = []
    ufunc = Ufunc(lambda x, y, out=None: calls.append(x.size) or hu.pow(x, y), "counted")
    overriding_result(ufunc, whole, whole.copy(), None)
    assert sorted(calls) == [10, 10, 15]


def test_missing_values_of_pyarrow_are_refused() -> None:
    """pandas would call the function with NaN in float64, whatever the type is."""

    class ArrowDtype:  # as that of pandas, which needs pyarrow
        na_value = pd.NA

        def __str__(self) -> str:
            return "int64[pyarrow]"

    class Column:
        dtype = ArrowDtype()
        elements = (3, pd.NA)

        def isna(self) -> list[bool]:
            return [each is pd.NA for each in self.elements]

        def __array_ufunc__(self, *call: Any) -> str:
            return "its own result"

    with pytest.raises(
        hu.HalfulpError, match=r"int64\[pyarrow\] with missing values .* x.convert_dtypes\(\)"
    ):
        hu.pow(Column(), 39)
    Column.elements = (3, 2)
    assert hu.pow(Column(), 39) == "its own result"


def test_missing_powers_are_not_checked() -> None:
    x, y = pd.Series([2, None], dtype="Int64"), pd.Series([3, -1], dtype="Int64")
    for exponent in (y, y.to_numpy(np.int64), pd.Series([3.0, 0.5])):
        assert hu.pow(x, exponent, integers="raise").tolist() == [8, pd.NA]
    assert hu.pow(pd.Series([2, 0]), y.where(y > 0), integers="raise").tolist() == [8, pd.NA]
    with pytest.raises(hu.HalfulpError, match=r"the exponent -1 at index \[1\]"):
        hu.pow(x[::-1], y.to_numpy(np.int64), integers="raise")


def test_what_pandas_can_not_do_is_an_error() -> None:
    with pytest.raises(hu.SpecError, match=r"^X: an array of"):
        hu.pow(pd.Series(["a"]), 2)
    frame = pd.DataFrame({"p": [1.0]})
    with pytest.raises(NotImplementedError):
        hu.pow(frame, frame["p"])
