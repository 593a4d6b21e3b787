"""Calls that a document forbids, and the whole text of the error: the table of test_errors.py."""

from __future__ import annotations

from typing import Any

F32, F16, BF16 = "float32", "float16", "bfloat16"
DML_CONSTANT, DML_POW = (f"directml.{name}" for name in ("ELEMENT_WISE_CONSTANT_POW", "ELEMENT_WISE_POW"))

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
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": 2},
        "C5: broadcast has a value that is not allowed\n  expected: 0 or 1\n  got: 2",
    ),
    (
        "onnx.Pow-1",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": None},
        "C5: broadcast has a value of the wrong type\n  expected: an INT\n  got: None",
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
    (
        "onnx.Pow-7",
        [(F32, (2,)), (F32, (2,))],
        {"broadcast": 1},
        "C5: no attribute broadcast\n  expected: no attributes\n  got: broadcast",
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
        {"consumed_inputs": [0, 0.5]},
        (
            "C5: consumed_inputs has a value of the wrong type\n"
            "  expected: INTS: a sequence of integers\n"
            "  got: [0, 0.5]"
        ),
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
    ("onnx.PRelu-7", [], {}, "C4: PRelu takes 2 inputs\n  expected: X, slope\n  got: 0 inputs"),
    # --- OpenVINO
    (
        "openvino.Power-1",
        [(F32, (2, 3)), (F32, (3,))],
        {"auto_broadcast": "none"},
        "C3: a and b must have the same shape\n  a: float32[2, 3]   b: float32[3]   auto_broadcast: none",
    ),
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
        [(F32, (2, 3)), (F32, ())],
        {},
        "C7: slope must have rank 1 or more\n  data: float32[2, 3]   slope: float32[]",
    ),
    # --- DirectML
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
        f"{DML_POW}-3_0",
        [(F32, (2, 3)), (F32, (1, 3))],
        {},
        (
            "C2: InputTensor and ExponentTensor must have the same shape\n"
            "  InputTensor: float32[2, 3]   ExponentTensor: float32[1, 3]"
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
]
