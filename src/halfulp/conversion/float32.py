"""Nodes of a network in float32: with casts around them, or around the whole norm of a square.

If a square overflows in float16, casting its result back to float16 does not help. A whole norm is therefore
put in float32, from the square to the root, or to the division by it, that brings the values back into range.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, starmap
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from halfulp.conversion.editor import Change, Editor, remade
from halfulp.conversion.opset import inline
from halfulp.conversion.rules import Answer, Match, Rule, found
from halfulp.conversion.verify import Feed, Verification, difference, distance, nothing_told, runs
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, did_you_mean, printable
from halfulp.models.graph import Model, Value
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.infer import Scope, scalar
from halfulp.models.onnx.tensors import TensorReader, tensors
from halfulp.models.onnx.walk import Owner, every_node, graphs, opsets_of, owners_of, plain_domain, subgraphs
from halfulp.models.run.inputs import by_name
from halfulp.models.run.report import finite, vacuous

HALVES = ("float16", "bfloat16")

_HALF_ENUMS = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
LENGTHS = frozenset({"ReduceL2", "LpPool", "GlobalLpPool"})
"""Operators that have a sum of squares, and its root, inside."""

_KINDS = ("norms", "pow", "all")


def _inlined(walk: Walk, what: str) -> None:
    """Inline functions, as a data audit does, unless all norms or powers are meant."""
    walk.changes += [] if what in ("norms", "pow") else inline(walk)


def _in_float32(walk: Walk, what: str) -> str | None:
    """Make nodes compute in float32: norms from their squares to their roots, each Pow, all nodes, or those named."""
    names, before = _names(what, walk), len(walk.changes)
    walk.changes += zero_epsilons(walk) if what == "norms" else ()
    for owner, opset in owners_of(walk.proto):
        scopes = [*walk.scopes(owner)]
        region = {name for scope in scopes for name in _wanted(scope, what, names)}
        for scope in scopes:
            for node in scope.owner.node:
                if not region.isdisjoint(node.output) and (why := _why_left(node, scope)):
                    region.difference_update(node.output)
                    walk.changes.append(Change(scope.label(node), f"stays as it is{why}", is_notice=True))
        _put(walk, owner, opset, region)
    nothing = f"none of these nodes computes in {' or '.join(HALVES)}"
    hint = ": --float32 finds norms that are written out; LayerNormalization computes in float32 by itself"
    return None if len(walk.changes) > before else nothing + hint * (what == "norms")


FLOAT32 = (_inlined, _in_float32)
"""The passes that put nodes in float32, whose names are the option's value."""


def _names(what: str, walk: Walk) -> set[str]:
    """Return names of nodes that have commas between them, and may have commas, and spaces at the ends, within them."""
    if what in _KINDS:
        return set()
    numbered = chain.from_iterable(enumerate(scope.owner.node) for scope in walk.scopes())
    known = set().union(*starmap(_spellings, numbered)) - {""}
    rest, names = f",{what},", set[str]()
    for name in sorted(known, key=len, reverse=True):
        while f",{name}," in rest:
            rest = rest.replace(f",{name},", ",")
            names.add(name)
    names |= {name.strip() for name in rest.split(",")} - {""}
    for missing in sorted((names or {what}) - known):
        every_name = [*_KINDS, "#3", *filter(None, (node.name for node in every_node(walk.proto.graph)))]
        raise HalfulpError(f"{walk.file}: no node is called {missing!r}; {did_you_mean(missing, every_name)}")
    return names


def _spellings(number: int, node: NodeProto) -> set[str]:
    """Return a node's name, as commands spell it, too, without characters that control a terminal, and its number."""
    return {node.name, printable(node.name, most=None), f"#{number}"}


def zero_epsilons(model: Onnx) -> Iterator[Change]:
    """Give a notice about each norm in halves whose epsilon is 0, for it divides zeros by 0 in float32, too."""
    told = "its epsilon is 0, to which a converter rounded it: set it to that of the original network"
    for scope in model.scopes():
        for node in chain(*norms(scope)):
            constants = [scalar(name, scope) for name in node.input if name]
            is_half = scope.value(node.output[0]).type in HALVES
            if node.op_type in ("Add", "Clip", "Max") and is_half and 0 in constants:
                yield Change(scope.label(node), told, is_notice=True)


