"""Broken and hostile ONNX files: each is refused before anything runs, in words that name the place."""

import os
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.models.bounded import few_files
from tests.models.onnx_models import external, parsed, run, single, with_initializer

import halfulp as hu
from halfulp.errors import HalfulpError, ModelError, printable
from halfulp.models.onnx import load
from halfulp.models.onnx.infer import _PROPAGATING, inferred

POW = {"x": ("float32", [2]), "y": ("float32", [2])}


def refused(
    proto: onnx.ModelProto | bytes, first: str, *more: str, kind: type[HalfulpError] = ModelError
) -> HalfulpError:
    """Assert that a model is refused, that the first line has the words, and return the error."""
    with pytest.raises(kind) as caught:
        load(proto, file="net.onnx")
    line = str(caught.value).splitlines()[0]
    assert line.startswith("net.onnx")
    for word in (first, *more):
        assert word in line
    return caught.value


def test_a_missing_file_a_folder_and_a_device(tmp_path):
    for path, reason in (
        (tmp_path / "none.onnx", "No such file"),
        (tmp_path, "not a plain file"),
        ("/dev/zero", "not a plain file"),
        ("a\0b", "can't be read"),
    ):
        with pytest.raises(ModelError, match=reason) as caught:
            load(path)
        assert printable(str(path), 1000) in str(caught.value)
        with pytest.raises(ModelError, match=rf"^net\.onnx: .*{reason}"):
            load(path, file="net.onnx")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        (b"\0", "truncated, or not an ONNX model"),
        (b"not a model", "truncated, or not an ONNX model"),
        (b"\x08\x08", "has no graph"),
        (b"\xff" * 100, "truncated, or not an ONNX model"),
    ],
)
def test_what_is_no_model(data, words):
    refused(data, words)


def test_every_truncation_is_refused_or_sound():
    data = with_initializer(np.arange(4, dtype=np.float32)).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(HalfulpError):
            load(data[:length])


def test_ir_versions():
    proto = single("Pow", 15, POW)
    proto.ir_version = onnx.IR_VERSION + 1
    error = refused(proto, "IR version")
    assert f"got: {onnx.IR_VERSION + 1}" in str(error)
    assert "or a newer onnx package: pip install --upgrade onnx" in str(error)
    proto.ClearField("ir_version")
    refused(proto, "no IR version")


@pytest.mark.parametrize("opset", [0, -1, onnx.defs.onnx_opset_version() + 1, 2**40])
def test_opsets_that_do_not_exist(opset):
    refused(single("Pow", opset, POW), "unknown opset", "ai.onnx")


def test_two_versions_of_a_domain():
    proto = single("Pow", 15, POW)
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 13))
    assert "got: 15 and 13" in str(refused(proto, "imports two versions"))


def test_a_domain_that_is_not_imported():
    proto = single("Pow", 15, POW)
    proto.graph.node[0].domain = "com.example"
    error = refused(proto, "node 'node' (Pow)", "'com.example' is not imported")
    assert "model.opset_import.add(domain='com.example', version=N)" in str(error)
    del proto.opset_import[:]
    proto.graph.node[0].domain = ""
    error = refused(proto, "node 'node' (Pow)", "'ai.onnx' is not imported")
    assert "model.opset_import.add(version=N)" in str(error)
    with pytest.raises(ModelError, match=r"'ai\.onnx' is not imported"):
        load(proto, keep_unknown=True)


def test_an_attribute_without_a_type():
    proto = single("Elu", 6, {"x": ("float32", [2])})
    proto.graph.node[0].attribute.add(name="alpha", f=1.0)
    refused(proto, "attribute 'alpha' states no type")


def test_operators_that_do_not_exist():
    refused(single("Powww", 15, POW), "node 'node' (Powww)", "no operator 'Powww' in opset 15")
    refused(single("CastLike", 14, POW), "no operator 'CastLike' in opset 14")
    refused(
        single("Upsample", 10, {"x": ("float32", None), "y": ("float32", None)}), "Upsample", "deprecated"
    )


