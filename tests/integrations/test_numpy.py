"""NumPy's own world: scalars, array-likes, subclasses, memory maps, masked arrays, and the ufunc protocol."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ml_dtypes import bfloat16

import halfulp as hu
from halfulp.operators import POW_UFUNC, PRELU_UFUNC


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (np.float32(2), np.float32(0.5), np.float32(2**0.5)),
        (np.float32(2), 3, np.float32(8)),
        (2, 3, np.int64(8)),
        *((x, y, np.float64(x**y)) for x, y in ((10, -1), (10, -1.0), (10.0, -1), (2, 0.5), (2.0, 3))),
        (2, np.float16(0.5), np.float16(2**0.5)),
        (ml_dtypes.bfloat16(2), 3.5, ml_dtypes.bfloat16(11.3125)),
        (np.int8(-3), np.uint64(3), np.int8(-27)),
    ],
)
def test_scalars_give_a_scalar(x, y, expected):
    result = hu.pow(x, y)
    assert type(result) is type(expected)
    assert result == expected


@pytest.mark.parametrize(
    "x", [2.5, np.float32(2.5), np.float16(2.5), np.array(2.5), np.array([2.5]), [2.5], np.array([])]
)
@pytest.mark.parametrize(
    "y", [2.0, np.float32(2), np.array(2.0), np.array([2.0]), np.array([[2.0]], np.float32)]
)
def test_results_have_the_kinds_of_numpys_power(x, y):
    """What has no axes is a scalar."""
    powers, of_numpy = hu.pow(x, y), np.power(x, y)
    assert isinstance(powers, np.ndarray) == isinstance(of_numpy, np.ndarray)
    assert powers.shape == of_numpy.shape
    assert isinstance(hu.prelu(np.array(-2.0), 3), np.float64)
    out = np.array(0.0)
    assert hu.pow(np.array(2.0), 3, out=out) is out


@pytest.mark.parametrize(("x", "y"), [(2, 63), (2, 100), (-3, 41), (10**18, 2)])
def test_a_power_of_two_integers_that_int64_cannot_hold(x, y):
    """Two numbers have no type that would wrap."""
    with pytest.raises(hu.HalfulpError, match=rf"^int64 overflows: {x} to the power {y}; hu.float_power"):
        hu.pow(x, y)
    assert hu.pow(np.int64(x), y).dtype == np.int64


def test_powers_of_two_integers():
    for x in (-3, -2, -1, 0, 1, 2, 7, 10, 2**31, -(2**31), 2**53, 2**62):
        for y in range(70):
            if -(2**63) <= x**y < 2**63:
                power = hu.pow(x, y)
                assert type(power) is np.int64
                assert power == x**y


def test_where_and_dtype():
    """ONNX's rule stays: the result has the base's type, which dtype= converts."""
    x, y, mask = np.array([[10, 3], [2, 5]], np.int8), np.array([3, -1]), np.array([[False], [True]])
    out = x.copy()
    assert hu.pow(x, y, out=out, where=mask) is out
    np.testing.assert_array_equal(out, [[10, 3], [8, 0]])
    np.testing.assert_array_equal(hu.pow(x, y, where=mask), [[0, 0], [8, 0]])
    assert hu.pow(x[0], 2, where=[mask, ~mask]).shape == (2, 2, 2)
    assert hu.pow(x, 3, where=mask, integers="raise").tolist() == [[0, 0], [8, 125]]
    with pytest.raises(hu.HalfulpError, match=r"overflows at index \[0, 0\]: 10 to"):
        hu.pow(x, 3, where=~mask, integers="raise")
    assert hu.pow(2.0, 3, where=False) == 0
    for base in (x, x.tolist(), ml_dtypes.bfloat16(3), 3):
        powers = hu.pow(base, 0.1, dtype=np.float64)
        np.testing.assert_array_equal(powers, hu.pow(np.asarray(base, np.float64), 0.1), strict=True)
    assert hu.pow(0.1, np.float64(1), dtype="f4").tobytes() == np.float32(0.1).tobytes()
    for call, words in {
        (lambda: hu.pow(x, 2, where=[1, 0]), "'bool'"),
        (lambda: hu.pow(x, 2, where=[True] * 3), r"(?s)where can't be broadcast.*bool\[3\]"),
        (lambda: hu.pow(x, 2, where=mask, out=np.zeros((2, 2))), "out is float64, the result"),
        (lambda: hu.pow(0.5, x, dtype=np.int8), "does not fit"),
        (lambda: hu.pow(x + 0.5, 2, dtype=int), "dtype=int64 would truncate a base of type float64"),
        (lambda: hu.pow(x, 2, dtype=complex), "X: complex"),
        (lambda: hu.pow(np.ma.masked_array(x, x > 3), 2, where=mask), "mask would be lost"),
    }:
        with pytest.raises((hu.HalfulpError, TypeError, ValueError), match=words):
            call()


@pytest.mark.parametrize("x", [[1, 2, 3], (1, 2, 3), range(1, 4), memoryview(b"\x01\x02\x03")])
def test_array_likes(x):
    assert hu.pow(x, [2, 2, 2]).tolist() == [1, 4, 9]


@pytest.mark.parametrize(
    ("operand", "words"),
    [
        (
            np.array([Decimal("1.1")]),
            r"an array of Python objects \(the first: Decimal\('1.1'\)\); convert it, .*astype",
        ),
        (
            np.array(["1.5", "2"]),
            r"an array of text \(the first: '1.5'\); convert it, for instance by .astype\(float\)",
        ),
        (np.array([], object), "an empty array of type object"),
        (None, "not a number: None"),
        ("a", "not a number: 'a'"),
        (True, r"of type bool; pass .astype\('int8'\)"),
        (np.array([True]), r"of type bool; pass .astype\('int8'\), or call hu.float_power"),
        (np.array(["2020"], "M8[D]"), r"dates or times \(datetime64\[D\]\)"),
        ([10**30], r"integers of more than 64 bits; pass .astype\(float\)"),
        (np.array([1, 2], object), r"an array of Python numbers; pass .astype\('int64'\)"),
        (np.array([1, 0.5], object), r"an array of Python numbers; pass .astype\('float64'\)"),
        (Decimal("0.5"), r"of type Decimal; pass float\(value\)"),
        (np.array([1j]), "complex .complex128.; np.power has complex powers"),
        *(
            [(np.ones(1, np.longdouble), r"pass .astype\('float64'\)")]
            if np.longdouble(0).itemsize > 8
            else []
        ),
    ],
)
def test_an_operand_of_another_type_is_told_what_to_become(operand, words):
    for call in (
        lambda: hu.pow(operand, 2),
        lambda: hu.pow(2.0, operand),
        lambda: hu.prelu(operand, operand),
    ):
        with pytest.raises(hu.SpecError, match=words) as caught:
            call()
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(hu.SpecError, match=r"X: a Python integer of more than 64 bits; pass float\(value\)$"):
        hu.pow(10**30, 2)


def test_a_slope_is_told_what_to_become():
    x = np.ones((1, 3, 4, 4), np.float32)
    with pytest.raises(
        hu.SpecError, match=r"the channels, pass slope.reshape\(-1, 1, 1\)\n  X: .*\[1, 3, 4, 4\]"
    ):
        hu.prelu(x, np.ones(3, np.float32))
    with pytest.raises(hu.SpecError, match=r"same type; pass slope.astype\('float32'\)"):
        hu.prelu(x, np.ones((3, 1, 1)))
    with pytest.raises(hu.SpecError, match="broadcastable to X\n"):
        hu.prelu(x, np.ones(5, np.float32))


@pytest.mark.parametrize("x", [np.float64(-2.5), np.float32(3), np.int8(-3), np.uint64(7), bfloat16(-1.5)])
def test_scalars_are_what_arrays_of_one_element_are(x):
    for y in (2, 2.5, -1, 10**30, np.float64(1.5), np.int8(3), type(x)(2)):
        got = hu.pow(x, y)
        assert type(got) is type(x)
        assert got.tobytes() == hu.pow(np.array([x]), y).tobytes()
    for slope in (type(x)(2), 2):
        got = hu.prelu(x, slope)
        assert type(got) is type(x)
        assert got.tobytes() == hu.prelu(np.array([x]), slope).tobytes()
    with pytest.raises(hu.SpecError, match="same type"):
        hu.prelu(x, np.float16(1))


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (1.00390625000001, ml_dtypes.bfloat16, 1.0078125),  # just above a tie: one rounding
        (-1.00390625000001, ml_dtypes.bfloat16, -1.0078125),
        (2**80 + 1, np.float32, 2.0**80),
        (2**60 + 2**36 + 1, np.float32, 2.0**60 + 2.0**37),  # rounded to float64 first this would be a tie
        (2**60 + 2**36 - 1, np.float32, 2.0**60),
        (1.125 + 2.0**-40, ml_dtypes.float8_e5m2, 1.25),
        (2**24 + 2**16 + 1, ml_dtypes.bfloat16, 2.0**24 + 2.0**17),
        (1e300, np.float32, np.inf),
        (1e-60, np.float16, 0.0),
        (2**53 + 1, np.int64, 2**53 + 1),
        (2**64 - 1, np.uint64, 2**64 - 1),
        (-(2**63), np.int64, -(2**63)),
        (7.0, ml_dtypes.int4, 7),
    ],
)
def test_a_number_as_slope_is_rounded_once_to_the_type(number, dtype, expected):
    one = np.array([1]).astype(dtype)
    minus_one = one if np.dtype(dtype).kind == "u" else np.array([-1]).astype(dtype)
    if np.dtype(dtype).kind == "u":
        assert hu.pow(number, one).tolist() == [expected]
    elif expected == -(2**63):
        assert hu.prelu(minus_one, number).tolist() == [expected]  # wraps
    else:
        assert hu.prelu(minus_one, number).astype(object).tolist() == [-expected]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_a_number_is_the_same_beside_any_copy_of_a_type(dtype):
    """A dtype that was pickled, or has another byte order, is not NumPy's own object any more."""
    x = -np.arange(1, 50).astype(dtype)
    number = 3 if dtype == "int32" else 0.3
    expected = hu.prelu(x, np.array(number, dtype))
    for other in (x, pickle.loads(pickle.dumps(x)), x.astype(x.dtype.newbyteorder())):
        assert hu.prelu(other, number).tobytes() == expected.tobytes()
        assert hu.pow(number, -other).tobytes() == hu.pow(np.array(number, dtype), -x).tobytes()


