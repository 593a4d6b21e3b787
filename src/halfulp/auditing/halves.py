"""Where a runtime that computes halves in float32 drops the rounding between a node and its neighbours.

ONNX Runtime's CPU provider casts a float16 node that it has no kernel for to float32, and removes a cast to
float16 in front of one to float32. So a chain of such nodes is computed in float32 and rounded only at its
end. OpenVINO computes all halves of a network in float32. A single node is exact in both. The same node after
a subtraction is a power of an unrounded base.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from halfulp.conversion.float32 import HALVES

_CASTS = {"Cast", "CastLike", "Convert", "ConvertLike"}
_CONSTANTS = {"Constant", "Const"}
_SUBGRAPHS = {"If", "Loop", "Scan"}
_ONLY_SHAPES = {"Shape", "Size", "ShapeOf"}

# Each result of these operators is an input element or its negative. Rounding before or after is the same.
# Some names are OpenVINO's.
_SELECT = frozenset(
    {
        *("Abs", "Clip", "Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather"),
        *("GatherElements", "GatherND", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad"),
        *("ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Scatter", "ScatterElements"),
        *("ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu"),
        *("Unsqueeze", "Where", "Broadcast", "Clamp", "Maximum", "Minimum", "Negative", "ReLU", "Select"),
        *("ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "StridedSlice", "VariadicSplit"),
    }
)
# Results of exact inputs are exact, but they change if the inputs are rounded first.
_WHOLE = frozenset({"Ceil", "Ceiling", "Floor", "Round", "Sign"})


class Step(NamedTuple):
    """A node of a network as its neighbours see it: a label for messages, an operator, and names of values."""

    label: str
    operator: str
    inputs: Sequence[str]
    outputs: Sequence[str]


class Unrounded(NamedTuple):
    """The neighbours that give unrounded values, and those that read values before rounding, by value."""

    sources: Mapping[str, str]
    readers: Mapping[str, str]


class Body(NamedTuple):
    """The place of a loop's or branch's body in a network.

    Each input stands with the value that the loop gets for it, and the output of the body that the next turn
    gets for it; empty names where there are none. Each output stands with the value that it becomes.
    """

    net: Net  # the nodes around the loop or branch
    operator: str  # that of the loop or branch
    inputs: Sequence[tuple[str, str, str]] = ()
    outputs: Sequence[tuple[str, str]] = ()
    captures: bool = True  # whether the body reads the values around it by their names, too


@dataclass(eq=False)
class Net:
    """The nodes around a Pow or PRelu node: those of one graph, body or function."""

    steps: Callable[[], Iterable[Step]]  # gives the nodes, each after those that it reads
    type_of: Callable[[str], str | None]  # gives the element type of a value; None where it is not known
    outputs: Collection[str]  # the values that leave the graph
    is_constant: Callable[[str], bool] = lambda name: False  # whether the file holds the value
    caller: str | None = None  # how messages name the node that calls the function; None for a graph
    inputs: Collection[str] = ()  # those of a function
    body: Body | None = None  # the place of a body; None for other graphs
    _found: dict[frozenset[str], Unrounded] = field(default_factory=dict, init=False)

    @cached_property
    def _steps(self) -> list[Step]:
        return list(self.steps())

    @cached_property
    def _makers(self) -> dict[str, Step]:
        return {name: step for step in self._steps for name in step.outputs if name}

    @cached_property
    def _takers(self) -> dict[str, list[Step]]:
        found: dict[str, list[Step]] = {}
        for step in self._steps:
            for name in dict.fromkeys(step.inputs):
                found.setdefault(name, []).append(step)
        return found

    @cached_property
    def folded(self) -> set[str]:
        """The values that nodes compute from constants alone, which runtimes do before anything runs."""
        body = self.body
        found = set(body.net.folded) if body is not None and body.captures else set[str]()
        for step in self._steps:
            known = all(not name or name in found or self.is_constant(name) for name in step.inputs)
            if known and (step.inputs or step.operator in _CONSTANTS):
                found.update(step.outputs)
        return found

    def unrounded(self, keeps: frozenset[str]) -> Unrounded:
        """Return where a runtime drops roundings. It computes the operators of ``keeps`` in halves."""
        if keeps not in self._found:
            self._found[keeps] = self._trace(keeps)
        return self._found[keeps]

    def _trace(self, keeps: frozenset[str]) -> Unrounded:
        kept = (step for step in self._steps if step.operator in keeps)
        stays = {id(step) for step in kept if not self._is_between(step, keeps)}
        caller, body = self.caller, self.body
        sources = {name: caller for name in self.inputs if caller and self._is_half(name)}
        readers = {name: caller for name in self.outputs if caller and self._is_half(name)}
        if body is None or body.operator in keeps:  # the values that enter and leave are rounded
            return self._follow(sources, readers, stays)
        around = body.net.unrounded(keeps)
        entering = [(inner, outer) for inner, outer, _ in body.inputs if outer in around.sources]
        sources |= around.sources if body.captures else {}
        sources |= {inner: around.sources[outer] for inner, outer in entering}
        readers |= {inner: around.readers[outer] for inner, outer in body.outputs if outer in around.readers}
        while True:  # until another turn adds nothing
            found = self._follow(sources, readers, stays)
            turns = [(inner, back) for inner, _, back in body.inputs if back]
            new = {a: found.sources[b] for a, b in turns if b in found.sources and a not in found.sources}
            read = {b: found.readers[a] for a, b in turns if a in found.readers and b not in found.readers}
            if not new and not read:
                return found
            sources |= new
            readers |= read

    def _follow(self, sources: Mapping[str, str], readers: Mapping[str, str], stays: set[int]) -> Unrounded:
        """Follow halves through the nodes, from the unrounded values that enter and the early readers behind them."""
        sources, readers = dict(sources), dict(readers)
        for step in self._steps:
            if self.folded.issuperset(step.outputs):
                continue
            source = self._source(step, sources, id(step) in stays)
            if source is not None:
                sources |= {name: source for name in step.outputs if self._is_half(name)}
        for step in reversed(self._steps):
            reader = self._reader(step, readers, id(step) in stays)
            if reader is not None:
                readers |= {name: reader for name in step.inputs if self._is_half(name)}
        return Unrounded(sources, readers)

    def _is_half(self, name: str) -> bool:
        return self.type_of(name) in HALVES

    def _is_between(self, step: Step, keeps: frozenset[str]) -> bool:
        """Tell whether a node that could compute in halves is put into float32, with all those around it."""
        if step.operator in _SUBGRAPHS | _CASTS or any(name in self.outputs for name in step.outputs):
            return False
        read, made = (list(filter(self._is_half, names)) for names in (step.inputs, step.outputs))
        makers = {self._makers[name].operator for name in read if name in self._makers}
        takers = {taker.operator for name in made for taker in self._takers.get(name, ())}
        return not makers <= keeps and bool(takers) and takers.isdisjoint(keeps)

    def _source(self, step: Step, sources: Mapping[str, str], stays: bool) -> str | None:
        """Return the node from which this node's unrounded outputs come; None if they are rounded."""
        if step.operator in _CASTS:
            type = self.type_of(step.inputs[0])
            if type in HALVES and type == self.type_of(step.outputs[0]):
                return sources.get(step.inputs[0])
            return step.label if type is None or "float" in type else None
        if stays:
            return None
        if step.operator in _SELECT or step.operator in _WHOLE:
            return next((sources[name] for name in step.inputs if name in sources), None)
        return step.label

    def _reader(self, step: Step, readers: Mapping[str, str], stays: bool) -> str | None:
        """Return the node that reads this node's inputs before their rounding; None if they are rounded."""
        if step.operator in _ONLY_SHAPES or (stays and step.operator not in _CASTS):
            return None
        same = step.operator in _CASTS and self.type_of(step.inputs[0]) == self.type_of(step.outputs[0])
        if same or step.operator in _SELECT:
            return next((readers[name] for name in step.outputs if name in readers), None)
        return step.label
