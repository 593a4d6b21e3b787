"""An ONNX model rewritten so that a target accepts each of its Pow and PRelu nodes.

Which types ONNX Runtime and OpenVINO take was measured, and is read from ``halfulp.measured``. DirectML's are
those that ONNX Runtime's DmlExecutionProvider lists, TensorRT's those of its parser (10.0). ``basic`` is a
runtime with neither operator, and the Pow of IREE (3.13) is wrong for negative bases: for these two, the
nodes are expanded into other operators. If a type must be cast to another one, the change says whether the
result can differ.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from onnx import FunctionProto, NodeProto

from halfulp.conversion import spellings
from halfulp.conversion.editor import Change, Editor, NoExactForm, exactly_as, holds, is_one, remade, settle
from halfulp.conversion.opset import NEWEST, opset_of, to_opset
from halfulp.conversion.rules import apply_first
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, did_you_mean, named, printable
from halfulp.installed import RUNTIME_ALIASES
from halfulp.measured import nearest
from halfulp.models.graph import Array
from halfulp.models.onnx.walk import SUPPORTED_OPS, is_ours, owners_of
from halfulp.types import FLOATS, TYPES

_ALL = tuple(TYPES)
_OLDEST = 7  # both measured targets refuse or misread the broadcasting of older opsets


@dataclass(frozen=True)
class Target:
    """The types, opsets and spellings that a target accepts.

    Attributes:
        name: as ``--target`` spells it.
        bases, exponents: the types of Pow, as of opset 12. An empty ``exponents``: the base's type.
        prelu: the types of PRelu, by the opset from which it takes them.
        opsets: the oldest and the newest that it reads.
        wide: its widest floating type.
        unlike: how it departs from the document without refusing anything, by the type of the base or of X.
        exact: the constant exponents whose powers were exact for all bases that were measured, by the two types.
        pads_slope: whether it wants a slope of X's rank, because it takes one of rank 1 for another.
        widens_base: whether a base is cast for an exponent of a floating type that is wider.
        spelled: the operators that are written with others where there is a way, and why.
        multiplies: the types of integers that its Mul takes and its Pow does not.
        rounds: whether the power of two integers, computed in ``wide``, has to be rounded to the nearest integer.
    """

    name: str
    bases: tuple[str, ...] = ()
    exponents: tuple[str, ...] = ()
    prelu: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    opsets: tuple[int, int | None] = (_OLDEST, None)
    wide: str = "float32"
    unlike: Mapping[str, str] = field(default_factory=dict)
    exact: Mapping[tuple[str, ...], frozenset[float]] = field(default_factory=dict)
    pads_slope: bool = False
    widens_base: bool = False
    spelled: Mapping[str, str] = field(default_factory=dict)
    multiplies: tuple[str, ...] = ()
    rounds: bool = False

    def takes(self, operator: str, types: tuple[str, ...]) -> bool:
        """Tell whether it takes a Pow of such types for every exponent, or a PRelu for all slopes."""
        if operator == "PRelu" or operator in self.spelled:
            return operator not in self.spelled
        x, y = (*types, "", "")[:2]
        return x in self.bases and y in (self.exponents or (x,)) and not {x, y} & self.unlike.keys()


def _measured(name: str, **more: Any) -> Target:
    """Return a target whose types are those that its newest measured version did not refuse."""
    if (found := nearest(name)) is None:
        raise HalfulpError(f"this installation has no measurement of {name}")
    taken = defaultdict[str, dict[int, dict[tuple[str, ...], Any]]](dict)  # by operator, version and types
    for (operator, types), row in found.rows.items():
        if row.verdict not in ("refused", "crashed", "hung"):
            kind, _, version = operator.rpartition("-")
            taken[kind].setdefault(int(version), {})[types] = row
    pairs, prelu = taken["onnx.Pow"][max(taken["onnx.Pow"])], sorted(taken["onnx.PRelu"].items())
    bases = {x for x, _ in pairs}
    fields = {
        "bases": _in_order(bases),
        "exponents": _in_order({y for _, y in pairs if all((x, y) in pairs for x in bases)}),
        "prelu": {since: _in_order({x for x, _ in both}) for since, both in prelu if since >= _OLDEST},
        "exact": {
            types: frozenset(y for y, power in row.constants.items() if power.verdict == "exact")
            for types, row in pairs.items()
        },
    }
    return Target(name, **fields | more)


def _in_order(types: Iterable[str]) -> tuple[str, ...]:
    """Return the types sorted: floating types first, then by width."""
    return tuple(sorted(types, key=lambda name: (name not in FLOATS, TYPES[name].bits, name)))


@cache
def known_targets() -> Mapping[str, Target]:
    """Return the targets by name; the first call reads the measurements."""
    ints, short = ("int32", "int64"), ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    directml = ("float16", "float32")
    cuda, tensorrt = (*directml, "float64"), (*directml, "bfloat16")
    rounds = "ONNX Runtime computes integer powers in float64: above 2^53 it rounds"
    saturates = {kind: f"OpenVINO computes {kind} in 32 bits, and saturates" for kind in ("int64", "uint64")}
    openvino = {"float64": "OpenVINO computes float64 in float32", **saturates}
    logarithms = "IREE computes powers by logarithms: of a negative base it gives NaN"
    lacks = {operator: f"basic has no {operator}" for operator in SUPPORTED_OPS}
    rows = (
        _measured("onnxruntime", wide="float64", unlike={"int64": rounds}),
        # The reader takes exponents of other types and casts them or the base, but Power has one type.
        _measured("openvino", exponents=(), widens_base=True, unlike=openvino, pads_slope=True),
        Target("directml", (*directml, "int32"), (*directml, *short), {7: directml, 9: (*directml, "int32")}),
        # ONNX Runtime's CUDA provider truncates float powers of integers: 3^1 is 2.
        Target("cuda", cuda, (*cuda, *ints), {7: cuda}, wide="float64", multiplies=ints, rounds=True),
        Target("tensorrt", tensorrt, (), {9: tensorrt}, (9, 20), multiplies=ints),
        Target("iree", _ALL, _ALL, {7: _ALL}, spelled={"Pow": logarithms}),
        Target("basic", prelu={1: ()}, opsets=(1, None), spelled=lacks),
    )
    return {target.name: target for target in rows}


def _target(name: str) -> Target:
    """Return a target by its name or another of the same runtime; raise HalfulpError if there is none."""
    known = known_targets()
    if (spelled := named(str(name), known, RUNTIME_ALIASES)) is None:
        raise HalfulpError(f"no target {str(name)[:80]}; {did_you_mean(str(name), known)}")
    return known[spelled]


def _into_range(walk: Walk, name: str) -> None:
    """Convert a model to the nearest opset that a target reads."""
    target = _target(name)
    oldest, newest = target.opsets[0], target.opsets[1] or NEWEST
    wanted = min(max(opset_of(walk), oldest), newest)
    *functions, own = owners_of(walk.proto)
    other = [each for each in (own, *functions) if not oldest <= each[1] <= newest]
    for owner, opset in other:
        whose = f" of the function {printable(owner.name)!r}" if isinstance(owner, FunctionProto) else ""
        why = f"{target.name} takes {oldest} and later"
        why = f"the newest that {target.name} takes" if opset >= oldest else why
        walk.changes.append(Change(walk.file, f"opset {opset}{whose} becomes {wanted}: {why}"))
    if other:
        to_opset(walk, wanted)


def _accept(target: Target, node: NodeProto, edit: Editor) -> None:
    """Add a node in a form that a target accepts; raise NoExactForm if there is none."""
    is_pow, why = node.op_type == "Pow", target.spelled.get(node.op_type)
    if why is None:
        return (_pow if is_pow else _prelu)(node, edit, target)
    if apply_first(spellings.EXPAND_POW if is_pow else spellings.EXPAND_PRELU, node, edit, why):
        return None
    if not is_pow:  # a row takes every PRelu of a known type
        edit.type_of(node.input[0])
    if not target.bases:
        way = "--pow logarithms in the place of --target approximates it"
        raise NoExactForm(f"{why}, and no products, roots and reciprocals give this power; {way}")
    edit.note("stays unchanged", why)
    return edit.keep(node)


TARGET = (_into_range, lambda walk, name: walk.rewrite(is_ours, partial(_accept, _target(name)), name))
"""The passes that rewrite a model for a target, whose name is the option's value."""


