"""Sorting the nodes of a model: some writers put a node before the nodes that make its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from onnx import GraphProto, ModelProto

from halfulp.models.onnx.walk import DEEPEST, subgraphs


def in_order(model: ModelProto) -> tuple[ModelProto, bool]:
    """Return the model with the nodes of its graphs, subgraphs and functions in topological order.

    The order of the file is kept where it is valid: a node that is needed earlier moves to just before its first
    reader. A cycle remains, for the front end to name.

    Args:
        model: is left as it is, and returned if its nodes are in order.

    Returns:
        The model, or a sorted copy; and whether the nodes were out of order and are in order now.
    """
    look = _Pass(apply=False).over(model)
    if not look.late:
        return model, False
    copy = ModelProto()
    copy.CopyFrom(model)
    _Pass(apply=True).over(copy)
    return copy, not look.cyclic


class _Pass:
    """One pass over the lists of nodes of a model.

    Attributes:
        late: whether a node stands before one that makes an input of it.
        cyclic: whether nodes need each other.
    """

    def __init__(self, *, apply: bool) -> None:
        self.late = self.cyclic = False
        self._apply = apply  # or the lists are only read

    def over(self, model: ModelProto) -> _Pass:
        """Read, or sort, each list."""
        for owner in (model.graph, *model.functions):
            self._list(owner.node, 0)
        return self

    def _list(self, nodes: Any, depth: int) -> Sequence[Sequence[str]]:
        """Return the names that each of the nodes, a field of a message, reads."""
        if depth > DEEPEST:  # the front end refuses it
            return ()
        makers: dict[str, int] = {}
        reads: list[list[str]] = []
        for index, node in enumerate(nodes):
            reads.append(list(node.input))
            for _, graph in subgraphs(node):
                reads[-1] += self._captures(graph, depth + 1)
            for name in node.output:
                makers.setdefault(name, index)
        makers.pop("", None)
        if any(makers.get(name, -1) >= index for index, names in enumerate(reads) for name in names):
            self.late = True
            ranks = self._ranks(reads, makers)
            if self._apply:
                nodes.sort(key=lambda _: next(ranks))
        return reads

    def _captures(self, graph: GraphProto, depth: int) -> set[str]:
        """Return the names that a subgraph reads from the graphs around it."""
        names = set(chain.from_iterable(self._list(graph.node, depth)))
        names.update(value.name for value in graph.output)
        names.difference_update(name for node in graph.node for name in node.output)
        names.difference_update(value.name for value in (*graph.input, *graph.initializer))
        names.difference_update(sparse.values.name for sparse in graph.sparse_initializer)
        return names

    def _ranks(self, reads: Sequence[Sequence[str]], makers: Mapping[str, int]) -> Iterator[int]:
        """Return each node's place in the order: by depth first, each node after the makers of its inputs."""
        ranks = [-1] * len(reads)
        entered = [False] * len(reads)
        placed = 0
        for first in range(len(reads)):
            todo = [first]
            while todo:
                index = todo[-1]
                if not entered[index]:
                    entered[index] = True
                    for name in reversed(reads[index]):  # the first maker is on top
                        maker = makers.get(name)
                        if maker is not None and not entered[maker]:
                            todo.append(maker)
                        elif maker is not None and ranks[maker] < 0:
                            self.cyclic = True
                    continue
                todo.pop()
                if ranks[index] < 0:
                    ranks[index] = placed
                    placed += 1
        return iter(ranks)
