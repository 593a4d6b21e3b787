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


def test_one_target():
    found = document("reference", versions={"onnx": "1.23.2", "numpy": "2.0"})
    text = printed(found)
    assert f"reference: onnx 1.23.2, numpy 2.0; {found['run']['date']}, quick run" in text
    assert "≠ wrong 1 float32 special" in " ".join(text.split())
    assert "onnx.Pow-7.C3 must refuse it" in text
    assert "0, inf gives nan, not 0" in text
    # How many depends on NumPy's vectors.
    assert " findings; the worst: zeros, infinities, and numbers near overflow or underflow; --html" in text
    assert "'no kernel at 0x..." in printed(document("refusing"))


def test_the_count_of_findings_leaves_out_what_is_allowed():
    found = document("by place")
    for entry in (*found["cases"], *found["reproducibility"]):
        entry["allowed"] = True
    assert "nothing wrong found" in printed(found)


def test_several_targets_have_a_table_each():
    text = printed(*documents("reference", "by place", "right"))
    assert text.count("onnx.PRelu-9") >= 3
    names = ("reference", "by place", "right")
    assert [line.strip() for line in text.splitlines() if line.strip() in names] == [*names]
    assert "by place: the bits depend on position in onnx.Pow-7 float32" in text
    assert "right: nothing wrong found" in text


@pytest.mark.parametrize("allowed", [True, False])
def test_bits_that_may_depend_on_surroundings_are_marked(allowed):
    found = document("by place")
    for entry in found["reproducibility"]:
        entry["allowed"] = allowed
    assert ("onnx.Pow-7 float32 (allowed)" in printed(found)) == allowed


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
