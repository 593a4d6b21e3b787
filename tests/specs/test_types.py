"""The table of element types, against NumPy, ml_dtypes and the onnx package."""

import ml_dtypes
import numpy as np
import pytest

from halfulp.errors import UnsupportedError
from halfulp.types import FLOATS, INTEGERS, TYPES, element_type, type_name

# fmt: off
ORDER = (
    "float64", "float32", "float16", "bfloat16",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4",
)
# fmt: on
every_type = pytest.mark.parametrize("row", TYPES.values(), ids=TYPES)


def test_the_order_is_fixed():
    assert tuple(TYPES) == ORDER
    assert {*FLOATS, *INTEGERS} == {*ORDER}


@every_type
def test_a_row_agrees_with_its_dtype(row):
    assert row.dtype.name == row.name == str(row)
    assert row.dtype.isnative
    info = ml_dtypes.finfo(row.dtype) if row.kind == "float" else ml_dtypes.iinfo(row.dtype)
    assert info.bits == row.bits
    if row.kind != "float":
        assert (info.min < 0) == (row.kind == "int")


@every_type
def test_a_row_agrees_with_the_onnx_package(row):
    onnx = pytest.importorskip("onnx")
    if row.onnx is None:
        assert row.onnx_enum is None
        return
    assert onnx.helper.tensor_dtype_to_np_dtype(row.onnx_enum) == row.dtype
    name = onnx.TensorProto.DataType.Name(row.onnx_enum)
    assert row.onnx == name.lower()


@pytest.mark.parametrize("field", ["onnx", "onnx_enum", "openvino", "directml"])
def test_names_are_unique(field):
    names = [getattr(row, field) for row in TYPES.values() if getattr(row, field) is not None]
    assert len(names) == len(set(names))


def test_the_names_in_openvino_and_directml():
    spelled = {
        row.name: (row.openvino, row.directml) for row in TYPES.values() if row.openvino or row.directml
    }
    assert spelled == {
        "float64": ("f64", "FLOAT64"),
        "float32": ("f32", "FLOAT32"),
        "float16": ("f16", "FLOAT16"),
        "bfloat16": ("bf16", None),
        "float8_e4m3fn": ("f8e4m3", None),
        "float8_e5m2": ("f8e5m2", None),
        "float8_e8m0fnu": ("f8e8m0", None),
        "float4_e2m1fn": ("f4e2m1", None),
        **{f"int{n}": (f"i{n}", f"INT{n}") for n in (4, 8, 16, 32, 64)},
        **{f"uint{n}": (f"u{n}", f"UINT{n}") for n in (4, 8, 16, 32, 64)},
    }


@every_type
def test_a_type_is_found_by_dtype_scalar_type_name_or_row(row):
    for spelling in (row.dtype, row.dtype.type, row.name, row, row.dtype.newbyteorder()):
        assert element_type(spelling) is row


@pytest.mark.parametrize("dtype", [bool, "complex64", np.dtype("U3"), ml_dtypes.float6_e2m3fn, "nonsense"])
def test_other_types_are_refused(dtype):
    with pytest.raises(UnsupportedError, match="no element type"):
        element_type(dtype)
    assert type_name(dtype) not in TYPES
