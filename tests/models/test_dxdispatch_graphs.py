"""Graphs of DirectML: element-wise operators, serialized graphs and DML_GRAPH_DESC, run, converted, audited, broken."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp.models.directml import ELEMENT_WISE
from halfulp.models.directml.dxdispatch import load, to_json

X = np.array([-2, -0.0, 0.3, 4], np.float32)
F4 = {"DataType": "FLOAT32", "Sizes": [4]}


def resource(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"initialValuesDataType": array.dtype.name.upper(), "initialValues": array.tolist()}


def unary(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"DML_OPERATOR_{kind}", "desc": {"InputTensor": F4, "OutputTensor": F4, **more}}


def binary(kind: str) -> dict[str, Any]:
    return {"type": f"DML_OPERATOR_{kind}", "desc": {"ATensor": F4, "BTensor": F4, "OutputTensor": F4}}


def bytes_of(dispatchables: dict[str, Any], dispatchable: str, **bindings: str) -> bytes:
    command = {"type": "dispatch", "dispatchable": dispatchable, "bindings": bindings}
    resources = {"x": resource(X), "y": resource(np.zeros(4, np.float32))}
    return json.dumps(
        {"resources": resources, "dispatchables": dispatchables, "commands": [command]}
    ).encode()


SCALABLE = [kind for kind, (form, _, _) in ELEMENT_WISE.items() if "ScaleBias" in form.__dataclass_fields__]


@pytest.mark.parametrize(
    ("kind", "scaled"), [(kind, False) for kind in ELEMENT_WISE] + [(kind, True) for kind in SCALABLE]
)
def test_an_operator_runs_and_becomes_onnx(kind: str, scaled: bool) -> None:
    form, _, compute = ELEMENT_WISE[kind]
    more = {"ScaleBias": {"Scale": 2, "Bias": 0.7}} if scaled else {}
    two = "ATensor" in form.__dataclass_fields__
    points = {"ATensor": "x", "BTensor": "x"} if two else {"InputTensor": "x"}
    op = binary(kind) if two else unary(kind, **more)
    data = bytes_of({"op": op}, "op", OutputTensor="y", **points)
    x = (X.astype(np.float64) * 2 + float(np.float32(0.7))).astype(np.float32) if scaled else X
    with np.errstate(all="ignore"):
        expected = compute(*[x] * len(points), out=np.empty_like(x))
    np.testing.assert_array_equal(hu.run(data)["y"], expected)
    found = hu.convert(data, to="onnx")
    np.testing.assert_array_equal(hu.run(found.model.SerializeToString())["y"], expected)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"DataType": "INT32", "Sizes": [4]}, "BTensor has an unsupported type"),
        ({"DataType": "FLOAT16", "Sizes": [4]}, "BTensor must have OutputTensor's DataType and Sizes"),
        ({"DataType": "FLOAT32", "Sizes": [1]}, "BTensor must have OutputTensor's DataType and Sizes"),
    ],
)
def test_an_operator_takes_one_type_and_shape(tensor: dict[str, Any], words: str) -> None:
    op = binary("ELEMENT_WISE_ADD")
    op["desc"]["BTensor"] = tensor
    with pytest.raises(hu.ModelError, match=words):
        load(bytes_of({"op": op}, "op", ATensor="x", BTensor="x", OutputTensor="y"))


# --- DML_GRAPH_DESC -------------------------------------------------------------------------------

# y = (x + x)^2 * x
NODES = {
    "add": binary("ELEMENT_WISE_ADD"),
    "pow": unary("ELEMENT_WISE_CONSTANT_POW", Exponent=2),
    "mul": binary("ELEMENT_WISE_MULTIPLY"),
}
GRAPH = {
    "Nodes": [{"type": "DML_GRAPH_NODE_TYPE_OPERATOR", "Operator": name} for name in NODES],
    "InputEdges": [
        {"GraphInputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": 0, "Name": "in"},
        {"GraphInputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": 1, "Name": "in"},
        {"GraphInputIndex": 0, "ToNodeIndex": 2, "ToNodeInputIndex": 1, "Name": "in"},
    ],
    "OutputEdges": [{"FromNodeIndex": 2, "FromNodeOutputIndex": 0, "GraphOutputIndex": 0, "Name": "out"}],
    "IntermediateEdges": [
        {"FromNodeIndex": 0, "FromNodeOutputIndex": 0, "ToNodeIndex": 1, "ToNodeInputIndex": 0},
        {"FromNodeIndex": 1, "FromNodeOutputIndex": 0, "ToNodeIndex": 2, "ToNodeInputIndex": 0},
    ],
}


def graph(change: Callable[[dict[str, Any]], object] = lambda desc: None) -> bytes:
    desc = json.loads(json.dumps(GRAPH))
    change(desc)
    graph = {"type": "DML_GRAPH_DESC", "desc": desc}
    return bytes_of({"graph": graph, **NODES}, "graph", **{"in": "x", "out": "y"})


def test_a_graph_runs_and_becomes_onnx() -> None:
    expected = (X + X) ** 2 * X
    outputs = hu.run(graph())
    assert list(outputs) == ["y"]
    np.testing.assert_array_equal(outputs["y"], expected)
    np.testing.assert_array_equal(hu.run(load(graph()), {"x": X[::-1]})["y"], expected[::-1])
    written = json.dumps(to_json(load(graph()))).encode()
    np.testing.assert_array_equal(hu.run(written)["y"], expected)
    found = hu.convert(graph(), to="onnx", verify=True)
    assert "the same bits" in str(found.verification)
    assert [value.name for value in found.model.graph.output] == ["y"]
    np.testing.assert_array_equal(hu.run(found.model.SerializeToString())["y"], expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda desc: desc["Nodes"][0].update(Operator="none"), "no dispatchable is called 'none'"),
        (lambda desc: desc["InputEdges"][0].update(ToNodeIndex=9), "ToNodeIndex is out of range"),
        (lambda desc: desc["InputEdges"][0].update(ToNodeInputIndex=2), "ToNodeInputIndex is out of range"),
        (lambda desc: desc["IntermediateEdges"].pop(), "wrong bindings for node 'pow'"),
        (
            lambda desc: desc["IntermediateEdges"][0].update(FromNodeIndex=2),
            "reads a value that no earlier node",
        ),
        (
            lambda desc: desc["IntermediateEdges"][0].update(ToNodeIndex=0),
            "two edges lead to ATensor of 'add'",
        ),
        (lambda desc: desc["OutputEdges"].clear(), "wrong bindings for this dispatch"),
        (lambda desc: desc.update(Edges=[]), "has an unknown field 'Edges'"),
    ],
)
def test_a_graph_that_is_broken(change: Callable[[dict[str, Any]], object], words: str) -> None:
    with pytest.raises(hu.ModelError, match=words):
        load(graph(change))


# --- serialized graphs ----------------------------------------------------------------------------


def put(file: bytearray, value: Any) -> int:
    """Write text, data (a bytearray), a struct (a memoryview), a vector (a list) or a table (a tuple of fields).

    A field is None, packed bytes, or anything that an offset leads to. Returns the place in the file.
    """
    file += bytes(-len(file) % 8)
    if isinstance(value, memoryview):
        start = len(file)
        file += value
    elif isinstance(value, str | bytearray):
        start = len(file)
        data = value.encode() if isinstance(value, str) else value
        file += struct.pack("<I", len(data)) + data + b"\0"
    elif isinstance(value, tuple):
        sizes = [0 if f is None else len(f) if isinstance(f, bytes) else 4 for f in value]
        offsets = [8 + 8 * index if size else 0 for index, size in enumerate(sizes)]
        layout = struct.pack(f"<{2 + len(value)}H", 4 + 2 * len(value), 8 + 8 * len(value), *offsets)
        file += layout + bytes(-(len(file) + len(layout)) % 8)
        start = len(file)
        file += struct.pack("<i", len(layout) + -len(layout) % 8) + bytes(4 + 8 * len(value))
        for offset, field in zip(offsets, value, strict=True):
            if isinstance(field, bytes):
                file[start + offset : start + offset + len(field)] = field
            elif field is not None:
                place = put(file, field)
                struct.pack_into("<I", file, start + offset, place - start - offset)
    else:
        start = len(file)
        file += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for at, item in enumerate(value, 1):
            word = item if isinstance(item, int) else put(file, item) - start - 4 * at
            struct.pack_into("<I", file, start + 4 * at, word)
    return start


TENSOR = ("DML_TENSOR_DATA_TYPE_FLOAT32", [4], None, struct.pack("<Q", 16))


def operator(kind: str, name: str, inputs: list[str], output: str, *attributes: Any) -> tuple[Any, ...]:
    desc = (f"DML_OPERATOR_{kind}", [TENSOR] * len(inputs), [TENSOR], list(attributes))
    return (b"\1", desc, name, inputs, [output])


def constant(name: str, output: str, data: bytes | None = None) -> tuple[Any, ...]:
    held: tuple[Any, ...] = (b"\1", (name,)) if data is None else (b"\2", (bytearray(data),))
    return (b"\2", held, name, [], [output])


def file_of(inputs: list[str], outputs: list[str], *nodes: tuple[Any, ...]) -> bytes:
    file = bytearray(4)
    struct.pack_into("<I", file, 0, put(file, (list(nodes), inputs, outputs)))
    return bytes(file)


SCALED = ("ScaleBias", b"\x0a", memoryview(struct.pack("<2f", 2, 1)))
CUBED = ("Exponent", b"\6", memoryview(struct.pack("<f", 3)))
SLOPES, BIAS = np.array([1, 0.25, -3, 0.1], np.float32), np.array([0.5, 1, 2, 3], np.float32)
SERIALIZED = file_of(
    ["in"],
    ["out"],
    constant("slopes", "s"),
    constant("bias", "b", BIAS.tobytes()),
    operator("ELEMENT_WISE_IDENTITY", "i", ["in"], "t", SCALED),
    operator("ELEMENT_WISE_ADD", "sum", ["t", "b"], "u"),
    operator("ELEMENT_WISE_CONSTANT_POW", "cube", ["u"], "v", (None, b"\0"), CUBED),
    operator("ACTIVATION_PARAMETERIZED_RELU", "sum", ["v", "s"], "out"),  # a name may be used twice
)


def serialized(folder: Path, data: bytes) -> Path:
    (folder / "net").mkdir(exist_ok=True)
    (folder / "net" / "Partition_0.bin").write_bytes(data)
    (folder / "net" / "slopes.bin").write_bytes(SLOPES.tobytes())
    path = folder / "net.json"
    dispatchable = {"type": "dmlSerializedGraph", "sourcePath": "net/Partition_0.bin"}
    path.write_bytes(bytes_of({"g": dispatchable}, "g", **{"in": "x", "out": "y"}))
    return path


def test_a_serialized_graph_runs_and_becomes_onnx(tmp_path: Path) -> None:
    path = serialized(tmp_path, SERIALIZED)
    expected = hu.prelu(hu.pow(X * 2 + 1 + BIAS, 3), SLOPES)
    outputs = hu.run(path)
    assert list(outputs) == ["y"]
    np.testing.assert_array_equal(outputs["y"], expected)
    found = hu.convert(path, to="onnx")
    assert [value.name for value in found.model.graph.input] == ["x"]
    np.testing.assert_array_equal(hu.run(found.model.SerializeToString())["y"], expected)
    (report,) = hu.audit(path, targets=[]).models
    assert [node.operator for node in report.nodes] == [
        "directml.ELEMENT_WISE_CONSTANT_POW-3_0",
        "directml.ACTIVATION_PARAMETERIZED_RELU-5_1",
    ]


def test_other_operators_of_a_graph_are_named_and_the_rest_is_audited(tmp_path: Path) -> None:
    nodes = (
        operator("GEMM", "gemm", ["in", "w"], "u"),
        operator("ELEMENT_WISE_CONSTANT_POW", "p", ["u"], "out", CUBED),
    )
    path = serialized(tmp_path, file_of(["in"], ["out"], constant("w", "w"), *nodes))
    with pytest.raises(hu.UnsupportedError, match=r"'g/gemm' \(DML_OPERATOR_GEMM\)"):
        hu.run(path)
    (report,) = hu.audit(path, targets=[]).models
    assert [node.label for node in report.nodes] == ["'g/p' (ELEMENT_WISE_CONSTANT_POW)"]


def test_audit_says_what_it_did_not_look_into() -> None:
    others = {"net": {"type": "onnx", "sourcePath": "a.onnx"}, "gemm": {"type": "DML_OPERATOR_GEMM"}}
    report = hu.audit(bytes_of({**NODES, **others}, "net"), targets=[])
    assert report.json()["models"][0]["unread"] == ["'net' (onnx)"]
    assert "  not looked into: 'net' (onnx)" in str(report).splitlines()
    report = hu.audit(bytes_of(others, "net"), targets=[])
    assert "no Pow, no PRelu in the parts that were looked into" in str(report)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([operator("ELEMENT_WISE_ADD", "a", ["in"], "out")], "the wrong number of tensors"),
        (
            [operator("ELEMENT_WISE_ADD", "a", ["in", "t"], "out")],
            "reads a value that no earlier node computes",
        ),
        ([operator("ELEMENT_WISE_CONSTANT_POW", "a", ["in"], "out")], "has no Exponent"),
        ([constant("none", "c"), operator("ELEMENT_WISE_ADD", "a", ["in", "c"], "out")], "none.bin"),
        ([constant("../x", "c"), operator("ELEMENT_WISE_ADD", "a", ["in", "c"], "out")], "sourcePath"),
        (
            [constant("c", "c", b"abc"), operator("ELEMENT_WISE_ADD", "a", ["in", "c"], "out")],
            "half an element",
        ),
        ([constant("c", "c", b"abcd"), operator("ELEMENT_WISE_ADD", "a", ["in", "c"], "out")], "too small"),
    ],
)
def test_a_serialized_graph_that_is_broken(tmp_path: Path, nodes: list[Any], words: str) -> None:
    with pytest.raises(hu.ModelError, match=words):
        load(serialized(tmp_path, file_of(["in"], ["out"], *nodes)))


def test_mutated_graphs_give_an_error_or_a_program(tmp_path: Path) -> None:
    chance = random.Random(0)
    for _ in range(300):
        data = bytearray(SERIALIZED)
        for _ in range(chance.choice((1, 1, 4))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 4, 0x7F, 0xFF, chance.randrange(256)))
        path = serialized(
            tmp_path, bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))])
        )
        with contextlib.suppress(hu.HalfulpError):
            hu.run(path)
