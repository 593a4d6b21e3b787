"""``halfulp spec``: the page of an operator version, or what changed between two."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from halfulp.specs import find, render
from halfulp.specs.difference import difference
from halfulp.specs.page import page

_NARROWEST = 60


def spec(
    id: Annotated[str, typer.Argument(help="An operator version, such as onnx.Pow-12.")],
    diff: Annotated[
        str | None,
        typer.Option(metavar="ID", help="An older version: say after the page what changed since."),
    ] = None,
) -> None:
    """Print the page of an operator version; with --diff, then what changed since another one.

    Example: halfulp spec onnx.Pow-12 --diff onnx.Pow-7
    """
    op = find(id)
    older = None if diff is None else find(diff)  # before anything is printed
    width = max(min(shutil.get_terminal_size((render.WIDTH, 0)).columns, render.WIDTH), _NARROWEST)
    typer.echo(render.text(page(op), width))
    if older is not None:
        typer.echo()
        typer.echo(render.text(difference(op, older), width))
