"""What the documents say, against the rows: facts typed from the documents, not derived from the code."""

import numpy as np
import pytest

from halfulp.errors import SpecError
from halfulp.reference import pow as exact_pow
from halfulp.specs import find, ids, in_force
from halfulp.types import FLOATS, TYPES, element_type

ONNX = [
    *(f"onnx.Pow-{version}" for version in (1, 7, 12, 13, 15)),
    *(f"onnx.PRelu-{version}" for version in (1, 6, 7, 9, 16)),
]
DML_FLOAT = {"FLOAT32", "FLOAT16"}
DML_SIGNED = DML_FLOAT | {"INT32", "INT16", "INT8"}
DML_POW = DML_SIGNED | {"UINT32", "UINT16", "UINT8"}
DIRECTML = {
    # id: (types of InputTensor, types of the second tensor, dimension counts)
    "directml.ELEMENT_WISE_CONSTANT_POW-1_0": (DML_FLOAT, None, (4, 4)),
    "directml.ELEMENT_WISE_CONSTANT_POW-3_0": (DML_FLOAT, None, (1, 8)),
    "directml.ELEMENT_WISE_POW-1_0": (DML_FLOAT, DML_FLOAT, (4, 4)),
    "directml.ELEMENT_WISE_POW-3_0": (DML_POW, DML_POW, (1, 8)),
    "directml.ACTIVATION_PARAMETERIZED_RELU-1_0": (DML_FLOAT, DML_FLOAT, (4, 4)),
    "directml.ACTIVATION_PARAMETERIZED_RELU-2_0": (DML_FLOAT, DML_FLOAT, (4, 5)),
    "directml.ACTIVATION_PARAMETERIZED_RELU-3_0": (DML_FLOAT, DML_FLOAT, (1, 8)),
    "directml.ACTIVATION_PARAMETERIZED_RELU-5_1": (DML_SIGNED, DML_SIGNED, (1, 8)),
}


def test_every_version_is_a_row_and_nothing_else_is():
    assert set(ids()) == {*ONNX, *DIRECTML, "openvino.Power-1", "openvino.PReLU-1", "sonnx.Pow-15"}


@pytest.mark.parametrize("id", ONNX)
def test_onnx_rows_agree_with_the_onnx_package(id):
    onnx = pytest.importorskip("onnx")
    op = find(id)
    schema = onnx.defs.get_schema(op.name, int(op.version), "")
    assert schema.since_version == int(op.version)
    assert [port.name for port in schema.inputs] == [port.name for port in op.inputs]
    assert [port.name for port in schema.outputs] == [port.name for port in op.outputs]
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    assert allowed == {
        variable: {f"tensor({TYPES[name].onnx})" for name in names}
        for variable, names in op.type_variables.items()
    }
    declared = {
        name: (attribute.type.name, onnx.helper.get_attribute_value(attribute.default_value))
        for name, attribute in schema.attributes.items()
    }
    assert declared == {attribute.name: (attribute.type, attribute.default) for attribute in op.attributes}
    assert schema.support_level.name == op.support_level == "COMMON"
    assert schema.has_type_and_shape_inference_function == op.shape_inference
    assert (schema.has_function or schema.has_context_dependent_function) == op.function


@pytest.mark.parametrize("id", DIRECTML)
def test_directml_facts(id):
    op = find(id)
    first, second, ranks = DIRECTML[id]
    names = [{TYPES[name].directml for name in op.type_variables[port.type]} for port in op.inputs]
    assert names == ([first] if second is None else [first, second])
    assert op.ranks == ranks
    assert op.outputs[0].name == "OutputTensor"
    assert op.outputs[0].type == op.inputs[0].type
    assert op.since_version == f"DML_FEATURE_LEVEL_{op.version}"


def test_directml_ports_and_attributes():
    constant, pow, relu = (
        find(f"directml.{name}-3_0")
        for name in ("ELEMENT_WISE_CONSTANT_POW", "ELEMENT_WISE_POW", "ACTIVATION_PARAMETERIZED_RELU")
    )
    assert [port.name for port in constant.inputs] == ["InputTensor"]
    assert [port.name for port in pow.inputs] == ["InputTensor", "ExponentTensor"]
    assert [port.name for port in relu.inputs] == ["InputTensor", "SlopeTensor"]
    assert {(a.name, a.required) for a in constant.attributes} == {("Exponent", True), ("ScaleBias", False)}
    assert {(a.name, a.required) for a in pow.attributes} == {("ScaleBias", False)}
    assert relu.attributes == ()


