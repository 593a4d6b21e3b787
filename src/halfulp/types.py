"""The element types: one table, with a row for each type and its name in each standard.

All facts about types are here. ``ml_dtypes`` has the types that NumPy lacks; only this module imports it for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

from halfulp.errors import UnsupportedError, did_you_mean, named

Kind = Literal["float", "int", "uint"]


@dataclass(frozen=True)
class ElementType:
    """One element type, and its name in each standard (None: the standard lacks it).

    Attributes:
        name: the name of the NumPy or ml_dtypes dtype.
        dtype: the NumPy dtype, in native byte order.
        kind: ``"float"``, ``"int"`` (signed) or ``"uint"``.
        bits: the bits of a value; int4, uint4 and float4 take a byte in memory anyway.
        onnx: the name inside ``tensor(...)``.
        onnx_enum: the number in ``onnx.TensorProto.DataType``.
        openvino: OpenVINO's name, also in the ``element_type`` of an IR file.
        directml: the name after ``DML_TENSOR_DATA_TYPE_``.
    """

    name: str
    dtype: np.dtype[Any]
    kind: Kind
    bits: int
    onnx: str | None
    onnx_enum: int | None
    openvino: str | None
    directml: str | None

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
    """Return the row of a dtype, given as a dtype (of either byte order), a scalar type or a name.

    Raises:
        UnsupportedError: the table has no such type.
    """
    if isinstance(dtype, ElementType):
        return dtype
    name = type_name(dtype)
    known = named(name, TYPES, _ALIASES)
    if known is None:
        raise UnsupportedError(f"no element type {name[:80]}; {did_you_mean(name, TYPES)}")
    return TYPES[known]


def type_name(dtype: Any) -> str:
    """Return the name of a dtype, whether or not the table has it."""
    if isinstance(dtype, np.dtype) and dtype in _NAMES:
        return _NAMES[dtype]
    if isinstance(dtype, ElementType):
        return dtype.name
    if isinstance(dtype, str) and dtype in TYPES:  # ml_dtypes' names are not NumPy's
        return dtype
    try:
        known = np.dtype(dtype)
    except TypeError:
        return str(dtype)
    return "string" if known.kind in "UTO" else str(known.name)
