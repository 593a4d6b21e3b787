"""Each row of the pages of messages is tried: the command of the row, on a model of its form.

``rows.txt`` has the models, each with the beginnings of its rows. ``+`` says that onnx or ONNX Runtime gives the row's
message about the model, ``-`` that its tool is another. Rows below ``python`` have lines as in a doctest.
"""

import doctest
import re
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, version_converter
from onnx.reference import ReferenceEvaluator
from tests.golden import inputs_of, parsed
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app

DOCS = Path(__file__).parents[2] / "docs"
TRIALS = (Path(__file__).parent / "rows.txt").read_text("utf-8")


def rows_of_the_pages() -> dict[str, str]:
    """Return the command of each row: the one of its heading, with the option that the row names."""
    commands = {}
    pages = [(DOCS / f"troubleshooting{part}.md").read_text("utf-8") for part in ("", "-outputs")]
    for section in re.split(r"^## ", "\n".join(pages), flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        command = "".join(re.findall(r": `(halfulp .+)`$", heading))
        for row in re.findall(r"^- (.*(?:\n  .*)*)", text, flags=re.MULTILINE):
            named = re.findall(r"`(--[^`]+)`", row)
            is_open = command.split(" ")[-1].isupper()
            commands[row] = f"{command.partition(' --')[0]} {named[0]}" if is_open and named else command
    return commands


def trials() -> list[tuple[str, str, str]]:
    """Return the beginning of each row with its model, and whether its message is given, or its lines of Python."""
    described = []
    for block in re.split(r"^== ", TRIALS, flags=re.MULTILINE)[1:]:
        model, *rows = re.split(r"^(?=[+-] )", block, flags=re.MULTILINE)
        for row in rows:
            start, _, lines = row.partition("\n")
            described.append((start[2:], model.strip(), lines if lines.strip() else start[0]))
    return described


ROWS, STARTS = rows_of_the_pages(), trials()
# The longest of the beginnings of each row.
START_OF = {
    row: max((start for start, *_ in STARTS if row.startswith(start)), key=len, default="") for row in ROWS
}
TRIED = [(row, model, lines) for start, model, lines in STARTS for row in ROWS if start == START_OF[row]]


def test_each_row_has_a_trial():
    assert {row for row, *_ in TRIED} == {*ROWS}
    assert len(TRIED) == len(STARTS)


def run(command: str) -> str:
    """Return the output of a command of halfulp, which fails only by findings or an error in lines."""
    done = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), command
    assert done.exit_code == 0 or " audit " in command or "error: " in done.output, done.output
    return as_doctests_show_it(done.output)


def as_doctests_show_it(text: str) -> str:
    return " ".join(text.replace("'", '"').split())


def error(call: Callable[[], object]) -> str:
    """Return the message of a call that fails."""
    with pytest.raises(Exception, match=r".+") as raised:
        call()
    return as_doctests_show_it(str(raised.value))


def model_of(text: str) -> ModelProto:
    """Return the model of ``OPSET IR: graph``."""
    opset, ir_version, graph = re.fullmatch(r"(\d+) (\d+): (.*)", text, re.DOTALL).groups()
    domain = ', "com.microsoft": 1' if "com.microsoft" in graph else ""
    return parsed(f'<ir_version: {ir_version}, opset_import: ["": {opset}{domain}]> {graph}')


def complaints(model: ModelProto, opset: int | None = None) -> list[str]:
    """Return the messages of the onnx package and ONNX Runtime about a model, also on its way to an opset."""
    messages = []
    steps = [
        lambda: onnx.checker.check_model(model, full_check=True),
        lambda: computed(model, inputs_of(model)),
    ]
    for step in [*steps, lambda: version_converter.convert_version(model, opset)][: 2 + (opset is not None)]:
        try:
            step()
        except Exception as error:
            messages.append(str(error))
    return messages


