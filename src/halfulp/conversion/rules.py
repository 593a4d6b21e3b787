"""Rules: a form that is found, the form that it becomes, and how the result can then differ.

Both forms are terms, expressions in Python's syntax:

================================ =====================================================================
``x``, ``slope``                 any value; the same name is the same value
``2``, ``-0.5``                  a constant of one element with that number, rounded to its type
``Mul(x, slope)``                a node of ONNX; Add, Mul, Max and Min take their operands in either order
``Less(x, 0)``                   matches ``Greater(0, x)`` too
``ReduceMean(x, ...)``           a node that may have further inputs
``Pow(x, 2) | Mul(x, x)``        one of several terms
``(d := Sub(x, m))``             a term whose value gets a name
``Cast(x, to=kind)``             a node with attributes, which are only built
================================ =====================================================================

A term matches the nodes that make a value, and it builds nodes. Therefore each rule can be tested from its own text.
"""

from __future__ import annotations

import ast
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Editor, inherit, to_legacy
from halfulp.conversion.walk import Rewrite, Walk
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.infer import Scope, scalar
from halfulp.models.onnx.walk import plain_domain
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.broadcast import NUMPY, Mismatch
from halfulp.types import Shape, type_name

Term: TypeAlias = ast.expr
Bound: TypeAlias = Mapping[str, Any]
"""The names of values by those in the term. A rule's checks add arrays, attributes and terms."""

NODES = "the nodes"
"""The key of the matched nodes in ``Bound``. No term can contain it."""

_COMMUTATIVE = frozenset(("Add", "Mul", "Max", "Min"))
_MIRRORED = {"Less": "Greater", "LessOrEqual": "GreaterOrEqual"}
_MIRRORED |= {greater: less for less, greater in _MIRRORED.items()}


