"""Models rewritten for a target: it accepts them, and what can differ is said."""

from typing import Any

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed, single

import halfulp as hu
from halfulp.conversion import Conversion
from halfulp.conversion.targets import known_targets
from halfulp.errors import UnsupportedError
from halfulp.models.onnx.checks import schema_in_force
from halfulp.types import TYPES

FLOATS = ("float16", "float32", "float64", "bfloat16")
BASES = (*FLOATS, "int32", "int64")
EXPONENTS = (*BASES, "int8", "uint8", "uint64")
SLOPED = (*BASES, "uint32", "uint64")


def converted(model: onnx.ModelProto, target: str) -> Conversion:
    """Convert a model; where no change says that results can differ, none may."""
    conversion = hu.convert(model, target=target, verify=True)
    onnx.checker.check_model(conversion.model, full_check=True)
    assert conversion.verification is not None
    if not any(change.differs for change in conversion.changes):
        assert conversion.verification.same, conversion.verification
    return conversion


def types_of(conversion: Conversion, operator: str) -> list[tuple[str, ...]]:
    """Return the types of the operands of each node of an operator."""
    inferred = onnx.shape_inference.infer_shapes(conversion.model).graph
    infos = (*inferred.input, *inferred.value_info, *inferred.output)
    numbers = {info.name: info.type.tensor_type.elem_type for info in infos}
    numbers |= {tensor.name: tensor.data_type for tensor in inferred.initializer}
    names = {row.onnx_enum: row.name for row in TYPES.values()}
    nodes = [node for node in inferred.node if node.op_type == operator]
    return [tuple(names[numbers[name]] for name in node.input) for node in nodes]


@pytest.mark.parametrize("target", [name for name, row in known_targets().items() if row.bases])
@pytest.mark.parametrize("x", BASES)
def test_every_pow(x, target):
    for y in EXPONENTS:
        model = single("Pow", 15, {"x": (x, [40]), "y": (y, [40])}, (x, [40]))
        conversion = converted(model, target)
        ((base, exponent),) = types_of(conversion, "Pow")
        row = known_targets()[target]
        assert base in row.bases
        assert exponent in (row.exponents or (base,))


@pytest.mark.parametrize("target", known_targets())
@pytest.mark.parametrize("opset", [7, 9, 16])
@pytest.mark.parametrize("kind", SLOPED)
def test_every_prelu(kind, opset, target):
    schema = schema_in_force("", "PRelu", opset)
    if f"tensor({TYPES[kind].onnx})" not in schema.type_constraints[0].allowed_type_strs:
        pytest.skip("not a type of this version")
    model = single("PRelu", opset, {"x": (kind, [2, 3, 3]), "s": (kind, [3])}, (kind, [2, 3, 3]))
    after = converted(model, target)
    (version,) = [entry.version for entry in after.model.opset_import]
    taken = next(
        types for since, types in reversed(known_targets()[target].prelu.items()) if since <= version
    )
    assert all(types[0] in taken for types in types_of(after, "PRelu"))


# --- the targets themselves -----------------------------------------------------------------------


def model_of(kind: str) -> onnx.ModelProto:
    """Return a model of a PRelu, and of powers with exponents of each type if one may be a base."""
    exponents = [*enumerate(EXPONENTS if kind in BASES else ())]
    x = f"{TYPES[kind].onnx}[2, 3, 3]"
    inputs = ", ".join([f"{x} x", *(f"{TYPES[y].onnx}[3] e{number}" for number, y in exponents)])
    results = ", ".join([f"{x} y", *(f"{x} z{number}" for number, _ in exponents)])
    powers = "  ".join(f"z{number} = Pow (x, e{number})" for number, _ in exponents)
    return parsed(f"16: g ({inputs}) => ({results}) {{ y = PRelu (x, x) {powers} }}")


@pytest.mark.newer
@pytest.mark.parametrize("kind", SLOPED)
def test_onnx_runtime_loads_every_node(kind):
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    after = hu.convert(model_of(kind), target="onnxruntime").model
    runtime.InferenceSession(after.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("kind", BASES)
def test_openvino_takes_every_node_as_it_was_rewritten(kind, foreign, tmp_path):
    """Writing .xml refuses no pair of types: neither beside operators of OpenVINO's own nor alone."""
    pytest.importorskip("openvino")
    model = model_of(kind)
    if foreign:
        model.graph.node.add(op_type="Floor", input=["angle"], output=["floor"])
        model.graph.input.append(onnx.helper.make_tensor_value_info("angle", 1, [3]))
        model.graph.output.append(onnx.helper.make_tensor_value_info("floor", 1, [3]))
    hu.convert(model, tmp_path / "net.xml")


def test_openvino_goes_along_the_last_dim():
    openvino = pytest.importorskip("openvino")
    model = single("PRelu", 16, {"x": ("float32", [2, 3, 3]), "s": ("float32", [3])}, ("float32", [2, 3, 3]))
    feeds: dict[str, Any] = {"x": -np.ones((2, 3, 3), np.float32), "s": np.array([1, 2, 3], np.float32)}
    exact = hu.run(model, feeds)["out"]
    core = openvino.Core()

    def ran(proto: onnx.ModelProto) -> Any:
        return core.compile_model(core.read_model(proto.SerializeToString()), "CPU")(feeds)[0]

    assert not np.array_equal(ran(model), exact)
    assert np.array_equal(ran(hu.convert(model, target="openvino").model), exact)


def test_cuda_rounds_powers_of_integers():
    """The double before the cast may be off by an ulp, as CUDA's is: the provider itself gives 2 for 3^1."""
    for y in ("int8", "int32"):
        model = single("Pow", 15, {"x": ("int32", [4]), "y": (y, [4])}, ("int32", [4]))
        after = converted(model, "cuda").model
        assert [node.op_type for node in after.graph.node][-4:] == ["Cast", "Pow", "Round", "Cast"]
        inputs = {"x": np.array([3, -7, 46340, 2], np.int32), "y": np.array([1, 11, 2, -1], y)}
        np.testing.assert_array_equal(hu.run(after, inputs)["out"], [3, -1977326743, 2147395600, 0])
    cube = """<ir_version: 8, opset_import: ["": 15]> g (int64[3] x) => (int64[3] z) <int8 y = {3}> { z = Pow(x, y) }"""
    (change,) = converted(parsed(cube), "cuda").changes
    assert change.differs is None


def test_every_node_without_a_form_is_named():
    model = parsed("15: g (float[N] x, float[N] y) => (float[N] z) { a = Pow(x, y) z = Pow(y, a) }")
    with pytest.raises(
        UnsupportedError, match=r"2 nodes have no exact form in basic: #0 \(Pow\), #1 \(Pow\): "
    ):
        hu.convert(model, target="basic")