# --- Pow ------------------------------------------------------------------------------------------


def _pow(node: NodeProto, edit: Editor, target: Target) -> None:
    x, y = (edit.type_of(name) for name in node.input)
    lacks = f"{target.name} takes no {x} here"
    if x in target.multiplies and apply_first(spellings.EXPAND_POW, node, edit, lacks):
        return None
    exponent = edit.array(node.input[1])
    is_cast = x not in target.bases or (target.widens_base and _is_narrow(x, y, exponent))
    base, between = wider(x, target) if is_cast else (x, None)
    wanted = (target.exponents if edit.opset >= 12 else ()) or (base,)
    new = remade(node)
    if y not in wanted:
        # An integer base wraps around with an integer exponent, and saturates with a float exponent.
        alike = (kind for kind in wanted if base in FLOATS or (kind in FLOATS) == (y in FLOATS))
        settle(new, alike, edit, f"{target.name} takes no {y} here", x=base, may_round=True)
    if is_cast:
        refused = x if x not in target.bases else f"{x} to the power of {y}"
        said = f"the base is cast from {x} to {base} and the power back"
        edit.note(f"{said}: {target.name} takes no {refused}", between)
        new.input[0] = edit.cast(node.input[0], base)
        return edit.keep_cast(new, base, x, rounds=target.rounds and x not in FLOATS and y not in FLOATS)
    shape, exact = edit.value(node.input[0]).shape, target.exact.get((x, edit.type_of(new.input[1])), ())
    # If the last dim is 1, a runtime may compute elements one by one, unlike those of a vector.
    is_vector = shape is None or shape[-1:] not in ((), (1,))
    is_one = exponent is not None and exponent.size == 1 and is_vector and exponent.item() in exact
    if x in target.unlike and not is_one:
        what = "stays" if new.input[1] == node.input[1] else "the base's type stays"
        edit.note(f"{what} unchanged", target.unlike[x])
    return edit.keep(new)