def parse(text: str, parts: Mapping[str, str] = MappingProxyType({})) -> Term:
    """Read a term. A name among ``parts`` stands for the term there, which is read once: norms have parts of parts."""

    class Plain(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            return read(parts[name.id]) if name.id in parts else name

        def visit_UnaryOp(self, negative: ast.UnaryOp) -> ast.AST:
            return ast.Constant(ast.literal_eval(negative))

    @cache
    def read(text: str) -> Term:
        return cast(Term, Plain().visit(ast.parse(text, mode="eval").body))

    return read(text)


def roots(term: Term) -> set[str]:
    """Return the operators of the nodes that can make a term's value."""
    if isinstance(term, ast.BinOp):
        return roots(term.left) | roots(term.right)
    assert isinstance(term, ast.Call)
    assert isinstance(term.func, ast.Name)
    return {term.func.id, _MIRRORED.get(term.func.id, term.func.id)}


# --- matching -------------------------------------------------------------------------------------


def matches(
    term: Term, name: str, view: Editor, bound: Bound, root: NodeProto | None = None
) -> Iterator[Bound]:
    """Yield each way in which a value is a term: the names in the term with those of the values.

    ``root`` is the node that makes the value, where ``view`` does not have it yet.
    """
    match term:
        case ast.Name(id=variable):
            if bound.get(variable, name) == name:
                yield bound if variable in bound else {**bound, variable: name}
        case ast.NamedExpr(target=ast.Name(id=variable), value=inner):
            if bound.get(variable, name) == name:
                yield from matches(inner, name, view, {**bound, variable: name}, root)
        case ast.BinOp(left=left, right=right):
            yield from matches(left, name, view, bound, root)
            yield from matches(right, name, view, bound, root)
        case ast.Call(func=ast.Name(id=op_type), args=operands):
            maker = root or view.maker(name)
            if maker is not None and not plain_domain(maker.domain):
                bound = {**bound, NODES: (*bound.get(NODES, ()), maker)}
                for order in _orders(op_type, operands, maker):
                    yield from _matched(order, maker, view, bound)
        case ast.Constant(value=int() | float() as number) if _is(name, number, view):
            yield bound


def _orders(op_type: str, operands: list[Term], node: NodeProto) -> list[list[Term]]:
    """Return the orders in which a node's inputs may be some operands; none if it is another operator."""
    is_mirrored = node.op_type != op_type
    if is_mirrored and _MIRRORED.get(node.op_type) != op_type:
        return []
    is_open = getattr(operands[-1], "value", None) is ...
    operands = operands[: len(operands) - is_open]
    if len(node.input[: len(operands)] if is_open else node.input) != len(operands):
        return []
    both = [operands, operands[::-1]]
    return both[1:] if is_mirrored else both if op_type in _COMMUTATIVE else both[:1]


def _matched(operands: list[Term], node: NodeProto, view: Editor, bound: Bound) -> Iterable[Bound]:
    """Return each way in which the first inputs of a node are some operands."""
    bounds: Iterable[Bound] = [bound]
    ranks = [len(view.value(name).shape or ()) for name in node.input]
    for place, (term, name) in enumerate(zip(operands, node.input, strict=False)):
        # A number has to leave the shape of those beside it.
        of_others = max([0, *ranks[:place], *ranks[place + 1 :]])
        if isinstance(term, ast.Constant) and ranks[place] > of_others:
            return []
        bounds = chain.from_iterable(map(partial(matches, term, name, view), bounds))
    return bounds


def _is(name: str, number: float, view: Editor) -> bool:
    """Tell whether a value is a constant of one element, a number as its type rounds it."""
    found = scalar(name, view.scope)
    if found is None or "int" in (kind := str(view.value(name).type)):
        return found == number
    with np.errstate(all="ignore"):
        return found == float(np.array(number).astype(dtype_named(kind)))


# --- building -------------------------------------------------------------------------------------

_BROADCASTING = {*_MIRRORED, "Add", "Sub", "Mul", "Div"}
_ELEMENTWISE = _BROADCASTING | {"Neg", "Relu", "Sqrt", "Reciprocal", "Log", "Exp"}
_OLDEST_NUMPY = 7  # the first opset that broadcasts as NumPy does


def build(term: Term, bound: Bound, edit: Editor, node: NodeProto, kind: str) -> None:
    """Add the nodes of a term in the place of a node, whose output is the term's value.

    A part of the term that is one object is built once. Arrays in ``bound`` become constants. Other terms there are
    built, also in the place of a node that follows: ``(term, node)``. ``kind`` is the type of numbers beside no value.
    """
    names: dict[int, str] = {}

    def name_of(each: Term, beside: str = kind) -> str:
        value: Any = bound[each.id] if isinstance(each, ast.Name) else each
        if isinstance(value, str | ast.Name):
            return value if isinstance(value, str) else name_of(value)
        if id(value) not in names:
            if isinstance(value, ast.Call):
                made = added(value)
            elif isinstance(value, tuple):
                edit.dropped.add(id(value[1]))
                made = added(*value)
            elif isinstance(each, ast.Name):
                made = edit.constant(value, each.id)
            else:
                made = edit.constant(np.array(value.value).astype(dtype_named(beside)), "constant")
            names[id(value)] = made
        return names[id(value)]

    def added(call: ast.Call, old: NodeProto | None = None) -> str:
        assert isinstance(call.func, ast.Name)
        op_type, operands = call.func.id, call.args
        values = [name_of(each) for each in operands if not isinstance(each, ast.Constant)]
        beside = next(filter(None, (edit.value(name).type for name in values)), kind)
        inputs = [name_of(each, beside) for each in operands]
        output = "" if old is None else old.output[0]
        attributes: dict[str, Any] = {}
        for keyword in call.keywords:
            assert isinstance(keyword.value, ast.Name)
            value = bound[keyword.value.id]
            attributes |= value if keyword.arg is None else {keyword.arg: value}
        if op_type == "Cast":
            return edit.cast(inputs[0], attributes["to"], output=output)
        if op_type == "Unsqueeze":
            return edit.unsqueeze(inputs[0], attributes["axes"]) if attributes["axes"] else inputs[0]
        given = {key: value for key, value in attributes.items() if value is not None}
        shapes = [edit.value(name).shape for name in inputs]
        if op_type in _BROADCASTING and edit.opset < _OLDEST_NUMPY and shapes[0] != shapes[1] and not given:
            first, second = inputs
            *inputs, given = to_legacy(first, second, edit)
        made = edit.add(op_type, inputs, Value(output, *_type_and_shape(op_type, inputs, edit)), **given)
        if old is not None:
            inherit(edit.nodes[-1], old)
        return made

    while isinstance(term, ast.Name):
        term = bound[term.id]
    added(term if isinstance(term, ast.Call) else ast.Call(ast.Name("Identity"), [term], []), node)


def _type_and_shape(op_type: str, inputs: Sequence[str], edit: Editor) -> tuple[str | None, Shape]:
    """Return the type and shape of a new node's output, as far as they are those of its operands."""
    if op_type not in _ELEMENTWISE:
        return None, None
    operands = [edit.value(name) for name in inputs]
    shape = operands[0].shape
    for operand in operands[1:] if edit.opset >= _OLDEST_NUMPY else ():
        with suppress(Mismatch):
            shape = NUMPY.infer(shape, operand.shape, {})
    kind = next((operand.type for operand in operands if operand.type is not None), None)
    return "bool" if op_type in _MIRRORED else kind, shape


# --- rules ----------------------------------------------------------------------------------------

DIFFERS, ULPS = "how the result differs", "ulps"
"""The keys under which a check says more of how a result differs, and by how many units in the last place."""


@dataclass(frozen=True)
class Match:
    """A place where a rule's form was found. ``match["slope"]`` is the name of a value.

    ``view`` has the nodes before it, and answers for their values.
    """

    rule: Rule
    view: Editor
    bound: Bound

    def __getitem__(self, name: str) -> str:
        return str(self.bound[name])

    @property
    def nodes(self) -> tuple[NodeProto, ...]:
        """The nodes of the form, the last one first."""
        return tuple({id(node): node for node in self.bound[NODES]}.values())

    @property
    def root(self) -> NodeProto:
        """The node that is replaced."""
        return self.bound[NODES][0]  # type: ignore[no-any-return]

    def maker(self, name: str) -> NodeProto:
        """Return the node that makes a value; an empty one if none does."""
        return self.view.maker(self[name]) or NodeProto()

    def array(self, name: str) -> Array | None:
        """Return a constant's array, None for any other value."""
        bound = self.bound[name]
        return bound if isinstance(bound, np.ndarray) else self.view.array(bound)

    def type(self, name: str) -> str:
        """Return the element type of a value, empty if it is not known."""
        bound = self.bound[name]
        return type_name(bound.dtype) if isinstance(bound, np.ndarray) else self.view.value(bound).type or ""

    def shape(self, name: str) -> Shape:
        """Return the shape of a value."""
        bound = self.bound[name]
        return bound.shape if isinstance(bound, np.ndarray) else self.view.value(bound).shape


Answer = dict[str, Any] | bool
Check = Callable[[Match], Answer]
"""Returns whether a rule applies, or what the replacement needs by name: arrays, attributes, terms."""


@dataclass(frozen=True)
class Rule:
    """One rewriting.

    Attributes:
        form: the term that is found.
        becomes: the term in its place. Its names are those of the form, and those that the checks return. Where it is
            empty, the rule only finds its form, also if other nodes read the values within.
        checks: conditions, which must all hold.
        differs: how the result of floats can differ; None where no bit can.
        ulps: by how many units in the last place, as in a ``Change``.
        since, until: the opsets in which the replacement exists.
        parts: names for terms within the form.
        says: the change in words, where the two terms are not enough.
    """

    form: str
    becomes: str = ""
    checks: tuple[Check, ...] = ()
    differs: str | None = None
    ulps: float | None = 0
    since: int = 7
    until: float = math.inf
    parts: Mapping[str, str] = field(default_factory=dict)
    says: str = ""

    @cached_property
    def pattern(self) -> Term:
        """The term that is found."""
        return parse(self.form, self.parts)

    def match(self, root: NodeProto, view: Editor) -> Match | None:
        """Return the place that ends at a node, with what the checks return; None where the rule does not apply."""
        if not self.since <= view.opset <= self.until:
            return None
        for bound in matches(self.pattern, [*root.output, ""][0], view, {}, root):
            match = Match(self, view, bound)
            for check in (_is_closed, *self.checks):
                if not (answer := check(match)):
                    break
                match = Match(self, view, {**match.bound, **answer}) if isinstance(answer, dict) else match
            else:
                return match
        return None

    def apply(self, match: Match, edit: Editor, why: str = "") -> None:
        """Put the replacement in the place of a match, with a reason in the line of the change."""
        root = match.root
        kinds = (edit.value(name).type for name in (root.output[0], *reversed(root.input)))
        kind = next(filter(None, kinds), "float32")
        words = self.says.format(**match.bound) if self.says else f"{written(match)} becomes {self.becomes}"
        differs = (None if "int" in kind else self.differs, match.bound.get(DIFFERS))
        ulps = match.bound.get(ULPS, self.ulps)
        edit.note(f"{words}{why and f': {why}'}", "; ".join(filter(None, differs)) or None, ulps=ulps)
        before = len(edit.nodes)
        build(parse(self.becomes), match.bound, edit, root, kind)
        edit.reads.update(name for node in edit.nodes[before:] for name in node.input)
        # The nodes whose values nothing reads now go.
        todo = [name for name in root.input if name]
        while todo:
            name = todo.pop()
            edit.reads[name] -= 1
            maker = edit.maker(name) if edit.reads[name] == 0 else None
            if maker is not None and len(maker.output) == 1:
                edit.dropped.add(id(maker))
                todo += filter(None, maker.input)


def apply_first(rules: Iterable[Rule], node: NodeProto, edit: Editor, why: str = "") -> bool:
    """Add the replacement of a node by the first of some rules that fits; tell whether one does."""
    for rule in rules:
        if (match := rule.match(node, edit)) is not None:
            rule.apply(match, edit, why)
            return True
    return False


def rewrite(walk: Walk, rules: Sequence[Rule], stays: Rewrite | None = None) -> int:
    """Apply rules to each graph of a model; return how many places were rewritten.

    Nodes are visited from the last to the first, so that a form is found before the smaller ones within it. The first
    rule that fits is taken. ``stays`` receives the nodes at which a form can end, and none does.
    """
    ends = set().union(*(roots(rule.pattern) for rule in rules))
    places = {id(match.root): match for match in found(walk.scopes(), rules)}

    def replace(node: NodeProto, edit: Editor) -> None:
        if id(node) in places:
            match = places[id(node)]
            return match.rule.apply(match, edit)
        if stays is not None:
            stays(node, edit)
        return edit.keep(node)

    walk.rewrite(lambda node: node.op_type in ends, replace)
    return len(places)


def found(scopes: Iterable[Scope], rules: Sequence[Rule]) -> Iterator[Match]:
    """Yield the places in graphs to which a rule applies, the last one first. No node is in two of them."""
    by_root = defaultdict[str, list[Rule]](list)
    for rule in rules:
        for op_type in roots(rule.pattern):
            by_root[op_type].append(rule)
    for scope in scopes:
        view, taken = Editor(scope), set[int]()
        for node in reversed(view.nodes):
            if id(node) not in taken:
                matched = (rule.match(node, view) for rule in by_root[node.op_type])
                for match in islice(filter(None, matched), 1):
                    taken.update(map(id, match.nodes))
                    yield match


def _is_closed(match: Match) -> Answer:
    """Only the nodes of a form that is replaced read the values within it."""
    nodes = match.nodes if match.rule.becomes else ()
    read = Counter(name for node in nodes for name in node.input)
    return all(match.view.reads[node.output[0]] == read[node.output[0]] for node in nodes[1:])


def written(match: Match) -> str:
    """Return the form that was found as a term: of several alternatives, the one in the model."""
    names = {name: variable for variable, name in match.bound.items() if isinstance(name, str)}
    makers = {node.output[0]: node for node in match.nodes}

    def term_of(name: str) -> str:
        if name in makers:
            return f"{makers[name].op_type}({', '.join(map(term_of, makers[name].input))})"
        return names.get(name) or f"{scalar(name, match.view.scope) or 0:g}"

    return term_of(match.root.output[0])