def _wanted(scope: Scope, what: str, names: set[str]) -> Iterator[str]:
    """Yield the first output of each node of a graph that is wanted, and of each cast behind one of them."""
    nodes = scope.owner.node
    named = (node for number, node in enumerate(nodes) if _is_named(scope, what, names, number, node))
    wanted = [*(chain(*norms(scope)) if what == "norms" else named)]
    made = set(chain.from_iterable(node.output for node in wanted))
    for node in nodes:
        if node.op_type == "Cast" and not made.isdisjoint(node.input):
            made.update(node.output)
            wanted.append(node)
    yield from (name for node in wanted for name in node.output[:1])


def _is_named(scope: Scope, what: str, names: set[str], number: int, node: NodeProto) -> bool:
    """Tell whether a node is among all, each Pow or those with names. Nodes in bodies are looked at by themselves."""
    if what == "pow":
        return node.op_type == "Pow"
    if what != "all":
        return not subgraphs(node) and not names.isdisjoint(_spellings(number, node))
    kinds = {scope.value(name).kind for name in (*node.input, *node.output)}
    is_of_tensors = kinds <= {"tensor", "undeclared"}  # a sequence keeps its elements
    return is_of_tensors and node.op_type != "Constant" and not subgraphs(node)


def _why_left(node: NodeProto, known: Scope) -> str:
    """Return the reason if a node's operator is a runtime's own, or a type that it reads is not known."""
    if not plain_domain(node.domain):
        unknown = [name for name in node.input if name and known.value(name).type is None]
        return f": the type of its input {unknown[0]!r} is not known" if unknown else ""
    inside = ""
    if node.domain == "com.microsoft" and "LayerNorm" in node.op_type:
        inside = "; ONNX Runtime computes it in float32 inside"
        if node.op_type.startswith("Skip"):
            inside += ", with CUDA if enable_skip_layer_norm_strict_mode is set"
    return f", an operator of {printable(node.domain)}{inside}"


_PARTS = {
    "mean": "ReduceMean(u, ...) | GlobalAveragePool(u)",
    "base": "Sub(u, mean) | u",
    "square": "Pow(base, e) | Mul((x := base), x)",
    "other": "Pow(w, e) | Mul(w, w)",
    "average": "ReduceMean(square, ...) | GlobalAveragePool(square) | AveragePool(square)",
    "total": "ReduceSum(square | Mul(square, weight), ...) | ReduceSumSquare(base, ...) | Add(square, other)",
    "around": "Squeeze(AveragePool(Unsqueeze(square, ...)), ...)",
    "variance": "Sub(ReduceMean(Pow(x, 2) | Mul(x, x), ...), Pow((m := ReduceMean(x, ...)), 2)"
    " | Mul((m := ReduceMean(x, ...)), m))",
    "sum": "average | total | around | variance",
    "scaled": "sum | Mul(sum, factor) | Div(sum, factor)",
    "shifted": "scaled | Add(scaled, epsilon) | Sub(scaled, epsilon) | Max(scaled, epsilon) | Clip(scaled, ...)",
    "plain": "ReduceL2(base, ...) | LpPool(base) | GlobalLpPool(base)",
    "root": "plain | Sqrt(shifted) | Pow(shifted, h)",
    "length": "root | Add(root, epsilon) | Max(root, epsilon) | Clip(root, ...)",
    "divisor": "length | Expand(length, ...)",
    "lengths": "Mul(plain | Sqrt(ReduceSum(square, ...)), ReduceL2(w, ...) | Sqrt(ReduceSum(other, ...)))",
    "dot": "ReduceSum(Mul(p, q), ...)",
}


def is_norm(match: Match) -> Answer:
    """Exponents are those of squares and roots, epsilons constants, and squares not of constants."""
    known = match.view.scope
    numbers = {name: scalar(match[name], known) for name in ("e", "h", "negative") if name in match.bound}
    is_square, is_root = (numbers.get("e", 2) or 0) > 1, (numbers.get("h") or 0) < 1
    is_inverse = (numbers.get("negative") or -1) < 0
    names = [name for name in ("epsilon", "u", "x") if name in match.bound]
    are_right = all((known.tensor(match[name]) is not None) == (name == "epsilon") for name in names)
    return all((is_square, is_root, is_inverse, are_right))


NORMS = tuple(
    Rule(form, checks=(is_norm,), since=1, parts=_PARTS)
    for form in (
        "Div(dot | Cast(dot) | y, lengths | Max(lengths, epsilon) | Add(lengths, epsilon) | Clip(lengths, ...))",
        "Mul(y, Div((l := plain), Add(ReduceMean(l, ...), epsilon)))",
        "Div(y, divisor)",
        "Mul(y, Reciprocal(divisor) | Div(1, divisor) | Pow(shifted, negative))",
        "root",
        "LRN(x) | LpNormalization(x)",
    )
)
"""The forms of norms. A new one is a row."""


