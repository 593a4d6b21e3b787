"""Comparing a model with what it was converted to: both run on the same inputs, bits compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from halfulp.conversion.subject import Run, Subject, is_all_ours, runs
from halfulp.conversion.verify_nodes import Nodes, Origin, difference
from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable
from halfulp.models.directml.dxdispatch import Dispatch, Program
from halfulp.models.graph import Array, Graph, Model, Value
from halfulp.models.run.fitting import fit
from halfulp.models.run.inputs import is_integral
from halfulp.models.run.report import is_usable, sentence, vacuous
from halfulp.types import TYPES

_ROUNDS = 4
_SPECIAL_FLOATS = (
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    1e-45,
    -1e-310,
    6e-8,
)
_SPECIAL_INTEGERS = (0, 1, -1, 2, -2, 3, 7, 31, 64)


@dataclass(frozen=True)
class Verification:
    """What a comparison found.

    Attributes:
        rounds: on how many sets of inputs both ran.
        elements: how many elements of outputs were compared.
        differences: what differs, a line each; empty where every bit is the same.
        engine: what ran the models: ``halfulp`` or ``onnxruntime``, the latter with our operators in it.
        dims: the sizes that were made up for symbolic dims, as a line; empty if none were.
        failure: why nothing was compared, or nothing that verifies anything; empty if something was.
        notes: how far each output is away, where another runtime ran the new model, for which bits can't be asked; and
            differences that are the runtime's own, since it computes an unchanged node otherwise in another opset.
        vacuous: the outputs that verify nothing, by name, and why: on all sets of inputs they are all NaN, all
            infinite, all equal or empty. Their elements do not count.
    """

    rounds: int
    elements: int
    differences: tuple[str, ...]
    engine: str = "halfulp"
    dims: str = ""
    failure: str = ""
    notes: tuple[str, ...] = ()
    vacuous: Mapping[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether both models ran, and nothing differs."""
        return not self.differences and not self.failure

    def __str__(self) -> str:
        if self.failure:
            return f"not verified: {self.failure}"
        lines = [*self.differences, *self.notes]
        if not lines:
            engine = "" if self.engine == "halfulp" else f", in {self.engine}"
            lines = [
                f"the same bits: {self.elements} elements of outputs, {self.rounds} sets of inputs{engine}"
            ]
        lines += [sentence(name, reason) for name, reason in self.vacuous.items()]
        return "\n".join([*lines, *([self.dims] if self.dims else [])])


def verified(found: Verification | None) -> str:
    """Return what a comparison found, if there was one, as the end of a line."""
    if found is None:
        return ""
    return ", verified" if found.same else ", not verified" if found.failure else ", with other outputs"


