"""The models of cases: valid ones pass the onnx package's checker, and give the expected bits by way of a file."""

import re

import numpy as np
import onnx
import pytest

import halfulp as hu
from halfulp.conformance.case import expected
from halfulp.conformance.cases import case, cases
from halfulp.conformance.targets.models import model, model_inputs
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.types import codes

SELECTIONS = [("onnx.Pow-1", "float32"), ("onnx.Pow-15", "int64"), ("onnx.PRelu-6", "float16")]
SELECTIONS += [("onnx.PRelu-16", "bfloat16"), ("onnx.Pow-13", "bfloat16"), ("onnx.PRelu-7", "float64")]


@pytest.mark.parametrize(("operator", "type_name"), SELECTIONS)
def test_a_valid_model_is_valid_and_gives_the_expected_bits(operator, type_name):
    for one in cases("quick", [operator], types=[type_name]):
        if one.clause is not None or one.threads is not None:
            continue
        made = model(one)
        onnx.checker.check_model(
            made, full_check=one.operator != "onnx.Pow-1"
        )  # whose shapes onnx does not infer
        assert made.opset_import[0].version == int(one.row.version)
        (result,) = hu.run(made, model_inputs(one)).values()
        right = expected(one)
        assert result.dtype == right.dtype
        assert np.array_equal(codes(result), codes(right)), one.id


@pytest.mark.parametrize(
    "operator", ["onnx.Pow-1", "onnx.Pow-7", "onnx.Pow-15", "onnx.PRelu-1", "onnx.PRelu-16"]
)
def test_an_invalid_model_is_refused_when_it_is_run(operator):
    found = [one for one in cases("quick", [operator]) if one.clause is not None]
    assert len(found) > 8
    for one in found:
        made = model(one)
        with pytest.raises(HalfulpError) as caught:
            hu.run(made, model_inputs(one))
        # For the reason that the case is about: its clause, or the output that the model declares.
        if one.declared is None:
            assert caught.value.clause == one.clause
        else:
            assert re.search("contradicts the model's declaration|is declared otherwise", str(caught.value))
        # Nothing else is wrong with it.
        for value in (*made.graph.input, *made.graph.output):
            assert value.type.tensor_type.HasField("shape")


def test_constants_are_initializers_that_nothing_can_replace():
    one = case("onnx.Pow-7/float32,float32/reproducibility/constant-Y")
    made = model(one)
    assert [value.name for value in made.graph.input] == ["X"]
    assert [value.name for value in made.graph.initializer] == ["Y"]
    assert list(model_inputs(one)) == ["X"]
    assert made.ir_version >= 4
    both = case("onnx.Pow-7/float32,float32/reproducibility/constant-inputs")
    assert not model(both).graph.input
    assert model_inputs(both) == {}


def test_a_wrong_declared_output():
    made = model(case("onnx.PRelu-16/float32,float32/invalid/C6-output-2x4"))
    assert [dim.dim_value for dim in made.graph.output[0].type.tensor_type.shape.dim] == [2, 4]
    made = model(case("onnx.PRelu-16/float32,float32/invalid/C6-output-float64"))
    assert made.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE


def test_operators_of_other_standards():
    with pytest.raises(UnsupportedError, match=r"ONNX has no operator openvino\.Power-1"):
        model(case("openvino.Power-1/float32,float32/values/0"))
