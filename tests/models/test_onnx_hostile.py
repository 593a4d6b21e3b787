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
from halfulp.models.onnx.walk import every_node, graphs

POW = {"x": ("float32", [2]), "y": ("float32", [2])}


def refused(proto: onnx.ModelProto | bytes, *words: str) -> None:
    """Assert that a model is refused, and that the first line has the words."""
    with pytest.raises(ModelError) as caught:
        load(proto, file="net.onnx")
    line = str(caught.value).splitlines()[0]
    assert line.startswith("net.onnx")
    assert all(word in line for word in words), line


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


def test_every_truncation_is_refused_or_sound():
    data = with_initializer(np.arange(4, dtype=np.float32)).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(HalfulpError):
            load(data[:length])


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
        ({"data_type": 1, "dims": [1], "float_data": [1], "data_location": 1}, "carries its data twice"),
        ({"data_type": 8, "dims": [1], "data_location": 1}, "strings as external data"),
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
    proto.graph.sparse_initializer[0].values.dims[:] = [1, 2]
    refused(proto, "sparse initializer 'w' has indices that are not int64, or values that are not a list")
    for indices in (helper.make_tensor("i", 7, [2], [0, 0]), helper.make_tensor("i", 7, [2, 0], [])):
        proto.graph.sparse_initializer[0].CopyFrom(helper.make_sparse_tensor(values, indices, []))
        refused(proto, "sparse initializer 'w' has no dims")


# --- functions ----------------------------------------------------------------------------------


def functions(*texts: str) -> onnx.ModelProto:
    return parsed(
        '<ir_version: 10, opset_import: ["": 15, "own": 1]> g (float[N] x) => (float[N] y) { y = own.f0 (x) }'
        + "".join(f'<domain: "own", opset_import: ["": 15, "own": 1]> {text}' for text in texts)
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


def test_bodies_of_a_message_that_was_never_a_file():
    """Such messages may nest deeper than Python's own calls."""
    model = single("Pow", 15, POW)
    graph = model.graph
    for _ in range(1200):
        node = graph.node.add(op_type="If", input=["c"], output=["z"])
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    refused(model, "its graphs and functions nest too deep")
    assert sum(node.op_type == "If" for node in every_node(model.graph)) == 1200
    assert len([*graphs(model.graph)]) == 1201


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
    os.link(folder / "data.bin", folder / "a\\b.bin")
    for place in ("sub/data.bin", "sub\\data.bin", "a\\b.bin"):
        np.testing.assert_array_equal(load_external(folder, place).graph.constants["w"], [0, 1, 2, 3])


def test_external_data_of_no_elements(folder):
    (folder / "empty.bin").touch()
    assert load_external(folder, "empty.bin", (0, 2)).graph.constants["w"].shape == (0, 2)


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
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], raw_data=b""))
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
        ("data.bin", {"offset": 10**18 - 1}, "past the end"),
        ("data.bin", {"offset": 10**18}, "bad external data offset"),
        ("data.bin", {"length": 12}, "wrong length"),
        ("data.bin", {"offset": -4}, "bad external data offset"),
        ("data.bin", {"offset": "1_0"}, "bad external data offset"),
        ("data.bin", {"length": "9" * 5000}, "bad external data length"),
        ("data.bin", {"offset": "\u0661"}, "bad external data offset"),
        ("c:data.bin", {}, "leaves the model's folder"),
        ("unreadable", {}, "may not be read"),
    ],
)
def test_external_data_that_is_unsafe_or_broken(folder, location, entries, words, monkeypatch):
    (folder / "link").symlink_to("../secret")
    (folder / "linked").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    (folder / "unreadable").touch()
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "unreadable")  # root may read everything
    with pytest.raises(ModelError, match=words) as caught:
        load_external(folder, location.format(tmp=folder.parent), **entries)
    assert "initializer 'w'" in str(caught.value)
    assert str(folder / "net.onnx") in str(caught.value)


def test_external_data_needs_a_folder():
    proto = external(with_initializer(np.zeros(4, np.float32)), "data.bin")
    refused(proto, "came without a folder")
    data = external(proto, "qqq").SerializeToString()
    refused(data.replace(b"qqq", b"q\xffq"), "its location is not UTF-8")


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