def test_a_cycle():
    proto = parsed("15: g (float[N] x) => (float[N] c) { a = Pow (x, x) }")
    proto.graph.node.append(helper.make_node("Pow", ["a", "c"], ["b"], "first"))
    proto.graph.node.append(helper.make_node("Mul", ["b", "b"], ["c"], "second"))
    refused(proto, "node 'second' (Mul)", "the graph has a cycle through its input 'b'")
    del proto.graph.node[1:]
    proto.graph.node.append(helper.make_node("Pow", ["a", "c"], ["c"], "itself"))
    refused(proto, "node 'itself' (Pow)", "cycle")


def test_a_cycle_through_a_subgraph():
    proto = parsed("""15: g (bool c, float[N] x) => (float[N] y) {
            [if] y = If (c) <then_branch = t () => (float[N] a) { [inner] a = Pow (x, y) },
                             else_branch = e () => (float[N] b) { b = Abs (x) }>
        }""")
    refused(proto, "node 'if' (If).then_branch.'inner' (Pow)", "the graph has a cycle through its input 'y'")


def test_a_missing_initializer():
    proto = with_initializer(np.ones(2, np.float32))
    del proto.graph.initializer[:]
    refused(proto, "node 'node' (Pow)", "reads 'w', which nothing defines")


def test_an_output_that_nothing_makes():
    proto = single("Pow", 15, POW)
    proto.graph.output[0].name = "other"
    refused(proto, "output 'other' is made by no node")


def test_names_defined_twice():
    proto = single("Pow", 15, POW)
    proto.graph.node.append(helper.make_node("Mul", ["x", "y"], ["out"], "again"))
    refused(proto, "node 'again' (Mul)", "'out' is defined before")
    proto = single("Pow", 15, POW)
    proto.graph.input[1].name = "x"
    refused(proto, "input 'x' is defined twice")
    proto = with_initializer(np.ones(2, np.float32))
    proto.graph.initializer.append(proto.graph.initializer[0])
    refused(proto, "initializer 'w' is defined twice")
    proto = single("Pow", 15, POW)
    proto.graph.node[0].output[0] = "x"
    refused(proto, "node 'node' (Pow)", "'x' is defined before")


def test_what_the_schema_forbids():
    proto = single("Pow", 15, POW, broadcast=1)
    refused(proto, "node 'node' (Pow): no attribute broadcast", "(onnx.Pow-15.C5)")
    proto = single("Pow", 6, POW, axis=1.5)
    refused(proto, "node 'node' (Pow): axis has a value of the wrong type", "(onnx.Pow-1.C3)")
    proto = single("Pow", 15, POW)
    del proto.graph.node[0].input[1]
    refused(proto, "node 'node' (Pow): Pow takes 2 inputs", "(onnx.Pow-15.C4)")
    proto = single("Cast", 15, {"x": ("float32", [2])})
    refused(proto, "node 'node' (Cast)", "to")
    proto = single("Pow", 6, POW, axis=1)
    proto.graph.node[0].attribute.append(helper.make_attribute("axis", 0))
    refused(proto, "'axis' is given twice")


def test_an_attribute_outside_a_function_may_not_refer_to_one():
    proto = single("Pow", 6, POW)
    attribute = proto.graph.node[0].attribute.add(name="axis", type=onnx.AttributeProto.INT)
    attribute.ref_attr_name = "axis"
    refused(proto, "'axis' refers to a function")


def test_declarations():
    proto = single("Pow", 15, POW)
    proto.graph.input[0].type.tensor_type.elem_type = 99
    refused(proto, "'x' has an unknown element type")
    proto = with_initializer(np.ones(2, np.float32))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT16, [2]))
    refused(proto, "initializer 'w' contradicts its declaration")


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_declared_dim_below_zero_is_an_unknown_one(dim):
    proto = parsed("15: g (float[2] x) => (float[2] y) <float[2] z> { z = Pow (x, x) y = Pow (z, x) }")
    for info in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        info.type.tensor_type.shape.dim[0].dim_value = dim
    graph = load(proto).graph
    assert [graph.declared[name].shape for name in ("x", "z", "y")] == [(None,)] * 3
    assert run(proto, {"x": np.float32([2, 3, 1])})["y"].tolist() == [16.0, 19683.0, 1.0]
    assert hu.audit(proto).json()["summary"]["nodes"] == 2
    assert hu.convert(proto, opset=21, verify=True).verification.same