def _is_narrow(x: str, y: str, exponent: Array | None) -> bool:
    """Return whether a base of type x, other than float32, needs a wider one beside a floating exponent of type y."""
    if y not in FLOATS or x == "float32":
        return False
    # An integer base saturates with a float exponent, and wraps around with an integer exponent.
    is_held = holds(x, y) or (exponent is not None and exactly_as(exponent, x) is not None)
    return x not in FLOATS or not is_held


def wider(x: str, target: Target) -> tuple[str, str]:
    """Return the type that a base of an unsupported type is cast to, and how the result can then differ."""
    if x == "float64":
        return "float32", "the power is one of float32"
    if holds("float32", x):
        rounded_twice = "the power is rounded twice: to float32, then back"
        wraps = "a power of 2^24 and more is rounded, and does not wrap around"
        return "float32", rounded_twice if x in FLOATS else wraps
    if holds(target.wide, x):
        return target.wide, f"a power that {x} does not hold does not wrap around"
    bits = {"float32": 24, "float64": 53}[target.wide]
    return target.wide, f"from 2^{bits} on bases and powers are rounded, and do not wrap around"


# --- PRelu ----------------------------------------------------------------------------------------


def _prelu(node: NodeProto, edit: Editor, target: Target) -> None:
    if target.pads_slope and edit.value(node.input[0]).shape == ():
        return _vector_prelu(node, edit, target)
    kind = edit.type_of(node.input[0])
    slope = _padded(node, edit) if target.pads_slope else node.input[1]
    new = remade(node, [node.input[0], slope])
    taken = next(types for opset, types in reversed(list(target.prelu.items())) if opset <= edit.opset)
    if kind in taken:
        if (unlike := target.unlike.get(kind)) is not None:
            edit.note("stays unchanged" if slope == node.input[1] else "its type stays unchanged", unlike)
        return edit.keep(new)
    if "int" in kind or kind == target.wide:
        apply_first(spellings.EXPAND_PRELU, new, edit, f"{target.name} takes no {kind} here")
        return None
    wide = target.wide if target.wide in taken else "float32"
    differs = "the product is one of float32" if kind == "float64" else "a NaN in X may lose its payload"
    if kind == "bfloat16" and wide == "float32":
        differs = f"a product below 2^-126 is rounded twice, and {differs}"
    edit.note(f"cast from {kind} to {wide} and back: {target.name} takes no {kind} here", differs)
    new.input[:] = [edit.cast(name, wide) for name in new.input]
    return edit.keep_cast(new, wide, kind)


def _vector_prelu(node: NodeProto, edit: Editor, target: Target) -> None:
    """Add a PRelu of a scalar as a PRelu of a one-element vector: a slope of rank 1 does not fit a scalar."""
    edit.note("X and the slope, scalars, get rank 1, and Y loses it")
    vector = remade(node, [edit.unsqueeze(name, [0]) for name in node.input])
    vector.output[0] = edit.new_name("vector", edit.value(vector.input[0]))
    _prelu(vector, edit, target)
    edit.squeeze(vector.output[0], [0], output=node.output[0])


def _padded(node: NodeProto, edit: Editor) -> str:
    """Return the slope with X's rank: the target would read one of rank 1 as one value per channel."""
    given: str = node.input[1]
    x, slope = edit.value(node.input[0]), edit.value(given)
    if slope.shape == ():
        edit.note("the slope, a scalar, gets rank 1")
        return edit.unsqueeze(given, [0])
    if slope.shape is None or len(slope.shape) > 1 or is_one(slope):
        return given
    if x.shape is None:
        edit.note(
            "stays unchanged", "where X has 3 dims or more, a slope as long as its dim 1 goes along that"
        )
    rank = len(x.shape or ())
    if rank < 3:
        return given
    shape = [1] * (rank - 1) + [*slope.shape]
    edit.note(f"the slope gets the shape {shape}: OpenVINO reads one of rank 1 per channel")
    return edit.unsqueeze(given, range(rank - 1))