@pytest.mark.parametrize(("number", "dtype"), [(128, "i1"), (-1, "u1"), (2**64, "u8")])
def test_a_number_that_does_not_fit_an_integer_type_is_refused(number, dtype):
    with pytest.raises(hu.SpecError, match="does not fit the type"):
        hu.pow(number, np.ones(1, dtype))


def test_a_float_as_the_base_of_integers_is_a_float64():
    for kind in ("i4", "u8", ml_dtypes.int4):
        exponents = np.array([0, 1, 3], kind)
        assert hu.pow(2.3, exponents).tobytes() == hu.pow(np.full(3, 2.3), exponents).tobytes()
    assert hu.pow(10.0, np.array([-1, 0, 1])).tolist() == [0.1, 1, 10]
    assert hu.pow(10.0, np.float16(-1)).dtype == np.float16
    assert hu.op("onnx.Pow-15")(10.0, np.array([-1])).tolist() == [0.1]


def test_memory_maps(tmp_path):
    x = np.linspace(0.1, 9, 5000, dtype=np.float32)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    mapped[:] = x
    expected = hu.pow(x, np.float32(1.7))
    result = hu.pow(mapped, np.float32(1.7))
    assert type(result) is np.ndarray
    assert result.tobytes() == expected.tobytes()
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=x.shape)
    assert hu.pow(mapped, np.float32(1.7), out=out) is out
    out.flush()
    assert (tmp_path / "out").read_bytes() == expected.tobytes()
    read_only = np.memmap(tmp_path / "x", np.float32, "r", shape=x.shape)
    assert hu.pow(read_only, np.float32(1.7)).tobytes() == expected.tobytes()


