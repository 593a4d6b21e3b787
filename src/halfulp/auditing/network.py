"""A network whose tensors can be read while it runs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from halfulp.auditing.uses import Use
from halfulp.conversion.float32 import as_declared
from halfulp.conversion.verify import Feed, Run, runs
from halfulp.errors import HalfulpError, UnsupportedError
from halfulp.models.graph import Array, Node
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.walk import default_opset, subgraphs
from halfulp.models.run.api import Watch, run_with_report
from halfulp.models.run.inputs import by_name, fit
from halfulp.types import FLOATS

Sample = Mapping[str, Any]
Samples = Sample | Iterable[Sample]
Take = Callable[[Use, list[Array], Array], None]
"""Receives the operands and the result of a node."""
Numbered = tuple[int, NodeProto]

_GROUP = 1 << 28  # bytes of outputs that are in memory at once
_OPSET = 13  # for nodes of ONNX's own in a network that has none


class Network:
    """A model whose intermediate tensors can be read while it runs.

    If it is ``rounded``, each Pow and PRelu rounds its result, as a device that computes in float16 does.
    ONNX Runtime's own CPU kernels compute chains of such nodes in float32.
    """

    def __init__(self, model: Onnx, *, rounded: bool = False) -> None:
        self._rounded, self._model = rounded, model
        self._made = {name for node in model.proto.graph.node for name in node.output if name}
        self._runs: dict[tuple[str, ...], Run] = {}  # one session at a time
        self._sizes = Counter[str]()  # bytes

    def samples(self, given: Samples | int, feed: Feed) -> Iterator[Sample]:
        """Give the samples, each once: those given, or as many made up."""
        if isinstance(given, int):
            fitted, _ = fit(self._model, runs(self._model)[1][0], seed=feed.seed, dims=feed.dims)
            yield from (fitted.inputs(self._model, feed.seed + number) for number in range(given))
        else:
            for sample in [given] if isinstance(given, Mapping) else given:
                yield by_name(self._model.graph.inputs, sample, self._model.file)

    def each(self, uses: Sequence[Use], sample: Sample, take: Take) -> bool:
        """Pass the operands and the result of each evaluation of these nodes; return whether all were seen."""
        inner = {use.label: use for use in uses if use.where}

        def watch(node: Node, operands: list[Any], results: list[Any]) -> None:
            if node.label in inner:
                take(inner[node.label], operands, results[0])

        for group in self._groups([use for use in uses if not use.where], sample):
            tensors = self._tensors(chain.from_iterable(use.names for use in group), sample)
            for use in group:
                take(use, [tensors[operand.name] for operand in use.inputs], tensors[use.output.name])
            del tensors
        return not inner or self._watch(sample, watch)

    def _groups(self, uses: Sequence[Use], sample: Sample) -> Iterator[list[Use]]:
        """Give the nodes in groups whose tensors fit into memory together; the first sample tells their sizes."""
        if unknown := {name for use in uses for name in use.names} & self._made - self._sizes.keys():
            counts = self._numbers(unknown, lambda name, n: [helper.make_node("Size", [name], [n])], sample)
            self._sizes.update({name: 8 * int(count) for name, count in counts.items()})
        group, names, size = list[Use](), set[str](), 0
        for use in uses:
            size += sum(map(self._sizes.__getitem__, {*use.names} - names))
            if size > _GROUP:
                yield group
                group, names, size = [], set(), sum(map(self._sizes.__getitem__, {*use.names}))
            group.append(use)
            names.update(use.names)
        if group:
            yield group

    def unsound(self, names: Collection[str], sample: Sample) -> list[str]:
        """Return those of these results of the main graph that have infinities or NaNs, from one run."""
        to = 1 if (default_opset(self._model.proto.opset_import) or _OPSET) > 5 else "FLOAT"

        def total(name: str, total: str) -> list[NodeProto]:
            wide, rest = f"{name}//wide", f"{name}//rest"
            return [
                helper.make_node("Cast", [name], [wide], to=to),
                helper.make_node("Sub", [wide, wide], [rest]),  # NaN, not 0, for an infinity
                helper.make_node("ReduceSum", [rest], [total]),
            ]

        totals = self._numbers([name for name in names if name in self._made], total, sample)
        return [name for name, value in totals.items() if np.isnan(value).any()]

    def _numbers(
        self, names: Collection[str], behind: Callable[[str, str], list[NodeProto]], sample: Sample
    ) -> dict[str, Array]:
        """Return the number that a few nodes behind each tensor make of it, from a run that holds few at once."""
        copy, nodes = self._model.copy(), list[NodeProto]()
        graph, numbers = copy.proto.graph, {name: f"{name}//number" for name in names}
        if default_opset(copy.proto.opset_import) is None:
            copy.proto.opset_import.add(version=_OPSET)
        for node in graph.node:
            nodes.append(node)
            for name in filter(numbers.__contains__, node.output):
                nodes += behind(name, numbers[name])
        del graph.node[:]
        graph.node.extend(nodes)
        tensors = Network(copy, rounded=self._rounded)._tensors(numbers.values(), sample)
        return {name: tensors[number] for name, number in numbers.items()}

    def _tensors(self, names: Iterable[str], sample: Sample) -> dict[str, Array]:
        """Return tensors of the main graph by name, from one run."""
        wanted = dict.fromkeys(names)
        computed_names = tuple(filter(self._made.__contains__, wanted))
        if computed_names and computed_names not in self._runs:
            self._runs.clear()  # before the next session is there
            self._runs[computed_names] = self._opened(computed_names)
        given = as_declared(sample, self._model)
        computed = self._runs[computed_names](given) if computed_names else {}
        known = {**self._model.graph.constants, **given, **computed}
        return {name: np.asarray(known[name]) for name in wanted}

    def _opened(self, names: tuple[str, ...]) -> Run:
        model = self._model.with_outputs(names)
        try:
            from halfulp.integrations.onnxruntime import engine

            return engine.runner(model, exact=self._rounded, optimized=False)
        except HalfulpError:  # it is not installed, or refuses the model
            return runs(model)[1][0]

    def _watch(self, sample: Sample, watch: Watch) -> bool:
        """Run the network node by node, and pass each evaluation; return whether it could."""
        with suppress(UnsupportedError):  # ONNX Runtime, which has the operator, shows no values of subgraphs
            run_with_report(self._model, as_declared(sample, self._model), watch=watch)
            return True
        return False

    def spoiled(self, use: Use, sample: Sample, is_spoiled: Callable[[Array], Any]) -> set[str]:
        """Return the values of the body around a node in which any element is spoiled."""
        labels, bad = {*use.graph.labels.values()}, set[str]()

        def watch(node: Node, operands: list[Any], results: list[Any]) -> None:
            for name, value in zip(node.outputs, results, strict=False) if node.label in labels else ():
                if str(getattr(value, "dtype", "")) in FLOATS and np.any(is_spoiled(value)):
                    bad.add(name)

        self._watch(sample, watch)
        return bad


def spread(use: Use, bad: Collection[str]) -> tuple[list[Numbered], list[Numbered], bool]:
    """Return a node with a spoiled result and all later ones that read such, and those with sound results.

    The last is whether an output of the network is spoiled; of a graph with spoiled outputs none count as sound.
    """
    owner, first = use.graph.owner, use.number
    nodes, readers = [(first, owner.node[first])], list[Numbered]()
    spoiled = set(bad)
    reached = spoiled.intersection(owner.node[first].output)
    for index, node in enumerate(owner.node[first + 1 :], first + 1):
        within = _readers_within(node, reached)
        if within or not reached.isdisjoint(node.input):
            readers.append((index, node))
            nodes += [readers[-1], *within]
            reached |= spoiled.intersection(node.output)
    leaves = not reached.isdisjoint(info.name for info in owner.output)
    sound = [] if leaves else [reader for reader in readers if reached.isdisjoint(reader[1].output)]
    return nodes, sound, leaves and not use.where


def _readers_within(node: NodeProto, reached: Collection[str]) -> list[Numbered]:
    """Return the nodes in the bodies of a node that depend on some values around them."""
    readers: list[Numbered] = []
    inside = set(reached)
    for _, body in subgraphs(node):
        for index, inner in enumerate(body.node):
            within = _readers_within(inner, inside)
            if within or not inside.isdisjoint(inner.input):
                readers += [(index, inner), *within]
                inside.update(inner.output)
    return readers
