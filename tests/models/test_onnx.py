"""What a sound ONNX file becomes."""

from tests.models.onnx_models import parsed, single

from halfulp.models.onnx import load


def test_before_ir_version_3_there_is_opset_1_and_no_import():
    proto = single("Pow", 1, {"x": ("float32", [2]), "y": ("float32", [2])}, ir_version=2)
    del proto.opset_import[:]
    assert load(proto).graph.nodes[0].operator == "onnx.Pow-1"


def test_function_attributes_are_bound_per_call():
    model = load(
        parsed(
            """<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float[N] x) => (float[N] z) {
            y = own.shifted <by = 2.0> (x)
            z = own.shifted (y)
        }
        <domain: "own", opset_import: ["": 6]>
        shifted <by: float = 5.0> (x) => (y) {
            c = Constant <value_float: float = @by> ()
            y = Pow <broadcast = 1> (x, c)
        }""".replace("c = Constant <value_float: float = @by> ()", "c = Identity(x)")
        )
    )
    first, second = model.graph.nodes
    assert first.operator == "own.shifted-1"
    assert [node.operator for node in first.function.nodes] == ["onnx.Identity-1", "onnx.Pow-1"]
    assert first.function is not second.function


def test_equal_calls_share_one_body():
    model = load(
        parsed("""<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float[N] x) => (float[N] z) { y = own.square (x)  z = own.square (y) }
        <domain: "own", opset_import: ["": 12]>
        square (x) => (y) { y = Pow (x, x) }""")
    )
    first, second = model.graph.nodes
    assert first.function is second.function
    assert first.function.nodes[0].operator == "onnx.Pow-12"