def norms(scope: Scope) -> list[list[NodeProto]]:
    """Return the norms of a graph: the nodes of each from its squares to their root, and to the division by it.

    The mean that is subtracted before the square belongs to it: its sum may overflow. Powers of other exponents count
    as squares, too, if there is a root of their sum: generalised means are such.
    """
    matches = [*found([scope], NORMS)][::-1]
    places = {id(node): place for match in matches[:1] for place, node in enumerate(match.view.nodes)}
    return [sorted(match.nodes, key=lambda node: places[id(node)]) for match in matches]


def norms_without_pow(model: Onnx) -> int:
    """Return how many norms in float16 a model writes out with another square than a Pow."""
    known = model.scope()
    return sum(
        known.value(nodes[0].input[0]).type == "float16"
        and not any(node.op_type == "Pow" and (scalar(node.input[1], known) or 0) > 1 for node in nodes)
        for nodes in (norms(known) if has_halves(model.proto) else ())
    )


def _put(walk: Walk, owner: Owner, opset: int, region: set[str]) -> None:
    """Rewrite the nodes with these outputs, as far as they compute in float16 or bfloat16."""

    def is_wanted(node: NodeProto) -> bool:
        return not region.isdisjoint(node.output[:1])

    read = {  # by graph, in it and in its bodies
        id(scope): Counter(name for node in every_node(scope.owner) if is_wanted(node) for name in node.input)
        for scope in walk.scopes(owner)
    }
    wide: dict[tuple[int, str], str] = {}  # by graph and value

    def widened_input(name: str, edit: Editor) -> str:
        """Return the float32 value that stands for one of float16, maybe of a graph around this one, or the value."""
        around: Scope | None = edit.scope
        while around is not None and (id(around), name) not in wide:
            around = None if name in around.types else around.outer
        if around is None and edit.value(name).type in HALVES:
            array, around = edit.array(name), edit.scope
            held = None if array is None else edit.constant(array.astype(np.float32), "float32")
            wide[id(around), name] = held or edit.cast(name, "float32")
        return name if around is None else wide[id(around), name]

    def rewrite(node: NodeProto, edit: Editor) -> None:
        known, made = edit.scope, dict[str, str]()
        types = [known.value(name).type for name in (*node.input, *node.output)]
        copy = remade(node, [widened_input(name, edit) for name in node.input])
        if not any(type in HALVES for type in types):
            return edit.keep(node if copy.input == node.input else copy)
        is_taken = node.op_type == "Cast" and set(types) <= {"float32", *HALVES}
        if is_taken:
            made[node.output[0]] = copy.input[0]
        else:
            for index, name in enumerate(node.output):
                if known.value(name).type in HALVES:
                    like = replace(known.value(name), type="float32")
                    copy.output[index] = made[name] = edit.new_name("float32", like)
            _widen_attributes(copy)
            edit.nodes.append(copy)
        for name, new in made.items():
            wide[id(known), name] = new
            if edit.reads[name] > read[id(known)][name]:  # by nodes that are not among these
                if (type := str(known.value(name).type)) == "float32":
                    edit.add("Identity", [new], Value(name))
                else:
                    edit.cast(new, type, output=name)
        edit.note("is taken away: its neighbours compute in float32" if is_taken else "computes in float32")
        return None

    walk.rewrite(is_wanted, rewrite, "", (owner, opset))


def _widen_attributes(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in _HALF_ENUMS:
            attribute.i = TensorProto.FLOAT
        elif attribute.t.data_type in _HALF_ENUMS:
            array = onnx.numpy_helper.to_array(attribute.t).astype(np.float32)
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(array))


# --- the whole network, to compare with ------------------------------------------------------------


def has_halves(proto: ModelProto) -> bool:
    """Return whether a model has tensors of float16 or bfloat16."""
    return any(tensor.data_type in _HALF_ENUMS for tensor in tensors(proto)) or any(_half_types(proto))


def widened(model: Onnx) -> Onnx:
    """Return a model with float32 in the place of float16 and bfloat16 everywhere, but in weights that it casts."""
    wide = model.copy()
    copy, reader = wide.proto, TensorReader(model.folder)
    kept = _cast_weights(copy)
    for tensor in tensors(copy):
        if tensor.data_type in _HALF_ENUMS and tensor.name not in kept:
            array = reader.read(tensor, printable(tensor.name)).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for declared in _half_types(copy):
        declared.elem_type = TensorProto.FLOAT
    for node in every_node(copy.graph, *copy.functions):
        _widen_attributes(node)
    return wide


