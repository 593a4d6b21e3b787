"""The types of what users are given, for a type checker (``make lint`` checks this file) and when it runs."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import halfulp as hu

FLOATS = np.ones(2, np.float32)
INTEGERS = np.ones(2, np.int8)


def test_a_power_has_the_type_of_its_base() -> None:
    out = np.empty(2, np.float32)
    results = [
        assert_type(hu.pow(FLOATS, INTEGERS), NDArray[np.float32]),
        assert_type(hu.pow(FLOATS, 2), NDArray[np.float32]),
        assert_type(hu.pow(FLOATS, 0.5), NDArray[np.float32]),
        assert_type(hu.pow(FLOATS, np.float64(2)), NDArray[np.float32]),
        assert_type(hu.pow(2, FLOATS), NDArray[np.float32]),
        assert_type(hu.pow(np.float32(2), INTEGERS), NDArray[np.float32]),
    ]
    assert assert_type(hu.pow(FLOATS, INTEGERS, out=out), Any) is out
    assert assert_type(hu.pow([1.0, 2.0], np.float32(2)), Any).dtype == np.float64
    assert all(type(result) is np.ndarray and result.dtype == np.float32 for result in results)
    assert assert_type(hu.pow(INTEGERS, FLOATS), NDArray[np.int8]).dtype == np.int8


def test_a_power_of_scalars_is_a_scalar() -> None:
    results = [
        assert_type(hu.pow(np.float16(2), 3), np.float16),
        assert_type(hu.pow(np.float16(2), np.int64(3)), np.float16),
        assert_type(hu.pow(2, np.float16(3)), np.float16),
    ]
    assert all(type(result) is np.float16 for result in results)
    assert type(assert_type(hu.pow(2, 3), Any)) is np.int64


def test_a_prelu_has_the_type_of_its_input() -> None:
    out = np.empty(2, np.float32)
    arrays = [
        assert_type(hu.prelu(FLOATS, FLOATS), NDArray[np.float32]),
        assert_type(hu.prelu(FLOATS, 0.25), NDArray[np.float32]),
        assert_type(hu.prelu(FLOATS, np.float32(0.25)), NDArray[np.float32]),
    ]
    assert assert_type(hu.prelu(FLOATS, FLOATS, out=out), Any) is out
    assert all(type(array) is np.ndarray and array.dtype == np.float32 for array in arrays)
    scalars = [
        assert_type(hu.prelu(np.float16(-2), 3), np.float16),
        assert_type(hu.prelu(-2, np.float16(3)), np.float16),
    ]
    assert all(type(scalar) is np.float16 for scalar in scalars)


def shape_of(kind: hu.TensorType) -> tuple[int | str | None, ...] | None:
    return kind.shape


def saved(conversion: hu.Conversion, path: Path) -> None:
    conversion.save(path)


def is_clean(audit: hu.AuditReport, check: hu.CheckReport) -> bool:
    return not audit.findings and check.ok


def test_results_of_verbs_have_public_classes(tmp_path: Path) -> None:
    import onnx.parser

    text = '<ir_version: 8, opset_import: ["": 15]> g (float[2] x) => (float[2] y) { y = Pow(x, x) }'
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "model.onnx")
    operator: hu.Operator = hu.op("onnx.Pow-13")
    assert shape_of(assert_type(operator.infer(FLOATS, FLOATS), hu.TensorType)) == (2,)
    saved(assert_type(hu.convert(model, to="onnx", opset=13), hu.Conversion), tmp_path / "other.onnx")
    assert assert_type(hu.repair(model), hu.Repair).left == ()
    audit = assert_type(hu.audit(tmp_path / "model.onnx", targets=[]), hu.AuditReport)
    check = assert_type(
        hu.check("onnx-reference", operators=["onnx.PRelu-16"], types=["float32"], processes=1),
        hu.CheckReport,
    )
    assert isinstance(is_clean(audit, check), bool)