@pytest.mark.parametrize("imported", [True, False])
def test_nodes_of_an_unknown_domain_are_kept_where_nothing_evaluates_them(imported):
    proto = parsed("""<ir_version: 8, opset_import: ["": 15, "com.microsoft": 1]>
        g (float[2] x) => (float[2] y) { z = Pow (x, x)  y = com.microsoft.Gelu (z) }""")
    if not imported:
        del proto.opset_import[1]
    assert hu.audit(proto).json()["summary"]["nodes"] == 1
    for how in ({"opset": 21}, {"target": "onnxruntime"}):
        converted = hu.convert(proto, **how).model
        assert [node.op_type for node in converted.graph.node] == ["Pow", "Gelu"]
    with pytest.raises(HalfulpError, match=r"node #1 \(Gelu\)"):
        run(proto, {"x": np.ones(2, np.float32)})


def tensor_model(**fields: object) -> onnx.ModelProto:
    proto = with_initializer(np.ones(1, np.float32))
    proto.graph.initializer[0].CopyFrom(TensorProto(name="w", **fields))
    return proto


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data_type": 1, "dims": [-1]}, "negative dim"),
        ({"data_type": 0, "dims": [1]}, "unknown element type"),
        ({"data_type": 77, "dims": [1]}, "unknown element type"),
        ({"data_type": 1, "dims": [2], "raw_data": b"1234"}, "dims that its data contradicts"),
        ({"data_type": 1, "dims": [2**40, 2**40], "raw_data": b"1234"}, "dims that its data contradicts"),
        ({"data_type": 1, "dims": [2**62, 2**62], "float_data": [1]}, "dims that its data contradicts"),
        ({"data_type": 1, "dims": [0, 2**62, 2**62]}, "dims that are too large"),
        ({"data_type": 1, "dims": [1] * 65, "float_data": [1]}, "too many dims"),
        ({"data_type": 1, "dims": [1], "int32_data": [1]}, "data in the wrong field"),
        ({"data_type": 1, "dims": [1], "float_data": [1], "raw_data": b"1234"}, "carries its data twice"),
        ({"data_type": 8, "dims": [1], "raw_data": b"1234"}, "strings as raw data"),
        ({"data_type": 8, "dims": [1], "string_data": [b"\xff"]}, "can't be read"),
        ({"data_type": 22, "dims": [3], "raw_data": b"1"}, "dims that its data contradicts"),
        ({"data_type": 22, "dims": [4], "int32_data": [1]}, "dims that its data contradicts"),
        ({"data_type": 1, "dims": [1], "segment": TensorProto.Segment(begin=0, end=1)}, "segments"),
    ],
)
def test_tensors(fields, words):
    refused(tensor_model(**fields), "initializer 'w'", words)


def test_a_claim_takes_no_memory():
    """Dims of half a terabyte, in every place that has dims."""
    huge = [2**20, 2**17]
    proto = tensor_model(data_type=1, dims=huge, raw_data=b"1234")
    node = helper.make_node(
        "Constant", [], ["out"], value=TensorProto(data_type=1, dims=huge, float_data=[1])
    )
    constant = helper.make_model(
        helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("out")]), ir_version=8
    )
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", 1, [1], [1.0]), helper.make_tensor("i", 7, [1], [0]), huge
    )
    held = single("Pow", 15, POW)
    held.graph.sparse_initializer.append(sparse)
    tracemalloc.start()
    try:
        for broken, words in (
            (proto, "has dims that its data contradicts"),
            (constant, "has dims that its data contradicts"),
            (held, "too large to be made dense"),
        ):
            with pytest.raises(ModelError, match=words):
                load(broken)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_zero_elements_of_an_absurd_shape():
    """Their conversion to a wider type is what NumPy can't do."""
    proto = tensor_model(data_type=TensorProto.FLOAT8E4M3FN, dims=[0, 2**62])
    refused(proto, "initializer 'w' has dims that are too large")
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("w", 1, [0], []), helper.make_tensor("i", 7, [0], []), [0, 2**62]
    )
    held = single("Pow", 15, POW)
    held.graph.sparse_initializer.append(sparse)
    refused(held, "sparse initializer 'w' has dims that are too large")


