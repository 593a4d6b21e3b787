"""The element types: one table, with a row for each type and its name in each standard; and the types of tensors.

All facts about types are here. ``ml_dtypes`` has the types that NumPy lacks; only this module imports it for them.
"""

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from halfulp.errors import HalfulpError, UnsupportedError, did_you_mean, named

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


# fmt: off
_TABLE: tuple[tuple[Any, ...], ...] = (
    # dtype                        kind     bits  onnx               enum  openvino   directml
    (np.float64,                   "float", 64, "double",          11,   "f64",     "FLOAT64"),
    (np.float32,                   "float", 32, "float",           1,    "f32",     "FLOAT32"),
    (np.float16,                   "float", 16, "float16",         10,   "f16",     "FLOAT16"),
    (ml_dtypes.bfloat16,           "float", 16, "bfloat16",        16,   "bf16",    None),
    (ml_dtypes.float8_e3m4,        "float", 8,  None,              None, None,      None),
    (ml_dtypes.float8_e4m3,        "float", 8,  None,              None, None,      None),
    (ml_dtypes.float8_e4m3b11fnuz, "float", 8,  None,              None, None,      None),
    (ml_dtypes.float8_e4m3fn,      "float", 8,  "float8e4m3fn",    17,   "f8e4m3",  None),
    (ml_dtypes.float8_e4m3fnuz,    "float", 8,  "float8e4m3fnuz",  18,   None,      None),
    (ml_dtypes.float8_e5m2,        "float", 8,  "float8e5m2",      19,   "f8e5m2",  None),
    (ml_dtypes.float8_e5m2fnuz,    "float", 8,  "float8e5m2fnuz",  20,   None,      None),
    (ml_dtypes.float8_e8m0fnu,     "float", 8,  "float8e8m0",      24,   "f8e8m0",  None),
    (ml_dtypes.float4_e2m1fn,      "float", 4,  "float4e2m1",      23,   "f4e2m1",  None),
    (np.int8,                      "int",   8,  "int8",            3,    "i8",      "INT8"),
    (np.int16,                     "int",   16, "int16",           5,    "i16",     "INT16"),
    (np.int32,                     "int",   32, "int32",           6,    "i32",     "INT32"),
    (np.int64,                     "int",   64, "int64",           7,    "i64",     "INT64"),
    (np.uint8,                     "uint",  8,  "uint8",           2,    "u8",      "UINT8"),
    (np.uint16,                    "uint",  16, "uint16",          4,    "u16",     "UINT16"),
    (np.uint32,                    "uint",  32, "uint32",          12,   "u32",     "UINT32"),
    (np.uint64,                    "uint",  64, "uint64",          13,   "u64",     "UINT64"),
    (ml_dtypes.int4,               "int",   4,  "int4",            22,   "i4",      "INT4"),
    (ml_dtypes.uint4,              "uint",  4,  "uint4",           21,   "u4",      "UINT4"),
)
# fmt: on

_ROWS = [ElementType(np.dtype(scalar).name, np.dtype(scalar), *facts) for scalar, *facts in _TABLE]
TYPES = {row.name: row for row in _ROWS}

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
    return "string" if known.kind in "OSTU" else str(known.name)


# --- the type of a tensor: element type and shape -----------------------------------------------------

Dim = int | str | None  # a size, a symbol ("N"), or unknown
Shape = tuple[Dim, ...] | None  # None: not even the rank is known


class TensorType(NamedTuple):
    """An element type and a shape.

    A dim is an int, a symbol (a str) or unknown (None); a shape of None has unknown rank.

    Example:
        >>> print(TensorType("float32", (2, "N", None)), TensorType("int8", ()), TensorType("int8", None))
        float32[2, N, ?] int8[] int8[...]
    """

    type: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.type}{format_shape(self.shape)}"


def format_shape(shape: Shape) -> str:
    if shape is None:
        return "[...]"
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def tensor_type(operand: Any) -> TensorType:
    """Return the type and shape of an operand: a (type, shape) pair, or anything with dtype and shape.

    A type may be a dtype or a name, and need not be in the table: the clause on types refuses it later and lists the
    allowed ones.

    Raises:
        HalfulpError: it is neither, or a dim is not an integer >= 0, a symbol or None.
    """
    if type(operand) is np.ndarray:  # fast path: its shape needs no checks
        return TensorType(type_name(operand.dtype), operand.shape)
    if hasattr(operand, "dtype") and hasattr(operand, "shape"):
        dtype, shape = operand.dtype, operand.shape
    elif isinstance(operand, tuple | list) and len(operand) == 2:
        dtype, shape = operand
    else:
        raise HalfulpError("an operand must be an array or a pair (type, shape)", got=repr(operand)[:80])
    if isinstance(shape, str) or not isinstance(shape, Iterable | None):
        raise HalfulpError("a shape must be a sequence of dims, or None", got=repr(shape)[:80])
    return TensorType(type_name(dtype), None if shape is None else tuple(map(_dim, shape)))