class TestMaskedArrays:
    x = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False], fill_value=7.0)
    y = np.ma.masked_array([2.0, 2.0, 2.0], [False, False, True])

    def test_masks_are_joined(self):
        result = hu.pow(self.x, self.y)
        assert type(result) is np.ma.MaskedArray
        assert result.mask.tolist() == [False, True, True]
        assert result[0] == 1
        assert hu.pow(2.0, self.x).mask.tolist() == [False, True, False]
        assert self.x.mask.tolist() == [False, True, False]

    def test_the_fill_value_stays(self):
        result = hu.prelu(self.x, 0.5)
        assert result.fill_value == 7
        assert result.filled().tolist() == [1, 7, 3]

    def test_masked_powers_are_not_checked(self):
        y = np.ma.array([3, -1], mask=[False, True])
        x = np.ma.array([2, 0], mask=y.mask)
        for base, exponent in ((x, [3, -1]), (x, np.array([[3], [5]])), ([2, 0], y), (2, y), (x, y), (x, x)):
            result = hu.pow(base, exponent, integers="raise")
            assert result.tolist() == hu.pow(base, exponent).tolist()
            assert result.mask[..., 1].all()
        with pytest.raises(hu.HalfulpError, match=r"the exponent -1 at index \[0\]"):
            hu.pow(x, -1, integers="raise")
        with pytest.raises(hu.SpecError, match="broadcastable"):
            hu.pow(x, np.ma.array([1, 2, 3], mask=[True, False, False]), integers="raise")

    def test_one_masked_element(self):
        assert hu.pow(np.ma.masked, 2.0) is np.ma.masked
        assert hu.pow(self.x[1:2].reshape(()), 2.0) is np.ma.masked

    def test_out(self):
        out = np.ma.zeros(3)
        assert hu.pow(self.x, 2.0, out=out) is out
        assert out.mask.tolist() == [False, True, False]
        assert out.compressed().tolist() == [1, 9]
        plain = np.zeros(3)
        assert hu.pow(self.x, 2.0, out=plain) is plain


