"""``halfulp repair``: makes a model valid whose Pow and PRelu nodes break clauses, and lists the changes."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halfulp.cli.inputs import fed, sizes
from halfulp.cli.output import check_writable, people, working, write_text
from halfulp.errors import HalfulpError, printable

if TYPE_CHECKING:
    from halfulp.conversion.repair import Repair, Slopes

SCHEMA = "halfulp.repair/1"


def repair(
    model: Annotated[Path, typer.Argument(metavar="IN", help="An ONNX file.")],
    output: Annotated[
        Path | None,
        typer.Argument(metavar="[OUT]", help="Where to write. Without it the repairs are only shown."),
    ] = None,
    slopes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NODE=]DIM",
            help="The dim of X that a slope goes along where that is open: channel, last or a number;"
            " repeat for single nodes.",
        ),
    ] = None,
    json_output: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all of it there, too. - is standard output."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run the repaired model, and the broken one in OpenVINO if that is installed and takes it.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="For made-up inputs of --verify.")] = 0,
    dims: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=N", help="The size of a symbolic dim in them."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=FILE",
            help="Verify with this input and no made-up ones; repeat for more.",
        ),
    ] = None,
) -> None:
    """Give each broken Pow and PRelu node the one meaning that its author can have had, and say which.

    Exit status 0: the model is valid, repaired or untouched. 1: something is left, or the verification found a
    difference; OUT is written all the same. 2: nothing could be written.
    """
    # Imported here, so that the other verbs do not load the onnx package.
    from halfulp.conversion.repair import repair as repair_model

    if output is not None:
        check_writable(output, binary=True)
    check_writable(json_output)
    if (dims or inputs) and not verify:
        raise HalfulpError("--dim and --input are for --verify, which is not given")
    fed_inputs = None
    if inputs:
        from halfulp.models import load

        fed_inputs = fed(load(model), inputs)
    with working() as progress:
        found = repair_model(
            model,
            output,
            slopes=_slopes(slopes or []),
            verify=verify,
            seed=seed,
            dims=sizes(dims, made_up=not inputs),
            inputs=fed_inputs,
            progress=progress,
        )
    if json_output is not None:
        write_text(json_output, json.dumps(_document(model, output, found), indent=1) + "\n")
    console = people(json_output)
    for line in _lines(model, output, found):
        console.print(printable(line, most=None), markup=False, highlight=False, soft_wrap=True)
    if not found.valid or (found.verification is not None and not found.verification.same):
        raise typer.Exit(1)


def _slopes(given: list[str]) -> Slopes | None:
    """Return the choices of ``--slopes``: one for all nodes, or choices for single nodes by name."""
    of_node: dict[str, str | int] = {}
    for each in given:
        name, equals, dim = each.rpartition("=")
        where = int(dim) if dim.removeprefix("-").isdecimal() and len(dim) < 4 else dim
        if where not in ("channel", "last") and not isinstance(where, int):
            raise HalfulpError(
                "--slopes must be DIM or NODE=DIM, DIM being channel, last or a number", got=each
            )
        if not equals and len(given) > 1:
            raise HalfulpError(
                "--slopes for all nodes stands alone; name the nodes: --slopes NODE=DIM", got=each
            )
        if not equals:
            return where
        of_node[name] = where
    return of_node or None


def _lines(model: Path, output: Path | None, found: Repair) -> list[str]:
    if not found.changes:
        said = "nothing to repair" if found.valid else "no node could be repaired"
        last = said if output is None else f"{said}; written unchanged to {output}"
    elif output is None:
        last = f"{found.summary}; halfulp repair {shlex.quote(str(model))} OUT writes it"
    else:
        last = f"{found.summary}; written to {output}"
    checked = "" if found.verification is None else str(found.verification)
    return [*found.lines(), last, *checked.splitlines()]


def _document(model: Path, output: Path | None, found: Repair) -> dict[str, Any]:
    checked = found.verification
    return {
        "schema": SCHEMA,
        "file": str(model),
        "written": None if output is None else str(output),
        "valid": found.valid,
        "changes": [
            {"node": change.node, "what": change.what, "differs": change.differs} for change in found.changes
        ],
        "left": [asdict(left) for left in found.left],
        "verification": None if checked is None else {"same": checked.same, "text": str(checked)},
    }