def test_sparse_initializers():
    proto = with_initializer(np.zeros(1, np.float32))
    del proto.graph.initializer[:]
    values = helper.make_tensor("w", 1, [2], [5.0, 7.0])
    for indices in (
        helper.make_tensor("i", 7, [2], [1, 5]),
        helper.make_tensor("i", 7, [2, 2], [0, 1, 1, 2]),
    ):
        del proto.graph.sparse_initializer[:]
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
        np.testing.assert_array_equal(load(proto).graph.constants["w"], [[0, 5, 0], [0, 0, 7]])
    for indices in (
        helper.make_tensor("i", 7, [2], [1, 6]),
        helper.make_tensor("i", 7, [2], [-1, 5]),
        helper.make_tensor("i", 7, [2, 2], [0, 1, 2, 2]),
        helper.make_tensor("i", 7, [1], [0]),
        helper.make_tensor("i", 6, [2], [0, 1]),
    ):
        del proto.graph.sparse_initializer[:]
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
        refused(proto, "sparse initializer 'w'")
    for indices in (helper.make_tensor("i", 7, [2], [0, 0]), helper.make_tensor("i", 7, [2, 0], [])):
        proto.graph.sparse_initializer[0].CopyFrom(helper.make_sparse_tensor(values, indices, []))
        refused(proto, "sparse initializer 'w' has no dims")


def test_an_opset_of_more_than_32_bits():
    proto = single("Pow", 15, POW)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1 << 31))
    refused(proto, "asks for an unknown opset of 'ai.onnx.ml'")
    for version, is_newer in ((0, False), (999, True)):
        proto.opset_import[0].version = version
        error = refused(proto, "asks for an unknown opset of 'ai.onnx'")
        assert ("a newer onnx package" in str(error)) == is_newer


def test_a_name_with_control_characters_stays_in_its_line():
    proto = single("Pow", 15, POW, **{"a\x1b[2J\nb": 1})
    assert str(refused(proto, "no attribute a?[2J?b")).endswith("got: a?[2J?b")


# --- functions ----------------------------------------------------------------------------------


def functions(*texts: str) -> onnx.ModelProto:
    return parsed(
        '<ir_version: 10, opset_import: ["": 15, "own": 1]> g (float[N] x) => (float[N] y) { y = own.f0 (x) }'
        + "".join(f'<domain: "own", opset_import: ["": 15, "own": 1]> {text}' for text in texts)
    )


def test_a_function_that_calls_itself():
    refused(functions("f0 (x) => (y) { y = own.f0 (x) }"), "the function 'f0' calls itself: f0, f0")
    refused(
        functions(
            "f0 (x) => (y) { y = own.f1 (x) }",
            "f1 (x) => (y) { y = own.f2 (x) }",
            "f2 (x) => (y) { y = own.f1 (x) }",
        ),
        "the function 'f1' calls itself: f1, f2, f1",
    )


def test_functions_that_double_forty_times():
    texts = [f"f{i} (x) => (y) {{ a = own.f{i + 1} (x)  y = own.f{i + 1} (a) }}" for i in range(40)]
    refused(functions(*texts, "f40 (x) => (y) { y = Pow (x, x) }"), "expand to too many nodes")


def test_functions_that_copy_a_large_attribute():
    """Each node that refers to it has a copy: 4 MiB could stand for gigabytes."""
    calls = "".join(f"v{i} = Constant <value: tensor = @t> ()  " for i in range(300))
    proto = functions(f"f0 <t> (x) => (y) {{ {calls} y = Pow (x, x) }}")
    large = numpy_helper.from_array(np.zeros(1 << 20, np.float32))
    proto.graph.node[0].attribute.append(helper.make_attribute("t", large))
    refused(proto, "its functions copy too much of their attributes")


def test_functions_nested_too_deep():
    texts = [f"f{i} (x) => (y) {{ y = own.f{i + 1} (x) }}" for i in range(3000)]
    refused(functions(*texts, "f3000 (x) => (y) { y = Pow (x, x) }"), "nest too deep")


