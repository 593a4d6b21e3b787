"""What a run did: which engine evaluated which node, on what, in how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from halfulp.models.graph import Node, describe, type_name

Engine = Literal["halfulp", "onnx reference", "onnxruntime"]


@dataclass(slots=True)
class NodeRun:
    """All calls of one node: a node inside a loop or a function may run more than once.

    ``seconds`` is the node's own time; what its subgraphs or function body took is theirs. The types
    are those of the last call.
    """

    label: str
    operator: str
    engine: Engine
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    seconds: float = 0.0
    calls: int = 0


@dataclass(slots=True)
class Report:
    """The nodes of a run in the order of their first call."""

    nodes: list[NodeRun] = field(default_factory=list)
    _rows: dict[Node, NodeRun] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        """The time of all nodes."""
        return sum(run.seconds for run in self.nodes)

    @property
    def share(self) -> float:
        """The part of that time, 0 to 1, that halfulp's own operators took."""
        own = sum(run.seconds for run in self.nodes if run.engine == "halfulp")
        return own / self.seconds if self.seconds else 0.0

    def add(
        self, node: Node, engine: Engine, inputs: Sequence[Any], outputs: Sequence[Any], seconds: float
    ) -> None:
        """Record one call of a node."""
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = NodeRun(node.label, node.operator, engine)
            self.nodes.append(row)
        row.engine = engine
        row.inputs = tuple(map(show, inputs))
        row.outputs = tuple(map(show, outputs))
        row.seconds += seconds
        row.calls += 1


def show(value: Any) -> str:
    """Return the type and shape of a run-time value as tables show it."""
    if isinstance(value, np.ndarray):
        return describe(type_name(value.dtype), value.shape)
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "absent" if value is None else type(value).__name__
