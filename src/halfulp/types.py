"""The element types: one table, with a row for each type and its name in each standard.

All facts about types are here. ``ml_dtypes`` has the types that NumPy lacks; only this module imports it for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from halfulp.errors import UnsupportedError, did_you_mean, named

Array = NDArray[Any]


@dataclass(frozen=True)
class ElementType:
    """One element type, and its name in each standard (None: the standard lacks it)."""

    name: str  # of the NumPy or ml_dtypes dtype
    dtype: np.dtype[Any]  # in native byte order
    kind: Literal["float", "int", "uint"]
    bits: int  # of a value; int4, uint4 and float4 take a byte in memory anyway
    onnx: str | None  # the name inside tensor(...)
    onnx_enum: int | None  # the number in onnx.TensorProto.DataType
    openvino: str | None  # also in the element_type of an IR file
    directml: str | None  # the name after DML_TENSOR_DATA_TYPE_

    def __str__(self) -> str:
        return self.name


def _row(scalar: Any, *facts: Any) -> ElementType:
    return ElementType(np.dtype(scalar).name, np.dtype(scalar), *facts)


# fmt: off
_ROWS = (
    #     dtype                         kind     bits  onnx               enum  openvino   directml
    _row(np.float64,                   "float", 64, "double",          11,   "f64",     "FLOAT64"),
    _row(np.float32,                   "float", 32, "float",           1,    "f32",     "FLOAT32"),
    _row(np.float16,                   "float", 16, "float16",         10,   "f16",     "FLOAT16"),
    _row(ml_dtypes.bfloat16,           "float", 16, "bfloat16",        16,   "bf16",    None),
    _row(ml_dtypes.float8_e3m4,        "float", 8,  None,              None, None,      None),
    _row(ml_dtypes.float8_e4m3,        "float", 8,  None,              None, None,      None),
    _row(ml_dtypes.float8_e4m3b11fnuz, "float", 8,  None,              None, None,      None),
    _row(ml_dtypes.float8_e4m3fn,      "float", 8,  "float8e4m3fn",    17,   "f8e4m3",  None),
    _row(ml_dtypes.float8_e4m3fnuz,    "float", 8,  "float8e4m3fnuz",  18,   None,      None),
    _row(ml_dtypes.float8_e5m2,        "float", 8,  "float8e5m2",      19,   "f8e5m2",  None),
    _row(ml_dtypes.float8_e5m2fnuz,    "float", 8,  "float8e5m2fnuz",  20,   None,      None),
    _row(ml_dtypes.float8_e8m0fnu,     "float", 8,  "float8e8m0",      24,   "f8e8m0",  None),
    _row(ml_dtypes.float4_e2m1fn,      "float", 4,  "float4e2m1",      23,   "f4e2m1",  None),
    _row(np.int8,                      "int",   8,  "int8",            3,    "i8",      "INT8"),
    _row(np.int16,                     "int",   16, "int16",           5,    "i16",     "INT16"),
    _row(np.int32,                     "int",   32, "int32",           6,    "i32",     "INT32"),
    _row(np.int64,                     "int",   64, "int64",           7,    "i64",     "INT64"),
    _row(np.uint8,                     "uint",  8,  "uint8",           2,    "u8",      "UINT8"),
    _row(np.uint16,                    "uint",  16, "uint16",          4,    "u16",     "UINT16"),
    _row(np.uint32,                    "uint",  32, "uint32",          12,   "u32",     "UINT32"),
    _row(np.uint64,                    "uint",  64, "uint64",          13,   "u64",     "UINT64"),
    _row(ml_dtypes.int4,               "int",   4,  "int4",            22,   "i4",      "INT4"),
    _row(ml_dtypes.uint4,              "uint",  4,  "uint4",           21,   "u4",      "UINT4"),
)
# fmt: on

TYPES: dict[str, ElementType] = {row.name: row for row in _ROWS}

# dtype.name builds a string each time. A look-up makes calls on small arrays faster.
_NAMES = {row.dtype: row.name for row in _ROWS}

# What people call types beside their names. NumPy itself knows half, double and f4.
_ALIASES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "f32": "float32"}
_ALIASES |= {"fp64": "float64", "f64": "float64"}

FLOATS = tuple(row.name for row in _ROWS if row.kind == "float")
INTEGERS = tuple(row.name for row in _ROWS if row.kind != "float")


def element_type(dtype: Any) -> ElementType:
    """Return the row of a dtype (of either byte order), a scalar type or a name; raises UnsupportedError if none."""
    name = type_name(dtype)
    row_name = named(name, TYPES, _ALIASES)
    if row_name is None:
        raise UnsupportedError(f"no element type {name[:80]}; {did_you_mean(name, TYPES)}")
    return TYPES[row_name]


def type_name(dtype: Any) -> str:
    """Return the name of a dtype, whether or not the table has it."""
    if isinstance(dtype, np.dtype) and dtype in _NAMES:
        return _NAMES[dtype]
    try:
        known = np.dtype(dtype)
    except TypeError:  # ml_dtypes' names are not NumPy's
        return str(dtype)
    return "string" if known.kind in "UTO" else str(known.name)


# --- the numbers of a type by their bits: the range, the order, the special values -----------------------


@dataclass(frozen=True)
class FloatType:
    """A floating type's facts. A code is a value's bits as an unsigned integer."""

    bits: int
    digits: int  # of the significand, the hidden one included
    least_exponent: int  # the binary exponent of the least positive value
    greatest_exponent: int  # the largest finite value lies below 2 to this
    largest: int  # the code of the largest finite value
    least_normal: int  # the code of the least normal value; zero and the subnormals have the codes below it
    one: int  # the code of 1
    infinity: int  # the code to which an infinity is converted
    nan: int
    has_infinity: bool
    has_zero: bool  # and with it a sign
    has_minus_zero: bool
    sign_bit: int  # the code of the sign alone


@cache
def float_type(name: str) -> FloatType:
    """Return the facts of a floating type; raises KeyError for another."""
    dtype = TYPES[name].dtype
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]

    def code(value: Any) -> int:
        with np.errstate(all="ignore"):
            return int(codes(np.array(value).astype(dtype)))

    with np.errstate(all="ignore"):
        infinite, zero, minus_zero = np.array([np.inf, 0.0, -0.0]).astype(dtype).astype(np.float64)
    return FloatType(
        bits=info.bits,
        digits=info.nmant + 1,
        least_exponent=int(np.frexp(np.float64(info.smallest_subnormal))[1]) - 1,
        greatest_exponent=int(np.frexp(np.float64(info.max))[1]),
        largest=code(info.max),
        least_normal=code(info.smallest_normal),
        one=code(1),
        infinity=code(np.inf),
        nan=code(np.nan),
        has_infinity=bool(np.isinf(infinite)),
        has_zero=bool(zero == 0),
        has_minus_zero=bool(minus_zero == 0 and np.signbit(minus_zero)),
        sign_bit=1 << (info.bits - 1),
    )


def codes(array: Array) -> Array:
    """Return the bits of an array, of any byte order, as unsigned integers."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def from_codes(bits: Any, name: str) -> Array:
    """Return an array of a type from its bits."""
    dtype = TYPES[name].dtype
    return np.asarray(bits, f"u{dtype.itemsize}").view(dtype)