def nested(levels: int) -> bytes:
    """Return a model with Ifs in one another. Python's protobuf would refuse to build the deepest."""

    def field(number: int, data: bytes) -> bytes:
        size = len(data)
        return bytes([number << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + data

    text = (
        """<ir_version: 8, opset_import: ["": 15]> g (bool c, float[2] x) => (float[2] y) { y = Pow(x, x) }"""
    )
    model = onnx.parser.parse_model(text)
    inputs = b"".join(field(11, info.SerializeToString()) for info in model.graph.input)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    output = field(12, model.graph.output[0].SerializeToString())
    del model.graph.input[:]
    leaf = graph = model.graph.SerializeToString()
    for _ in range(levels):
        branches = {b"then_branch": graph, b"else_branch": leaf}
        # an attribute's name, graph and type; the node's, and its input, output and operator; the graph's
        attributes = (field(1, name) + field(6, body) + b"\xa0\x01\x05" for name, body in branches.items())
        node = (
            field(1, b"c")
            + field(2, b"y")
            + field(4, b"If")
            + b"".join(field(5, each) for each in attributes)
        )
        graph = field(1, node) + field(2, b"g") + output
    model.ClearField("graph")
    return model.SerializeToString() + field(7, graph + inputs)


def test_bodies_at_the_limit_of_protobuf():
    """Messages nest 100 deep at most. The types that inference adds are messages in a body, too."""
    feeds = {"c": np.array(True), "x": np.float32([2, 3])}
    assert hu.run(nested(32), feeds)["y"].tolist() == [4, 27]
    refused(nested(40), "its graphs nest too deep")


@pytest.mark.parametrize("made", ["Identity(x)", "Expand(y, n)", "Reshape(x, n)"])
def test_types_of_long_vectors_take_no_memory(made, monkeypatch):
    """The onnx package would keep 150 bytes for each element of a vector that a sum reads, by what a file claims."""
    infer, propagated = onnx.shape_inference.infer_shapes, []

    def watched(model: onnx.ModelProto, data_prop: bool = False) -> onnx.ModelProto:
        propagated.append(data_prop)
        return infer(model, data_prop=data_prop)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    for length, wanted in ((64, [False, True]), (1 << 19, [False])):
        model = parsed(f"""15: g (float[{length}] x, float[1] y) => (float[M] z)
            {{ n = Constant<value = int64[1] {{{length}}}>()  v = {made}  z = Sub(v, y) }}""")
        propagated.clear()
        assert inferred(model).graph.output[0].type.tensor_type.HasField("shape")
        assert propagated == wanted
    propagated.clear()
    inferred(single("Pow", 15, POW))
    assert propagated == [False]  # which is enough where no operator passes numbers on
    schemas = onnx.defs.get_all_schemas_with_history()
    assert {each.name for each in schemas if each.has_data_propagation_function} == _PROPAGATING


def test_functions_nested_too_deep_by_bodies_that_are_read_already():
    """Each call that the graph makes is of a body whose every level but its own was read before."""
    proto = functions(
        "f0 (x) => (y) { y = Pow (x, x) }",
        *(f"f{i} (x) => (y) {{ y = own.f{i - 1} (x) }}" for i in range(1, 80)),
    )
    del proto.graph.node[:]
    for i in range(80):
        proto.graph.node.append(helper.make_node(f"f{i}", ["x"], [f"t{i}"], domain="own"))
    proto.graph.node.append(helper.make_node("Neg", ["t63"], ["y"]))
    refused(proto, "node f64.#0 (f63): its graphs and functions nest too deep")
    del proto.graph.node[64:80]
    assert len(load(proto).graph.nodes) == 65


def test_functions_and_their_calls():
    proto = functions("f0 (a, b) => (y) { y = Pow (a, b) }")
    assert load(proto).graph.nodes[0].function is not None  # an input may be left out
    proto.graph.node[0].input.extend(["x", "x"])
    refused(proto, "'f0' has fewer inputs or outputs")
    refused(functions("f0 (a) => (y) { y = Pow (a, b) }"), "reads 'b', which nothing defines")
    refused(functions("f0 (a) => (z) { y = Pow (a, a) }"), "output 'z' of the function 'f0'")
    proto = functions("f0 (a) => (y) { y = Pow (a, a) }")
    proto.graph.node[0].attribute.append(helper.make_attribute("k", 1))
    refused(proto, "'f0' has no 'k'")
    proto = functions("f0 (a) => (y) { y = Pow (a, a) }", "f0 (a) => (y) { y = Mul (a, a) }")
    refused(proto, "defines the function 'f0' twice")


# --- external data ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder with a model's data, and beside it a file that is none of the model's business."""
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(np.ones(4, np.float32).tobytes())
    (inside / "data.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    return inside


def load_external(folder, location: str, shape: tuple[int, ...] = (4,), **entries: object):
    proto = external(with_initializer(np.zeros(shape, np.float32)), location, **entries)
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return load(path)


def test_external_data_is_mapped(folder):
    model = load_external(folder, "data.bin", offset=8, length=16)
    np.testing.assert_array_equal(model.graph.constants["w"], [2, 3, 4, 5])
    assert isinstance(model.graph.constants["w"].base, np.memmap)
    (folder / "sub").mkdir()
    os.link(folder / "data.bin", folder / "sub" / "data.bin")
    np.testing.assert_array_equal(load_external(folder, "sub/data.bin").graph.constants["w"], [0, 1, 2, 3])


def test_thousands_of_external_tensors(folder):
    proto = external(with_initializer(np.zeros(4, np.float32)), "data.bin", length=16)
    for index in range(3000):
        copy = proto.graph.initializer.add()
        copy.CopyFrom(proto.graph.initializer[0])
        copy.name = f"copy{index}"
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    with few_files():
        assert len(load(folder / "net.onnx").graph.constants) == 3001


def test_packed_external_data(folder):
    (folder / "four.bin").write_bytes(b"\xff\x21\x43")
    proto = single("Cast", 21, {"x": ("float32", None)}, to=1)
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.INT4, dims=[3]))
    external(proto, "four.bin", offset=1)
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    assert load(folder / "net.onnx").graph.constants["w"].astype(int).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("location", "entries", "words"),
    [
        ("../secret", {}, "leaves the model's folder"),
        ("sub/../../secret", {}, "leaves the model's folder"),
        ("{tmp}/secret", {}, "leaves the model's folder"),
        ("{tmp}/model/data.bin", {}, "leaves the model's folder"),  # onnx's checker refuses it too
        ("", {}, "leaves the model's folder"),
        ("a\0b", {}, "leaves the model's folder"),
        ("link", {}, "through a symbolic link"),
        ("linked/secret", {}, "through a symbolic link"),
        ("loop", {}, "can't be used"),
        ("missing.bin", {}, "No such file"),
        ("fifo", {}, "not a plain file"),
        (".", {}, "leaves the model's folder"),
        ("data.bin", {"offset": 12}, "past the end"),
        ("data.bin", {"offset": 2**62}, "past the end"),
        ("data.bin", {"offset": 2**63}, "bad external data offset"),
        ("data.bin", {"length": 12}, "wrong length"),
        ("data.bin", {"offset": -4}, "bad external data offset"),
        ("data.bin", {"offset": "1_0"}, "bad external data offset"),
        ("data.bin", {"length": "9" * 5000}, "bad external data length"),
    ],
)
def test_external_data_that_is_unsafe_or_broken(folder, location, entries, words):
    (folder / "link").symlink_to("../secret")
    (folder / "linked").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    with pytest.raises(ModelError, match=words) as caught:
        load_external(folder, location.format(tmp=folder.parent), **entries)
    assert "initializer 'w'" in str(caught.value)
    assert str(folder / "net.onnx") in str(caught.value)


def test_external_data_needs_a_folder():
    proto = external(with_initializer(np.zeros(4, np.float32)), "data.bin")
    refused(proto, "came without a folder")


def test_external_data_of_a_constant_is_no_way_out(folder):
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "v")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    node = helper.make_node("Constant", [], ["out"], "c", value=tensor)
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("out")])
    (folder / "net.onnx").write_bytes(helper.make_model(graph, ir_version=8).SerializeToString())
    with pytest.raises(ModelError, match=r"node 'c' \(Constant\): .*leaves the model's folder"):
        load(folder / "net.onnx")


def test_a_model_without_an_output():
    proto = single("Pow", 15, POW)
    del proto.graph.output[:]
    refused(proto, "the graph has no output")
