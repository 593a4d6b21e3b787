"""``halfulp accuracy``: how many powers runtimes misround, and how far off the worst is."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp.cli.output import check_writable, people, print_rows, say, working, write_text
from halfulp.errors import HalfulpError


def accuracy(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET", help="As for halfulp check.", show_default=False),
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(metavar="'[NAME=]PROGRAM ...'", help="As for halfulp check.")
    ] = None,
    library: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE:FUNCTION", help="As for halfulp check.")
    ] = None,
    types: Annotated[
        str, typer.Option(metavar="T,T", help="Floating types, of bases and exponents alike.")
    ] = "float64,float32,float16,bfloat16",
    count: Annotated[
        int, typer.Option(metavar="N", min=64, max=1 << 24, help="Elements of a range.")
    ] = 65536,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Steps of the search for the worst error.")
    ] = 12,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it. - is standard output.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table with the worst pairs by their bits.")
    ] = None,
) -> None:
    """Measure how exact runtimes' powers are: misrounded shares, worst errors, special values, stable bits.

    Example: halfulp accuracy torch numpy libm --types float32
    """
    from halfulp.conformance.accuracy import (
        HEADERS,
        as_csv,
        check_oracle,
        document,
        measure,
        table,
        worst_pairs,
    )
    from halfulp.conformance.examine import Examiner, Options, processors
    from halfulp.conformance.targets import find, find_command, find_library
    from halfulp.types import element_type

    specs = [*map(find, targets or []), *map(find_command, command or []), *map(find_library, library or [])]
    if not specs:
        raise HalfulpError("no target is named; halfulp check --list lists them")
    names = [element_type(name.strip()).name for name in types.split(",")]
    check_oracle()
    check_writable(json)
    check_writable(csv)
    documents: list[dict[str, Any]] = []
    with working() as progress:
        for spec in specs:
            with Examiner(spec, Options(time_limit=600, threads=processors())) as examiner:
                versions = examiner.versions
                tell = progress or (lambda line: None)
                measured = measure(examiner, names, count=count, rounds=rounds, tell=tell)
            documents.append(document(spec.name, versions, measured))
    if json is not None:
        write_text(json, json_module.dumps(documents, indent=1) + "\n")
    if csv is not None:
        write_text(csv, as_csv(documents))
    console = people(json, csv)
    print_rows(console, HEADERS, table(documents), HEADERS[2:7])
    say(console, *worst_pairs(documents))