def compare(
    before: Subject,
    after: Subject,
    *,
    seed: int = 0,
    renamed: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Run two models on the same inputs and compare the outputs' bits.

    Args:
        before, after: with inputs and outputs of the same names, but for
        renamed: the new names of outputs, by the old.
        seed: for inputs that are made up, special values among them; the same seed makes the same.
        dims: sizes for their symbolic dims; the others are found by trying.
        inputs: these instead.
        progress: gets a line for each run that may take long.

    Returns:
        What was found. Where the first model runs on no inputs that can be made up, that is its ``failure``.

    Raises:
        HalfulpError: ``dims`` names no dim of the model.
    """
    before, after = _silent(before), _silent(after)
    engine, (first, second) = runs(before, after)
    source = _declared(before, {value.name for value in after.model.inputs})
    made = None
    if inputs is None:
        try:
            made = fit(source, first, seed=seed, dims=dims, progress=progress)
        except (ModelError, UnsupportedError) as error:
            return Verification(0, 0, (), engine, failure=error.message)
    comparison = _Comparison(before, after, first, second, renamed or {})
    for number in range(1 if made is None else _ROUNDS):
        told = f"inputs of seed {seed + number}" if made is not None else "the inputs given"
        if made is not None:
            inputs = made.inputs(source, seed + number)
            if number:
                inputs = _with_specials(inputs, seed + number, integers=is_all_ours(before))
        if progress is not None:
            progress(f"comparing: {told}")
        comparison.run(dict(inputs or {}), told)
    if not comparison.rounds:
        return Verification(0, 0, (), engine, failure=comparison.refusal)
    return Verification(
        comparison.rounds,
        comparison.elements,
        tuple(comparison.differences),
        engine,
        "" if made is None else str(made),
        failure=comparison.failure,
        notes=_notes(comparison, engine),
        vacuous=comparison.vacuous,
    )


def _notes(comparison: _Comparison, engine: str) -> tuple[str, ...]:
    """Return what is said of differences that are the runtime's own: the outputs, and the nodes, each once."""
    if not comparison.notes:
        return ()
    by_node: dict[str, str] = {}
    for origin in comparison.runtimes:
        by_node.setdefault(origin.label, origin.difference)
    told = "; ".join(f"node {label}: {apart}" for label, apart in islice(by_node.items(), 3))
    more = f"; and {len(by_node) - 3} more nodes" if len(by_node) > 3 else ""
    why = (
        f"{engine} alone rounds otherwise in another opset, in nodes that are unchanged, on the same operands"
    )
    return (
        *comparison.notes,
        f"{why}: {told}{more}",
        "Pow, PRelu and all nodes that were changed give the same bits",
    )


class _Comparison:
    """Both models, run on one set of inputs after the other."""

    def __init__(
        self, before: Subject, after: Subject, first: Run, second: Run, renamed: Mapping[str, str]
    ) -> None:
        self.rounds = self.elements = 0
        self.differences: list[str] = []
        self.refusal = ""
        self.notes: list[str] = []
        self.runtimes: dict[Origin, None] = {}
        self._before, self._after = before, after
        both = before.proto is not None and after.proto is not None
        self._nodes = Nodes(before, after) if both else None
        self._reasons: dict[str, str] = {}  # of an output, on the last inputs
        self._telling: set[str] = set()  # outputs that verify something
        self._first, self._second = first, second
        self._renamed = renamed
        self._declared = {value.name: value for value in after.model.inputs}
        # Their tensors are memory in one piece.
        self._is_flat = any(isinstance(subject.model, Program) for subject in (before, after))

    @property
    def vacuous(self) -> dict[str, str]:
        """The outputs that verified nothing on any inputs, and why."""
        return {name: reason for name, reason in self._reasons.items() if name not in self._telling}

    @property
    def failure(self) -> str:
        """Why nothing was verified, if no output verified anything."""
        return "" if self._telling or self.differences else nothing_told(self._reasons)

    def run(self, inputs: dict[str, Any], told: str) -> None:
        """Compare the outputs on these inputs."""
        try:
            expected = self._first(inputs)
        except HalfulpError as error:
            self.refusal = error.message
            return
        self.rounds += 1
        try:
            got = self._second({name: _shaped(array, self._declared[name]) for name, array in inputs.items()})
        except HalfulpError as error:
            self.differences.append(f"{told} are refused now: {error.message}")
            return
        differences = []
        reasons = vacuous(expected)
        for name, value in expected.items():
            found = got.get(self._renamed.get(name, name))
            if self._is_flat and found is not None and found.size == value.size:
                found = found.reshape(value.shape)
            apart = difference(value, found)
            if apart is not None:
                differences.append(f"output {name!r}, {told}: {apart}")
            reason = reasons.get(name, "")
            # A model without inputs has constant outputs: equal elements are the whole result.
            if not reason or (is_usable(reason) and not inputs):
                self._telling.add(name)
                self.elements += value.size if isinstance(value, np.ndarray) else 1
        self._reasons |= reasons
        if differences:
            self._attribute(differences, inputs)

    def _attribute(self, differences: list[str], inputs: Mapping[str, Any]) -> None:
        """Note differences of outputs as the conversion's or as the runtime's own."""
        if self._nodes is None:
            self.differences += [*differences, *_parting(self._before, self._after, inputs)]
            return
        try:
            origins = self._nodes.origins(inputs)
        except HalfulpError as error:
            self.differences += [*differences, f"the node at which they part is not known: {error.message}"]
            return
        own = [origin for origin in origins if not origin.is_runtimes]
        if origins and not own:
            self.notes += differences
            self.runtimes.update(dict.fromkeys(origins))
            return
        parting = [f"the two models part at node {origin.label}: {origin.difference}" for origin in own[:1]]
        self.differences += [*differences, *(parting or ["on the same operands no node differs"])]


def _parting(before: Subject, after: Subject, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first node whose outputs differ, among those whose outputs have the same name in both graphs."""
    common = {name for node in after.nodes for name in node.outputs if name}
    nodes = [(node, name) for node in before.nodes for name in node.outputs if name in common]
    if not nodes:
        return
    names = [name for _, name in nodes]
    try:
        _, (first, second) = runs(before.with_outputs(names), after.with_outputs(names))
        expected, got = first(inputs), second(inputs)
    except HalfulpError as error:
        yield f"the node at which they part is not known: {error.message}"
        return
    for node, name in nodes:
        apart = difference(expected[name], got[name])
        if apart is not None:
            yield f"the two models part at node {node.label}: {apart}"
            return


def nothing_told(reasons: Mapping[str, str]) -> str:
    """Return why nothing is verified if these are the reasons of all outputs; empty if one has numbers."""
    if not reasons or any(map(is_usable, reasons.values())):
        return ""
    told = "; ".join(f"output {printable(name)!r} is {reason}" for name, reason in islice(reasons.items(), 3))
    more = f"; {len(reasons) - 3} more are of no use either" if len(reasons) > 3 else ""
    return f"the outputs verify nothing ({told}{more}): give inputs (--input NAME=FILE)"


def _silent(subject: Subject) -> Subject:
    """Return a program without its commands to print and to write files."""
    if isinstance(subject.model, Model):
        return subject
    dispatches = tuple(command for command in subject.model.commands if isinstance(command, Dispatch))
    return Subject(replace(subject.model, commands=dispatches))


def _declared(subject: Subject, wanted: Collection[str]) -> Model:
    """Return a model to make inputs up for: of a program, whose resources are inputs if the other model has them."""
    if isinstance(subject.model, Model):
        return subject.model
    inputs = tuple(value for value in subject.model.inputs if value.name in wanted)
    return Model(subject.model.file, Graph("", inputs, (), {}, (), {}))


def _shaped(array: Array, declared: Value) -> Array:
    if declared.shape is None or len(declared.shape) == array.ndim:
        return array
    return array.reshape([-1 if not isinstance(dim, int) else dim for dim in declared.shape])


def _with_specials(inputs: Mapping[str, Array], seed: int, *, integers: bool) -> dict[str, Array]:
    """Return inputs with special values among them: in integers only where these are asked for.

    Elsewhere an integer may say how often a loop runs, or how large a tensor is.
    """
    rng = np.random.default_rng(seed)
    return {
        name: array if is_integral(array.dtype) and not integers else _with_special(array, rng)
        for name, array in inputs.items()
    }


def _with_special(array: Array, rng: np.random.Generator) -> Array:
    """Return an array of which about half the elements are special values of its type."""
    row = TYPES.get(array.dtype.name)
    if row is None:
        return array
    with np.errstate(all="ignore"):
        if row.kind == "float":
            special = np.array(_SPECIAL_FLOATS).astype(row.dtype)
        else:
            info = _limits(row.bits, signed=row.kind == "int")
            fitting = [value for value in (*_SPECIAL_INTEGERS, *info) if info[0] <= value <= info[1]]
            special = np.array(fitting, np.uint64 if info[1] >= 1 << 63 else np.int64).astype(row.dtype)
        return np.where(rng.random(array.shape) < 0.5, rng.choice(special, array.shape), array)


def _limits(bits: int, *, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
