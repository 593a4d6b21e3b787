"""``halfulp convert`` and ``halfulp repair``: a model in another form, or made valid, and a list of the changes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from typer import Argument, Option

from halfulp.cli.inputs import File, Force, Inputs, Json, Names, Place, files_of, output_option, to_verify
from halfulp.cli.output import check_writable, people, placed, say, working, write_json
from halfulp.errors import HalfulpError, command, in_shell, printable
from halfulp.options import ConvertOptions, takes

if TYPE_CHECKING:
    from halfulp.conversion.mending import Slopes
from halfulp.conversion.repair import Repair


@takes(ConvertOptions, Option)
def convert(
    model: Annotated[Path, Argument(metavar="IN", help="An ONNX file.")],
    place: Place = None,
    *,
    inputs: Inputs = None,
    output: Annotated[
        File, output_option("Where to write: ONNX, or OpenVINO's IR where it ends with .xml.")
    ] = None,
    force: Force = False,
    **options: Unpack[ConvertOptions],
) -> None:
    """Convert a model, and list the change to each node.

    Exit status 1 says that the outputs of the two models differ by more than a change announces, or could not be
    compared; OUT is written all the same.

    Example: halfulp convert net.onnx new.onnx --opset 15 --verify
    """
    from halfulp.conversion import convert as convert_model

    (output,) = placed(place, output)
    if output is None:
        raise HalfulpError(f"{model}: no output is named", expected="-o FILE, or a second file")
    check_writable(output, binary=True, read=[model, *files_of(inputs)], force=force)
    arrays, dims = to_verify(model, inputs, verify=options["verify"])
    with working() as progress:
        conversion = convert_model(model, output, dims=dims, inputs=arrays, progress=progress, **options)
    for line in (*map(str, conversion.changes), f"{conversion.summary}; written to {output}"):
        typer.echo(printable(line, most=None))
    if (verification := conversion.verification) is not None:
        typer.echo(str(verification))
        if not verification.same:
            raise typer.Exit(1)


def repair(
    model: Annotated[Path, Argument(metavar="IN", help="An ONNX file.")],
    place: Place = None,
    slopes: Annotated[
        Names,
        Option(
            rich_help_panel="Changes",
            metavar="[NODE=]DIM",
            help="The dim of X that a slope goes along where that is open: channel, last or a number;"
            " repeat for single nodes.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "--verify",
            rich_help_panel="Verification",
            help="Run the repaired model, and the broken one in OpenVINO if that is installed and takes it.",
        ),
    ] = False,
    inputs: Inputs = None,
    output: Annotated[File, output_option("Where to write. Without it the repairs are only shown.")] = None,
    json: Json = None,
    force: Force = False,
) -> None:
    """Fix invalid Pow and PRelu nodes, and list each fix.

    Exit status 0: the model is valid, repaired or untouched. 1: something is left, or the verification found a
    difference; OUT is written all the same. 2: nothing could be written.

    Example: halfulp repair broken.onnx repaired.onnx --verify
    """
    from halfulp.conversion.repair import repair as repair_model

    (output,) = placed(place, output)
    check_writable(output, binary=True)
    check_writable(output, json, read=[model, *files_of(inputs)], force=force)
    arrays, dims = to_verify(model, inputs, verify=verify)
    choices = _slopes(slopes or [])
    with working() as progress:
        repaired = repair_model(
            model, output, slopes=choices, verify=verify, dims=dims, inputs=arrays, progress=progress
        )
    write_json(json, lambda: _document(model, output, repaired))
    say(people(json), *_lines(model, output, repaired, slopes or []))
    if not repaired.valid or (repaired.verification is not None and not repaired.verification.same):
        raise typer.Exit(1)


def _slopes(choices: list[str]) -> Slopes | None:
    """Return the choices of ``--slopes``: one for all nodes, or choices for single nodes by name."""
    of_node: dict[str, str | int] = {}
    for choice in choices:
        name, equals, dim = choice.rpartition("=")
        where = int(dim) if dim.removeprefix("-").isdecimal() and len(dim) < 4 else dim
        if where not in ("channel", "last") and not isinstance(where, int):
            form = "--slopes must be DIM or NODE=DIM, DIM being channel, last or a number"
            raise HalfulpError(form, got=choice)
        if not equals and len(choices) > 1:
            rule = "--slopes for all nodes stands alone; name the nodes: --slopes NODE=DIM"
            raise HalfulpError(rule, got=choice)
        if not equals:
            return where
        of_node[name] = where
    return of_node or None


def _lines(model: Path, output: Path | None, repaired: Repair, slopes: list[str]) -> list[str]:
    if not repaired.changes:
        text = "nothing to repair" if repaired.valid else "no node could be repaired"
        if not repaired.left:
            text += f": the model is valid; halfulp audit {in_shell(model)} says what runtimes do with it"
        last = text if output is None else f"{text}; written unchanged to {output}"
    elif output is None:
        chosen = "".join(f" --slopes {shlex.quote(choice)}" for choice in slopes)
        last = f"{repaired.summary}; to write it: {command(str(model), 'repair')}{chosen}"
    else:
        last = f"{repaired.summary}; written to {output}"
    verification = "" if repaired.verification is None else str(repaired.verification)
    return [*repaired.lines(), last, *verification.splitlines()]


def _document(model: Path, output: Path | None, repair: Repair) -> dict[str, Any]:
    verification = repair.verification
    return {
        "schema": "halfulp.repair/1",
        "file": str(model),
        "written": None if output is None else str(output),
        "valid": repair.valid,
        "changes": [
            {"node": change.node, "what": change.what, "differs": change.differs} for change in repair.changes
        ],
        "left": [
            {"node": left.node or left.file, "why": left.text, "valid": left.valid} for left in repair.left
        ],
        "verification": verification and {"same": verification.same, "text": str(verification)},
    }
