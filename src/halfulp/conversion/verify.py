"""Comparing a model with its converted form: both run on the same inputs, and their bits are compared.

Both run in one engine: ONNX Runtime with halfulp's operators, or halfulp itself. If outputs differ, each tensor that
both have is computed in the new model from the operands that the old model computes. The first one that differs is
named, unless the change to its node announces that, within the bound that it states.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import NodeProto, ValueInfoProto, helper

from halfulp.conversion.editor import WRAPS, Change
from halfulp.errors import HalfulpError, count_of, printable
from halfulp.models.graph import Array, Model, Node
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.run.api import PLUMBING, foreign, run
from halfulp.models.run.inputs import fit
from halfulp.models.run.report import is_usable, sentence, show, vacuous
from halfulp.types import FLOATS, TYPES, integer_range, integers_within

Run = Callable[[Mapping[str, Array]], dict[str, Any]]

_ROUNDS = 4
_LARGE = 1 << 24  # bytes of weights
_GROUP = 1 << 26  # bytes of tensors that are compared at once
_GIVEN = "{}//given"  # a tensor that is computed of given operands
_SPECIAL_FLOATS = np.array(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, 1e-45, -1e-310, 6e-8]
)
_SPECIAL_INTEGERS = (0, 1, -1, 2, -2, 3, 7, 31, 64)
_OWN_OPS = {*SUPPORTED_OPS, *PLUMBING}
"""The operators of ONNX that halfulp evaluates itself."""
_RANDOM = ("Bernoulli", "Multinomial", "Random")  # and RandomNormal, RandomUniformLike


# --- models to be compared, and their engine ---------------------------------------------------------


def runs(*models: Model) -> tuple[str, list[Run]]:
    """Return the name of an engine that takes all of these models, and a runner for each.

    ONNX Runtime evaluates a network in a fraction of the time, node by node as the model says. Models with
    only Pow, PRelu and plumbing run without it.
    """
    if find_spec("onnxruntime") and not all(map(is_all_ours, models)):
        from halfulp.integrations.onnxruntime import engine

        with suppress(HalfulpError):  # refused, or can't be patched because types are not declared
            given = [rounded(model) for model in models if isinstance(model, Onnx)]
            return "onnxruntime", [engine.runner(model, optimized=False) for model in given]
    if any(foreign(model.graph.nodes) for model in models):  # layers of an IR file that only OpenVINO has
        from halfulp.integrations.openvino.engine import Runner

        return "halfulp", [Runner(model) for model in models]
    return "halfulp", [partial(run, model) for model in models]


def rounded(model: Onnx) -> Onnx:
    """Return a model of which ONNX Runtime rounds each float16 result, as the model says.

    On a processor it computes chains of such nodes in float32, through one Identity as well, but not through two.
    """
    if not any(value.type == "float16" for types in model.types.values() for value in types.values()):
        return model
    rounded = model.copy()
    rounded.graph, rounded.types = model.graph, model.types
    for scope in reversed([*rounded.scopes()]):
        nodes = list[NodeProto]()
        for node in scope.owner.node:
            nodes.append(node)
            for index, name in enumerate(node.output):
                value = scope.value(name)
                if (value.kind, value.type) == ("tensor", "float16") and node.op_type != "Constant":
                    steps = f"{name}//wide", f"{name}//rounded", name
                    node.output[index] = steps[0]
                    nodes += [helper.make_node("Identity", [a], [b]) for a, b in pairwise(steps)]
        del scope.owner.node[:]
        scope.owner.node.extend(nodes)
    return rounded


def is_ours(node: Node) -> bool:
    """Return whether a node is a Pow or PRelu of ONNX."""
    return not node.domain and node.type in SUPPORTED_OPS


def drawing(nodes: Sequence[Node]) -> str | None:
    """Return the label of the first node that draws random numbers, itself or within, if there is one."""
    plain = (node for node in all_nodes(nodes) if not node.domain)
    training = "Dropout", 3
    drawing = (n for n in plain if n.type.startswith(_RANDOM) or (n.type, len(n.inputs)) == training)
    return next((node.label for node in drawing), None)


def is_all_ours(model: Model) -> bool:
    """Return whether no node of a model runs in another library."""
    nodes = (node for node in all_nodes(model.graph.nodes) if node.standard == "onnx")
    return all(node.function or not (node.domain or node.type not in _OWN_OPS) for node in nodes)


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes, and those in their subgraphs and functions."""
    for node in nodes:
        yield node
        for graph in filter(None, (*node.subgraphs, node.function)):
            yield from all_nodes(graph.nodes)


