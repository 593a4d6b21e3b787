"""halfulp as an onnx backend, through the onnx package's own backend tests of our operators."""

from __future__ import annotations

import glob
import os
import unittest

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from tests.backend.package import backend_test, few_node_cases

import halfulp.backend
from halfulp.reference import pow as exact_pow
from halfulp.reference import prelu as exact_prelu

NAMES = r"^test_(pow|prelu|PReLU_|operator_pow)"

CASES = [
    case
    for case in backend_test(__name__).include(NAMES).test_suite
    if not getattr(getattr(case, case._testMethodName), "__unittest_skip__", False)
]


def test_there_are_as_many_as_the_package_has() -> None:
    names = [case._testMethodName for case in CASES]
    assert len(names) >= 23
    for wanted in (
        "test_pow_bcast_array_cpu",
        "test_prelu_example_expanded_cpu",
        "test_PReLU_2d_multiparam_cpu",
        "test_operator_pow_cpu",
    ):
        assert wanted in names


@pytest.mark.parametrize("case", CASES, ids=lambda case: case._testMethodName)
def test_the_packages_own_case(case: unittest.TestCase) -> None:
    result = case.run(unittest.TestResult())
    assert result.wasSuccessful(), result.failures + result.errors
    assert not result.skipped


# --- bit for bit, where the stored result is the correctly rounded one --------------------------


def _data_sets() -> list[tuple[str, onnx.ModelProto, list[np.ndarray], np.ndarray]]:
    sets = []
    with few_node_cases():
        cases = [
            case
            for kind in ("node", "pytorch-converted", "pytorch-operator")
            for case in load_model_tests(kind=kind)
        ]
    for case in cases:
        if not case.name.startswith(("test_pow", "test_prelu", "test_PReLU_", "test_operator_pow")):
            continue
        if case.model is not None:
            for inputs, outputs in case.data_sets:
                sets.append((case.name, case.model, list(map(_array, inputs)), _array(outputs[0])))
            continue
        for folder in glob.glob(os.path.join(case.model_dir, "test_data_set_*")):
            count = len(glob.glob(os.path.join(folder, "input_*.pb")))
            inputs = [_read(os.path.join(folder, f"input_{i}.pb")) for i in range(count)]
            model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
            sets.append((case.name, model, inputs, _read(os.path.join(folder, "output_0.pb"))))
    return sets


def _array(value: object) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _read(path: str) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(path))


@pytest.mark.parametrize(
    ("name", "model", "inputs", "stored"),
    _data_sets(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_results_are_correctly_rounded(
    name: str, model: onnx.ModelProto, inputs: list[np.ndarray], stored: np.ndarray
) -> None:
    """Results have the exact oracle's bits. The package's are correctly rounded as well, except in one case."""
    (got,) = halfulp.backend.run_model(model, inputs)
    slope = next((numpy_helper.to_array(t) for t in model.graph.initializer), None)
    x, y = inputs if len(inputs) == 2 else (inputs[0], slope)
    if "pow" in name:
        exact = exact_pow(x, y)
    else:
        per_channel = "PReLU" in name and y.size > 1
        exact = exact_prelu(x, y.reshape(y.shape + (1,) * (x.ndim - 2)) if per_channel else y)
    assert got.dtype == stored.dtype == exact.dtype
    assert got.tobytes() == exact.tobytes()
    if name == "test_pow":
        # The package computes what to expect with this machine's np.power, which is an ulp off in places.
        np.testing.assert_array_max_ulp(stored, exact, 1)
    else:
        np.testing.assert_array_equal(stored, exact)


# --- the interface ------------------------------------------------------------------------------


def test_prepare_and_run_again() -> None:
    graph = helper.make_graph(
        [helper.make_node("Pow", ["x", "y"], ["z"])],
        "g",
        [helper.make_tensor_value_info(name, 1, ["N"]) for name in "xy"],
        [helper.make_tensor_value_info("z", 1, ["N"])],
        [numpy_helper.from_array(np.array([2], np.float32), "y")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
    prepared = halfulp.backend.prepare(model)
    x = np.array([5], np.float32)
    for inputs in ([x], x, {"x": x}):
        assert prepared.run(inputs).z == 25
    assert prepared.run({"x": x, "y": x}).z == 3125  # the initializer is a default
    assert halfulp.backend.supports_device("CPU")
    assert not halfulp.backend.supports_device("CUDA:0")
