"""``halfulp spec``: the list, a page, a difference."""

from __future__ import annotations

from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["spec", *arguments])
    assert result.exit_code == status, result.output
    return result.stderr if status else result.stdout


def test_the_list_is_a_line_for_each() -> None:
    assert invoked().splitlines() == list(hu.ops())


def test_a_page_and_what_changed() -> None:
    page = invoked("onnx.Pow-12")
    assert page.startswith("onnx.Pow-12\n===")
    both = invoked("onnx.Pow-12", "--diff", "onnx.Pow-7")
    assert both.startswith(page)
    assert "From onnx.Pow-7 to onnx.Pow-12" in both


def test_bad_input() -> None:
    assert "expected: onnx.Pow-1, onnx.Pow-7, " in invoked("onnx.Pow", status=2)
    assert "--diff needs two versions" in invoked("--diff", "onnx.Pow-7", status=2)
    assert "no operator version x" in invoked("onnx.Pow-7", "--diff", "x", status=2)
