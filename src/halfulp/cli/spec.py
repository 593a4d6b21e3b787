"""``halfulp spec``: the page of an operator version, the changes between two, or the list of versions."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer
from typer import Argument, Option

from halfulp.errors import HalfulpError
from halfulp.pages import WIDTH, page, text
from halfulp.pages.difference import difference
from halfulp.specs import find, ids

_NARROWEST = 60


def spec(
    id: Annotated[
        str | None,
        Argument(metavar="OPERATOR", help="For example onnx.Pow-12. Without it, all versions are listed."),
    ] = None,
    diff: Annotated[
        str | None, Option(metavar="ID", help="An older version: print the changes since it after the page.")
    ] = None,
) -> None:
    """Print the page of an operator version, or the list of them; with --diff also the changes since another version.

    Example: halfulp spec onnx.Pow-12 --diff onnx.Pow-7
    """
    if id is None:
        if diff is not None:
            raise HalfulpError("--diff needs two versions: halfulp spec onnx.Pow-12 --diff onnx.Pow-7")
        typer.echo("\n".join(ids()))
        return
    op = find(id)
    older = None if diff is None else find(diff)  # fails before anything is printed
    width = max(min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), _NARROWEST)
    typer.echo(text(page(op), width))
    if older is not None:
        typer.echo()
        typer.echo(text(difference(op, older), width))
