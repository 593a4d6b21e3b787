"""``halfulp bench``: time and exactness of a network in its runtimes, or of arrays beside NumPy and torch."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from halfulp.cli import shared
from halfulp.errors import HalfulpError, count_of
from halfulp.installed import has_module
from halfulp.models.files import format_of
from halfulp.operators import thread_count

_MEASURE = partial(Option, rich_help_panel="Measurement")


def bench(
    model: Annotated[
        shared.File,
        Argument(
            metavar="[MODEL]",
            help="A network, an ONNX file: measured in ONNX Runtime, with its own Pow and PRelu and with halfulp's."
            " Without it, arrays are.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        _MEASURE(
            min=1, max=256, metavar="N", help="For every library; all that this process may use if not given."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        _MEASURE(
            min=0,
            max=600,
            metavar="S",
            help="How long to measure each row, or a network in all, beside preparing it.",
        ),
    ] = None,
    inputs: shared.Inputs = None,
    output: Annotated[
        shared.File, shared.output_option("Write the measurements of a network.", "FILE.json")
    ] = None,
    json: shared.Json = None,
    force: shared.Force = False,
) -> None:
    """Measure a network in ONNX Runtime with and without halfulp; without a model, halfulp beside NumPy and torch.

    Example: halfulp bench net.onnx -i N=16
    """
    (json,) = shared.placed(None, output, json=json)
    if model is None and (inputs or json):
        raise HalfulpError("--input, --json and -o are for a network", expected="halfulp bench MODEL")
    from halfulp.benchmark.timing import environment

    if threads is None:
        threads = thread_count()
    os.environ.update(environment(threads))  # before the libraries are loaded
    if model is None:
        _arrays(threads, 0.5 if seconds is None else seconds)
    else:
        shared.check_writable(json, read=[model, *shared.files_of(inputs)], force=force)
        _network(model, threads, 5.0 if seconds is None else seconds, inputs, json)


def _arrays(threads: int, seconds: float) -> None:
    from halfulp.benchmark.comparison import ROWS, SIZE, measure
    from halfulp.installed import versions

    cells = dict[str, dict[str, str]]()
    with shared.working() as progress:
        for row in ROWS:
            progress(f"measuring {row}")
            cells[row] = measure(row, threads, seconds)
    names = [*cells[ROWS[0]]]
    installed = versions(*names)
    headers = ["", *(f"{name}\n{installed.get(name, '')}" for name in names)]
    _show(headers, [[row, *of_row.values()] for row, of_row in cells.items()])
    shared.say(
        shared.console(),
        f"Nanoseconds per element on {count_of(threads, 'thread')} ({SIZE:,} elements): the median, half the"
        " distance of the quartiles;\nthe share of results that are not correctly rounded, compared with halfulp's,"
        " and how many values off the farthest is.",
    )


def _show(headers: list[str], rows: list[list[str]]) -> None:
    """Print a table; a semicolon starts a new line in a cell."""
    cells = [[cell.replace("; ", "\n") for cell in row] for row in rows]
    shared.print_rows(shared.console(), headers, cells, ())


def _network(path: Path, threads: int, seconds: float, inputs: shared.Names, output: Path | None) -> None:
    from halfulp.benchmark import network as measuring
    from halfulp.conversion.verify import runs
    from halfulp.models.run.inputs import fit

    if format_of(path) != "onnx":
        raise HalfulpError(
            f"{path}: networks are measured in ONNX Runtime", expected="the .onnx file that it was made from"
        )
    if not has_module("onnxruntime"):
        missing = "networks are measured in ONNX Runtime, which is not installed"
        raise HalfulpError(f"{path}: {missing}", expected="pip install 'halfulp[onnxruntime]'")
    files, dims = shared.parted(inputs)
    with measuring.light(path) as model, shared.working() as progress:
        nodes = len(measuring.nodes_of(model))
        if not nodes:
            raise HalfulpError(f"{path}: has no Pow and no PRelu, the operators that halfulp would run")
        fitted = None if files else fit(model, runs(model)[1][0], dims=dims)
        values = shared.fed(model, files) if fitted is None else fitted.inputs(model)
        row = measuring.compare(model, values, threads, seconds, progress)
    document = {"model": str(path), "threads": threads, "runtimes": [measuring.document(row)]}
    shared.write_json(output, lambda: document)
    if shared.is_stdout(output):
        return
    to = shared.console()
    shared.say(to, *filter(None, [str(fitted or "")]))
    _show(["", "a run", "its Pow and PRelu", "their results"], measuring.report(row, nodes))
    shared.say(
        to,
        *measuring.sentences(row),
        f"\nThe median of runs in turns, on {count_of(threads, 'thread')}, and half the distance of the"
        " quartiles; the Pow and PRelu nodes' time\nand their share of all nodes', by the runtime's own profile;"
        " the share of their results that are not correctly\nrounded, given their operands, and how many values off"
        " the farthest is.",
    )