def test_exponent_tensor_matches_input_tensor_until_feature_level_3_0():
    x, y = ("float32", (1, 1, 2, 3)), ("float16", (1, 1, 2, 3))
    with pytest.raises(SpecError, match="must have the same type"):
        find("directml.ELEMENT_WISE_POW-1_0").infer(x, y)
    assert find("directml.ELEMENT_WISE_POW-3_0").infer(x, y).type == "float32"


def test_openvino_facts():
    power, prelu = find("openvino.Power-1"), find("openvino.PReLU-1")
    assert power.type_variables["T"] == tuple(TYPES)  # any numeric type
    assert prelu.type_variables["T"] == FLOATS
    (attribute,) = power.attributes
    assert (attribute.name, attribute.type, attribute.default) == ("auto_broadcast", "string", "numpy")
    assert not attribute.required
    assert prelu.attributes == ()
    assert [port.name for port in prelu.inputs] == ["data", "slope"]


@pytest.mark.parametrize(
    ("y", "attributes"),
    [
        ((), {"broadcast": 1}),
        ((1, 1), {"broadcast": 1}),
        ((5,), {"broadcast": 1}),
        ((4, 5), {"broadcast": 1}),
        ((3, 4), {"broadcast": 1, "axis": 1}),
        ((2,), {"broadcast": 1, "axis": 0}),
    ],
)
def test_pow_1_supports_the_shapes_that_it_lists(y, attributes):
    op = find("onnx.Pow-1")
    x = ("float32", (2, 3, 4, 5))
    assert op.infer(x, ("float32", y), **attributes) == x
    assert any(e.inputs[1].shape == y and e.attributes == attributes for e in op.examples)
    # "Attribute broadcast=1 needs to be passed to enable broadcasting."
    with pytest.raises(SpecError) as caught:
        op.infer(x, ("float32", y), **{**attributes, "broadcast": 0})
    assert caught.value.clause == "onnx.Pow-1.C5"


def test_the_number_of_examples_is_the_documents():
    counts = {id: len(find(id).examples) for id in ids() if find(id).examples}
    assert counts == {"onnx.Pow-1": 6, "onnx.Pow-15": 10, "openvino.Power-1": 2, "openvino.PReLU-1": 3}


@pytest.mark.parametrize(
    ("id", "number"), [(id, number) for id in ids() for number in range(len(find(id).examples))]
)
def test_examples_hold(id, number):
    op = find(id)
    example = op.examples[number]
    assert op.infer(*example.inputs, **example.attributes) == example.output
    if example.values:
        arrays = [
            np.array(values, element_type(operand.type).dtype)
            for values, operand in zip(example.values, example.inputs, strict=True)
        ]
        assert [array.shape for array in arrays] == [operand.shape for operand in example.inputs]
        expected = np.array(example.result, element_type(example.output.type).dtype)
        np.testing.assert_array_equal(exact_pow(*arrays), expected)


def test_pow_15_type_examples():
    examples = find("onnx.Pow-15").examples[2:]
    pairs = "float32 int64, int64 float32, float32 int32, int32 float32, float32 uint64, float32 uint32"
    pairs += ", int64 int64, int32 int32"
    assert ", ".join(f"{e.inputs[0].type} {e.inputs[1].type}" for e in examples) == pairs
    # The documents' comments say [1, 32, 729].
    assert all(e.values == ([1, 2, 3], [4, 5, 6]) and e.result == [1, 32, 729] for e in examples)


@pytest.mark.parametrize(
    ("standard", "name", "asked", "row"),
    [
        ("onnx", "Pow", 1, "onnx.Pow-1"),
        ("onnx", "Pow", 6, "onnx.Pow-1"),
        ("onnx", "Pow", 11, "onnx.Pow-7"),
        ("onnx", "Pow", 12, "onnx.Pow-12"),
        ("onnx", "Pow", 14, "onnx.Pow-13"),
        ("onnx", "Pow", 28, "onnx.Pow-15"),
        ("onnx", "PRelu", 5, "onnx.PRelu-1"),
        ("onnx", "PRelu", 8, "onnx.PRelu-7"),
        ("onnx", "PRelu", 15, "onnx.PRelu-9"),
        ("onnx", "PRelu", 22, "onnx.PRelu-16"),
        ("openvino", "Power", 8, "openvino.Power-1"),
        ("directml", "ELEMENT_WISE_POW", "2_1", "directml.ELEMENT_WISE_POW-1_0"),
        ("directml", "ELEMENT_WISE_POW", "6_4", "directml.ELEMENT_WISE_POW-3_0"),
        ("directml", "ACTIVATION_PARAMETERIZED_RELU", "5_0", "directml.ACTIVATION_PARAMETERIZED_RELU-3_0"),
    ],
)
def test_the_version_in_force(standard, name, asked, row):
    assert in_force(standard, name, asked) is find(row)
    assert find(f"{standard}.{name}-{asked}") is find(row)