def _cast_weights(proto: ModelProto) -> set[str]:
    """Cast each external weight before its first reader; return their names.

    A session then maps the weights, and holds those of one layer at a time in float32.
    """
    graph = proto.graph
    # Cast to a numbered type came with opset 6. Numbers of nodes with bodies are part of names, and have to stay.
    if opsets_of(proto.opset_import).get("", 1) < 6 or any(map(subgraphs, graph.node)):
        return set()
    halves = filter(lambda tensor: tensor.data_type in _HALF_ENUMS, graph.initializer)
    weights = {each.name: each for each in halves if each.data_location == TensorProto.EXTERNAL}
    for info in graph.input:
        weights.pop(info.name, None)
    kept, nodes = set[str](), list[NodeProto]()
    for node in graph.node:
        for tensor in filter(None, (weights.pop(name, None) for name in node.input)):
            half = f"{tensor.name}//half"
            nodes.append(helper.make_node("Cast", [half], [tensor.name], to=TensorProto.FLOAT))
            tensor.name = half
            kept.add(half)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return kept


def as_declared(sample: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Return inputs in the types that a model declares: a widened one reads float32."""
    wide = {value.name for value in model.graph.inputs if value.type == "float32"}
    arrays = {name: np.asarray(sample[name]) for name in wide & sample.keys()}
    halves = {name: array for name, array in arrays.items() if array.dtype.name in HALVES}
    return {**sample, **{name: array.astype(np.float32) for name, array in halves.items()}}


def _half_types(proto: ModelProto) -> Iterator[onnx.TypeProto.Tensor]:
    """Yield the declarations of tensors of float16 or bfloat16."""
    for _, graph in (each for owner in (proto.graph, *proto.functions) for each in graphs(owner)):
        ends = (*graph.input, *graph.output) if isinstance(graph, GraphProto) else ()
        for info in (*graph.value_info, *ends):
            if info.type.tensor_type.elem_type in _HALF_ENUMS:
                yield info.type.tensor_type


def compare_with_float32(before: Onnx, after: Onnx, feed: Feed, *, is_fused: bool) -> Verification:
    """Run a network before and after a change, and in float32; report both differences from float32.

    ``is_fused``: norms have become operators that runtimes compute in float32 inside: ONNX Runtime does, the onnx
    package's evaluator does not.
    """
    twin = widened(before)
    try:
        _, (run,) = runs(before)
        inputs, old, told = feed.first(before, run)
        inputs = by_name(before.graph.inputs, inputs, before.file)
        exact = runs(twin)[1][0](as_declared(inputs, twin))
        engine, (run,) = runs(after)
        new = run(inputs)
    except HalfulpError as error:
        return Verification(failure=error.line)
    notes, differences = list[str](), list[str]()  # these of the outputs that are farther away than before
    for name, right in exact.items():
        line, now = f"output {name!r}, compared with float32 everywhere", new[name]
        if isinstance(right, np.ndarray) and right.dtype.kind == "f":
            with np.errstate(over="ignore"):
                lost = np.isfinite(right.astype(now.dtype)) > finite(now)
            spoiled = int(lost.sum() + np.isnan(right).sum())
            was, first = distance(right, old[name].astype(right.dtype))
            away, last = distance(right, now.astype(right.dtype))
            unit = float(ml_dtypes.finfo(now.dtype).eps)  # type: ignore[no-untyped-call]
            line = f"{line}: {first} before, {last} now"
            if spoiled:
                useless = f"{spoiled} of {right.size} elements are infinite or NaN"
                line = f"output {name!r}: {useless}, so that they verify nothing"
            (differences if spoiled or away > was + unit else notes).append(line)
        elif unlike := difference(right, now):  # of integers, texts and sequences
            is_new = difference(right, old[name]) is None
            (differences if is_new else notes).append(f"{line}: {unlike}")
    if is_fused:
        by = "in ONNX Runtime it computes in float32"
        by = by if engine == "onnxruntime" else "ONNX Runtime did not run it"
        notes.append(f"a fused norm rounds in other places than the nodes that it was; {by}")
    elements = sum(np.size(value) for value in exact.values())
    failure = nothing_told(exact, vacuous(exact))
    return Verification(1, elements, tuple(differences), engine, told, failure, tuple(notes))
