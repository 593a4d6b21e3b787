"""The tables that ``halfulp check`` prints."""

import io

import pytest
from rich.console import Console
from tests.conformance.report.documents import Document, document, documents

from halfulp.conformance.report import show


def printed(*results: Document, width: int = 120) -> str:
    """Return the printed text, without colours."""
    stream = io.StringIO()
    show(list(results), Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("allowed", [True, False])
def test_bits_that_depend_on_surroundings(allowed):
    found = document("by place")
    for entry in found["reproducibility"]:
        entry["allowed"] = allowed
    text = printed(found, document("right"))
    assert f"by place: the bits depend on position in onnx.Pow-7 float32{' (allowed)' * allowed}" in text
    assert "right: nothing wrong found" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    text = printed(*documents(), width=width)
    assert max(map(len, text.splitlines())) <= width


def test_what_a_runtime_says_does_a_terminal_no_harm():
    found = document("reference")
    found["target"] = {"name": "[bold]evil\x1b[2J", "versions": {"a\x07": "[/]"}}
    for case in found["cases"]:
        case["message"] = "line\nline \x1b]0;title\x07 [red]not markup[/red]" + "x" * 1000
    for row in found["rows"]:
        row["message"] = "\x1b[2J[/]"
    text = printed(found)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]evil?[2J" in text
    assert "x" * 200 not in text.replace("\n", "")
