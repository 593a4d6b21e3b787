"""Pages about operator versions: as text in a terminal, as HTML in a notebook, as Markdown in the docs."""

from halfulp.pages import page as shown
from halfulp.specs import OpVersion

__all__ = ["html", "text"]


def text(op: OpVersion) -> str:
    """Return the page of an operator version as plain text."""
    return shown.text(shown.page(op))


def html(op: OpVersion) -> str:
    """Return the page of an operator version as HTML."""
    return shown.html(shown.page(op))
