"""``halfulp spec``: the page of an operator version, or the list of versions."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer
from typer import Argument

from halfulp.pages import WIDTH, page, text
from halfulp.specs import find, ids

_NARROWEST = 60


def spec(
    id: Annotated[
        str | None,
        Argument(metavar="OPERATOR", help="For example onnx.Pow-12. Without it, all versions are listed."),
    ] = None,
) -> None:
    """Show an operator version's rules, types and examples, or the list of versions.

    Example: halfulp spec onnx.Pow-12
    """
    if id is None:
        typer.echo("\n".join(ids()))
        return
    width = max(min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), _NARROWEST)
    typer.echo(text(page(find(id)), width))
