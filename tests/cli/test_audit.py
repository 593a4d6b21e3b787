"""``halfulp audit``: what it prints, writes, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.models.onnx_models import parsed, single
from typer.testing import CliRunner

from halfulp.cli import app
from halfulp.measured import available

GOOD = """<ir_version: 8, opset_import: ["": 15]>
    g (int32[N] x) => (int32[N] z) { two = Constant<value_int = 2>()  z = Pow (x, two) }"""
OLD = """<ir_version: 8, opset_import: ["": 6]>
    g (float[N, 3, 4] x, float[3] y) => (float[N, 3, 4] z) { z = Pow<axis=1, broadcast=1>(x, y) }"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What is installed here is no matter of these tests.
    monkeypatch.setattr("halfulp.auditing.target.installed", lambda: {"onnxruntime": "1.31.1"})


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["audit", *arguments])
    assert result.exit_code == status, result.output
    return result.stderr if status == 2 else result.stdout


def test_a_clean_model() -> None:
    onnx.save(parsed(GOOD), "m.onnx")
    assert invoked("m.onnx", "-t", "numpy").splitlines() == [
        "m.onnx: 1 node",
        f"  numpy {available()['numpy'][-1]}: its one node right",
        "",
        "m.onnx: right: #1 (Pow)",
        "  onnx.Pow-15 (15): int32[N], int64[] = 2 gives int32[N]",
        "",
        "if another runtime refuses it, or differs: halfulp convert m.onnx converted.onnx --target basic",
        "1 model, 1 with Pow or PRelu; 1 node, 0 findings",
    ]


@pytest.mark.parametrize(
    ("types", "nodes", "options"),
    [
        ("float[N] x", "z = Pow (x, three)", "--target basic"),
        ("float[N] x", "z = Pow (three, x)", "--pow logarithms"),
        ("float[N] x", "y = Pow (three, x)  z = PRelu (y, x)", "--pow logarithms --prelu expand"),
        ("int32[N] x", "y = Constant <value = int32 {-1}> ()  z = Pow (x, y)", ""),
    ],
)
def test_the_command_for_another_runtime_can_be_done(types: str, nodes: str, options: str) -> None:
    result = types.replace(" x", " z")
    text = f"three = Constant <value_float = 3.> ()  {nodes}"
    onnx.save(
        parsed(f'<ir_version: 8, opset_import: ["": 16]> g ({types}) => ({result}) {{ {text} }}'), "m.onnx"
    )
    *_, line, _ = invoked("m.onnx", "-t", "onnxruntime==1.31.1").splitlines()
    command = line.partition("another runtime refuses it, or differs: halfulp ")[2]
    assert command == (f"convert m.onnx converted.onnx {options}" if options else "")
    if command:
        assert not CliRunner().invoke(app, command.split()).exit_code
        assert not {"Pow", "PRelu"} & {node.op_type for node in onnx.load("converted.onnx").graph.node}


def test_what_is_left_open_is_said_where_asked() -> None:
    onnx.save(parsed(GOOD), "m.onnx")
    asked = " ".join(invoked("m.onnx", "-t", "numpy", "--open").split())
    assert (
        "? m.onnx, #1 (Pow): N3: int32 to the power of 2: An integer result that the type does not hold."
        in asked
    )
    assert "The exact integer modulo 2^n (it wraps)" in asked


def test_findings_are_status_1() -> None:
    onnx.save(single("Pow", 13, {"x": ("float32", [2, 3]), "y": ("float32", [2])}, axis=0), "m.onnx")
    text = invoked("m.onnx", status=1)
    assert "m.onnx: invalid: 'node' (Pow)" in text
    assert "! breaks onnx.Pow-13.C5: no attribute axis" in text
    assert "! breaks onnx.Pow-13.C2: X and Y must be broadcastable to one shape" in text
    way_out = "Do this: halfulp repair m.onnx repaired.onnx Y gets the shape [2, 1], where axis=0 puts it"
    assert " ".join(text.split()).count(way_out) == 1


def test_a_target_and_what_a_conversion_would_do() -> None:
    onnx.save(parsed(OLD), "m.onnx")
    text = " ".join(invoked("m.onnx", "--target", "tensorrt", status=1).split())
    assert "tensorrt: its one node refused (opset 6)" in text
    assert "! tensorrt: refused: its documents list opsets 9 to 20, and this node is of opset 6" in text
    assert "Do this: halfulp convert m.onnx converted.onnx --target tensorrt opset 6 becomes 9" in text
    assert "Y is unsqueezed to float32[3, 1], where axis=1 puts it" in text
    assert "tensorrt: not measured" in text