# --- the comparison ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verification:
    """The result of a comparison.

    Attributes:
        rounds: on how many sets of inputs both ran.
        elements: how many elements of outputs were compared.
        differences: a line for each difference; empty if every bit is the same.
        engine: the engine that ran the models: ``halfulp``, or ``onnxruntime`` with halfulp's operators.
        dims: the sizes that were made up for symbolic dims, as a line; empty if none were.
        failure: why nothing was compared, or nothing that verifies anything; empty if something was.
        notes: how far each output is away, where another runtime ran the new model, for which bits can't be asked;
            and differences that a change announces, where they are no larger.
        vacuous: the outputs that verify little or nothing, by name, and why: on all sets of inputs they are all equal,
            all NaN, all infinite or empty. Only elements that are equal count.
    """

    rounds: int = 0
    elements: int = 0
    differences: tuple[str, ...] = ()
    engine: str = "halfulp"
    dims: str = ""
    failure: str = ""
    notes: tuple[str, ...] = ()
    vacuous: Mapping[str, str] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether both models ran, and nothing differs but as the notes say."""
        return not self.differences and not self.failure

    def __str__(self) -> str:
        if self.failure:
            return f"not verified: {self.failure}"
        lines = [*self.differences, *self.notes]
        if not lines:
            engine = "" if self.engine == "halfulp" else f", in {self.engine}"
            sets = count_of(self.rounds, "set")
            lines = [f"the same bits: {self.elements} elements of outputs, {sets} of inputs{engine}"]
        lines += [sentence(name, reason) for name, reason in self.vacuous.items()]
        return "\n".join([*lines, *([self.dims] if self.dims else [])])


class Feed(NamedTuple):
    """The inputs that two models are compared on.

    Attributes:
        seed: for made-up inputs; the same seed makes the same inputs.
        dims: sizes of their symbolic dims. Sizes that run are found for the others.
        inputs: arrays by name, instead of made-up inputs.
        progress: gets a line for each run that may take long.
    """

    seed: int = 0
    dims: Mapping[str, int] | None = None
    inputs: Mapping[str, Any] | None = None
    progress: Callable[[str], None] | None = None

    def sets(self, model: Model, run: Run) -> tuple[Iterator[tuple[str, Mapping[str, Any]]], str]:
        """Return sets of inputs, the later ones with special values, each with its name; and the made-up sizes."""
        if self.inputs is not None:
            return iter([("the inputs given", self.inputs)]), ""
        made, _ = fit(model, run, seed=self.seed, dims=self.dims)
        seeds = range(self.seed + 1, self.seed + _ROUNDS)
        special = (_with_specials(model, made.inputs(model, seed), seed) for seed in seeds)
        sets = enumerate(chain([made.inputs(model, self.seed)], special), self.seed)
        return ((f"inputs of seed {seed}", inputs) for seed, inputs in sets), str(made)

    def first(self, model: Model, run: Run) -> tuple[Mapping[str, Any], dict[str, Any], str]:
        """Return the first set of inputs, the outputs of a run on them, and the made-up sizes as a line."""
        if self.inputs is not None:
            return self.inputs, run(self.inputs), ""
        made, outputs = fit(model, run, seed=self.seed, dims=self.dims)
        return made.inputs(model, self.seed), outputs, str(made)


def verified(found: Verification | None) -> str:
    """Return the result of a comparison as the end of a line; empty if there was none."""
    if found is None:
        return ""
    return ", verified" if found.same else ", not verified" if found.failure else ", with other outputs"


def compare(before: Onnx, after: Onnx, feed: Feed, changes: Sequence[Change] = ()) -> Verification:
    """Run two models on the same inputs, made up with special values or given, and compare the outputs' bits.

    A difference that one of the changes announces is a note, if it is no larger. If the first model runs on no made-up
    inputs, or ``dims`` names no dim of it, the result's ``failure`` says so.
    """
    with ExitStack() as files:
        before, after = (  # the sessions map the weights of a large model, which are in one file
            files.enter_context(model.mapped())
            if sum(array.nbytes for array in model.graph.constants.values()) >= _LARGE
            else model
            for model in (before, after)
        )
        engine, (first, second) = runs(before, after)
        try:
            sets, dims = feed.sets(before, first)
        except HalfulpError as error:
            return Verification(engine=engine, failure=error.line)
        announced = {change.output: change for change in changes if change.differs}
        parting = partial(_parting, before, after, announced)
        found = []
        for told, inputs in sets:
            if feed.progress is not None:
                feed.progress(f"comparing: {told}")
            found.append(_on(inputs, told, first, second, parting))
    ran = [each for each in found if each.rounds]
    if not ran:
        return replace(found[-1], engine=engine)
    return replace(_together(ran, before, announced), engine=engine, dims=dims)


def _together(ran: list[Verification], model: Onnx, announced: Mapping[str, Change]) -> Verification:
    """Return the results of all sets of inputs in one, with the reasons why differences are notes."""
    random = drawing(model.graph.nodes)
    differences = tuple(line for each in ran for line in each.differences)
    notes = tuple(line for each in ran for line in each.notes)
    if notes and random:
        notes += (f"other numbers in each run, since node {random} draws them",)
    if notes and announced:
        notes += ("on the same operands each tensor is as near as the changes announce",)
    elif notes and not random:
        notes += ("on the same operands no tensor differs but by the order of the runtime's sums",)
    reasons = {name: [each.vacuous.get(name, "") for each in ran] for name in ran[0].vacuous}
    useless = {name: next(filter(is_usable, each), each[0]) for name, each in reasons.items() if all(each)}
    failure = "" if differences else nothing_told(model.graph.outputs, useless)
    elements = sum(each.elements for each in ran)
    return Verification(len(ran), elements, differences, failure=failure, notes=notes, vacuous=useless)


def _on(
    inputs: Mapping[str, Any], told: str, first: Run, second: Run, parting: Callable[..., str]
) -> Verification:
    """Compare the outputs of two models on one set of inputs."""
    try:
        expected = first(inputs)
    except HalfulpError as error:
        return Verification(failure=error.line)
    # A model without inputs has constant outputs: equal elements are the whole result.
    useless = {name: why for name, why in vacuous(expected).items() if inputs or not is_usable(why)}
    try:
        got = second(inputs)
    except HalfulpError as error:
        return Verification(1, 0, (f"{told} are refused now: {error.line}",), vacuous=useless)
    unlike = ((name, difference(value, got.get(name))) for name, value in expected.items())
    notes = tuple(f"output {name!r}, {told}: {text}" for name, text in unlike if text is not None)
    counted = [value for name, value in expected.items() if name not in useless or is_usable(useless[name])]
    elements = sum(getattr(value, "size", 1) for value in counted)
    # If on the same operands no tensor differs more than it may, these are notes.
    part = parting(inputs) if notes else ""
    differences, notes = ((*notes, part), ()) if part else ((), notes)
    return Verification(1, elements, differences, notes=notes, vacuous=useless)


def _parting(before: Onnx, after: Onnx, announced: Mapping[str, Change], inputs: Mapping[str, Any]) -> str:
    """Return the first tensor that differs though its operands do not, by more than its node's change announces."""
    makers = {name: node for node in after.graph.nodes for name in node.outputs if name}
    held = before.graph.held
    pairs: dict[str, Node] = {}
    for node in before.graph.nodes:
        # Constants stay constants: some kernels need that. A copy of one would take as much memory again.
        is_copy = node.type == "Identity" and node.inputs[0] in held
        if not (is_copy or node.type == "Constant"):
            pairs.update((name, node) for name in node.outputs if name in makers)
    done, size = 0, 8
    while done < len(pairs):
        group = dict(islice(pairs.items(), done, done + size))
        try:
            arrays = _run_once(before.with_outputs(_operands([*group], pairs, makers)), inputs)
            values = {name: array for name, array in arrays.items() if array.dtype.name in {"bool", *TYPES}}
            names = [name for name in group if name in values and not drawing([pairs[name]])]
            alone = _with_operands(after, values, names)
            results = _run_once(alone, {**inputs, **values}) if names else {}
        except HalfulpError as error:
            return f"which tensor differs first is not known: {error.message}"
        for name in names:
            if unlike := _beyond(pairs[name], values[name], results.get(_GIVEN.format(name)), announced):
                return f"the first tensor that differs is {name!r}, of node {pairs[name].label}: {unlike}"
        done += size
        size = max(1, size * _GROUP // max(1, sum(array.nbytes for array in values.values())))
        del arrays, values, results
    return ""


def _beyond(node: Node, right: Array, found: Any, announced: Mapping[str, Change]) -> str:
    """Return how a node's result differs by more than its change announces; empty if it does not."""
    inner = chain.from_iterable(each.outputs for each in all_nodes([node]))
    change = next(filter(None, map(announced.get, inner)), _SUMMED.get(node.type))
    unlike = difference(right, found)
    if unlike is None or _is_within(change, node, right, found):
        return ""
    return unlike if change is None else f"{unlike}, which is more than its change announces"


def _with_operands(model: Onnx, values: Mapping[str, Array], names: Iterable[str]) -> Onnx:
    """Return a model whose nodes read these tensors of the graph, and make their own; its outputs are some of these."""
    changed = model.copy()
    graph = changed.proto.graph
    for node in graph.node:
        node.output[:] = [_GIVEN.format(name) if name in values else name for name in node.output]
    del graph.output[:]
    for name, array in values.items():
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, number, [None] * array.ndim))
    graph.output.extend(ValueInfoProto(name=_GIVEN.format(name)) for name in names)
    return changed


