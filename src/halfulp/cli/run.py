"""``halfulp run``: evaluate a model, and say which engine evaluated what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from halfulp.cli.engine import Engine, evaluate, refuse_breaches, trial
from halfulp.cli.inputs import dim_option, fed, input_option, sizes
from halfulp.cli.output import check_writable, console, say, working
from halfulp.errors import HalfulpError, printable
from halfulp.models.files import write_npz
from halfulp.models.graph import Array, type_name
from halfulp.models.run.report import NodeRun, RunReport, show

_MOST_ROWS = 60


def run(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX, OpenVINO (.xml) or DxDispatch (.json) file.")
    ],
    inputs: Annotated[
        list[str] | None,
        input_option(
            "An input, from a .npy, .npz or .pb (TensorProto) file; repeat for more."
            " FILE.npz alone feeds every input it has an entry for."
            " Without any, inputs are made up; those of a .json file have values of their own."
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
        dim_option(
            "The size of a symbolic dim in them; one without a name is INPUT[AXIS]."
            " Without it sizes are tried until the model runs."
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
    """Evaluate a model and print which engine evaluated which node, and what came out.

    Example: halfulp run net.onnx -i x=x.npy -o out.npz
    """
    # Here, so that `halfulp --help` and the other verbs need not wait for the onnx package.
    from halfulp.conversion.subject import Subject, has_ours
    from halfulp.models.graph import Model
    from halfulp.models.load import load
    from halfulp.models.run.fitting import fit
    from halfulp.models.run.report import sentence, vacuous

    check_writable(output, binary=True)
    loaded = load(model, keep_unknown=True)  # ONNX Runtime may know them
    if output_folder is not None and isinstance(loaded, Model):
        raise HalfulpError("--output-folder is for the commands of a .json file", got=model)
    dim_sizes = sizes(dims, made_up=not inputs and isinstance(loaded, Model))
    if has_ours(Subject(loaded)):
        refuse_breaches(model)
    made_up = ""
    if inputs:
        values = fed(loaded, inputs)
    elif isinstance(loaded, Model):
        with working() as progress:
            found = fit(loaded, trial(engine, model, loaded), seed=seed, dims=dim_sizes, progress=progress)
        values, made_up = found.inputs(loaded, seed), str(found)
    else:
        values = {}
    outputs, report, choice = evaluate(engine, model, loaded, values, output_folder)
    if output is not None:
        write_npz(output, _flat(outputs))
    to = console()
    say(to, choice, *([made_up] if made_up else []))
    to.print(_nodes(report))
    to.print(_summary(report))
    to.print()
    if values:
        origin = "input" if inputs else f"input (made up, seed {seed})"
        to.print(table_of(origin, values))
    to.print(table_of("output", outputs))
    say(to, *(sentence(name, reason) for name, reason in vacuous(outputs).items()))
    if output is not None:
        say(to, f"written to {output}")


def _flat(outputs: dict[str, object]) -> dict[str, Array]:
    """Return the outputs as arrays: a sequence becomes name.0, name.1 and so on."""
    flat: dict[str, Array] = {}
    for name, value in outputs.items():
        items = {f"{name}.{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
        flat.update({key: item for key, item in items.items() if isinstance(item, np.ndarray)})
    return flat


# --- tables --------------------------------------------------------------------------------------


def _nodes(report: RunReport) -> Table:
    """Return the table of a run's nodes; in a long run the foreign ones are summed up by operator."""
    table = Table("node", "operator", "inputs", "outputs", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    table.add_column("evaluated by")
    total = report.seconds or 1.0
    rows = report.nodes if len(report.nodes) <= _MOST_ROWS else _grouped(report.nodes)
    for row in rows:
        label = f"{row.label}, {row.calls} times" if row.calls > 1 else row.label
        cells = [label, row.operator, "\n".join(row.inputs), "\n".join(row.outputs)]
        cells += [f"{row.seconds * 1e3:.3f}", f"{row.seconds / total:.0%}", row.engine]
        table.add_row(*map(_cell, cells))
    return table


def _grouped(rows: list[NodeRun]) -> list[NodeRun]:
    kept: list[NodeRun] = []
    groups: dict[tuple[str, str], NodeRun] = {}
    for row in rows:
        if row.operator.startswith(("onnx.Pow-", "onnx.PRelu-")):
            kept.append(row)
            continue
        group = groups.get((row.operator, row.engine))
        if group is None:
            group = groups[row.operator, row.engine] = NodeRun("all of these", row.operator, row.engine)
            kept.append(group)
        group.seconds += row.seconds
        group.calls += row.calls
    return kept


def _summary(report: RunReport) -> str:
    """Return one line: how much of the run halfulp evaluated."""
    engines = [row.engine for row in report.nodes]
    own = engines.count("halfulp")
    rest = len(engines) - own
    other = "ONNX Runtime" if "onnxruntime" in engines else "the onnx package's reference evaluator"
    text = f"halfulp evaluated {own} of {len(report.nodes)} nodes, {report.share:.0%} of the time"
    return f"{text}; {other} the other {rest}" if rest else text


def table_of(title: str, named: Mapping[str, Any]) -> Table:
    """Return a table of arrays: name, type and shape, range, count of NaNs and infinities."""
    table = Table(title, "type", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("least", "greatest", "NaN", "inf"):
        table.add_column(column, justify="right")
    for name, value in named.items():
        table.add_row(*map(_cell, (name, show(value), *_range(value))))
    return table


def _cell(text: str) -> str:
    return escape("\n".join(map(printable, text.split("\n"))))


def _range(value: Any) -> tuple[str, ...]:
    if not isinstance(value, np.ndarray) or value.size == 0:
        return ("",) * 4
    if value.dtype.kind in "biu":
        return str(value.min()), str(value.max()), "", ""
    if type_name(value.dtype) == "string" or value.dtype.kind == "c":
        return ("",) * 4
    # The small types of ml_dtypes have no reductions; all of them fit float64.
    real: Array = value if np.issubdtype(value.dtype, np.floating) else value.astype(np.float64)
    if "int" in value.dtype.name:
        return f"{real.min():.0f}", f"{real.max():.0f}", "", ""
    nan = np.isnan(real)
    infinite = int(np.isinf(real).sum())
    if nan.all():
        return "", "", str(value.size), "0"
    least, greatest = np.nanmin(real), np.nanmax(real)
    return f"{least:.6g}", f"{greatest:.6g}", str(int(nan.sum())), str(infinite)
