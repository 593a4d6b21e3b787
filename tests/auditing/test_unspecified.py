"""Which open questions of its document a node can touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from halfulp.auditing.node import Operand, Use, touched
from halfulp.specs.unspecified import integral


def use(operator: str, x: Any, y: Any = None, **attributes: Any) -> Use:
    """Return a node with operands (type, shape), or an array for a constant exponent or slope."""
    operands = [Operand("x", *x)]
    if isinstance(y, np.ndarray):
        operands.append(Operand("y", y.dtype.name, y.shape, y))
    elif y is not None:
        operands.append(Operand("y", *y))
    return Use("n", operator, "1", tuple(operands), Operand("z"), attributes)


def rules(found: Use) -> list[str]:
    """Return the rules of the questions touched; of those without one the key."""
    return [entry.question.rule or entry.question.key for entry in touched(found)]


FLOAT, INT, UINT = ("float32", (3,)), ("int32", (3,)), ("uint32", (3,))


@pytest.mark.parametrize(
    ("operator", "x", "y", "expected"),
    [
        ("onnx.Pow-15", FLOAT, FLOAT, ["N1", "N1", "N2", "N7"]),
        ("onnx.Pow-15", FLOAT, np.float32(2), ["N1", "N1", "N2", "N7"]),
        ("onnx.Pow-15", FLOAT, np.float32(1), ["N1", "N2", "N7"]),
        ("onnx.Pow-15", FLOAT, np.float32(0), ["N1", "N7"]),
        ("onnx.Pow-15", INT, INT, ["N3", "N4", "N7"]),
        ("onnx.Pow-15", INT, UINT, ["N3", "N7"]),
        ("onnx.Pow-15", INT, FLOAT, ["N4", "N7"]),
        ("onnx.Pow-15", INT, np.int64(2), ["N3", "N7"]),
        ("onnx.Pow-15", INT, np.int64(1), ["N7"]),
        ("onnx.Pow-15", INT, np.int64(-1), ["N4", "N7"]),
        ("onnx.Pow-15", INT, np.array([2, -1]), ["N3", "N4", "N7"]),
        ("onnx.Pow-15", INT, np.float32(2), ["N4", "N7"]),
        ("onnx.Pow-15", (None, None), INT, ["N1", "N1", "N2", "N3", "N4", "N7"]),
        ("onnx.Pow-15", ("string", (3,)), FLOAT, ["N7"]),
        ("openvino.Power-1", ("int4", (3,)), np.array(-2), ["supported-types", "N4", "N7"]),
        ("onnx.PRelu-16", FLOAT, FLOAT, ["N5", "N5", "N7"]),
        ("onnx.PRelu-16", FLOAT, np.float32(-1), ["N5", "N7"]),
        ("onnx.PRelu-16", INT, INT, ["N5", "N7"]),
        ("onnx.PRelu-16", INT, np.int32(1), ["N7"]),
        ("onnx.PRelu-16", UINT, np.uint32(1), ["N5", "N7"]),
    ],
)
def test_types_and_constants(operator: str, x: Any, y: Any, expected: list[str]) -> None:
    y = np.asarray(y) if isinstance(y, np.generic) else y
    assert rules(use(operator, x, y)) == expected


BIG, ROW, ONE = ("float32", (2, 3, 4)), ("float32", (3,)), ("float32", (1,))


@pytest.mark.parametrize(
    ("operator", "y", "attributes", "expected"),
    [
        ("onnx.Pow-1", BIG, {}, []),
        ("onnx.Pow-1", ROW, {}, ["shapes-without-broadcast"]),
        ("onnx.Pow-1", ROW, {"axis": -2, "broadcast": 1}, ["negative-axis"]),
        ("onnx.Pow-1", BIG, {"axis": 1}, ["axis-without-broadcast"]),
        ("onnx.Pow-1", ONE, {"axis": 1, "broadcast": 1}, ["axis-of-one-element"]),
        ("onnx.Pow-1", ROW, {"broadcast": 3}, ["other-broadcast"]),
        ("onnx.PRelu-6", ROW, {}, ["slope-of-rank-1", "output-shape"]),
        ("onnx.PRelu-6", ONE, {}, ["slope-of-one-element", "output-shape"]),
        ("onnx.PRelu-6", BIG, {}, ["slope-of-rank-2", "output-shape"]),
        ("onnx.PRelu-7", ROW, {}, []),
        ("onnx.PRelu-7", ("float32", None), {}, ["slope-of-higher-rank"]),
        (
            "openvino.Power-1",
            BIG,
            {"auto_broadcast": "explicit"},
            ["other-auto-broadcast"],
        ),
        ("openvino.PReLU-1", ROW, {}, []),
    ],
)
def test_shapes_and_attributes(
    operator: str, y: Any, attributes: dict[str, Any], expected: list[str]
) -> None:
    assert [rule for rule in rules(use(operator, BIG, y, **attributes)) if rule[0] != "N"] == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"Exponent": 2.0}, []),
        ({"Exponent": 0.5}, ["N9"]),
        ({"Exponent": float("inf")}, ["N9"]),
        (
            {"Exponent": 2.0, "ScaleBias": (2.0, 0.1)},
            ["N6", "exponent-not-float32"],
        ),
    ],
)
def test_directml(attributes: dict[str, Any], expected: list[str]) -> None:
    found = rules(use("directml.ELEMENT_WISE_CONSTANT_POW-3_0", FLOAT, **attributes))
    assert [rule for rule in found if rule not in ("N1", "N2", "N7")] == expected


def test_directml_integers() -> None:
    found = rules(use("directml.ELEMENT_WISE_POW-3_0", INT, INT, ScaleBias=(1.0, 2.0)))
    assert found == ["N6", "N3", "N4", "N7"]
    assert rules(use("directml.ELEMENT_WISE_POW-3_0", UINT, FLOAT)) == ["N4", "N7"]


def test_integral_exponents() -> None:
    assert integral(np.array([1, 2], np.int8)).all()
    assert integral(np.array([2.0, 0.5, np.inf, np.nan])).tolist() == [True, False, False, False]
