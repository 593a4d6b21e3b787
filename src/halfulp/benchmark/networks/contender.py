"""A network in a runtime, with the runtime's own Pow and PRelu or with ours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from halfulp.benchmark.exactness import Exactness, exactness
from halfulp.benchmark.networks.subject import Samples, nodes_of
from halfulp.benchmark.timing import Call
from halfulp.conversion.subject import Run
from halfulp.errors import UnsupportedError
from halfulp.models.graph import Array, Model

PROFILED_RUNS = 10


class Network(NamedTuple):
    """What runs, and on what.

    Attributes:
        path: the file.
        model: the same, as it was read and checked.
        inputs: arrays by name.
        threads: how many a runtime uses.
        samples: its Pow and PRelu nodes with their operands.
    """

    path: Path
    model: Model
    inputs: Mapping[str, Array]
    threads: int
    samples: Samples

    @property
    def outputs_of_nodes(self) -> set[str]:
        """The names of the tensors that its Pow and PRelu nodes give, those in subgraphs included."""
        return {node.outputs[0] for node in nodes_of(self.model.graph)}


def network_of(path: Path, model: Model, run: Run, inputs: Mapping[str, Array], threads: int) -> Network:
    """Return a network with the operands of its nodes.

    Args:
        path, model, inputs, threads: as :class:`Network` has them.
        run: of :func:`halfulp.benchmark.networks.subject.watched`.

    Raises:
        ModelError: the network does not run on these inputs.
    """
    try:
        seen = run(inputs)
    except UnsupportedError:  # an operator that a runtime may have all the same
        seen = {}
    return Network(path, model, inputs, threads, Samples(model, {**inputs, **seen}))


class NodeTimes(NamedTuple):
    """What the runtime's own profile says of the Pow and PRelu nodes.

    Attributes:
        executed: how many of them ran as such; the others are merged into other layers, or folded.
        seconds: their time in a run.
        share: that of the time of all nodes, 0 to 1.
    """

    executed: int
    seconds: float
    share: float

    @classmethod
    def of(cls, executed: int, runs: Sequence[tuple[float, float]]) -> NodeTimes:
        """Return the medians over several runs.

        Args:
            executed: as above.
            runs: the seconds of these nodes, and of all nodes.
        """
        seconds = statistics.median(part for part, _ in runs)
        return cls(
            executed, seconds, statistics.median(part / whole if whole else 0.0 for part, whole in runs)
        )


@dataclass(frozen=True)
class Contender:
    """What a network gives in a runtime.

    Attributes:
        outputs: what came out, by name: tensors only.
        nodes: the time of its Pow and PRelu nodes.
        results: how exact the results of these nodes are, of those that no subgraph holds, together: the runtime
            computed these nodes alone, on the operands that they get in the network.
        compared: how many nodes that is.
        left: a sentence for each node that stays the runtime's own where halfulp's were to take their place.
    """

    outputs: Mapping[str, Array]
    nodes: NodeTimes
    results: Exactness
    compared: int
    left: tuple[str, ...] = ()


Prepare = Callable[[bool], tuple[Contender, Call]]
"""Returns what a network gives in a runtime, with halfulp's kernels or without, and what runs it there; it raises
HalfulpError where the runtime refuses that."""


def together(found: Iterable[Exactness]) -> Exactness:
    """Return what several comparisons found as one."""
    misrounded = total = farthest = 0
    for one in found:
        misrounded, total = misrounded + one.misrounded, total + one.total
        farthest = max(farthest, one.farthest)
    return Exactness(misrounded, total, farthest)


def difference(found: Mapping[str, Any], other: Mapping[str, Any]) -> Exactness:
    """Return how far the outputs of two runs are apart: those that both have, of the same type and shape."""
    pairs = [(found[name], other[name]) for name in found if name in other]
    return together(exactness(a, b) for a, b in pairs if a.dtype == b.dtype and a.shape == b.shape)
