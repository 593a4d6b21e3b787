"""Rules: a form that is found, the form that it becomes, and how the result can then differ."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Editor, view_of
from halfulp.conversion.terms import NODES, Bound, Term, build, matches, parse, roots
from halfulp.conversion.walk import Walk
from halfulp.models.graph import Array, Value, type_name
from halfulp.models.onnx.walk import plain_domain
from halfulp.specs.tensor import Shape

DIFFERS, ULPS = "how the result differs", "ulps"
"""The keys under which a check says more of how a result differs, and by how many units in the last place."""


@dataclass(frozen=True)
class Match:
    """A place where a rule's form was found. ``match["slope"]`` is the name of a value.

    ``view`` has the nodes before it, and answers for their values.
    """

    view: Editor
    bound: Bound

    def __getitem__(self, name: str) -> str:
        return str(self.bound[name])

    def __contains__(self, name: str) -> bool:
        return name in self.bound

    @property
    def nodes(self) -> tuple[NodeProto, ...]:
        """The nodes of the form, the last one first."""
        return tuple({id(node): node for node in self.bound[NODES]}.values())

    @property
    def root(self) -> NodeProto:
        """The node that is replaced."""
        return self.bound[NODES][0]  # type: ignore[no-any-return]

    def maker(self, name: str) -> NodeProto | None:
        """Return the node that makes a value."""
        return self.view.maker(self[name])

    def array(self, name: str) -> Array | None:
        """Return a constant's array, None for any other value."""
        bound = self.bound[name]
        return bound if isinstance(bound, np.ndarray) else self.view.array(bound)

    def value(self, name: str) -> Value:
        """Return the type and shape of a value, or of an array that a check has added."""
        bound = self.bound[name]
        if isinstance(bound, np.ndarray):
            return Value(name, type_name(bound.dtype), bound.shape)
        return self.view.value(bound)

    def type(self, name: str) -> str:
        """Return the element type of a value, empty if it is not known."""
        return self.value(name).type or ""

    def shape(self, name: str) -> Shape:
        """Return the shape of a value."""
        return self.value(name).shape


Answer = Mapping[str, Any] | None
Check = Callable[[Match], Answer]
"""Returns None where a rule does not apply, else what the replacement needs by name: arrays, attributes, terms."""


@dataclass(frozen=True)
class Rule:
    """One rewriting.

    Attributes:
        form: the term that is found: see ``terms.py``.
        becomes: the term in its place. Its names are those of the form, and those that the checks return.
        checks: conditions, which must all hold.
        differs: how the result of floats can differ; None where no bit can.
        ulps: by how many units in the last place, as in a ``Change``.
        since, until: the opsets in which the replacement exists.
        parts: names for terms within the form.
        says: the change in words, where the two terms are not enough.
    """

    form: str
    becomes: str
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

    @cached_property
    def replacement(self) -> Term:
        """The term in its place."""
        return parse(self.becomes)

    def match(self, root: NodeProto, view: Editor) -> Match | None:
        """Return the place that ends at a node, with what the checks return; None where the rule does not apply."""
        if not self.since <= view.opset <= self.until:
            return None
        for bound in matches(self.pattern, root.output[0], view, {}, root):
            match = Match(view, bound)
            if len(bound[NODES]) > 1 and not _is_closed(match):
                continue
            for check in self.checks:
                answer = check(match)
                if answer is None:
                    break
                match = Match(view, {**match.bound, **answer})
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
        build(self.replacement, match.bound, edit, root, kind)
        for node in edit.nodes[before:]:
            for name in node.input:
                edit.reads[name] += 1
        _release(root, edit)


def apply_first(rules: Iterable[Rule], node: NodeProto, edit: Editor, why: str = "") -> bool:
    """Add the replacement of a node by the first of some rules that fits; tell whether one does."""
    for rule in rules:
        if (match := rule.match(node, edit)) is not None:
            rule.apply(match, edit, why)
            return True
    return False


def rewrite(
    walk: Walk, rules: Sequence[Rule], stays: Callable[[NodeProto, Editor], None] | None = None
) -> int:
    """Apply rules to each graph of a model; return how many places were rewritten.

    Nodes are visited from the last to the first, so that a form is found before the smaller ones within it. The first
    rule that fits is taken. ``stays`` receives the nodes at which a form can end, and none does.
    """
    ends = {op_type for rule in rules for op_type in roots(rule.pattern)}
    places = {id(match.root): (rule, match) for _, rule, match in found(walk, rules)}

    def replace(node: NodeProto, edit: Editor) -> None:
        if id(node) in places:
            rule, match = places[id(node)]
            return rule.apply(match, edit)
        if stays is not None:
            stays(node, edit)
        return edit.keep(node)

    def is_wanted(node: NodeProto) -> bool:
        return id(node) in places or (stays is not None and node.op_type in ends)

    walk.rewrite_all(is_wanted, replace)
    return len(places)


def found(walk: Walk, rules: Sequence[Rule]) -> Iterator[tuple[str, Rule, Match]]:
    """Yield the places to which a rule applies, with the paths of their graphs. No node is in two of them."""
    by_root: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        for op_type in dict.fromkeys(roots(rule.pattern)):
            by_root[op_type].append(rule)
    for path, graph, known, opset in walk.graphs():
        view, taken = view_of(graph, known, opset), set[int]()
        for node in reversed(view.nodes):
            is_end = node.op_type in by_root and id(node) not in taken
            if is_end and len(node.output) == 1 and not plain_domain(node.domain):
                matched = ((rule, rule.match(node, view)) for rule in by_root[node.op_type])
                for rule, match in ((rule, match) for rule, match in matched if match is not None):
                    taken.update(map(id, match.nodes))
                    yield path, rule, match
                    break


def _is_closed(match: Match) -> bool:
    """Tell whether only the nodes of a form read the values within it."""
    own = [name for node in match.nodes for name in node.input]
    inner = (node.output[0] for node in match.nodes[1:])
    return all(match.view.reads[name] == own.count(name) for name in inner)


def _release(node: NodeProto, edit: Editor) -> None:
    """Drop the nodes whose values nothing reads once a node is replaced."""
    todo = [name for name in node.input if name]
    while todo:
        name = todo.pop()
        edit.reads[name] -= 1
        maker = edit.maker(name) if edit.reads[name] == 0 else None
        if maker is not None and len(maker.output) == 1:
            edit.drop(maker)
            todo += filter(None, maker.input)


def written(match: Match) -> str:
    """Return the form that was found as a term: of several alternatives, the one in the model."""
    names = {name: variable for variable, name in match.bound.items() if isinstance(name, str)}
    makers = {node.output[0]: node for node in match.nodes}

    def term_of(name: str) -> str:
        if name in makers:
            return f"{makers[name].op_type}({', '.join(map(term_of, makers[name].input))})"
        if name in names:
            return names[name]
        number = match.view.number(name)
        return f"{0 if number is None else number.item():g}"

    return term_of(match.root.output[0])