def load(path: str) -> dict[str, Any]:
    """Return the object that a file holds."""
    document: dict[str, Any] = json.loads(Path(path).read_text())
    return document


def test_json() -> None:
    Path("models/sub").mkdir(parents=True)
    onnx.save(parsed(GOOD), "models/sub/a.onnx")
    onnx.save(parsed(OLD), "models/b.onnx")
    Path("models/c.onnx").write_bytes(b"no model")
    invoked("models", "-t", "tensorrt", "-t", "directml", "--json", "out.json", status=1)
    document = load("out.json")
    assert list(document) == ["schema", "halfulp", "targets", "summary", "findings", "models"]
    assert document["schema"] == "halfulp.audit/1"
    assert document["summary"] == {"models": 3, "nodes": 2, "findings": len(document["findings"])}
    assert [model["file"] for model in document["models"]] == ["b.onnx", "c.onnx", "sub/a.onnx"]
    assert [target["name"] for target in document["targets"]] == ["tensorrt", "directml"]
    (node,) = document["models"][0]["nodes"]
    assert node["inputs"][0] == {"name": "x", "type": "float32", "shape": ["N", 3, 4], "constant": None}
    assert node["attributes"] == {"axis": 1, "broadcast": 1}
    assert [said["target"] for said in node["targets"]] == ["tensorrt", "directml"]
    (other,) = document["models"][2]["nodes"]
    assert other["inputs"][1]["constant"] == "2"
    assert [entry["rule"] for entry in other["open"]] == ["N3", "N7"]
    assert document["models"][1]["error"].startswith("c.onnx")
    assert document["findings"][0] == {
        "file": "b.onnx",
        "node": "#0 (Pow)",
        "kind": "refused",
        "target": "tensorrt",
        "clause": None,
        "text": "its documents list opsets 9 to 20, and this node is of opset 6",
        "to_do": document["findings"][0]["to_do"],
        "grade": "support",
    }
    assert document["findings"][0]["to_do"].startswith(
        "halfulp convert b.onnx converted.onnx --target tensorrt: "
    )
    assert document["models"][0]["runtimes"][0] == {
        "target": "tensorrt",
        "version": None,
        "right": False,
        "outcomes": {"refused": 1},
        "causes": {"refused": ["opset 6"]},
        "max_ulp": None,
        "text": "its one node refused (opset 6)",
    }
    invoked("models", "-t", "tensorrt", "-t", "directml", "--json", "again.json", status=1)
    assert Path("again.json").read_bytes() == Path("out.json").read_bytes()


def test_json_on_standard_output_is_alone_there() -> None:
    onnx.save(parsed(GOOD), "m.onnx")
    result = CliRunner().invoke(app, ["audit", "m.onnx", "-t", "numpy", "--json", "-"])
    assert json.loads(result.stdout)["summary"] == {"models": 1, "nodes": 1, "findings": 0}
    assert "1 model, 1 with Pow or PRelu" in result.stderr
    assert [path.name for path in Path().iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.onnx"], "none.onnx: can't be read"),
        (["broken.onnx"], "ModelError broken.onnx: truncated, or not an ONNX model"),
        (["m.onnx", "--target", "abacus"], "no such target"),
        (["m.onnx", "--json", "none/out.json"], "none/out.json: can't be written: there is no folder none"),
        (["m.onnx", "--json", "empty"], "empty: can't be written: not a plain file"),
        (["empty"], "empty: no models in this folder"),
        ([], "MODEL"),
    ],
)
def test_bad_input_is_status_2(arguments: list[str], words: str) -> None:
    onnx.save(parsed(GOOD), "m.onnx")
    Path("broken.onnx").write_bytes(b"\x08\x08garbage")
    Path("empty").mkdir()
    text = invoked(*arguments, status=2)
    assert words in text
    assert "Traceback" not in text


def test_what_a_file_says_does_a_terminal_no_harm() -> None:
    model = single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [3])}, odd="\x1b[2J[red]")
    model.graph.node[0].name = "\x1b[2J[bold]"
    onnx.save(model, "m.onnx")
    text = invoked("m.onnx", status=1)
    assert "\x1b" not in text
    assert "'?[2J[bold]' (Pow)" in text
