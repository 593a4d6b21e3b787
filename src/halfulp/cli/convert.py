"""``halfulp convert``: a model in another opset or format, and a list of the changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from halfulp.cli.inputs import dim_option, fed, input_option, sizes
from halfulp.cli.output import FORCE, check_not_read, check_writable, working
from halfulp.errors import HalfulpError, printable
from halfulp.models.source import format_to_write

if TYPE_CHECKING:
    from halfulp.conversion.spellings import How, HowPow


def convert(
    model: Annotated[
        Path, typer.Argument(metavar="IN", help="An ONNX, OpenVINO (.xml) or DxDispatch (.json) file.")
    ],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Where to write; the suffix says in which of these formats.")
    ],
    opset: Annotated[
        int | None, typer.Option(metavar="N", help="The opset of ONNX's own operators, older or newer.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Rewrite the model so that onnxruntime, openvino, directml, tensorrt or iree accepts each node, or"
            " basic: for a runtime with neither Pow nor PRelu.",
        ),
    ] = None,
    prelu: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="expand each PRelu into operators that every runtime has (relu: without comparisons), or fold such"
            " back.",
        ),
    ] = None,
    pow: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="expand each Pow with a constant exponent into products, roots or a reciprocal; logarithms: and the"
            " others into Exp and Log, approximately; or fold the former back where every bit stays.",
        ),
    ] = None,
    float32: Annotated[
        str | None,
        typer.Option(
            metavar="NODES",
            help="Compute nodes of a float16 network in float32, with casts around them: norms, each from its square"
            " to its division; pow; all; or names with commas between them.",
        ),
    ] = None,
    fuse: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="norms: write each norm that is exactly LayerNormalization-17 or RMSNormalization-23 as such.",
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="First repair broken Pow and PRelu nodes, as halfulp repair does."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Run both models on the same inputs and compare every bit."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="For those inputs.")] = 0,
    dims: Annotated[
        list[str] | None,
        dim_option(
            "The size of a symbolic dim in them, and in a .json file. Others are tried until IN runs."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        input_option(
            "Verify with this input, from a .npy, .npz or .pb file, and no made-up ones; repeat for more."
        ),
    ] = None,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Convert a model, and list the change to each node.

    Exit status 1 says that the outputs of the two models differ by more than a change announces, or could not be
    compared; OUT is written all the same.

    Example: halfulp convert net.onnx new.onnx --opset 15 --verify
    """
    # Imported here, so that the other verbs do not load the onnx package.
    from halfulp.conversion import convert as convert_model
    from halfulp.models import load

    check_writable(output, binary=True)
    check_not_read(output, [model], force=force)
    if inputs and not verify:
        raise HalfulpError("--input is for --verify, which is not given")
    if dims and not verify and format_to_write(output) != "directml":
        raise HalfulpError(
            "--dim is for --verify, which is not given, and for a .json file, whose dims are numbers"
        )
    dim_sizes = sizes(dims, made_up=not inputs)
    fed_inputs = fed(load(model), inputs) if inputs else None
    with working() as progress:
        conversion = convert_model(
            model,
            output,
            opset=opset,
            target=target,
            prelu=cast("How | None", prelu),
            pow=cast("HowPow | None", pow),
            float32=float32,
            fuse=cast('Literal["norms"] | None', fuse),
            repair=repair,
            verify=verify,
            seed=seed,
            dims=dim_sizes,
            inputs=fed_inputs,
            progress=progress,
        )
    for change in conversion.changes:
        typer.echo(printable(str(change), most=None))
    typer.echo(f"{conversion.summary}; written to {output}")
    found = conversion.verification
    if found is not None:
        typer.echo(str(found))
        if not found.same:
            raise typer.Exit(1)
