"""What a sound ONNX file becomes."""

from tests.models.onnx_models import parsed

from halfulp.models.onnx import checks, load


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


def test_nodes_that_differ_only_in_names_are_checked_once(monkeypatch):
    asked, refused = [], checks._refused
    monkeypatch.setattr(
        checks, "_refused", lambda node, *more: asked.append(node.op_type) or refused(node, *more)
    )
    load(parsed("15: g (float x) => (float z) { a = Abs (x)  b = Abs (a)  c = Pow (a, b)  z = Pow (c, b) }"))
    assert asked == ["Abs", "Pow"]
