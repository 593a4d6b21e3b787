"""``halfulp repair``: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

from halfulp.cli import app

HEAD = '<ir_version: 8, opset_import: ["" : 16]> g (float[1, 3, 4, 3] x) => (float[1, 3, 4, 3] y)'
BROKEN = HEAD.replace("4, 3]", "4, 5]") + " <float[3] s = {1, 2, 3}> { y = PRelu(x, s) }"
DOUBTFUL = HEAD + " <float[3] s = {1, 2, 3}> { y = PRelu(x, s) }"
UNKNOWN = HEAD + " <float[7] s = {1, 2, 3, 4, 5, 6, 7}> { y = PRelu(x, s) }"
LINE = "#0 (PRelu): the slope of shape [3] gets the shape [3, 1, 1]: per channel of X, [1, 3, 4, 5]"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("broken", BROKEN), ("doubtful", DOUBTFUL), ("unknown", UNKNOWN)):
        onnx.save(parser.parse_model(text), f"{name}.onnx")


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["repair", *arguments])
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr if status == 2 else result.stdout


def test_a_repaired_model_is_written() -> None:
    assert invoked("broken.onnx", "out.onnx").splitlines() == [LINE, "1 repair; written to out.onnx"]
    assert [*onnx.load("out.onnx").graph.initializer[0].dims] == [3, 1, 1]


def test_without_an_output_nothing_is_written() -> None:
    assert invoked("broken.onnx").splitlines() == [LINE, "1 repair; halfulp repair broken.onnx OUT writes it"]
    assert sorted(path.name for path in Path().iterdir()) == ["broken.onnx", "doubtful.onnx", "unknown.onnx"]


def test_a_valid_model_is_written_unchanged() -> None:
    invoked("broken.onnx", "out.onnx")
    said = "nothing to repair: the model is valid; halfulp audit out.onnx says what runtimes do with it"
    assert invoked("out.onnx", "same.onnx") == f"{said}; written unchanged to same.onnx\n"
    assert Path("same.onnx").read_bytes() == Path("out.onnx").read_bytes()
    assert invoked("out.onnx") == f"{said}\n"


def test_a_doubtful_slope_is_named_and_a_choice_taken() -> None:
    lines = invoked("doubtful.onnx").splitlines()
    assert lines[0].startswith("doubtful: #0 (PRelu): the slope of shape [3]: it goes along dim 3 of X")
    assert lines[0].endswith("--slopes channel or --slopes last decides")
    assert lines[1:] == ["nothing to repair"]
    onnx.save(onnx.load("doubtful.onnx"), "-f.onnx")
    chosen = invoked("--slopes", "channel", "--", "-f.onnx").splitlines()[-1]
    assert chosen == "1 repair; halfulp repair ./-f.onnx OUT --slopes channel writes it"
    with_dim = invoked("broken.onnx", "out.onnx", "--verify", "-i", "N=2", status=1)
    assert "not verified: no dim of the model's inputs is called 'N'; none is symbolic" in with_dim
    assert "gets the shape [3, 1, 1]" in invoked("doubtful.onnx", "out.onnx", "--slopes", "channel")
    assert "gets the shape [3, 1, 1]" in invoked("doubtful.onnx", "out.onnx", "--slopes", "#0 (PRelu)=1")
    assert invoked("doubtful.onnx", "--slopes", "last").startswith("nothing to repair: the model is valid;")


def test_what_is_left_is_named_with_status_1() -> None:
    lines = invoked("unknown.onnx", "out.onnx", status=1).splitlines()
    assert lines[0].startswith("not repaired: #0 (PRelu): no dim of X has the slope's 7 elements")
    assert lines[1] == "no node could be repaired; written unchanged to out.onnx"


def test_json() -> None:
    document = json.loads(invoked("broken.onnx", "--json", "-"))
    node, _, what = LINE.partition(": ")
    assert document == {
        "schema": "halfulp.repair/1",
        "file": "broken.onnx",
        "written": None,
        "valid": True,
        "changes": [{"node": node, "what": what, "differs": None}],
        "left": [],
        "verification": None,
    }
    left = json.loads(invoked("unknown.onnx", "--json", "-", status=1))
    assert (left["valid"], left["left"][0]["valid"], left["changes"]) == (False, False, [])


def test_verify() -> None:
    text = invoked("broken.onnx", "out.onnx", "--verify")
    assert "not verified" not in text
    assert len(text.splitlines()) > 2
    assert "?" not in text


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (("repair", "--verify"), "axis=0 puts it"),
        (("audit",), "not looked into: the data, because the model is broken"),
    ],
)
@pytest.mark.parametrize("weight", ["", "<float[2] y = {2, 3}>"])
def test_the_inputs_of_a_broken_model_are_read(verb: tuple[str, ...], said: str, weight: str) -> None:
    onnx.save(
        parser.parse_model(f"""<ir_version: 8, opset_import: ["": 13]>
        g (float[2, 3] x, float[2] y) => (float[2, 3] z) {weight} {{ z = Pow <axis = 0> (x, y) }}"""),
        "axis.onnx",
    )
    np.savez("data.npz", x=np.float32([[1, 2, 3], [4, 5, 6]]), y=np.float32([2, 3]))
    output = [] if verb[0] == "audit" else ["out.onnx"]
    result = CliRunner().invoke(app, [verb[0], "axis.onnx", *output, *verb[1:], "-i", "data.npz"])
    assert result.exit_code == (1 if verb[0] == "audit" else 0), result.output
    assert said in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.onnx"], "none.onnx"),
        (["m.xml"], "only ONNX models are repaired"),
        (["broken.onnx", "out.onnx", "--slopes", "height"], "--slopes must be DIM or NODE=DIM"),
        (["broken.onnx", "--slopes", "channel", "--slopes", "a=1"], "--slopes for all nodes stands alone"),
        (["broken.onnx", "-i", "N=1"], "--input is for --verify"),
        (["broken.onnx", "nowhere/out.onnx"], "there is no folder nowhere"),
    ],
)
def test_bad_usage_is_a_line(arguments: list[str], said: str) -> None:
    text = invoked(*arguments, status=2)
    assert said in text
    assert "Traceback" not in text