def test_subclasses_come_back():
    class Named(np.ndarray):
        name = ""

        def __array_finalize__(self, parent: Any) -> None:
            self.name = getattr(parent, "name", "")

    x = np.arange(1.0, 4).view(Named)
    x.name = "x"
    result = hu.pow(x, 2)
    assert (type(result), result.name, result.tolist()) == (Named, "x", [1, 4, 9])
    out = np.zeros(3).view(Named)
    assert hu.pow(np.arange(1.0, 4), 2, out=out) is out


class Recorded:
    """Another library's array: notes what it was called with."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return type(self).__name__, ufunc, method, inputs, kwargs


class Finer(Recorded):
    pass


class Declines:
    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return NotImplemented


class Forbids:
    __array_ufunc__ = None


class TestOverrides:
    def test_an_operand_may_take_over(self):
        array = Recorded()
        assert hu.pow(array, 2) == ("Recorded", POW_UFUNC, "__call__", (array, 2), {})
        assert hu.prelu([1.0], array) == ("Recorded", PRELU_UFUNC, "__call__", ([1.0], array), {})
        out = np.zeros(1)
        assert hu.pow(array, 2, out=out) == ("Recorded", POW_UFUNC, "__call__", (array, 2), {"out": (out,)})
        assert hu.pow(np.ones(1), 2, out=array)[4] == {"out": (array,)}

    def test_in_numpys_order(self):
        assert hu.pow(Recorded(), Finer())[0] == "Finer"
        assert hu.pow(Declines(), Recorded())[0] == "Recorded"

    def test_none_takes_it(self):
        with pytest.raises(
            TypeError, match="halfulp_pow is not implemented by the operands' types: Declines"
        ):
            hu.pow(Declines(), np.ones(1))
        with pytest.raises(TypeError, match="Forbids does not support ufuncs"):
            hu.pow(np.ones(1), Forbids())

    def test_what_is_handed_over_computes(self):
        x = np.array([1.0, 2.0])
        assert POW_UFUNC(x, 2).tolist() == [1, 4]
        assert POW_UFUNC(x, 2, out=(x,)) is x
        assert x.tolist() == [1, 4]
        assert (POW_UFUNC.nin, POW_UFUNC.nout, POW_UFUNC.signature) == (2, 1, None)

    def test_its_name_is_none_of_numpys(self):
        """Libraries look a ufunc up by its name, and would compute another power."""
        assert not hasattr(np, POW_UFUNC.__name__)


def test_pickling():
    for thing in (hu.pow, hu.prelu, POW_UFUNC, PRELU_UFUNC, hu.op("onnx.Pow-1")):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(thing, protocol)) is thing


class Column(np.lib.mixins.NDArrayOperatorsMixin):
    """As Polars' Series: its ``__array_ufunc__`` calls the ufunc with ``dtype=``."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **extra: Any) -> Column:
        arrays = [each.values if isinstance(each, Column) else each for each in inputs]
        return Column(ufunc(*arrays, dtype=np.result_type(*arrays).char, **extra))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_columns_that_name_the_type_of_the_result(kind):
    values = np.array([1, 2, 3], kind)
    wide = values.astype(np.result_type(values, 2.5))
    for got, expected in (
        (hu.pow(Column(values), 2.5), hu.pow(wide, 2.5)),
        (hu.pow(Column(values), Column(values)), hu.pow(values, values)),
        (hu.pow(Column(values), 2, integers="raise"), hu.pow(values, 2)),
        (hu.prelu(Column(-values), Column(values)), hu.prelu(-values, values)),
    ):
        assert got.values.dtype == expected.dtype
        np.testing.assert_array_equal(got.values, expected)