def _dim(dim: Any) -> Dim:
    if dim is None or (isinstance(dim, str) and dim):
        return dim
    try:
        size = operator.index(dim)
    except TypeError:
        size = -1
    if size < 0 or isinstance(dim, bool):
        raise HalfulpError("a dim must be an integer >= 0, a symbol or None", got=repr(dim)[:80])
    return size


# --- the numbers of a type by their bits: the range, the order, the special values -----------------------


class FloatType:
    """A floating type's facts. A code is a value's bits as an unsigned integer."""

    def __init__(self, name: str) -> None:
        dtype = TYPES[name].dtype
        info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        numbers = (info.max, info.smallest_normal, 1, np.inf, np.nan, 0.0, -0.0)
        with np.errstate(all="ignore"):
            values = np.array([*map(float, numbers)]).astype(dtype)
            zero, minus_zero = values[-2:].astype(np.float64)
        self.bits: int = info.bits
        self.digits: int = info.nmant + 1  # of the significand, the hidden one included
        # The binary exponent of the least positive value; the largest finite value lies below 2 to the other one.
        self.least_exponent = int(np.frexp(np.float64(info.smallest_subnormal))[1]) - 1
        self.greatest_exponent = int(np.frexp(np.float64(info.max))[1])
        # The codes of the largest finite value, of the least normal one (zero and the subnormals are below it), of 1,
        # of what an infinity is converted to, and of NaN.
        self.largest, self.least_normal, self.one, self.infinity, self.nan = map(int, codes(values[:5]))
        self.sign_bit = 1 << (info.bits - 1)  # the code of the sign alone
        self.has_infinity = self.infinity not in (self.largest, self.nan)
        self.has_zero = bool(zero == 0)  # and with it a sign
        self.has_minus_zero = bool(minus_zero == 0 and np.signbit(minus_zero))


float_type = cache(FloatType)
"""The facts of a floating type by its name."""


def codes(array: Array) -> Array:
    """Return the bits of an array, of any byte order, as unsigned integers."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def from_codes(bits: Any, name: str) -> Array:
    """Return an array of a type from its bits."""
    dtype = TYPES[name].dtype
    return np.asarray(bits, f"u{dtype.itemsize}").view(dtype)


def from_integers(values: Iterable[int], name: str) -> Array:
    """Return an array of an integer type from integers, each clipped to its range."""
    least, largest = integer_range(name)
    clipped = [min(max(value, least), largest) for value in values]
    return np.array(clipped, np.int64 if least else np.uint64).astype(TYPES[name].dtype)


def integers_within(values: Iterable[int], name: str) -> Array:
    """Return the integers that a type has of some, in their order and each once."""
    least, largest = integer_range(name)
    return from_integers(sorted({value for value in values if least <= value <= largest}), name)


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
    """Return numbers rounded to odd, given their nearest neighbours: the numbers themselves where those are exact.

    A further rounding to a type of at least two bits less has the result of one rounding.
    """
    exact = np.asarray(exact, object if isinstance(exact, int) else None)  # Python compares integers exactly
    wide, word = nearest.astype(exact.dtype), codes(nearest)
    odd = (word - (abs(wide) > abs(exact))) | word.dtype.type(1)
    return np.where((wide == exact) | (exact != exact), word, odd).view(nearest.dtype)


def ranks(array: Array) -> Array:
    """Number the values of a type in their order, as uint64: neighbours differ by one, the two zeros too.

    The first number is arbitrary, and the numbers of NaNs mean nothing.
    """
    row = element_type(array.dtype)
    if row.kind == "uint":
        return array.astype(np.uint64)
    if row.kind == "int":  # flipping the sign bit subtracts the least value, modulo 2^64
        return array.astype(np.int64).astype(np.uint64) ^ np.uint64(1 << 63)
    facts = float_type(row.name)
    word = codes(array).astype(np.uint64)
    if not facts.has_zero:
        return word
    magnitude = word & np.uint64(facts.sign_bit - 1)
    middle = np.uint64(facts.sign_bit)
    negative = (word & middle) != 0
    below = middle - np.uint64(facts.has_minus_zero)
    return np.where(negative, below - magnitude, middle + magnitude)
