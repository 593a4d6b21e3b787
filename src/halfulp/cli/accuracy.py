"""``halfulp accuracy``: how many powers runtimes misround, and how far off the worst is."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp.cli.check import Commands, Libraries, Targets, find_all
from halfulp.cli.output import check_writable, people, print_rows, say, working, write_text
from halfulp.errors import HalfulpError


def accuracy(
    targets: Targets = None,
    command: Commands = None,
    library: Libraries = None,
    types: Annotated[
        str, typer.Option(metavar="T,T", help="Floating types, of bases and exponents alike.")
    ] = "float64,float32,float16,bfloat16",
    count: Annotated[
        int, typer.Option(metavar="N", min=64, max=1 << 24, help="Elements of a range.")
    ] = 65536,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Steps of the search for the worst error.")
    ] = 12,
    exhaustive: Annotated[
        bool,
        typer.Option("--exhaustive", help="Try all 2^32 pairs of a 16-bit type, too: an hour or a night."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the measurement that Ctrl-C ended, from --json FILE.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a document for programs. - is standard output.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page. - is standard output.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the table with the worst pairs by their bits.")
    ] = None,
) -> None:
    """Measure how exact runtimes' powers are: misrounded shares, worst errors, special values, stable bits.

    Example: halfulp accuracy torch numpy libm --types float32
    """
    from halfulp.conformance import accuracy as measuring
    from halfulp.conformance.examine import Examiner, Options, processors
    from halfulp.types import element_type

    specs = find_all(targets, command, library)
    if not specs:
        raise HalfulpError("no target is named; halfulp check --list lists them")
    names = [element_type(name.strip()).name for name in types.split(",")]
    measuring.check_oracle()
    for file in (json, html, csv):
        check_writable(file)
    earlier = {each["target"]["name"]: each for each in measuring.load(json, resume=resume)}
    documents: list[dict[str, Any]] = []
    without: list[str] = []
    with working() as progress:
        for spec in specs:
            with Examiner(spec, Options(time_limit=600, threads=processors())) as examiner:
                versions = examiner.versions
                measured = measuring.measure(
                    examiner,
                    names,
                    count=count,
                    rounds=rounds,
                    exhaustive=exhaustive,
                    done=earlier.get(spec.name),
                    tell=progress or (lambda line: None),
                )
            if measured:
                documents.append(measuring.document(spec.name, versions, measured))
            else:
                without.append(spec.name)
            if not all(found.is_complete for found in measured):
                break
    no_powers = HalfulpError(
        f"{', '.join(without)}: no powers of {', '.join(names)}, and accuracy measures powers;"
        " halfulp check --json FILE has the max_ulp of a PRelu"
    )
    if not documents:
        raise no_powers
    if json is not None:
        write_text(json, json_module.dumps(documents, indent=1) + "\n")
    if html is not None:
        write_text(html, measuring.as_html(documents))
    if csv is not None:
        write_text(csv, measuring.as_csv(documents))
    console = people(json, html, csv)
    headers, *rows = measuring.table(documents)
    print_rows(
        console, headers, rows, [header for header in headers if "misrounded" in header] + ["worst ulp"]
    )
    say(console, *measuring.worst_pairs(documents))
    if not all(found.is_complete for found in measured):
        typer.echo(f"interrupted: --exhaustive --resume --json {json or 'FILE'} continues it", err=True)
        raise typer.Exit(130)
    if without:
        raise no_powers
