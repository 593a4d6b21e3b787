"""Nodes of a network in float32: with casts around them, or around the whole norm of a square.

If a square overflows in float16, casting its result back to float16 does not help. A whole norm is therefore
put in float32, from the square to the root, or to the division by it, that brings the values back into range.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from halfulp.conversion.editor import Change, Editor, remade, view_of
from halfulp.conversion.opset import inline
from halfulp.conversion.passes import Pass
from halfulp.conversion.rules import NODES, Bound, Term, matches, parse, roots
from halfulp.conversion.verify import Feed, Verification, difference, distance, nothing_told, runs
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, did_you_mean, printable
from halfulp.models.graph import Model
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


_CAST_SINCE = 6  # the first opset with Cast to a numbered type
_KINDS = ("norms", "pow", "all")
_NOTHING = f"none of these nodes computes in {' or '.join(HALVES)}"
_OF_NORMS = ": --float32 finds norms that are written out; LayerNormalization computes in float32 by itself"


def _inlined(walk: Walk, what: str) -> None:
    """Inline functions, as a data audit does, unless all norms or powers are meant."""
    walk.changes += [] if what in ("norms", "pow") else inline(walk)


def _in_float32(walk: Walk, what: str) -> str | None:
    """Make nodes compute in float32: norms from their squares to their roots, each Pow, all nodes, or those named."""
    names = set() if what in _KINDS else _names(what, walk)
    found, before = set[str](), len(walk.changes)
    walk.changes += zero_epsilons(walk) if what == "norms" else ()
    for owner, opset in owners_of(walk.proto):
        region = set(_outputs(walk, owner, what, names, found))
        walk.changes += _left(walk, owner, region)
        _put(walk, owner, opset, region)
    for missing in sorted((names or {what} - {*_KINDS}) - found):
        every_name = [*_KINDS, "#3", *filter(None, (node.name for node in every_node(walk.proto.graph)))]
        raise HalfulpError(f"{walk.file}: no node is called {missing!r}; {did_you_mean(missing, every_name)}")
    return None if len(walk.changes) > before else _NOTHING + _OF_NORMS * (what == "norms")


FLOAT32 = (Pass("float32", _inlined), Pass("float32", _in_float32))


def _names(what: str, walk: Walk) -> set[str]:
    """Return names of nodes that have commas between them, and may have commas, and spaces at the ends, within them."""
    known = set().union(*map(_spellings, every_node(*(owner for owner, _ in owners_of(walk.proto)))))
    rest, names = f",{what},", set[str]()
    for name in sorted(known - {""}, key=len, reverse=True):
        while f",{name}," in rest:
            rest = rest.replace(f",{name},", ",")
            names.add(name)
    return names | {name.strip() for name in rest.split(",") if name.strip()}


def _spellings(node: NodeProto) -> set[str]:
    """Return a node's name, and its spelling in commands, which have no characters that control a terminal."""
    return {node.name, printable(node.name, most=None)}


def zero_epsilons(model: Onnx) -> Iterator[Change]:
    """Give a notice about each norm in halves whose epsilon is 0, for it divides zeros by 0 in float32, too."""
    told = "its epsilon is 0, to which a converter rounded it: set it to that of the original network"
    for scope in model.scopes():
        for node in (node for nodes in norms(scope) for node in nodes):
            constants = [scalar(name, scope) for name in node.input if name]
            is_half = scope.value(node.output[0]).type in HALVES
            if node.op_type in ("Add", "Clip", "Max") and is_half and 0 in constants:
                yield Change(scope.label(node), told, is_notice=True)


def _outputs(walk: Walk, owner: Owner, what: str, names: set[str], found: set[str]) -> Iterator[str]:
    """Yield the first output of each node that is wanted, and of each cast between two of them."""
    for scope in walk.scopes(owner):
        nodes = scope.owner.node
        wanted = [node for norm in norms(scope) for node in norm] if what == "norms" else []
        for index, node in enumerate(nodes if what != "norms" else ()):
            called = {*_spellings(node), f"#{index}"} & names
            found |= called
            kinds = {scope.value(name).kind for name in (*node.input, *node.output)}
            is_any = what == "all" and node.op_type != "Constant" and not subgraphs(node)
            is_any = is_any and kinds <= {"tensor", "undeclared"}  # a sequence keeps its elements
            is_called = called and not subgraphs(node)  # names of nodes in bodies are looked up there
            if is_called or is_any or (what == "pow" and node.op_type == "Pow"):
                wanted.append(node)
        made = {name for node in wanted for name in node.output}
        for node in nodes:
            if node.op_type == "Cast" and not made.isdisjoint(node.input):
                made.update(node.output)
                wanted.append(node)
        yield from (name for node in wanted for name in node.output[:1])


