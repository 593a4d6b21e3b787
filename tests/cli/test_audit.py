"""``halfulp audit``: what it prints, writes, and its exit status."""

import json
from pathlib import Path

import onnx
import pytest
from tests.models.onnx_models import parsed, single
from typer.testing import CliRunner

from halfulp.cli import app

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


@pytest.mark.parametrize(
    ("types", "nodes", "options"),
    [
        ("float[N] x", "z = Pow (x, three)", "--target basic"),
        ("float[N] x", "z = Pow (three, x)", "--pow logarithms"),
        ("float[N] x", "y = Pow (three, x)  z = PRelu (y, x)", "--pow logarithms --prelu expand"),
        ("int32[N] x", "y = Constant <value = int32 {-1}> ()  z = Pow (x, y)", ""),
    ],
)
def test_the_command_for_another_runtime_can_be_done(types, nodes, options):
    result = types.replace(" x", " z")
    text = f"three = Constant <value_float = 3.> ()  {nodes}"
    onnx.save(parsed(f"16: g ({types}) => ({result}) {{ {text} }}"), "m.onnx")
    *_, line, _ = invoked("m.onnx", "-t", "onnxruntime==1.31.1").splitlines()
    command = line.partition("another runtime refuses it, or differs: halfulp ")[2]
    assert command == (f"convert m.onnx converted.onnx {options}" if options else "")
    if command:
        assert not CliRunner().invoke(app, command.split()).exit_code
        assert not {"Pow", "PRelu"} & {node.op_type for node in onnx.load("converted.onnx").graph.node}


def test_the_page_begins_with_the_worst_verdict():
    Path("models").mkdir()
    onnx.save(parsed(GOOD), "models/a.onnx")
    onnx.save(parsed(OLD.replace('"": 6', '"": 7')), "models/b.onnx")
    invoked("models", "page.html", "-t", "onnxruntime==1.31.1", status=1)
    page = Path("page.html").read_text()
    table, rest = page.split("</table>")
    assert table.index("its one node invalid") < table.index("its one node right")
    assert rest.index("<pre>halfulp repair b.onnx repaired.onnx</pre>") < rest.index("Nodes of b.onnx")


def test_json_on_standard_output_is_alone_there():
    onnx.save(parsed(GOOD), "m.onnx")
    result = CliRunner().invoke(app, ["audit", "m.onnx", "-t", "numpy", "--json", "-"])
    assert json.loads(result.stdout)["summary"] == {"models": 1, "nodes": 1, "findings": 0}
    assert "1 model, 1 with Pow or PRelu" in result.stderr
    assert [path.name for path in Path().iterdir()] == ["m.onnx"]


def test_what_a_file_says_does_a_terminal_no_harm():
    model = single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [3])}, odd="\x1b[2J[red]")
    model.graph.node[0].name = "\x1b[2J[bold]"
    onnx.save(model, "m.onnx")
    text = invoked("m.onnx", status=1)
    assert "\x1b" not in text
    assert "'?[2J[bold]' (Pow)" in text
