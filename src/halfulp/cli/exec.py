"""``halfulp exec``: any program with the exact power."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer import Argument, Option

from halfulp.errors import HalfulpError


def exec(
    command: Annotated[
        list[str] | None, Argument(metavar="PROGRAM [ARGUMENTS]...", help="The program and its arguments.")
    ] = None,
    paths: Annotated[bool, Option("--paths", help="Print the library that is preloaded, and end.")] = False,
) -> None:
    """Run a program of which every pow, powf and power of vectors is correctly rounded. Linux on x86-64.

    It becomes this process, with the library libhalfulp_m before its own (LD_PRELOAD).

    Example: halfulp exec python model.py
    """
    from halfulp.linking import get_libm

    library = get_libm()
    if paths:
        typer.echo(library)
        return
    if not command:
        raise HalfulpError("name the program to run, such as: halfulp exec python model.py")
    if set(library) & set(" :"):  # they separate the names in LD_PRELOAD
        raise HalfulpError(f"{library}: ld.so preloads no file whose path has a space or a colon")
    others = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{library}:{others}" if others else library
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise HalfulpError(f"{command[0]}: {error.strerror}") from None
