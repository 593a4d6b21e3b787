"""Valid models stay as they are: the onnx package's own node tests, repaired and audited.

Each finding about a runtime is confirmed by its bits, or by its refusal, on this machine.
"""

import importlib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase

import halfulp as hu

FOLDER = Path(node.__file__).parent
MODULES = [path.stem for path in sorted(FOLDER.glob("[a-z]*.py"))]
NEAR = (
    *("batch_normalization", "clip", "gelu", "groupnormalization", "if_", "instance_normalization"),
    "layernormalization",
    *("leakyrelu", "loop", "lpnormalization", "max", "pow", "prelu", "reducel2", "reducemean"),
    "rmsnormalization",
    *("softplus", "sqrt"),
)
FLOATS = (-np.inf, -3, -2, -1, -0.5, -0.0, 0.0, 1e-40, 0.5, 1, 2, 3, 7, 0.1, 1e30, np.inf, np.nan)
INTEGERS = (-(2**31), -3, -2, -1, 0, 1, 2, 3, 7, 12, 100, 46341, 2**31 - 1, 2**53 + 1)


@cache
def cases(module: str) -> list[TestCase]:
    """Return the cases of a module, which are made while it is imported."""
    before = len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they divide by zero
        importlib.import_module(f"{node.__name__}.{module}")
    made = node._NodeTestCases[before:]
    return made or [case for case in node._NodeTestCases if module in case.name.replace("_", "")]


def assert_stay(module: str) -> None:
    for case in cases(module):
        repair = hu.repair(case.model)
        assert [str(change) for change in repair.changes] == [], case.name
        assert [str(left) for left in repair.left if not left.valid] == [], case.name
        assert repair.model.SerializeToString() == case.model.SerializeToString(), case.name


@pytest.mark.parametrize("module", [module for module in NEAR if module in MODULES])
def test_valid_models_stay(module):
    assert_stay(module)


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", MODULES)
def test_all_valid_models_stay(module):
    assert_stay(module)


def inputs_of(model: ModelProto, seed: int) -> dict[str, Any]:
    """Return special values in the types and shapes of the inputs."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        values = np.array(INTEGERS if kind.kind in "iu" else FLOATS)
        with np.errstate(all="ignore"):
            shape = [dim.dim_value for dim in tensor.shape.dim]
            inputs[info.name] = np.asarray(rng.choice(values, shape)).astype(kind)
    return inputs


@pytest.mark.parametrize("module", ["pow", "prelu"])
def test_findings_about_valid_models_are_confirmed(module):
    ort = pytest.importorskip("onnxruntime")
    for case in cases(module):
        assert not hu.audit(case.model, ()).findings
        for finding in hu.audit(case.model, "onnxruntime").findings:
            try:
                session = ort.InferenceSession(
                    case.model.SerializeToString(), providers=["CPUExecutionProvider"]
                )
            except Exception:
                assert finding.kind == "refused"
                continue
            assert finding.kind == "wrong", finding
            assert any(is_wrong(session, case.model, seed) for seed in range(200)), (case.name, str(finding))


def is_wrong(session: Any, model: ModelProto, seed: int) -> bool:
    """Tell whether a runtime has another result than the exact one."""
    inputs = inputs_of(model, seed)
    exact = np.asarray(hu.run(model, inputs, engine="halfulp").popitem()[1])
    (found,) = session.run(None, inputs)
    return not np.array_equal(found, exact, equal_nan=found.dtype.kind == "f")
