"""``halfulp spec``: the list and a page."""

from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.pages import page, text
from halfulp.specs import find


def invoked(*arguments: str, status: int = 0) -> str:
    """Run the verb and return what it printed: stdout, or stderr where it fails."""
    result = CliRunner().invoke(app, ["spec", *arguments], env={"COLUMNS": "100"})
    assert result.exit_code == status, result.output
    return result.stderr if status else result.stdout


def test_the_list_is_a_line_for_each():
    assert invoked().splitlines() == list(hu.ops())


def test_a_page():
    assert invoked("onnx.Pow-12") == f"{text(page(find('onnx.Pow-12')))}\n"
