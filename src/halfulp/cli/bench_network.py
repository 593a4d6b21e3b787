"""``halfulp bench MODEL``: what a network gains by halfulp."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from halfulp.benchmark.networks.comparison import Progress, compare, document, report, runtimes_of, sentences
from halfulp.benchmark.networks.network import Network, light, network_of, nodes_of, release, watched
from halfulp.cli.engine import refuse_breaches
from halfulp.cli.inputs import fed, sizes
from halfulp.cli.output import check_writable, is_stdout, working, write_text
from halfulp.cli.table import console
from halfulp.errors import HalfulpError
from halfulp.models.graph import Model
from halfulp.models.load import load
from halfulp.models.run.fitting import fit


def bench_network(
    path: Path,
    threads: int,
    seconds: float,
    inputs: Sequence[str],
    dims: Sequence[str],
    seed: int,
    output: Path | None,
) -> None:
    """Measure a network and print what was found; the arguments are those of the verb.

    Raises:
        HalfulpError: there is no such network, no runtime for it, or no inputs on which it runs.
    """
    check_writable(output)
    model = load(path, keep_unknown=True)
    runtimes = runtimes_of(path)
    if not isinstance(model, Model) or not runtimes:
        raise HalfulpError(
            f"{path}: no runtime that is installed runs it",
            expected="an ONNX file and onnxruntime or openvino, or an .xml file and openvino",
        )
    if not any(nodes_of(model.graph)):
        raise HalfulpError(f"{path}: has no Pow and no PRelu: there is nothing in it that halfulp would run")
    if dims and inputs:
        raise HalfulpError("--dim is for inputs that are made up; these are not")
    refuse_breaches(path, model)
    del model  # the weights of the copy are mapped
    with light(path) as copy, working() as shown:
        progress = shown or (lambda line: None)
        network, told = _network(copy, threads, inputs, dims, seed, progress)
        rows = compare(network, runtimes, seconds, progress)
        nodes = len(list(nodes_of(network.model.graph)))
    if output is not None:
        text = json.dumps({"model": str(path), "threads": threads, "runtimes": document(rows)}, indent=1)
        write_text(output, text + "\n")
        if is_stdout(output):
            return
    to = console()
    if told:
        to.print(told, markup=False, highlight=False, soft_wrap=True)
    to.print(report(rows, nodes))
    for sentence in sentences(rows):
        to.print(sentence, markup=False, highlight=False, soft_wrap=True)
    to.print(
        f"\nThe median of runs in turns, on {threads} thread{'s' * (threads > 1)}, and half the distance of the"
        " quartiles; the Pow and PRelu nodes' time\nand their share of all nodes', by the runtime's own profile;"
        " the share of their results that are not correctly\nrounded, given their operands, and how many values off"
        " the farthest is.",
        highlight=False,
    )


def _network(
    path: Path, threads: int, inputs: Sequence[str], dims: Sequence[str], seed: int, progress: Progress
) -> tuple[Network, str]:
    """Return the network with inputs on which it runs, and a line on those that were made up."""
    progress("running it once for the operands of its Pow and PRelu")
    model, told = load(path, keep_unknown=True), ""
    assert isinstance(model, Model)
    run = watched(path, model)
    if inputs:
        values = fed(model, list(inputs))
    else:
        found = fit(model, run, seed=seed, dims=sizes(list(dims)), progress=progress)
        values, told = found.inputs(model, seed), str(found)
    network = network_of(path, model, run, values, threads)
    del run
    release()
    return network, told
