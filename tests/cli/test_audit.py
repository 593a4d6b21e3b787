"""``halfulp audit``: what it prints, writes, and its exit status."""

import json
from pathlib import Path

import onnx
import pytest
from tests.models.onnx_models import parsed
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


def test_the_page_begins_with_the_worst_verdict():
    Path("models").mkdir()
    onnx.save(parsed(GOOD), "models/a.onnx")
    onnx.save(parsed(OLD.replace('"": 6', '"": 7')), "models/b.onnx")
    assert (
        CliRunner().invoke(app, ["audit", "models", "page.html", "-t", "onnxruntime==1.31.1"]).exit_code == 1
    )
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