def is_among(row: str, messages: list[str]) -> bool:
    """Return whether one of the messages is that of the row, with any numbers in it."""
    message = re.escape(re.match(r"`([^`]+)`", row)[1]).replace(r"\ \.\.\.\ ", ".*").replace(r"\.\.\.", ".*")
    return bool(re.search(re.sub(r"-?\d+", r"-?\\d+", message), "\n".join(messages), re.DOTALL))


def assert_is_as_the_page_says(model: ModelProto, words: list[str]) -> None:
    kinds = [node.op_type for node in model.graph.node]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    absent = {"expand": {"PRelu"}, "relu": {"PRelu", "Less", "Where"}, "fold": {"Neg", "Unsqueeze"}}
    assert not absent.get(options.get("--prelu", ""), set()) & {*kinds}
    assert not {*options.get("--expand", "").split(",")} & {*kinds}
    assert "Pow" not in kinds or "--pow" not in options
    assert "LayerNormalization" in kinds or "--fuse" not in options
    assert model.opset_import[0].version == int(options.get("--opset", model.opset_import[0].version))


@pytest.mark.parametrize(("row", "text", "mark"), [trial for trial in TRIED if trial[1] != "python"])
def test_a_row_about_a_model(row, text, mark, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    model, words = model_of(text), shlex.split(ROWS[row])
    if mark == "+":
        opset = int(words[-1]) if words[-2] == "--opset" else None
        assert is_among(row, [*complaints(model, opset), capfd.readouterr().err])
    onnx.save(model, words[2])
    if words[1] == "audit":
        assert_finite_after_the_commands(model, ROWS[row])
        return
    first = re.findall(r"first `(halfulp repair)`", row)
    if first:
        run(f"halfulp repair {words[2]} repaired.onnx --force")
        Path("repaired.onnx").replace(words[2])
    output = run(ROWS[row])
    assert "error:" not in output
    result = onnx.load(words[3])
    assert_is_as_the_page_says(result, words)
    assert complaints(result) == []
    if words[1] == "convert":
        assert_near(result, onnx.load(words[2]))


def computed(model: ModelProto, inputs: dict[str, Any]) -> Any:
    """Return what ONNX Runtime computes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def assert_near(result: ModelProto, original: ModelProto) -> None:
    inputs = inputs_of(original)
    try:
        expected = computed(original, inputs)
    except Exception:
        try:
            expected = ReferenceEvaluator(original).run(None, inputs)
        except Exception:  # an operator that the opset lacks, which is the row's fault
            return
    for one, other in zip(computed(result, inputs), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=3e-3, atol=3e-3)


def assert_finite_after_the_commands(model: ModelProto, command: str) -> None:
    x = (inputs_of(model)["x"].astype(float) * 500).astype(np.float16)
    np.save("x.npy", x)
    for _ in range(3):
        commands = re.findall(r"(halfulp convert model.onnx .+?--(?:float32|expand) \S+)", run(command))
        if not commands:
            break
        assert "error:" not in run(commands[0])
        Path("converted.onnx").replace("model.onnx")
    with np.errstate(all="ignore"):
        before, after = (
            ReferenceEvaluator(each).run(None, {"x": x})[0] for each in (model, onnx.load("model.onnx"))
        )
    assert np.isfinite(after).all()
    assert not np.array_equal(before, after)


@pytest.mark.parametrize(("row", "lines"), [(row, lines) for row, model, lines in TRIED if model == "python"])
def test_a_row_with_lines_of_python(row, lines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"np": np, "hu": hu, "onnx": onnx, "Path": Path, "run": run}
    names |= {
        "save": lambda text: onnx.save(model_of(text), "in.onnx"),
        "row": row,
        "complaints": complaints,
        "error": error,
    }
    # An exporter that is deprecated warns.
    warnings.simplefilter("ignore")
    for module in re.findall(r"\b(torch|jax|onnxruntime|onnxscript|openvino)\b", lines):
        names[module] = pytest.importorskip(module)
    if "jax" in names:
        pytest.importorskip("jax.numpy")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(lines, names, row[:60], None, None)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)
