"""``halfulp convert`` and ``halfulp repair``: a model in another form, or made valid, and a list of the changes."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer import Argument, Option

from halfulp.cli.inputs import File, Inputs, Names, declared_inputs, fed, file_option, files_of, parted
from halfulp.cli.output import FORCE, check_writable, people, say, working, write_json
from halfulp.errors import HalfulpError, in_shell, printable

if TYPE_CHECKING:
    from halfulp.conversion.repair import Repair, Slopes
    from halfulp.conversion.spellings import How, HowPow


def convert(
    model: Annotated[Path, Argument(metavar="IN", help="An ONNX file.")],
    output: Annotated[
        Path, Argument(metavar="OUT", help="Where to write: ONNX, or OpenVINO's IR where it ends with .xml.")
    ],
    opset: Annotated[
        int | None, Option(metavar="N", help="The opset of ONNX's own operators, older or newer.")
    ] = None,
    target: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Rewrite the model so that onnxruntime, openvino, directml, tensorrt or iree accepts each Pow and"
            " PRelu, or basic: for a runtime with neither.",
        ),
    ] = None,
    expand: Annotated[
        str | None,
        Option(
            metavar="OPERATORS",
            help="Write these operators, such as ReduceL2,Gelu, in others, for a runtime that lacks them.",
        ),
    ] = None,
    prelu: Annotated[
        str | None,
        Option(
            metavar="HOW",
            help="expand each PRelu into operators that every runtime has (relu: without comparisons), or fold such"
            " back. Slopes that nodes compute of constants are stored.",
        ),
    ] = None,
    pow: Annotated[
        str | None,
        Option(
            metavar="HOW",
            help="expand each Pow with a constant exponent into products, roots or a reciprocal; logarithms: and the"
            " others into Exp and Log, approximately; or fold the former back where every bit stays.",
        ),
    ] = None,
    float32: Annotated[
        str | None,
        Option(
            metavar="NODES",
            help="Compute nodes of a float16 network in float32, with casts around them: norms, each from its squares"
            " to its root or division; pow; all; or names with commas between them.",
        ),
    ] = None,
    fuse: Annotated[
        str | None,
        Option(
            metavar="WHAT",
            help="norms: write each norm that is exactly LayerNormalization-17 or RMSNormalization-23 as such.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "--verify", help="Run both models on the same inputs, given or made up, and compare every bit."
        ),
    ] = False,
    inputs: Inputs = None,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Convert a model, and list the change to each node.

    Exit status 1 says that the outputs of the two models differ by more than a change announces, or could not be
    compared; OUT is written all the same.

    Example: halfulp convert net.onnx new.onnx --opset 15 --verify
    """
    # Imported here, so that the other verbs do not load the onnx package.
    from halfulp.conversion import convert as convert_model

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
            prelu=cast("How | None", prelu),
            pow=cast("HowPow | None", pow),
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
    output: Annotated[
        File, Argument(metavar="[OUT]", help="Where to write. Without it the repairs are only shown.")
    ] = None,
    slopes: Annotated[
        Names,
        Option(
            metavar="[NODE=]DIM",
            help="The dim of X that a slope goes along where that is open: channel, last or a number;"
            " repeat for single nodes.",
        ),
    ] = None,
    json_output: Annotated[
        File, file_option("Write all of it there, too. - is standard output.", "--json")
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "--verify",
            help="Run the repaired model, and the broken one in OpenVINO if that is installed and takes it.",
        ),
    ] = False,
    inputs: Inputs = None,
) -> None:
    """Give each broken Pow and PRelu node the one meaning that its author can have had, and say which.

    Exit status 0: the model is valid, repaired or untouched. 1: something is left, or the verification found a
    difference; OUT is written all the same. 2: nothing could be written.

    Example: halfulp repair broken.onnx repaired.onnx --verify
    """
    from halfulp.conversion.repair import repair as repair_model

    check_writable(output, binary=True, read=[model, *files_of(inputs)])
    check_writable(output, json_output)
    check_writable(json_output, read=[model, *files_of(inputs)])
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
    write_json(json_output, lambda: _document(model, output, found))
    say(people(json_output), *_lines(model, output, found, slopes or []))
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
        last = f"{found.summary}; halfulp repair {in_shell(model)} OUT{chosen} writes it"
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