def _run_once(model: Onnx, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the tensors that a model computes. An array of ONNX Runtime would keep all those of its session."""
    _, (run,) = runs(model)
    return {name: value.copy() for name, value in run(inputs).items() if isinstance(value, np.ndarray)}


def _operands(names: Sequence[str], kept: Collection[str], makers: Mapping[str, Node]) -> list[str]:
    """Return tensors, and the nearest ones upstream in the new model that the old model has, too."""
    found, seen, todo = dict.fromkeys(names), set[str](), [makers[name] for name in names]
    while todo:
        node = todo.pop()
        seen.update(node.outputs)
        for name in sorted(node.reads):
            if name in kept:
                found.setdefault(name)
            elif name in makers and name not in seen:
                todo.append(makers[name])
    return [*found]


def nothing_told(outputs: Collection[Any], reasons: Mapping[str, str]) -> str:
    """Return why outputs verify nothing, from the reasons of each; empty if one of them has numbers."""
    if not outputs:
        return "no outputs were compared"
    if len(reasons) < len(outputs) or any(map(is_usable, reasons.values())):
        return ""
    told = "; ".join(f"output {printable(name)!r} is {reason}" for name, reason in islice(reasons.items(), 3))
    more = f"; {len(reasons) - 3} more are of no use either" if len(reasons) > 3 else ""
    return f"the outputs verify nothing ({told}{more}): give inputs (--input NAME=FILE)"


def _with_specials(model: Model, inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return inputs of which about half the elements are special values of their type, in integers only of our models.

    An integer may be the number of a Loop's turns, or the size of a tensor; a special value would break these.
    """
    rng, made = np.random.default_rng(seed), dict(inputs)
    integers = is_all_ours(model) and all(node.type != "Loop" for node in all_nodes(model.graph.nodes))
    for name, array in inputs.items():
        row = TYPES.get(array.dtype.name)
        if row is None or (row.kind != "float" and not integers):
            continue
        if row.kind == "float":
            with np.errstate(all="ignore"):
                special = _SPECIAL_FLOATS.astype(row.dtype)
        else:
            special = integers_within((*_SPECIAL_INTEGERS, *integer_range(row.name)), row.name)
        made[name] = np.where(rng.random(array.shape) < 0.5, rng.choice(special, array.shape), array)
    return made


# --- two arrays -----------------------------------------------------------------------------------


_SUMMED = {"AveragePool": Change("", "stays", "ONNX Runtime sums in another order from opset 19 on")}
"""Operators whose kernels round otherwise in another opset, with that as a change."""

_ROUNDINGS = 64
"""How many ulps of its greatest magnitude an output may change if the order of summation changes."""

_MOVES = ("gives NaN", "gave NaN", "gives nan", "NaN where", "NaN for")
"""The words of changes that make numbers NaN, or NaNs numbers."""


def _is_within(change: Change | None, node: Node, right: Array, found: Any) -> bool:
    """Return whether a node's result differs by no more than its change announces."""
    if change is None or show(found) != show(right):
        return False
    differs = change.differs or ""
    if right.dtype.kind in "iu" and WRAPS in differs:
        is_lost = np.isin(right, [min(np.iinfo(right.dtype).min, -1), np.iinfo(right.dtype).max])
        return bool(np.all((found == right) | is_lost))
    if right.dtype.name not in FLOATS:
        return False
    info = ml_dtypes.finfo(right.dtype)  # type: ignore[no-untyped-call]
    a, b = right.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    moves = any(word in differs for word in _MOVES) and (finite | (a == b)).any()
    if (np.isfinite(a) != np.isfinite(b)).any() and not moves:
        return False
    units = np.abs(a) if is_ours(node) else np.full(a.shape, np.abs(a[finite]).max(initial=0))
    ulps = change.ulps if change.output in node.outputs else None
    if ulps is None:
        # Of Exp(Y * Log(X)), the operand's error counts as often as that is great.
        ulps = 4 + 2 * float(np.log(float(info.max))) if is_ours(node) else _ROUNDINGS
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= float(info.smallest_normal) + float(info.eps) * ulps * units
    return bool(near[finite].all())


def distance(right: Any, found: Any) -> tuple[float, str]:
    """Return how far floats are away, as a fraction of the greatest magnitude and as text."""
    if found is None:
        return np.inf, "missing"
    if not isinstance(right, np.ndarray) or show(found) != show(right):
        return np.inf, f"{show(right)} became {show(found)}"
    a, b = right.astype(np.float64), found.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    others = int((~both & (a != b) & ((a == a) | (b == b))).sum())
    away, greatest = (float(np.abs(each).max(initial=0)) for each in (a[both] - b[both], a[both]))
    told = f"at most {away:.2g} away (of {greatest:.2g})" if away else "equal"
    if others:
        return np.inf, f"{others} of {a.size} infinite or NaN in other places, the others {told}"
    return away / max(greatest, np.finfo(float).tiny), told


def difference(a: Any, b: Any) -> str | None:
    """Return how two values differ, in one line, or None. All NaNs count as equal."""
    if isinstance(a, list) and show(a) == show(b):
        return next(filter(None, map(difference, a, b)), None)
    if not isinstance(a, np.ndarray) or show(a) != show(b):
        return None if a is b is None else f"{show(a)} became {show(b)}"
    if a.dtype == object:
        differs = np.asarray(a != b)
    else:
        bits = (np.ascontiguousarray(each).reshape(-1, 1).view(np.uint8) for each in (a, b))
        differs = np.not_equal(*bits).any(axis=1) & ~((a != a) & (b != b)).ravel()  # any NaN is right
    places = np.flatnonzero(differs)
    if not places.size:
        return None
    first = places[0]
    was, now = (str(each.reshape(-1)[first]) for each in (a, b))
    return f"{places.size} of {a.size} elements differ, first at {first}: {was} became {now}"