def from_integers(values: Iterable[int], name: str) -> Array:
    """Return an array of an integer type from integers within its range."""
    wide = np.uint64 if TYPES[name].kind == "uint" else np.int64
    return np.array(list(values), wide).astype(TYPES[name].dtype)


def integers_within(values: Iterable[int], name: str) -> Array:
    """Return the integers that a type has of some, in their order and each once."""
    least, largest = integer_range(name)
    return from_integers(sorted({value for value in values if least <= value <= largest}), name)


def clipped(values: Iterable[int], name: str) -> Array:
    """Return an array of an integer type from integers, each clipped to its range."""
    least, largest = integer_range(name)
    return from_integers((min(max(value, least), largest) for value in values), name)


def integer_range(name: str) -> tuple[int, int]:
    """Return the minimum and the maximum of an integer type."""
    row = TYPES[name]
    least = -(1 << (row.bits - 1)) if row.kind == "int" else 0
    return least, least + (1 << row.bits) - 1


def is_float(array: Array) -> bool:
    """Return whether an array has a floating type."""
    return element_type(array.dtype).kind == "float"


@np.errstate(invalid="ignore")  # a signalling one
def is_nan(array: Array) -> Array:
    """Return which elements are NaN."""
    return np.isnan(array) if is_float(array) else np.zeros(array.shape, bool)


def same_bits(a: Array, b: Array) -> Array:
    """Return which elements have the same bits. A NaN is a NaN, whatever its payload."""
    return np.asarray((codes(a) == codes(b)) | (is_nan(a) & is_nan(b)))


def to_odd(nearest: Any, exact: Any) -> Any:
    """Return a number rounded to odd, given its nearest neighbour: the number itself if that is exact.

    A further rounding to a type of at least two bits less has the result of one rounding.
    """
    if float(nearest) == exact or exact != exact:
        return nearest
    if abs(float(nearest)) > abs(exact):
        nearest = np.nextafter(nearest, type(nearest)(0))
    word = f"u{nearest.itemsize}"
    return (nearest.view(word) | np.array(1, word)).view(type(nearest))


def ranks(array: Array) -> Array:
    """Number the values of a type in their order, as uint64: neighbours differ by one, the two zeros too.

    The first number is arbitrary, and the numbers of NaNs mean nothing.
    """
    row = element_type(array.dtype)
    if row.kind != "float":
        # Flipping the sign bit subtracts the least value, modulo 2^64.
        if row.kind == "int":
            return array.astype(np.int64).astype(np.uint64) ^ np.uint64(1 << 63)
        return array.astype(np.uint64)
    facts = float_type(row.name)
    word = codes(array).astype(np.uint64)
    if not facts.has_zero:
        return word
    magnitude = word & np.uint64(facts.sign_bit - 1)
    middle = np.uint64(facts.sign_bit)
    negative = (word & middle) != 0
    below = middle - np.uint64(facts.has_minus_zero)
    return np.where(negative, below - magnitude, middle + magnitude)
