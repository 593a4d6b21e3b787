"""``halfulp bench``: time and exactness beside NumPy and what else is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from halfulp.benchmark.case import Case

_SIZE = 1 << 18  # the operands lie in a cache, and the threads are worth waking


def bench(
    threads: Annotated[
        int | None, typer.Option(min=1, max=256, help="For every library; all processors if not given.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=60, help="How long to measure each row, beside preparing it.")
    ] = 0.5,
) -> None:
    """Measure halfulp beside NumPy, and beside torch, ONNX Runtime and others where they are installed.

    Example: halfulp bench --threads 1
    """
    # Here, so that the other verbs need not wait for it.
    from rich.console import Console
    from rich.progress import track

    from halfulp.benchmark.environment import environment
    from halfulp.benchmark.peers import PEERS, versions

    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.update(environment(threads))  # before the libraries are loaded

    from halfulp.benchmark.comparison import Comparison
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
