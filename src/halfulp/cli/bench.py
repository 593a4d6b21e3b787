"""``halfulp bench``: time and exactness beside NumPy and what else is installed; or of a network in its runtimes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp.errors import HalfulpError

if TYPE_CHECKING:
    from halfulp.benchmark.case import Case

_SIZE = 1 << 18  # the operands lie in a cache, and the threads are worth waking
_SECONDS = 0.5  # a row of arrays
_NETWORK_SECONDS = 5.0


def bench(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A network, an ONNX or OpenVINO (.xml) file: measured in the runtimes that are installed,"
            " with their own Pow and PRelu and with halfulp's. Without it, arrays are.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=256, help="For every library; all processors if not given.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0, max=600, help="How long to measure each row, or a network in all, beside preparing it."
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", metavar="NAME=FILE", help="An input of the network, as for run; else made up."
        ),
    ] = None,
    dims: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=N", help="The size of a symbolic dim in what is made up."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the inputs that are made up.")] = 0,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what was measured of a network. - is standard output."),
    ] = None,
) -> None:
    """Measure halfulp beside NumPy, torch and others that are installed; or a network with and without halfulp.

    Example: halfulp bench net.onnx --dim N=16
    """
    if model is None and (inputs or dims or seed or json):
        raise HalfulpError(
            "--input, --dim, --seed and --json are for a network", expected="halfulp bench MODEL"
        )
    from halfulp.benchmark.environment import environment

    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.update(environment(threads))  # before the libraries are loaded
    if model is None:
        _arrays(threads, _SECONDS if seconds is None else seconds)
    else:
        from halfulp.cli.bench_network import bench_network

        length = _NETWORK_SECONDS if seconds is None else seconds
        bench_network(model, threads, length, inputs or [], dims or [], seed, json)


def _arrays(threads: int, seconds: float) -> None:
    # Here, so that the other verbs need not wait for it.
    from rich.console import Console
    from rich.progress import track

    from halfulp.benchmark.comparison import Comparison
    from halfulp.benchmark.peers import PEERS, versions
    from halfulp.benchmark.show import cell, table
    from halfulp.benchmark.timing import summary
    from halfulp.cli.table import console

    installed = versions()
    libraries = ["halfulp", *(name for name in PEERS if name in installed)]
    rows = []
    cases = list(_cases().items())
    for label, case in track(cases, "measuring", console=Console(stderr=True), transient=True):
        comparison = Comparison(case, libraries[1:], threads)
        times = comparison.measure(seconds)
        cells = {name: cell(summary(taken), comparison.exactness.get(name)) for name, taken in times.items()}
        rows.append([label, *(cells.get(name, "-") for name in libraries)])
    to = console()
    to.print(table("", ("", *(f"{name}\n{installed[name]}" for name in libraries)), rows))
    to.print(
        f"Nanoseconds per element on {threads} thread{'s' * (threads > 1)} ({_SIZE:,} elements): the median, half the"
        " distance of the quartiles;\nthe share of results that are not correctly rounded, compared with halfulp's,"
        " and how many values off the farthest is.",
        highlight=False,
    )


def _cases() -> dict[str, Case]:
    from halfulp.benchmark.case import constant_power, power, prelu

    arrays = {
        f"{t} ** {t}": power(t, t, _SIZE) for t in ("float64", "float32", "float16", "bfloat16", "int32")
    }
    constants = {f"float32 ** {e:g}": constant_power("float32", e, _SIZE) for e in (2, 3, 0.5, 2.5)}
    mixed = {"float32 ** int64": power("float32", "int64", _SIZE)}
    return arrays | constants | mixed | {"PRelu float32": prelu("float32", (1, 64, 64, 64), (64, 1, 1))}