def _left(walk: Walk, owner: Owner, region: set[str]) -> Iterator[Change]:
    """Take away the outputs of nodes that stay as they are, and give notices about these."""
    for scope in walk.scopes(owner):
        for node in scope.owner.node:
            why = "" if region.isdisjoint(node.output) else _why_left(node, scope)
            if why:
                region.difference_update(node.output)
                yield Change(scope.label(node), f"stays as it is{why}", is_notice=True)


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
_NORMS = (
    "Div(dot | Cast(dot) | y, lengths | Max(lengths, epsilon) | Add(lengths, epsilon) | Clip(lengths, ...))",
    "Mul(y, Div((l := plain), Add(ReduceMean(l, ...), epsilon)))",
    "Div(y, divisor)",
    "Mul(y, Reciprocal(divisor) | Div(1, divisor) | Pow(shifted, negative))",
    "root",
    "LRN(x) | LpNormalization(x)",
)
"""The forms of norms. A new one is a row."""


@cache
def _forms() -> Mapping[str, list[Term]]:
    """Return the forms by the operators that they end with."""
    forms = defaultdict[str, list[Term]](list)
    for form in (parse(text, _PARTS) for text in _NORMS):
        for op_type in dict.fromkeys(roots(form)):
            forms[op_type].append(form)
    return forms


def norms(scope: Scope) -> list[list[NodeProto]]:
    """Return the norms of a graph: the nodes of each from its squares to their root, and to the division by it.

    The mean that is subtracted before the square belongs to it: its sum may overflow. Powers of other exponents count
    as squares, too, if there is a root of their sum: generalised means are such.
    """
    view, taken = view_of(scope), set[int]()
    places = {id(node): index for index, node in enumerate(view.nodes)}
    found = []
    for node in reversed(view.nodes):
        if id(node) in taken:
            continue
        name = [*node.output, ""][0]
        bounds = (each for form in _forms()[node.op_type] for each in matches(form, name, view, {}))
        bound = next(filter(partial(_is_norm, scope), bounds), None)
        if bound is not None:
            taken.update(map(id, bound[NODES]))
            found.append([view.nodes[place] for place in sorted({places[id(each)] for each in bound[NODES]})])
    return found[::-1]


