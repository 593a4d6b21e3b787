"""DxDispatch programs: every form of the file, what a run gives, and files that are broken or hostile."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.bounded import few_files, little_memory

import halfulp as hu
from halfulp.models.directml.dxdispatch import Program, load, save, to_json

F3 = {"DataType": "FLOAT32", "Sizes": [3]}
ROOT: dict[str, Any] = {
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 4, 9]},
        "Out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 3, "value": 0}},
    },
    "dispatchables": {
        "root": {
            "type": "DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW",
            "desc": {"InputTensor": F3, "OutputTensor": F3, "Exponent": 0.5},
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "root", "bindings": {"InputTensor": "A", "OutputTensor": "Out"}}
    ],
}
PRELU = {"type": "ACTIVATION_PARAMETERIZED_RELU"}


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """Return the program with one thing changed; ``...`` takes it away."""
    root = copy.deepcopy(ROOT)
    part = root
    for step in path[:-1]:
        part = part[step]
    if to is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = to
    return root


def program(root: dict[str, Any]) -> Program:
    return load(json.dumps(root).encode(), file="p.json")


def values(root: dict[str, Any]) -> list[float]:
    return hu.run(program(root))["Out"].tolist()


# --- running --------------------------------------------------------------------------------------


def test_a_program_runs(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(ROOT))
    outputs = hu.run(tmp_path / "p.json")
    assert list(outputs) == ["Out"]
    assert outputs["Out"].dtype == np.float32
    assert outputs["Out"].tolist() == [1, 2, 3]
    for fed in ([16, 25, 36], np.array([[16], [25], [36]], np.float32), np.array([16, 25, 36], ">f4")):
        assert hu.run(tmp_path / "p.json", {"A": fed})["Out"].tolist() == [4, 5, 6]
    assert hu.run(json.dumps(ROOT).encode())["Out"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("fed", "words"),
    [
        ({"B": [1, 2, 3]}, "has no input 'B'\n  expected: 'A', 'Out'"),
        ({"A": [1, 2]}, "input 'A' contradicts the model's declaration"),
        ({"A": np.ones(3)}, "input 'A' contradicts the model's declaration"),
    ],
)
def test_what_a_feed_contradicts(fed: dict[str, Any], words: str) -> None:
    with pytest.raises(hu.ModelError, match=words):
        hu.run(program(ROOT), fed)


def test_the_results_are_what_a_dispatch_wrote() -> None:
    root = copy.deepcopy(ROOT)
    square = {"InputTensor": F3, "OutputTensor": F3, "Exponent": 2, "ScaleBias": {"Scale": 1, "Bias": 1}}
    root["dispatchables"]["square"] = {"type": "ELEMENT_WISE_CONSTANT_POW", "Desc": square}
    again = {
        "type": "dispatch",
        "dispatchable": "square",
        "bindings": {"InputTensor": "Out", "OutputTensor": "A"},
    }
    twice = {
        "type": "dispatch",
        "dispatchable": "square",
        "bindings": {"InputTensor": "A", "OutputTensor": "A"},
    }
    root["commands"] += [again, twice]
    outputs = hu.run(program(root))
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "Out": [1, 2, 3],
        "A": [25, 100, 289],
    }
    # The file's initial values are as they were for the next run.
    assert hu.run(program(root))["Out"].tolist() == [1, 2, 3]


def test_the_shape_of_a_result() -> None:
    """A tensor that covers its resource has its own shape; the rest of a resource stays as it was."""
    wide = {"DataType": "FLOAT32", "Sizes": [1, 3]}
    root = changed(
        "dispatchables", "root", "desc", to={"InputTensor": wide, "OutputTensor": wide, "Exponent": 2}
    )
    assert hu.run(program(root))["Out"].tolist() == [[1, 16, 81]]
    root["resources"]["Out"]["initialValues"] = [7, 7, 7, 7, 7]
    assert hu.run(program(root))["Out"].tolist() == [1, 16, 81, 7, 7]
    spread = {"DataType": "FLOAT32", "Sizes": [1, 3], "Strides": [6, 2]}
    root["dispatchables"]["root"]["desc"]["OutputTensor"] = spread
    assert hu.run(program(root))["Out"].tolist() == [1, 7, 16, 7, 81]


def test_offsets_of_bindings() -> None:
    root = changed("resources", "A", "initialValues", to=[0, 0, 0, 0, 1, 4, 9])
    root["commands"][0]["bindings"]["InputTensor"] = [{"name": "A", "elementOffset": 4, "elementCount": 3}]
    assert values(root) == [1, 2, 3]
    root["commands"][0]["bindings"]["InputTensor"] = {
        "name": "A",
        "elementOffset": 1,
        "elementSizeInBytes": 16,
    }
    assert values(root) == [1, 2, 3]
    root["commands"][0]["bindings"]["InputTensor"] = {"name": "A", "elementOffset": 1}
    with pytest.raises(
        hu.ModelError, match=r"command 0, .*C9: InputTensor starts at an offset that is not aligned"
    ):
        program(root)


def test_tensors_that_directml_owns_are_copied_first() -> None:
    owned = F3 | {"Flags": ["NONE", "DML_TENSOR_FLAG_OWNED_BY_DML"]}
    root = changed("dispatchables", "root", to=PRELU | {"bindings": {"SlopeTensor": "A"}})
    root["dispatchables"]["root"]["desc"] = {"InputTensor": F3, "SlopeTensor": owned, "OutputTensor": F3}
    root["resources"]["x"] = {"initialValuesDataType": "FLOAT32", "initialValues": [-1, -1, -1]}
    bound = {
        "type": "dispatch",
        "dispatchable": "root",
        "bindings": {"InputTensor": "x", "OutputTensor": "A"},
    }
    last = {
        "type": "dispatch",
        "dispatchable": "root",
        "bindings": {"InputTensor": "x", "OutputTensor": "Out"},
    }
    root["commands"] = [bound, last]
    assert values(root) == [-1, -4, -9]  # not from A as the first command left it
    root["commands"] = [{**last, "bindings": {**last["bindings"], "SlopeTensor": "A"}}]
    with pytest.raises(hu.ModelError, match="command 0: wrong bindings for this dispatch"):
        program(root)
    del root["dispatchables"]["root"]["bindings"]
    with pytest.raises(
        hu.ModelError, match="'root': wrong bindings for the initialization, of the tensors with Flags"
    ):
        program(root)


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    root = copy.deepcopy(ROOT)
    root["resources"]["A"]["initialValues"] = [0.25, "nan", "Inf"]
    root["resources"]["i"] = {"initialValuesDataType": "INT8", "initialValues": [1, -2, 3]}
    root["commands"] += [{"type": "Print", "resource": "Out"}, {"type": "print", "resource": "i"}]
    root["commands"] += [{"type": "print", "resource": "A", "verbose": True}]
    hu.run(program(root))
    assert capsys.readouterr().out.splitlines() == [
        "Resource 'Out': 0.5, nan, inf",
        "Resource 'i': 1, -2, 3",
        "Resource 'A':",
        "[0] 0.25 (0x3E800000)",
        "[1] nan (0x7FC00000)",
        "[2] inf (0x7F800000)",
    ]


def test_a_long_resource_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    root = changed("commands", to=[{"type": "print", "resource": "A"}])
    root["resources"]["A"] = {
        "initialValuesDataType": "INT32",
        "initialValues": {"valueCount": 25_000, "valueStart": 0, "valueDelta": 1},
    }
    assert hu.run(program(root)) == {}
    assert capsys.readouterr().out == f"Resource 'A': {', '.join(map(str, range(25_000)))}\n"


# --- initial values -------------------------------------------------------------------------------

TYPES = [
    "FLOAT64",
    "FLOAT32",
    "FLOAT16",
    *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_and_form(kind: str) -> None:
    dtype = np.dtype(kind.lower())
    forms: list[tuple[Any, list[Any]]] = [
        ([1, 2, 3], [1, 2, 3]),
        ({"valueCount": 2, "value": 5}, [5, 5]),
        ({"valueCount": 4, "valueStart": 1, "valueDelta": 3}, [1, 4, 7, 10]),
    ]
    if dtype.kind == "f":
        forms += [(["nan", "-Inf", 0.1], ["nan", "-inf", 0.1]), ({"valueCount": 1, "value": "inf"}, ["inf"])]
    else:
        info = np.iinfo(dtype)
        forms += [([int(info.min), int(info.max)], [info.min, info.max])]
    for form, expected in forms:
        for spelled in (kind, f"DML_TENSOR_DATA_TYPE_{kind}"):
            root = changed("resources", "A", to={"initialValuesDataType": spelled, "initialValues": form})
            root["commands"] = []
            resource = program(root).resources["A"]
            np.testing.assert_array_equal(resource.make(), np.array(expected, dtype))
            assert resource.make().dtype == dtype
            assert resource.size == -(-len(expected) * dtype.itemsize // 4) * 4


@pytest.mark.parametrize(
    ("kind", "start", "delta"),
    [("FLOAT32", 0.1, 0.1), ("FLOAT16", 2040, 0.7), ("INT8", 120, 5), ("UINT16", 65530, 9)],
)
def test_a_sequence_adds_up_in_its_own_type(kind: str, start: float, delta: float) -> None:
    dtype = np.dtype(kind.lower())
    form = {"valueCount": 50, "valueStart": start, "valueDelta": delta}
    root = changed("resources", "A", to={"initialValuesDataType": kind, "initialValues": form})
    root["commands"] = []
    expected = [np.array(start).astype(dtype)[()]]
    with np.errstate(over="ignore"):
        for _ in range(49):
            expected.append(dtype.type(expected[-1] + np.array(delta).astype(dtype)[()]))
    assert program(root).resources["A"].make().tolist() == expected


def test_values_of_mixed_types() -> None:
    mixed = [
        {"name": "count", "type": "UINT32", "value": 6},
        {"type": "DML_TENSOR_DATA_TYPE_FLOAT32", "value": 0.5},
        {"type": "INT8", "value": -1},
    ]
    for kind in ({}, {"initialValuesDataType": "UNKNOWN"}):
        root = changed("resources", "A", to={"initialValues": mixed, "sizeInBytes": 256} | kind)
        root["commands"] = []
        resource = program(root).resources["A"]
        assert resource.make().tobytes() == np.uint32(6).tobytes() + np.float32(0.5).tobytes() + b"\xff"
        assert (resource.type, resource.size) == ("UINT8", 256)
        assert to_json(program(root))["resources"]["A"]["initialValues"][0] == mixed[0]
        assert to_json(program(to_json(program(root)))) == to_json(program(root))


def test_values_from_files(tmp_path: Path) -> None:
    x = np.array([[1, 4, 9]], np.float32)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data/x.npy", x)
    np.save(tmp_path / "big.npy", x.astype(">f4"))
    x.tofile(tmp_path / "x.dat")
    for path, kind in (
        ("data/x.npy", None),
        ("data\\x.npy", "FLOAT32"),
        ("big.npy", "UNKNOWN"),
        ("x.dat", "FLOAT32"),
    ):
        source = {"initialValues": {"sourcePath": path}} | ({"initialValuesDataType": kind} if kind else {})
        (tmp_path / "p.json").write_text(json.dumps(changed("resources", "A", to=source)))
        assert hu.run(tmp_path / "p.json")["Out"].tolist() == [1, 2, 3]


def test_thousands_of_files_and_one_that_changes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 4, 9], np.float32))
    source = {"initialValues": {"sourcePath": "x.npy"}}
    root = changed("resources", to={f"A{i}": source for i in range(3000)} | ROOT["resources"])
    root["commands"] = [
        {
            "type": "dispatch",
            "dispatchable": "root",
            "bindings": {"InputTensor": f"A{i}", "OutputTensor": "Out"},
        }
        for i in range(3000)
    ]
    (tmp_path / "p.json").write_text(json.dumps(root))
    with few_files():
        read = load(tmp_path / "p.json")
        assert hu.run(read)["Out"].tolist() == [1, 2, 3]
    (tmp_path / "x.npy").write_bytes(b"")
    with pytest.raises(hu.ModelError, match=r"p\.json, node resource 'A0': .*has become shorter"):
        hu.run(read)


def test_offsets_of_initial_values() -> None:
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": [4, 9], "initialValuesOffsetInBytes": 4}
    root = changed("resources", "A", to=resource | {"sizeInBytes": 16})
    assert values(root) == [0, 2, 3]
    with pytest.raises(hu.ModelError, match="resource 'A': its size is too small for its initial values"):
        program(changed("resources", "A", to=resource))


# --- files ----------------------------------------------------------------------------------------


def test_writing_files(tmp_path: Path) -> None:
    half = {"DataType": "FLOAT16", "Sizes": [3]}
    root = changed(
        "dispatchables", "root", "desc", to={"InputTensor": half, "OutputTensor": half, "Exponent": 2}
    )
    for name in ("A", "Out"):
        root["resources"][name] = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3]}
    targets = [
        {"targetPath": "a.npy"},
        {"targetPath": "new/b.npy", "dimensions": [3, 1]},
        {"targetPath": "c.bin"},
    ]
    root["commands"] += [{"type": "writeFile", "resource": "Out"} | target for target in targets]
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "own/p.json").write_text(json.dumps(root))
    hu.run(tmp_path / "own/p.json")
    hu.run(tmp_path / "own/p.json", output_folder=tmp_path / "other")
    for folder in ("own", "other"):
        # A buffer is a multiple of 4 bytes long, and DxDispatch writes all of it.
        assert np.load(tmp_path / folder / "a.npy").tolist() == [1, 4, 9, 0]
        assert np.load(tmp_path / folder / "new/b.npy").tolist() == [[1], [4], [9]]
        assert (tmp_path / folder / "c.bin").read_bytes() == np.array([1, 4, 9, 0], np.float16).tobytes()
    with pytest.raises(hu.ModelError, match="command 1: targetPath names a file, but the model came without"):
        hu.run(program(root))


@pytest.mark.parametrize(
    "path", ["../x.npy", "/tmp/x.npy", "a/../../x.npy", "..\\x.npy", "C:\\x.npy", "link/x.npy", ""]
)
def test_paths_that_leave_the_folder(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    reads = changed("resources", "A", to={"initialValues": {"sourcePath": path}})
    writes = copy.deepcopy(ROOT)
    writes["commands"].append({"type": "writeFile", "resource": "Out", "targetPath": path})
    for root in (reads, writes):
        (folder / "p.json").write_text(json.dumps(root))
        with pytest.raises(hu.HalfulpError, match=r"p\.json, node (resource 'A'|command 1): .*Path"):
            hu.run(folder / "p.json")
    assert np.load(tmp_path / "x.npy").tolist() == [1, 1, 1]


def test_what_a_program_may_not_overwrite(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    root = changed("resources", "A", to={"initialValues": {"sourcePath": "x.npy"}})
    root["commands"].append({"type": "writeFile", "resource": "Out", "targetPath": "x.npy"})
    (tmp_path / "p.json").write_text(json.dumps(root))
    with pytest.raises(hu.ModelError, match="command 1: targetPath is a file that the model reads"):
        hu.run(tmp_path / "p.json")
    root = copy.deepcopy(ROOT)
    for target in (".bashrc", "p.json", "x.py"):
        root["commands"][1:] = [{"type": "writeFile", "resource": "Out", "targetPath": target}]
        with pytest.raises(hu.ModelError, match="command 1: targetPath is not a data file"):
            program(root)


# --- the form of the file -------------------------------------------------------------------------


def test_comments_and_trailing_commas() -> None:
    text = json.dumps(ROOT).replace("[1, 4, 9]", '[1, /* "*/ 4, // nine, {\n 9, ]').replace("0.5}", "0.5, }")
    assert hu.run(text.encode())["Out"].tolist() == [1, 2, 3]
    root = changed("resources", to={"// , ]": ROOT["resources"]["A"], "Out": ROOT["resources"]["Out"]})
    root["commands"][0]["bindings"]["InputTensor"] = "// , ]"
    assert values(root) == [1, 2, 3]


def test_long_short_nested_and_inline_forms() -> None:
    full = {
        "Type": "DML_TENSOR_TYPE_BUFFER",
        "Desc": {
            "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
            "Flags": "DML_TENSOR_FLAG_NONE",
            "DimensionCount": 1,
            "Sizes": [3],
            "Strides": [1],
            "TotalTensorSizeInBytes": 12,
            "GuaranteedBaseOffsetAlignment": 0,
        },
    }
    desc = {"InputTensor": full, "OutputTensor": {"Type": "BUFFER", **F3}, "Exponent": 0.5}
    forms: list[dict[str, Any]] = [
        {"type": "ELEMENT_WISE_CONSTANT_POW", "desc": desc},
        {"Type": "DML_OPERATOR_ELEMENT_WISE_CONSTANT_POW", "Desc": desc},
        {"type": "ELEMENT_WISE_CONSTANT_POW", **desc},
        {
            "type": "ELEMENT_WISE_CONSTANT_POW",
            "desc": desc,
            "dmlCompileType": "DmlCompileGraph",
            "executionFlags": ["DML_EXECUTION_FLAG_DISABLE_META_COMMANDS", "NONE"],
        },
    ]
    for form in forms:
        root = changed("dispatchables", "root", to=form)
        assert values(root) == [1, 2, 3]
        assert values(to_json(program(root))) == [1, 2, 3]


def test_other_dispatchables_are_named(tmp_path: Path) -> None:
    root = copy.deepcopy(ROOT)
    root["dispatchables"] |= {
        "shade": {"type": "hlsl", "sourcePath": "a.hlsl"},
        "sum": {"type": "DML_OPERATOR_ELEMENT_WISE_ADD1", "desc": {"ATensor": F3}},
    }
    root["commands"].append({"type": "dispatch", "dispatchable": "sum", "bindings": {"ATensors": ["A", "A"]}})
    read = program(root)
    assert to_json(read) == to_json(program(to_json(read)))
    assert to_json(read)["commands"][1] == root["commands"][1]
    with pytest.raises(hu.UnsupportedError) as caught:
        hu.run(read)
    assert (
        str(caught.value).splitlines()[2] == "  got: 'shade' (hlsl), 'sum' (DML_OPERATOR_ELEMENT_WISE_ADD1)"
    )


def test_what_is_read_is_written(tmp_path: Path) -> None:
    root = copy.deepcopy(ROOT)
    root["$schema"] = "./_schema.json"
    root["resources"]["A"] |= {"sizeInBytes": 32, "initialValues": [1, "nan", 0.1], "comment": "kept"}
    root["commands"] += [
        {"type": "print", "resource": "Out", "verbose": True},
        {"type": "writeFile", "resource": "Out", "targetPath": "o.npy", "dimensions": [3]},
    ]
    read = program(root)
    assert to_json(read) == root
    save(read, tmp_path / "p.json")
    again = load(tmp_path / "p.json", file="p.json")
    assert (again.resources, again.dispatchables, again.commands, again.other) == (
        read.resources,
        read.dispatchables,
        read.commands,
        read.other,
    )
    with pytest.raises(hu.HalfulpError, match=r"must end in \.json"):
        save(read, tmp_path / "p.txt")


def test_a_program_stays_with_its_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    (tmp_path / "p.json").write_text(
        json.dumps(changed("resources", "A", to={"initialValues": {"sourcePath": "x.npy"}}))
    )
    (tmp_path / "elsewhere").mkdir()
    read = load(tmp_path / "p.json")
    save(read, tmp_path / "q.json")
    assert hu.run(tmp_path / "q.json")["Out"].tolist() == [1, 1, 1]
    with pytest.raises(hu.HalfulpError, match="resource 'A' reads a file that is not in"):
        save(read, tmp_path / "elsewhere/q.json")


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    """Make a program of several dispatches over a few buffers, in place and strided."""
    kind = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    count = draw(st.integers(1, 6))
    number = st.one_of(
        st.integers(-4, 4), st.floats(-8, 8, width=16), st.sampled_from(["nan", "inf", "-inf"])
    )
    names = ["a", "b", "c"]
    resources = {}
    for name in names:
        form = draw(st.sampled_from(["list", "constant", "sequence"]))
        made: Any = [draw(number) for _ in range(2 * count)]
        if form == "constant":
            made = {"valueCount": 2 * count, "value": draw(number)}
        if form == "sequence":
            made = {"valueCount": 2 * count, "valueStart": draw(number), "valueDelta": draw(number)}
        resources[name] = {"initialValuesDataType": kind, "initialValues": made}
    dispatchables, commands = {}, []
    for index in range(draw(st.integers(1, 4))):

        def tensor() -> dict[str, Any]:
            strides = draw(st.sampled_from([None, [1], [2]]))
            return {"DataType": kind, "Sizes": [count]} | ({"Strides": strides} if strides else {})

        x, y, out = (draw(st.sampled_from(names)) for _ in range(3))
        if y == out:
            y, out = (name for name in names if name != x)
        shared = tensor()
        desc = {"InputTensor": shared, "OutputTensor": shared}
        bindings = {"InputTensor": x, "OutputTensor": out}
        match draw(st.integers(0, 2)):
            case 0:
                form = "ELEMENT_WISE_CONSTANT_POW"
                desc |= {"Exponent": draw(number)}
            case 1:
                form = "ELEMENT_WISE_POW"
                desc |= {
                    "ExponentTensor": tensor(),
                    "ScaleBias": {"Scale": draw(number), "Bias": draw(number)},
                }
                bindings["ExponentTensor"] = y
            case _:
                form = "ACTIVATION_PARAMETERIZED_RELU"
                desc |= {"SlopeTensor": tensor()}
                bindings["SlopeTensor"] = y
        dispatchables[f"d{index}"] = {"type": form, "desc": desc}
        commands.append({"type": "dispatch", "dispatchable": f"d{index}", "bindings": bindings})
    return {"resources": resources, "dispatchables": dispatchables, "commands": commands}


@settings(max_examples=100)
@given(programs())
def test_round_trips_change_nothing(root: dict[str, Any]) -> None:
    read = program(root)
    again = program(to_json(read))
    assert to_json(again) == to_json(read)
    before, after = hu.run(read), hu.run(again)
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert (array.dtype, array.shape, array.tobytes()) == (
            after[name].dtype,
            after[name].shape,
            after[name].tobytes(),
        )


# --- broken and hostile files ---------------------------------------------------------------------


def refused(data: bytes, words: str) -> None:
    """Assert that a file is refused in little memory, in words that name it."""
    with little_memory(), pytest.raises(hu.HalfulpError) as caught:
        hu.run(load(data, file="p.json"))
    assert "p.json" in str(caught.value).splitlines()[0]
    assert str(caught.value).splitlines()[0].isprintable()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        (b"[]", "not a JSON object"),
        (b"{", "not well-formed JSON, line 1, column 2"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1} {"b": 2}', "not well-formed JSON"),
        (b'{"a": 1, "a": 2}', "the field 'a' is given twice"),
        (b'{"a": NaN}', "JSON has no NaN"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 6000 + b"}", "too large"),
        (b'{"a": ' * 20_000, "nests too deep"),
        (b"[" * 1_000_000, "nests too deep"),
        (b"{/* never closed", "not well-formed JSON"),
        (json.dumps(ROOT).encode() + b"/* never closed", "not well-formed JSON"),
        (b'{"never closed' + b'\\"' * 300_000, "not well-formed JSON"),  # in no time
        (b"{" + b"/* " * 300_000, "not well-formed JSON"),
        (
            json.dumps(changed("dispatchables", "root", "type", to="\ud800")).encode(),
            "half of a surrogate pair",
        ),
        (
            json.dumps({str(i): 0 for i in range(30_000)}).encode()[:-1] + b',"29999":0}',
            "'29999' is given twice",
        ),
        (b"{}", "the model has no resources"),
        (b'{"resources": [], "dispatchables": {}, "commands": []}', "resources must be an object"),
    ],
)
def test_what_is_no_program(data: bytes, words: str) -> None:
    refused(data, words)


A, OUT, D, C = ("resources", "A"), ("resources", "Out"), ("dispatchables", "root"), ("commands", 0)
HUGE = 2**32 - 1


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        ((*A, "initialValues"), ..., "resource 'A': a resource has no initialValues"),
        ((*A, "initialValues"), [], "resource 'A': initialValues must not be empty"),
        ((*A, "initialValues"), 5, "resource 'A': initialValues must be an object"),
        ((*A, "initialValues"), [1, True], "a value must be a number"),
        ((*A, "initialValues"), [1, None], "a value must be a number"),
        ((*A, "initialValues"), [1, "two"], "a value must be a number"),
        ((*A, "initialValues"), [2**53 + 1], "a value must be a number that float64 holds"),
        ((*A, "initialValues"), [1e39], "a value is too large for the type"),
        ((*A, "initialValues"), "deferred", "only ONNX dispatchables"),
        ((*A, "initialValues"), {"valueCount": 0, "value": 1}, "initialValues must not be empty"),
        ((*A, "initialValues"), {"valueCount": -1, "value": 1}, "valueCount must be an unsigned integer"),
        ((*A, "initialValues"), {"valueCount": 2**32, "value": 1}, "valueCount must be an unsigned integer"),
        (
            (*A, "initialValues"),
            {"valueCount": HUGE, "value": 1},
            "initialValues is too large",
        ),
        (
            (*A, "initialValues"),
            {"valueCount": HUGE, "valueStart": 1, "valueDelta": 1},
            "initialValues is too large",
        ),
        (
            (*A, "initialValues"),
            {"valueCount": 2, "value": 1, "valueStart": 1},
            "must have one of value, valueStart",
        ),
        ((*A, "initialValues"), {"valueCount": 2, "valueStart": 1}, "initialValues has no valueDelta"),
        ((*A, "initialValues"), {"valueCount": 2}, "must have one of value, valueStart"),
        ((*A, "initialValues"), {"sourcePath": "x.png"}, "is an image"),
        ((*A, "initialValues"), {"sourcePath": "x.npy"}, "the model came without a folder"),
        ((*A, "initialValuesDataType"), "FLOAT8", "resource 'A': initialValuesDataType is not a data type"),
        ((*A, "initialValuesDataType"), "INT4", "resource 'A': initialValuesDataType is not a data type"),
        (
            (*A, "initialValuesDataType"),
            ...,
            "each of initialValues without initialValuesDataType must be an object",
        ),
        ((*OUT, "initialValuesDataType"), ..., "initialValuesDataType is missing"),
        ((*A, "sizeInBytes"), 8, "resource 'A': its size is too small"),
        ((*A, "sizeInBytes"), 2**63, "sizeInBytes is too large"),
        ((*A, "sizeInBytes"), 12.0, "sizeInBytes must be an unsigned integer"),
        ((*A, "initialValuesOffsetInBytes"), 2**64 - 1, "resource 'A': its size is too small"),
        ((*A, "type"), "texture", "type must be buffer"),
        ((*D, "type"), ..., "dispatchable 'root': a dispatchable has no type"),
        ((*D, "desc"), 1, "dispatchable 'root': desc must be an object"),
        ((*D, "desc", "Exponent"), ..., "desc has no Exponent"),
        ((*D, "desc", "Exponent"), "two", "Exponent must be a number"),
        ((*D, "desc", "Exponent"), 1e300, "ELEMENT_WISE_CONSTANT_POW-3_0.C7"),
        ((*D, "desc", "scaleBias"), {"Scale": 1, "Bias": 0}, "desc has an unknown field 'scaleBias'"),
        ((*D, "desc", "ScaleBias"), {"Scale": 1}, "ScaleBias has no Bias"),
        ((*D, "desc", "InputTensor"), ..., "desc has no InputTensor"),
        ((*D, "desc", "InputTensor"), {"DataType": "FLOAT32"}, "InputTensor has no Sizes"),
        ((*D, "desc", "InputTensor"), F3 | {"Sizes": [0]}, "DML_BUFFER_TENSOR_DESC.C3"),
        ((*D, "desc", "InputTensor"), F3 | {"Sizes": [-3]}, "each of Sizes must be an unsigned integer"),
        ((*D, "desc", "InputTensor"), F3 | {"Sizes": [3, 2**31]}, "DML_BUFFER_TENSOR_DESC.C3"),
        ((*D, "desc", "InputTensor"), F3 | {"Sizes": [4]}, "ELEMENT_WISE_CONSTANT_POW-3_0.C2"),
        ((*D, "desc", "InputTensor"), F3 | {"DataType": "FLOAT64"}, "ELEMENT_WISE_CONSTANT_POW-3_0.C3"),
        ((*D, "desc", "InputTensor"), F3 | {"Strides": [2**31]}, "C4"),
        ((*D, "desc", "InputTensor"), F3 | {"Strides": [2]}, "command 0"),
        (
            (*D, "desc", "InputTensor"),
            F3 | {"TotalTensorSizeInBytes": 16},
            "the buffer of InputTensor is too small",
        ),
        ((*D, "desc", "InputTensor"), F3 | {"Type": "TEXTURE"}, "Type must be BUFFER"),
        ((*D, "desc", "InputTensor"), {"Desc": F3, "Sizes": [3]}, "InputTensor has an unknown field 'Sizes'"),
        ((*D, "desc", "OutputTensor"), F3 | {"Strides": [0]}, "C5"),
        ((*D, "dmlCompileType"), "Fast", "dmlCompileType must be DmlCompileOp or DmlCompileGraph"),
        ((*D, "executionFlags"), ["FAST"], "unknown flag in executionFlags"),
        ((*D, "bindings"), {"InputTensor": "A"}, "wrong bindings for the initialization"),
        (C, [], "command 0: a command must be an object"),
        ((*C, "type"), "copy", "command 0: unknown command"),
        ((*C, "dispatchable"), "none", "command 0: no dispatchable is called 'none'"),
        ((*C, "bindings"), ..., "a command has no bindings"),
        ((*C, "bindings", "InputTensor"), "none", "no resource is called 'none'"),
        ((*C, "bindings", "InputTensor"), ["A", "A"], "the binding of InputTensor must be an object"),
        ((*C, "bindings", "InputTensor"), {"name": "A", "elementOffset": 2**62}, "command 0"),
        ((*C, "bindings", "InputTensor"), ..., "wrong bindings for this dispatch"),
        ((*C, "bindings", "SlopeTensor"), "A", "wrong bindings for this dispatch"),
        (C, {"type": "print", "resource": "\x1b[2J"}, "no resource is called '?[2J'"),
        (C, {"type": "print", "resource": "A", "verbose": 1}, "verbose must be true or false"),
        (C, {"type": "writeFile", "resource": "A"}, "a command has no targetPath"),
        (C, {"type": "writeFile", "resource": "A", "targetPath": "x.png"}, "is an image"),
    ],
)
def test_what_a_part_can_not_be(path: tuple[Any, ...], to: Any, words: str) -> None:
    refused(json.dumps(changed(*path, to=to)).encode(), words)


def test_claims_that_this_computer_can_not_hold() -> None:
    big = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2**30, "value": 0}}
    root = changed("resources", to={f"r{i}": big for i in range(1000)})
    root["commands"] = [{"type": "print", "resource": name} for name in root["resources"]]
    root["dispatchables"] = {}
    refused(json.dumps(root).encode(), "the memory of its resources would not fit")


def test_resources_that_no_command_uses_take_no_memory() -> None:
    big = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2**30, "value": 1}}
    root = changed("resources", "big", to=big)
    with little_memory():
        assert values(root) == [1, 2, 3]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.asfortranarray(np.ones((2, 3), np.float32)), "no sourcePath in Fortran order"),
        (np.ones(3), "the type of sourcePath"),
        (np.ones(3, bool), "the type of sourcePath"),
        (np.ones(3).astype(ml_dtypes.bfloat16), "holds a type that NumPy lacks"),
    ],
)
def test_npy_files_that_do_not_fit(tmp_path: Path, array: np.ndarray, words: str) -> None:
    np.save(tmp_path / "x.npy", array)
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "x.npy"}}
    (tmp_path / "p.json").write_text(json.dumps(changed("resources", "A", to=source)))
    with pytest.raises(hu.ModelError, match=f"resource 'A': .*{words}"):
        load(tmp_path / "p.json")


def test_raw_files_that_do_not_fit(tmp_path: Path) -> None:
    for data, words in ((b"", "not one or more elements"), (b"123", "not one or more elements")):
        (tmp_path / "x.bin").write_bytes(data)
        source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "x.bin"}}
        (tmp_path / "p.json").write_text(json.dumps(changed("resources", "A", to=source)))
        with pytest.raises(hu.ModelError, match=words):
            load(tmp_path / "p.json")
    for path, words in (
        (tmp_path, "not a plain file"),
        (tmp_path / "none.json", "No such file"),
        ("/dev/zero", "not a plain file"),
    ):
        with pytest.raises(hu.ModelError, match=words):
            load(path)


def attempt(data: bytes) -> None:
    with contextlib.suppress(hu.HalfulpError):
        hu.run(load(data))


MANY = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("seed", "rounds"), [*((seed, 300) for seed in range(4)), pytest.param(4, 200_000, marks=MANY)]
)
def test_mutated_bytes_give_our_errors_or_a_program(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        data = bytearray(json.dumps(ROOT).encode())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randint(1, 30)]
                case 2:
                    data[place:place] = data[rng.randrange(len(data)) :][: rng.randint(1, 30)]
        attempt(bytes(data))


LEAVES = [
    0,
    1,
    -1,
    3,
    2**31,
    2**32,
    2**64,
    0.5,
    "nan",
    "A",
    "FLOAT16",
    "ELEMENT_WISE_POW",
    "",
    True,
    None,
    [],
    {},
    F3,
]


def attempt_changed(data: st.DataObject) -> None:
    root = copy.deepcopy(ROOT)
    for _ in range(data.draw(st.integers(1, 3))):
        part: Any = root
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(part[key], dict | list) and data.draw(st.integers(0, 3)):
                part = part[key]
                continue
            part[key] = copy.deepcopy(data.draw(st.sampled_from(LEAVES)))
            break
    attempt(json.dumps(root).encode())


@settings(max_examples=300)
@given(st.data())
def test_mutated_structure_gives_our_errors_or_a_program(data: st.DataObject) -> None:
    attempt_changed(data)


@MANY
@settings(max_examples=20_000)
@given(st.data())
def test_many_mutated_structures(data: st.DataObject) -> None:
    attempt_changed(data)
