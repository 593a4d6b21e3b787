"""halfulp as an onnx backend, through the onnx package's own backend tests of our operators."""

import unittest

import numpy as np
import pytest
from onnx import helper, numpy_helper
from tests.backend.package import backend_test

import halfulp.backend

NAMES = r"^test_(pow|prelu|PReLU_|operator_pow)"

CASES = [
    case
    for case in backend_test(__name__).include(NAMES).test_suite
    if not getattr(getattr(case, case._testMethodName), "__unittest_skip__", False)
]


def test_there_are_as_many_as_the_package_has():
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
def test_the_packages_own_case(case):
    result = case.run(unittest.TestResult())
    assert result.wasSuccessful(), result.failures + result.errors
    assert not result.skipped


def test_prepare_and_run_again():
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