def _is_norm(known: Scope, bound: Bound) -> bool:
    """Tell whether exponents are those of squares and roots, epsilons constants, and squares not of constants."""
    numbers = {name: scalar(bound[name], known) for name in ("e", "h", "negative") if name in bound}
    is_square, is_root = (numbers.get("e", 2) or 0) > 1, (numbers.get("h") or 0) < 1
    constants = {name for name in ("epsilon", "u", "x") if known.tensor(bound.get(name, "")) is not None}
    is_inverse = (numbers.get("negative") or -1) < 0
    return all((is_square, is_root, is_inverse, constants == {"epsilon"} & bound.keys()))


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

    def known_wide(name: str, values: Scope) -> str | None:
        """Return the float32 value that stands for a value, which may be one of a graph around this one."""
        outer = None if name in values.types else values.outer
        return wide.get((id(values), name)) or (known_wide(name, outer) if outer is not None else None)

    def widened_input(name: str, edit: Editor) -> str:
        made = known_wide(name, edit.scope)
        if made is None and edit.value(name).type in HALVES:
            array = edit.array(name)
            held = None if array is None else edit.constant(array.astype(np.float32), "float32")
            made = wide[id(edit.scope), name] = held or edit.cast(name, "float32")
        return made or name

    def rewrite(node: NodeProto, edit: Editor) -> None:
        known = edit.scope
        types = [known.value(name).type for name in (*node.input, *node.output)]
        if not any(type in HALVES for type in types):
            inputs = [known_wide(name, known) or name for name in node.input]
            return edit.keep(node if inputs == node.input else remade(node, inputs))
        back: list[tuple[str, str, str]] = []
        is_taken = node.op_type == "Cast" and set(types) <= {"float32", *HALVES}
        if is_taken:
            made, output = widened_input(node.input[0], edit), node.output[0]
            wide[id(known), output] = made
            back.append((made, output, str(types[1])))
        else:
            copy = remade(node, [widened_input(name, edit) for name in node.input])
            for index, name in enumerate(node.output):
                value = known.value(name)
                if value.type in HALVES:
                    made = edit.new_name("float32", replace(value, type="float32"))
                    copy.output[index] = wide[id(known), name] = made
                    back.append((made, name, str(value.type)))
            _widen_attributes(copy)
            edit.nodes.append(copy)
        for made, name, type in back:
            if edit.reads[name] > read[id(known)][name]:  # by nodes that are not among these
                if type == "float32":
                    edit.add("Identity", [made], output=name)
                else:
                    edit.cast(made, type, output=name)
        edit.note("is taken away: its neighbours compute in float32" if is_taken else "computes in float32")
        return None

    walk.rewrite(owner, opset, is_wanted, rewrite)


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
    copy, reader = wide.proto, TensorReader(model.file, model.folder)
    kept = _cast_weights(copy)
    for tensor in tensors(copy):
        if tensor.data_type in _HALF_ENUMS and tensor.name not in kept:
            name = tensor.name
            array = reader.read(tensor, printable(name)).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
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
    if opsets_of(proto.opset_import).get("", 1) < _CAST_SINCE or any(map(subgraphs, graph.node)):
        return set()  # numbers of nodes with bodies are part of names, and have to stay
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
    types = {value.name: value.type for value in model.graph.inputs}
    return {
        name: np.asarray(value).astype(np.float32)
        if types.get(name) == "float32" and np.asarray(value).dtype.name in HALVES
        else value
        for name, value in sample.items()
    }


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
        inputs, told = feed.made(before, run)
        inputs = by_name(before.graph.inputs, inputs, before.file)
        answers = [run(inputs)]
        exact = runs(twin)[1][0](as_declared(inputs, twin))
        engine, (changed,) = runs(after)
        answers.append(changed(inputs))
    except HalfulpError as error:
        return Verification(0, 0, (), failure=error.line)
    notes: list[str] = []
    differences: list[str] = []  # the outputs that are farther away than before
    for name, right in exact.items():
        if isinstance(right, np.ndarray) and right.dtype.kind == "f":
            now = answers[1][name]
            with np.errstate(over="ignore"):
                spoiled = int(
                    (np.isfinite(right.astype(now.dtype)) > finite(now)).sum() + np.isnan(right).sum()
                )
            if spoiled:
                told_of = "infinite or NaN, so that they verify nothing"
                differences.append(f"output {name!r}: {spoiled} of {right.size} elements are {told_of}")
                continue
            (was, old), (away, new) = (
                distance(right, answer[name].astype(right.dtype)) for answer in answers
            )
            unit = float(ml_dtypes.finfo(answers[1][name].dtype).eps)  # type: ignore[no-untyped-call]
            line = f"output {name!r}, compared with float32 everywhere: {old} before, {new} now"
            (notes if away <= was + unit else differences).append(line)
        elif unlike := difference(right, answers[1][name]):  # of integers, texts and sequences
            is_new = difference(right, answers[0][name]) is None
            (differences if is_new else notes).append(
                f"output {name!r}, compared with float32 everywhere: {unlike}"
            )
    if is_fused:
        told_of = (
            "in ONNX Runtime it computes in float32"
            if engine == "onnxruntime"
            else "ONNX Runtime did not run it"
        )
        notes.append(f"a fused norm rounds in other places than the nodes that it was; {told_of}")
    elements = sum(np.size(value) for value in exact.values())
    reasons = vacuous(exact)
    failure = nothing_told(reasons) if len(reasons) == len(exact) else ""
    return Verification(1, elements, tuple(differences), engine, told, failure, tuple(notes))
