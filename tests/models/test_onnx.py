"""What a sound ONNX file becomes."""

from __future__ import annotations

import numpy as np
import onnx
from tests.models.onnx_models import parsed, single, with_initializer

from halfulp.models.onnx import load


def test_before_ir_version_3_there_is_opset_1_and_no_import() -> None:
    proto = single("Pow", 1, {"x": ("float32", [2]), "y": ("float32", [2])}, ir_version=2)
    del proto.opset_import[:]
    assert load(proto).graph.nodes[0].operator == "onnx.Pow-1"


def test_path_bytes_and_message_give_the_same_graph(tmp_path) -> None:
    proto = with_initializer(np.arange(3, dtype=np.float32))
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    for source, file in (
        (path, str(path)),
        (str(path), str(path)),
        (path.read_bytes(), "<bytes>"),
        (proto, "<ModelProto>"),
    ):
        model = load(source)
        assert model.file == file
        assert [node.operator for node in model.graph.nodes] == ["onnx.Pow-15"]
        np.testing.assert_array_equal(model.graph.constants["w"], [0, 1, 2])


def test_loading_leaves_the_message_as_it_is() -> None:
    proto = with_initializer(np.arange(3, dtype=np.float32))
    before = proto.SerializeToString()
    load(proto)
    assert proto.SerializeToString() == before


def test_ai_onnx_is_the_default_domain() -> None:
    proto = single("Pow", 13, {"x": ("float32", [2]), "y": ("float32", [2])})
    proto.graph.node[0].domain = "ai.onnx"
    assert load(proto).graph.nodes[0].operator == "onnx.Pow-13"


def test_declared_types_and_shapes() -> None:
    model = load(
        single(
            "Pow", 15, {"x": ("bfloat16", ["N", None, 3]), "y": ("uint8", [])}, ("bfloat16", ["N", None, 3])
        )
    )
    assert list(map(str, model.graph.inputs)) == ["bfloat16[N, ?, 3]", "uint8[]"]


def test_function_attributes_are_bound_per_call() -> None:
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


def test_equal_calls_share_one_body() -> None:
    model = load(
        parsed("""<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float[N] x) => (float[N] z) { y = own.square (x)  z = own.square (y) }
        <domain: "own", opset_import: ["": 12]>
        square (x) => (y) { y = Pow (x, x) }""")
    )
    first, second = model.graph.nodes
    assert first.function is second.function
    assert first.function.nodes[0].operator == "onnx.Pow-12"
