"""``halfulp run``: evaluate a model, and say which engine evaluated what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from halfulp.cli.engine import Engine, evaluate, refuse_breaches, trial
from halfulp.cli.inputs import fed, sizes
from halfulp.cli.output import check_writable, working
from halfulp.errors import HalfulpError
from halfulp.models.files import write_npz

if TYPE_CHECKING:
    from halfulp.models.graph import Array


def run(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX, OpenVINO (.xml) or DxDispatch (.json) file.")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=FILE",
            help="An input, from a .npy, .npz or .pb (TensorProto) file; repeat for more."
            " FILE.npz alone feeds every input it has an entry for."
            " Without any, inputs are made up; those of a .json file have values of their own.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.npz",
            help="Write the outputs. NumPy has no name for bfloat16, float8, float4 and int4: they"
            " are stored as bytes; read them with array.view(ml_dtypes.bfloat16).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the inputs that are made up.")] = 0,
    dims: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="NAME=N",
            help="The size of a symbolic dim in them; one without a name is INPUT[AXIS]."
            " Without it sizes are tried until the model runs.",
        ),
    ] = None,
    output_folder: Annotated[
        Path | None,
        typer.Option(
            "--output-folder",
            metavar="FOLDER",
            help="Where the writeFile commands of a .json file may write, instead of the file's own folder.",
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="What runs an ONNX file: onnxruntime, with halfulp's Pow and PRelu in it; halfulp, node by node;"
            " auto is onnxruntime where it is installed and takes the model."
        ),
    ] = Engine.auto,
) -> None:
    """Evaluate a model and print which engine evaluated which node, and what came out."""
    # Here, so that `halfulp --help` and the other verbs need not wait for the onnx package.
    from halfulp.cli import table
    from halfulp.models.graph import Model
    from halfulp.models.load import load
    from halfulp.models.run.fitting import fit
    from halfulp.models.run.report import sentence, vacuous

    check_writable(output, binary=True)
    loaded = load(model, keep_unknown=True)  # ONNX Runtime may know them
    if output_folder is not None and isinstance(loaded, Model):
        raise HalfulpError("--output-folder is for the commands of a .json file", got=model)
    if dims and (inputs or not isinstance(loaded, Model)):
        raise HalfulpError("--dim is for inputs that are made up; these are not")
    if isinstance(loaded, Model):
        refuse_breaches(model, loaded)
    made_up = ""
    if inputs:
        values = fed(loaded, inputs)
    elif isinstance(loaded, Model):
        with working() as progress:
            found = fit(loaded, trial(engine, model, loaded), seed=seed, dims=sizes(dims), progress=progress)
        values, made_up = found.inputs(loaded, seed), str(found)
    else:
        values = {}
    outputs, report, choice = evaluate(engine, model, loaded, values, output_folder)
    if output is not None:
        write_npz(output, _flat(outputs))
    console = table.console()
    console.print(choice, markup=False, highlight=False)
    if made_up:
        console.print(made_up, markup=False, highlight=False, soft_wrap=True)
    console.print(table.nodes(report))
    console.print(table.summary(report))
    console.print()
    if values:
        origin = "input" if inputs else f"input (made up, seed {seed})"
        console.print(table.values(origin, values))
    console.print(table.values("output", outputs))
    for name, reason in vacuous(outputs).items():
        console.print(sentence(name, reason), markup=False, highlight=False, soft_wrap=True)
    if output is not None:
        console.print(f"written to {output}", markup=False, highlight=False)


def _flat(outputs: dict[str, object]) -> dict[str, Array]:
    """Return the outputs as arrays: a sequence becomes name.0, name.1 and so on."""
    flat: dict[str, Array] = {}
    for name, value in outputs.items():
        items = {f"{name}.{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
        flat.update({key: item for key, item in items.items() if isinstance(item, np.ndarray)})
    return flat
