"""tools/measure_targets.py: from what check has found of NumPy to what audit says of it."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import measured as reader
from halfulp.auditing.target import Asked, statement
from halfulp.auditing.uses import Operand, Use

pytest.importorskip("gmpy2")  # which confirms examples

TOOL = Path(__file__).parents[2] / "tools/measure_targets.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure_targets", TOOL)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["_BASES"] = 300  # fewer than of a measurement that is kept
    return module


@pytest.fixture(scope="module")
def made(tool: ModuleType) -> dict[str, Any]:
    """Return what is kept of NumPy's powers with an int64 among their operands."""
    document = hu.check(
        "numpy", operators=["onnx.Pow-13", "onnx.Pow-15"], types=["int64"], processes=1
    ).document
    found: dict[str, Any] = tool.measured(document)
    return found


def test_what_is_kept(made, tool):
    assert made["target"]["name"] == "numpy"
    assert made["target"]["version"] == np.__version__
    assert made["target"]["by_meaning"]
    rows = {(row["operator"], tuple(row["types"])): row for row in made["rows"]}
    parity = rows["onnx.Pow-15", ("float32", "int64")]
    assert parity["verdict"] == "wrong"
    assert "special" in parity["groups"]
    assert made["constants"]["float32,int64"]["2"] == ["exact"]
    refused = made["constants"]["int64,int64"]["-1"]
    assert refused[0] == "refused"
    assert "negative integer powers" in refused[2]
    assert json.loads(tool.text(made)) == made


def test_what_audit_makes_of_it(made):
    numpy = Asked("numpy", None, reader.from_json(made))
    x, y = Operand("x", "float32", (3,)), Operand("y", "int64", (3,))
    assert statement(Use("n", "onnx.Pow-13", "13", (x, y), Operand("z")), numpy, ()).verdict == "wrong"
    two = Operand("y", "int64", (), np.array(2))
    assert statement(Use("n", "onnx.Pow-13", "13", (x, two), Operand("z")), numpy, ()).verdict == "exact"


def test_another_version_is_refused(tool):
    document = hu.check("numpy", operators=["PRelu"], types=["int32"], processes=1).document
    document["target"]["versions"] = {"numpy": "0.1"}
    with pytest.raises(SystemExit, match=r"was checked as .*0\.1"):
        tool.measured(document)


def test_halves_between_nodes(tool):
    assert tool.halves("numpy") == []
    pytest.importorskip("onnxruntime")
    assert tool.halves("onnxruntime") == ["float16"]
    pytest.importorskip("openvino")
    assert tool.halves("openvino") == tool.halves("openvino-native") == ["float16", "bfloat16"]
