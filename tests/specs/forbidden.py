"""Calls that a document forbids, and the whole text of the error: the table of test_errors.py."""

from __future__ import annotations

from typing import Any

F32, F16, F64, BF16 = "float32", "float16", "float64", "bfloat16"
DML_CONSTANT, DML_POW, DML_RELU = (
    f"directml.{name}"
    for name in ("ELEMENT_WISE_CONSTANT_POW", "ELEMENT_WISE_POW", "ACTIVATION_PARAMETERIZED_RELU")
)

# id, operands, attributes, and the whole text after "SpecError id."
FORBIDDEN: list[tuple[str, list[Any], dict[str, Any], str]] = [
    # --- ONNX Pow-1
    (
        "onnx.Pow-1",
        [(F32, (2, 3, 4, 5)), (F32, (3, 4))],
        {"broadcast": 1},
        (
            "C2: the shape of Y must be a contiguous subset of the shape of X\n"
            "  X: float32[2, 3, 4, 5]   Y: float32[3, 4]   broadcast: 1"
        ),
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3)), (F32, (1, 1, 1))],
        {"broadcast": 1},
        (
            "C2: the rank of Y must not exceed the rank of X\n"
            "  X: float32[2, 3]   Y: float32[1, 1, 1]   broadcast: 1"
        ),
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3, 4)), (F32, (3, 4))],
        {"broadcast": 1, "axis": 3},
        "C3: axis must be a dim of X\n  X: float32[2, 3, 4]   Y: float32[3, 4]   axis: 3   broadcast: 1",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3, 4)), (F32, (3, 4))],
        {"broadcast": 1, "axis": -1},
        (
            "C3: the shape of Y, starting at axis, must end within X\n"
            "  X: float32[2, 3, 4]   Y: float32[3, 4]   axis: -1   broadcast: 1"
        ),
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"axis": 1.0},
        "C3: axis has a value of the wrong type\n  expected: an INT\n  got: 1.0",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3, 4)), (F32, (1, 4))],
        {"broadcast": 1},
        "C4: a dim of 1 inside Y does not expand\n  X: float32[2, 3, 4]   Y: float32[1, 4]   broadcast: 1",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3)), (F32, (3,))],
        {},
        "C5: X and Y must have the same shape unless broadcast is 1\n  X: float32[2, 3]   Y: float32[3]",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2, 3)), (F32, (2, 1))],
        {"axis": 0},
        (
            "C5: X and Y must have the same shape unless broadcast is 1\n"
            "  X: float32[2, 3]   Y: float32[2, 1]   axis: 0"
        ),
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": 2},
        "C5: broadcast has a value that is not allowed\n  expected: 0 or 1\n  got: 2",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": "1"},
        "C5: broadcast has a value of the wrong type\n  expected: an INT\n  got: '1'",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": None},
        "C5: broadcast has a value of the wrong type\n  expected: an INT\n  got: None",
    ),
    (
        "onnx.Pow-1",
        [("int32", (2,)), ("int32", (2,))],
        {},
        (
            "C6: X must have a type that T allows\n"
            "  X: int32[2]   Y: int32[2]\n"
            "  expected: float64, float32, float16\n"
            "  got: int32"
        ),
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F16, (2,))],
        {},
        "C6: X and Y must have the same type\n  X: float32[2]   Y: float16[2]",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,))],
        {},
        "C7: Pow takes 2 inputs\n  expected: X, Y\n  got: 1 input",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"Axis": 1},
        "C8: no attribute Axis\n  expected: axis, broadcast\n  got: Axis",
    ),
    # --- ONNX Pow-7 and later
    (
        "onnx.Pow-7",
        [(F32, (2, 3)), (F32, (2,))],
        {},
        "C2: X and Y must be broadcastable to one shape\n  X: float32[2, 3]   Y: float32[2]",
    ),
    (
        "onnx.Pow-7",
        [(F32, ("N", None, 3)), (F32, (4,))],
        {},
        "C2: X and Y must be broadcastable to one shape\n  X: float32[N, ?, 3]   Y: float32[4]",
    ),
    (
        "onnx.Pow-7",
        [(F32, None), ("int64", ())],
        {},
        (
            "C3: Y must have a type that T allows\n"
            "  X: float32[...]   Y: int64[]\n"
            "  expected: float64, float32, float16\n"
            "  got: int64"
        ),
    ),
    ("onnx.Pow-7", [(F32, ())] * 3, {}, "C4: Pow takes 2 inputs\n  expected: X, Y\n  got: 3 inputs"),
    (
        "onnx.Pow-7",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": 1},
        "C5: no attribute broadcast\n  expected: no attributes\n  got: broadcast",
    ),
    (
        "onnx.Pow-12",
        [(BF16, ()), (F32, ())],
        {},
        (
            "C3: X must have a type that T allows\n"
            "  X: bfloat16[]   Y: float32[]\n"
            "  expected: float64, float32, float16, int32, int64\n"
            "  got: bfloat16"
        ),
    ),
    (
        "onnx.Pow-13",
        [(F32, ()), (BF16, ())],
        {},
        (
            "C7: Y must have a type that T1 allows\n"
            "  X: float32[]   Y: bfloat16[]\n"
            "  expected: float64, float32, float16, int16, int32, int64, int8,"
            " uint16, uint32, uint64, uint8\n"
            "  got: bfloat16"
        ),
    ),
    (
        "onnx.Pow-15",
        [("bool", ()), (F32, ())],
        {},
        (
            "C3: X must have a type that T allows\n"
            "  X: bool[]   Y: float32[]\n"
            "  expected: bfloat16, float64, float32, float16, int32, int64\n"
            "  got: bool"
        ),
    ),
    # --- ONNX PRelu
    (
        "onnx.PRelu-1",
        [(F32, (2, 3, 4)), (F32, (4,))],
        {},
        (
            "C2: slope must have one element, or one for each channel (dim 1) of X\n"
            "  X: float32[2, 3, 4]   slope: float32[4]"
        ),
    ),
    (
        "onnx.PRelu-1",
        [(F32, (2,)), (F32, (2,))],
        {},
        (
            "C2: slope must have one element, or one for each channel (dim 1) of X\n"
            "  X: float32[2]   slope: float32[2]"
        ),
    ),
    (
        "onnx.PRelu-1",
        [(F32, (2, 3)), (F32, ())],
        {"consumed_inputs": 0},
        (
            "C5: consumed_inputs has a value of the wrong type\n"
            "  expected: INTS: a sequence of integers\n"
            "  got: 0"
        ),
    ),
    (
        "onnx.PRelu-1",
        [(F32, (2, 3)), (F32, ())],
        {"consumed_inputs": [0, 0.5]},
        (
            "C5: consumed_inputs has a value of the wrong type\n"
            "  expected: INTS: a sequence of integers\n"
            "  got: [0, 0.5]"
        ),
    ),
    (
        "onnx.PRelu-6",
        [(F32, (2, 3, 4)), (F32, (3, 5))],
        {},
        "C2: slope must be unidirectionally broadcastable to X\n  X: float32[2, 3, 4]   slope: float32[3, 5]",
    ),
    (
        "onnx.PRelu-6",
        [(F32, (2, 3)), (F32, ())],
        {"consumed_inputs": [0, 0]},
        "C5: no attribute consumed_inputs\n  expected: no attributes\n  got: consumed_inputs",
    ),
    (
        "onnx.PRelu-9",
        [(F32, (2, 3, 4)), (F32, (5,))],
        {},
        "C2: slope must be unidirectionally broadcastable to X\n  X: float32[2, 3, 4]   slope: float32[5]",
    ),
    (  # a slope that would enlarge X
        "onnx.PRelu-7",
        [(F32, (2, 1)), (F32, (2, 3))],
        {},
        "C2: slope must be unidirectionally broadcastable to X\n  X: float32[2, 1]   slope: float32[2, 3]",
    ),
    (  # of higher rank, even where the extra dim is 1
        "onnx.PRelu-16",
        [(F32, (2, 3)), (F32, (1, 2, 3))],
        {},
        "C2: slope must be unidirectionally broadcastable to X\n  X: float32[2, 3]   slope: float32[1, 2, 3]",
    ),
    (
        "onnx.PRelu-16",
        [(F32, (1,)), (F32, (0,))],
        {},
        "C2: slope must be unidirectionally broadcastable to X\n  X: float32[1]   slope: float32[0]",
    ),
    (
        "onnx.PRelu-9",
        [(BF16, (2,)), (BF16, (2,))],
        {},
        (
            "C3: X must have a type that T allows\n"
            "  X: bfloat16[2]   slope: bfloat16[2]\n"
            "  expected: float64, float32, float16, int32, int64, uint32, uint64\n"
            "  got: bfloat16"
        ),
    ),
    (
        "onnx.PRelu-16",
        [("int32", (2,)), ("int64", (2,))],
        {},
        "C3: X and slope must have the same type\n  X: int32[2]   slope: int64[2]",
    ),
    ("onnx.PRelu-7", [], {}, "C4: PRelu takes 2 inputs\n  expected: X, slope\n  got: 0 inputs"),
    # --- OpenVINO
    (
        "openvino.Power-1",
        [(F32, (2, 3)), (F32, (2,))],
        {},
        "C2: a and b must be broadcastable to one shape\n  a: float32[2, 3]   b: float32[2]",
    ),
    (
        "openvino.Power-1",
        [(F32, (2, 3)), (F32, (3,))],
        {"auto_broadcast": "none"},
        "C3: a and b must have the same shape\n  a: float32[2, 3]   b: float32[3]   auto_broadcast: none",
    ),
    (
        "openvino.Power-1",
        [(F32, (2, 3)), (F32, ())],
        {"auto_broadcast": "explicit"},
        "C3: a and b must have the same shape\n  a: float32[2, 3]   b: float32[]   auto_broadcast: explicit",
    ),
    (
        "openvino.Power-1",
        [(F32, (2,)), ("int32", (2,))],
        {},
        "C4: a and b must have the same type\n  a: float32[2]   b: int32[2]",
    ),
    ("openvino.Power-1", [(F32, (2,))], {}, "C5: Power takes 2 inputs\n  expected: a, b\n  got: 1 input"),
    (
        "openvino.Power-1",
        [(F32, (2,)), (F32, (2,))],
        {"auto_broadcast": "pdpd"},
        (
            "C6: auto_broadcast has a value that is not allowed\n"
            "  expected: 'none' or 'numpy' or 'explicit'\n"
            "  got: 'pdpd'"
        ),
    ),
    (
        "openvino.Power-1",
        [(F32, (2,)), (F32, (2,))],
        {"auto_broadcast": 1},
        "C6: auto_broadcast has a value of the wrong type\n  expected: a string\n  got: 1",
    ),
    (
        "openvino.PReLU-1",
        [(F32, (2, 3, 4)), (F32, (2,))],
        {},
        (
            "C2: slope must be unidirectionally broadcastable to data\n"
            "  data: float32[2, 3, 4]   slope: float32[2]"
        ),
    ),
    (
        "openvino.PReLU-1",
        [("int32", (2,)), ("int32", (1,))],
        {},
        (
            "C3: data must have a type that T allows\n"
            "  data: int32[2]   slope: int32[1]\n"
            "  expected: float64, float32, float16, bfloat16, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz,"
            " float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu, float4_e2m1fn\n"
            "  got: int32"
        ),
    ),
    (
        "openvino.PReLU-1",
        [(F32, (2, 3)), (F32, ())],
        {},
        "C7: slope must have rank 1 or more\n  data: float32[2, 3]   slope: float32[]",
    ),
    # --- DirectML
    (
        f"{DML_CONSTANT}-1_0",
        [(F32, (2, 3))],
        {"Exponent": 2},
        (
            "C4: InputTensor has an unsupported number of dimensions\n"
            "  InputTensor: float32[2, 3]\n"
            "  expected: 4\n"
            "  got: 2"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, ())],
        {"Exponent": 2},
        (
            "C4: InputTensor has an unsupported number of dimensions\n"
            "  InputTensor: float32[]\n"
            "  expected: 1 to 8\n"
            "  got: 0"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F64, (2,))],
        {"Exponent": 2},
        (
            "C3: InputTensor must have a type that DataType allows\n"
            "  InputTensor: float64[2]\n"
            "  expected: float32, float16\n"
            "  got: float64"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2, 0))],
        {"Exponent": 2},
        "C5: no size of InputTensor may be 0\n  InputTensor: float32[2, 0]",
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2**16, 2**16))],
        {"Exponent": 2},
        (
            "C5: InputTensor has too many elements\n"
            "  InputTensor: float32[65536, 65536]\n"
            "  expected: at most 4294967295\n"
            "  got: 4294967296"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,)), (F32, (2,))],
        {"Exponent": 2},
        "C6: ELEMENT_WISE_CONSTANT_POW takes 1 input\n  expected: InputTensor\n  got: 2 inputs",
    ),
    (f"{DML_CONSTANT}-3_0", [(F32, (2,))], {}, "C7: Exponent is required\n  expected: FLOAT"),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,))],
        {"Exponent": None},
        (
            "C7: Exponent has a value of the wrong type\n"
            "  expected: a FLOAT: a number within the range of float32\n  got: None"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,))],
        {"Exponent": "2"},
        (
            "C7: Exponent has a value of the wrong type\n"
            "  expected: a FLOAT: a number within the range of float32\n  got: '2'"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,))],
        {"Exponent": 1e39},
        (
            "C7: Exponent has a value of the wrong type\n"
            "  expected: a FLOAT: a number within the range of float32\n"
            "  got: 1e+39"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,))],
        {"Exponent": 2, "ScaleBias": 1},
        (
            "C8: ScaleBias has a value of the wrong type\n"
            "  expected: a pair (Scale, Bias) of FLOATs, a mapping with the keys Scale and Bias, or None\n"
            "  got: 1"
        ),
    ),
    (
        f"{DML_CONSTANT}-3_0",
        [(F32, (2,))],
        {"Exponent": 2, "scaleBias": (1, 0)},
        "C9: no attribute scaleBias\n  expected: Exponent, ScaleBias\n  got: scaleBias",
    ),
    (
        f"{DML_POW}-3_0",
        [(F32, (2, 3)), (F32, (1, 3))],
        {},
        (
            "C2: InputTensor and ExponentTensor must have the same shape\n"
            "  InputTensor: float32[2, 3]   ExponentTensor: float32[1, 3]"
        ),
    ),
    (
        f"{DML_POW}-1_0",
        [(F32, (1, 1, 2, 3)), (F16, (1, 1, 2, 3))],
        {},
        (
            "C3: InputTensor and ExponentTensor must have the same type\n"
            "  InputTensor: float32[1, 1, 2, 3]   ExponentTensor: float16[1, 1, 2, 3]"
        ),
    ),
    (
        f"{DML_POW}-1_0",
        [("int32", (1, 1, 2, 3)), ("int32", (1, 1, 2, 3))],
        {},
        (
            "C3: InputTensor must have a type that DataType allows\n"
            "  InputTensor: int32[1, 1, 2, 3]   ExponentTensor: int32[1, 1, 2, 3]\n"
            "  expected: float32, float16\n"
            "  got: int32"
        ),
    ),
    (
        f"{DML_POW}-3_0",
        [(F32, (2,)), ("int64", (2,))],
        {},
        (
            "C11: ExponentTensor must have a type that ExponentDataType allows\n"
            "  InputTensor: float32[2]   ExponentTensor: int64[2]\n"
            "  expected: float32, float16, int32, int16, int8, uint32, uint16, uint8\n"
            "  got: int64"
        ),
    ),
    (
        f"{DML_POW}-3_0",
        [(F32, (1,) * 9), (F32, (1,) * 9)],
        {},
        (
            "C4: InputTensor has an unsupported number of dimensions\n"
            "  InputTensor: float32[1, 1, 1, 1, 1, 1, 1, 1, 1]"
            "   ExponentTensor: float32[1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            "  expected: 1 to 8\n"
            "  got: 9"
        ),
    ),
    (
        f"{DML_POW}-3_0",
        [(F32, (2,)), (F32, (2,))],
        {"Exponent": 2.0},
        "C8: no attribute Exponent\n  expected: ScaleBias\n  got: Exponent",
    ),
    (
        f"{DML_RELU}-2_0",
        [(F32, (1,) * 3), (F32, (1,) * 3)],
        {},
        (
            "C4: InputTensor has an unsupported number of dimensions\n"
            "  InputTensor: float32[1, 1, 1]   SlopeTensor: float32[1, 1, 1]\n"
            "  expected: 4 to 5\n"
            "  got: 3"
        ),
    ),
    (
        f"{DML_RELU}-3_0",
        [("int8", (2,)), ("int8", (2,))],
        {},
        (
            "C3: InputTensor must have a type that DataType allows\n"
            "  InputTensor: int8[2]   SlopeTensor: int8[2]\n"
            "  expected: float32, float16\n"
            "  got: int8"
        ),
    ),
    (
        f"{DML_RELU}-5_1",
        [("uint8", (2,)), ("uint8", (2,))],
        {},
        (
            "C3: InputTensor must have a type that DataType allows\n"
            "  InputTensor: uint8[2]   SlopeTensor: uint8[2]\n"
            "  expected: float32, float16, int32, int16, int8\n"
            "  got: uint8"
        ),
    ),
    (
        f"{DML_RELU}-5_1",
        [("int8", (2, 3)), ("int8", (3,))],
        {},
        (
            "C2: InputTensor and SlopeTensor must have the same shape\n"
            "  InputTensor: int8[2, 3]   SlopeTensor: int8[3]"
        ),
    ),
]
