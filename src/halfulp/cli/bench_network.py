"""``halfulp bench MODEL``: what a network gains by halfulp."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from halfulp.benchmark.networks.comparison import compare, runtimes_of
from halfulp.benchmark.networks.contender import Network
from halfulp.benchmark.networks.show import document, report, sentences
from halfulp.cli.engine import Engine, refuse_breaches, trial
from halfulp.cli.inputs import fed, sizes
from halfulp.cli.output import check_writable, is_stdout, working, write_text
from halfulp.cli.table import console
from halfulp.errors import HalfulpError
from halfulp.models.graph import Graph, Model, Node
from halfulp.models.load import load
from halfulp.models.onnx.nodes import SUPPORTED_OPS
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
    nodes = sum(1 for _ in _ours(model.graph))
    if not nodes:
        raise HalfulpError(f"{path}: has no Pow and no PRelu: there is nothing in it that halfulp would run")
    if dims and inputs:
        raise HalfulpError("--dim is for inputs that are made up; these are not")
    refuse_breaches(path, model)
    told = ""
    if inputs:
        values = fed(model, list(inputs))
    else:
        run = trial(Engine.auto, path, model)
        with working() as progress:
            found = fit(model, run, seed=seed, dims=sizes(list(dims)), progress=progress)
        values, told = found.inputs(model, seed), str(found)
    rows = compare(Network(path, model, values, threads), runtimes, seconds)
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


def _ours(graph: Graph) -> Iterator[Node]:
    """Yield the Pow and PRelu nodes, those in subgraphs and functions included."""
    for node in graph.nodes:
        if node.function is not None:
            yield from _ours(node.function)
        elif not node.domain and node.type in (*SUPPORTED_OPS, "Power", "PReLU"):
            yield node
        for inner in node.subgraphs:
            yield from _ours(inner)
