"""``halfulp convert`` and ``halfulp repair``: a model in another form, or made valid, and a list of the changes."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer import Argument, Option

from halfulp.cli.inputs import (
    File,
    Force,
    Inputs,
    Json,
    Names,
    Place,
    declared_inputs,
    fed,
    files_of,
    output_option,
    parted,
)
from halfulp.cli.output import check_writable, people, placed, say, working, write_json
from halfulp.errors import HalfulpError, command, in_shell, printable

if TYPE_CHECKING:
    from halfulp.conversion import powers, prelus
    from halfulp.conversion.repair import Repair, Slopes

_CHANGE = partial(Option, rich_help_panel="Changes")
_VERIFY = partial(Option, "--verify", rich_help_panel="Verification")


def convert(
    model: Annotated[Path, Argument(metavar="IN", help="An ONNX file.")],
    place: Place = None,
    opset: Annotated[
        int | None, _CHANGE(metavar="N", help="The opset of ONNX's own operators, older or newer.")
    ] = None,
    target: Annotated[
        str | None,
        _CHANGE(
            metavar="NAME",
            help="Rewrite the model so that onnxruntime, openvino, directml, cuda, tensorrt or iree accepts each Pow"
            " and PRelu, or basic: for a runtime with neither.",
        ),
    ] = None,
    expand: Annotated[
        str | None,
        _CHANGE(
            metavar="OPERATORS",
            help="Write these operators, such as ReduceL2,Gelu, in others, for a runtime that lacks them.",
        ),
    ] = None,
    prelu: Annotated[
        str | None,
        _CHANGE(
            metavar="HOW",
            help="expand each PRelu into operators that every runtime has (relu: without comparisons), or fold such"
            " back. Slopes that nodes compute of constants are stored.",
        ),
    ] = None,
    pow: Annotated[
        str | None,
        _CHANGE(
            metavar="HOW",
            help="expand each Pow with a constant exponent into products, roots or a reciprocal; logarithms: and the"
            " others into Exp and Log, approximately; or fold the former back where every bit stays.",
        ),
    ] = None,
    float32: Annotated[
        str | None,
        _CHANGE(
            metavar="NODES",
            help="Compute nodes of a float16 network in float32, with casts around them: norms, each from its squares"
            " to its root or division; pow; all; or names with commas between them.",
        ),
    ] = None,
    fuse: Annotated[
        str | None,
        _CHANGE(
            metavar="WHAT",
            help="norms: write each norm that is exactly LayerNormalization-17 or RMSNormalization-23 as such.",
        ),
    ] = None,
    verify: Annotated[
        bool, _VERIFY(help="Run both models on the same inputs, given or made up, and compare every bit.")
    ] = False,
    inputs: Inputs = None,
    output: Annotated[
        File, output_option("Where to write: ONNX, or OpenVINO's IR where it ends with .xml.")
    ] = None,
    force: Force = False,
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
    files, dims = parted(inputs)
    if inputs and not verify:
        raise HalfulpError("--input is for --verify, which is not given")
    given = fed(declared_inputs(model), files) if files else None
    with working() as progress:
        conversion = convert_model(
            model,
            output,
            opset=opset,
            target=target,
            expand=expand,
            prelu=cast("prelus.How | None", prelu),
            pow=cast("powers.How | None", pow),
            float32=float32,
            fuse=cast('Literal["norms"] | None', fuse),
            verify=verify,
            dims=dims,
            inputs=given,
            progress=progress,
        )
    for line in (*map(str, conversion.changes), f"{conversion.summary}; written to {output}"):
        typer.echo(printable(line, most=None))
    found = conversion.verification
    if found is not None:
        typer.echo(str(found))
        if not found.same:
            raise typer.Exit(1)


def repair(
    model: Annotated[Path, Argument(metavar="IN", help="An ONNX file.")],
    place: Place = None,
    slopes: Annotated[
        Names,
        _CHANGE(
            metavar="[NODE=]DIM",
            help="The dim of X that a slope goes along where that is open: channel, last or a number;"
            " repeat for single nodes.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        _VERIFY(
            help="Run the repaired model, and the broken one in OpenVINO if that is installed and takes it."
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
    if inputs and not verify:
        raise HalfulpError("--input is for --verify, which is not given")
    files, dims = parted(inputs)
    given = fed(declared_inputs(model), files) if files else None
    with working() as progress:
        found = repair_model(
            model,
            output,
            slopes=_slopes(slopes or []),
            verify=verify,
            dims=dims,
            inputs=given,
            progress=progress,
        )
    write_json(json, lambda: _document(model, output, found))
    say(people(json), *_lines(model, output, found, slopes or []))
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


def _lines(model: Path, output: Path | None, found: Repair, slopes: list[str]) -> list[str]:
    if not found.changes:
        said = "nothing to repair" if found.valid else "no node could be repaired"
        if not found.left:
            said += f": the model is valid; halfulp audit {in_shell(model)} says what runtimes do with it"
        last = said if output is None else f"{said}; written unchanged to {output}"
    elif output is None:
        chosen = "".join(f" --slopes {shlex.quote(each)}" for each in slopes)
        last = f"{found.summary}; to write it: {command(str(model), 'repair')}{chosen}"
    else:
        last = f"{found.summary}; written to {output}"
    checked = "" if found.verification is None else str(found.verification)
    return [*found.lines(), last, *checked.splitlines()]


def _document(model: Path, output: Path | None, found: Repair) -> dict[str, Any]:
    checked = found.verification
    return {
        "schema": "halfulp.repair/1",
        "file": str(model),
        "written": None if output is None else str(output),
        "valid": found.valid,
        "changes": [
            {"node": change.node, "what": change.what, "differs": change.differs} for change in found.changes
        ],
        "left": [asdict(left) for left in found.left],
        "verification": None if checked is None else {"same": checked.same, "text": str(checked)},
    }
