"""``halfulp run``: evaluate a model, and say which engine evaluated what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from halfulp.cli.engine import Engine, evaluate
from halfulp.cli.output import check_writable
from halfulp.errors import HalfulpError
from halfulp.models.files import open_npy, read_npz, read_pb, viewed, write_npz

if TYPE_CHECKING:
    from halfulp.models.directml.dxdispatch import Program
    from halfulp.models.graph import Array, Model, Value


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
        typer.Option("--dim", metavar="NAME=N", help="The size of a symbolic dim in them (else 3)."),
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
    """Evaluate a model and print which engine evaluated which node, and what came out.

    Example: halfulp run net.onnx -i x=x.npy -o out.npz
    """
    # Here, so that `halfulp --help` and the other verbs need not wait for the onnx package.
    from halfulp.cli import table
    from halfulp.models.graph import Model
    from halfulp.models.load import load
    from halfulp.models.run.inputs import make_inputs

    check_writable(output, binary=True)
    loaded = load(model)
    if output_folder is not None and isinstance(loaded, Model):
        raise HalfulpError("--output-folder is for the commands of a .json file", got=model)
    if dims and (inputs or not isinstance(loaded, Model)):
        raise HalfulpError("--dim is for inputs that are made up; these are not")
    if inputs:
        values = _fed(loaded, inputs)
    elif isinstance(loaded, Model):
        values = make_inputs(loaded, seed=seed, dims=dict(map(_dim, dims or [])))
    else:
        values = {}
    outputs, report, choice = evaluate(engine, model, loaded, values, output_folder)
    if output is not None:
        write_npz(output, _flat(outputs))
    console = table.console()
    console.print(choice, markup=False, highlight=False)
    console.print(table.nodes(report))
    console.print(table.summary(report))
    console.print()
    if values:
        origin = "input" if inputs else f"input (made up, seed {seed})"
        console.print(table.values(origin, values))
    console.print(table.values("output", outputs))
    if output is not None:
        console.print(f"written to {output}", markup=False, highlight=False)


def _fed(model: Model | Program, arguments: list[str]) -> dict[str, Array]:
    declared = {alias: value for value in model.inputs for alias in value.aliases}
    declared |= {value.name: value for value in model.inputs}
    values: dict[str, Array] = {}
    for argument in arguments:
        name, equals, file = argument.partition("=")
        if not equals and argument.endswith(".npz"):
            entries = read_npz(Path(argument))
            unknown = entries.keys() - declared.keys()
            if unknown:
                raise HalfulpError(
                    f"{argument}: entry {min(unknown)!r} is no input of {model.file}",
                    expected=", ".join(map(repr, declared)),
                )
        elif not (name and equals and file):
            raise HalfulpError("an input must be NAME=FILE, or FILE.npz", got=argument)
        elif name not in declared:
            raise HalfulpError(
                f"{model.file} has no input {name!r}", expected=", ".join(map(repr, declared)) or "none"
            )
        else:
            entries = {name: _read(Path(file), declared[name])}
        for entry, array in entries.items():
            if entry in values:
                raise HalfulpError(f"input {entry!r} is given twice")
            values[entry] = viewed(array, _dtype(declared[entry]), argument)
    return values


def _read(path: Path, declared: Value) -> Array:
    if path.suffix == ".npz":
        entries = read_npz(path)
        if declared.name in entries:
            return entries[declared.name]
        if len(entries) == 1:
            return next(iter(entries.values()))
        raise HalfulpError(f"{path}: no entry {declared.name!r}", got=", ".join(entries) or "no entries")
    if path.suffix == ".pb":
        return read_pb(path)
    if path.suffix == ".npy":
        return open_npy(path, _dtype(declared)).map()
    raise HalfulpError(f"{path}: not a kind of file that is read here", expected=".npy, .npz or .pb")


def _dtype(declared: Value) -> np.dtype[Any] | None:
    from halfulp.models.run.inputs import dtype_named

    return None if declared.type is None else dtype_named(declared.type)


def _dim(argument: str) -> tuple[str, int]:
    name, _, size = argument.rpartition("=")
    if not (name and size.isascii() and size.isdigit() and len(size) < 19):
        raise HalfulpError("a dim must be NAME=N with N a number", got=argument)
    return name, int(size)


def _flat(outputs: dict[str, object]) -> dict[str, Array]:
    """Return the outputs as arrays: a sequence becomes name.0, name.1 and so on."""
    flat: dict[str, Array] = {}
    for name, value in outputs.items():
        items = {f"{name}.{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
        flat.update({key: item for key, item in items.items() if isinstance(item, np.ndarray)})
    return flat
