"""``halfulp bench``: time and exactness beside NumPy and what else is installed; or of a network in its runtimes."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp.errors import HalfulpError
from halfulp.operators import thread_count

if TYPE_CHECKING:
    from halfulp.benchmark.case import Case
    from halfulp.benchmark.cuda import Line

_SIZE = 1 << 18  # the operands lie in a cache, and the threads are worth waking
_SECONDS = 0.5  # a row of arrays
_NETWORK_SECONDS = 5.0
_DEVICE_SIZE = 1 << 26  # far more than a device's caches


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
        int | None,
        typer.Option(min=1, max=256, help="For every library; all that this process may use if not given."),
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
    device: Annotated[
        str, typer.Option(metavar="NAME", help="Where arrays are measured: cpu, or cuda, beside torch there.")
    ] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="For the inputs that are made up.")] = 0,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what was measured of a network. - is standard output."),
    ] = None,
) -> None:
    """Measure halfulp beside NumPy, torch and others that are installed; or a network with and without halfulp."""
    if model is None and (inputs or dims or seed or json):
        raise HalfulpError(
            "--input, --dim, --seed and --json are for a network", expected="halfulp bench MODEL"
        )
    if device not in ("cpu", "cuda"):
        raise HalfulpError("no such device", expected="cpu or cuda", got=device)
    if device == "cuda":
        if model is not None:
            raise HalfulpError("networks are measured on the processor: --device is for arrays")
        _on_cuda(seconds)
        return
    from halfulp.benchmark.environment import environment

    if threads is None:
        threads = thread_count()
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


def _on_cuda(seconds: float | None) -> None:
    from rich.console import Console
    from rich.progress import track

    if find_spec("torch") is None:
        raise HalfulpError(
            "--device cuda needs torch, whose memory and clock it uses: pip install 'halfulp[torch]'"
        )
    from halfulp.benchmark import cuda
    from halfulp.benchmark.show import table
    from halfulp.cli.table import console

    cuda.require_device()
    turns = max(3, round(20 * (_SECONDS if seconds is None else seconds)))
    lines = [
        cuda.measure(row, _DEVICE_SIZE, turns)
        for row in track(cuda.ROWS, "measuring", console=Console(stderr=True), transient=True)
    ]
    libraries = sorted({name for line in lines for name in line.seconds} - {"halfulp"})
    to = console()
    to.print(table("", ("", "halfulp", *libraries), [_cells(line, libraries) for line in lines]))
    to.print(
        f"Times a copy of the same bytes on the device ({_DEVICE_SIZE:,} elements), the median; the share of results"
        " that are not halfulp's.",
        highlight=False,
    )


def _cells(line: Line, libraries: list[str]) -> list[str]:
    cells = [line.row.label, f"{line.seconds['halfulp'] / line.copy:.2f}"]
    for name in libraries:
        if name not in line.seconds:
            cells.append("-")
            continue
        cells.append(f"{line.seconds[name] / line.copy:.2f}; {100 * line.misrounded[name]:.2g} % off")
    return cells


def _cases() -> dict[str, Case]:
    from halfulp.benchmark.case import constant_power, power, prelu

    arrays = {
        f"{t} ** {t}": power(t, t, _SIZE) for t in ("float64", "float32", "float16", "bfloat16", "int32")
    }
    constants = {f"float32 ** {e:g}": constant_power("float32", e, _SIZE) for e in (2, 3, 0.5, 2.5)}
    mixed = {"float32 ** int64": power("float32", "int64", _SIZE)}
    return arrays | constants | mixed | {"PRelu float32": prelu("float32", (1, 64, 64, 64), (64, 1, 1))}
