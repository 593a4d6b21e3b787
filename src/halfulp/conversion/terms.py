"""Terms: the form that a rule looks for, and the form that it puts there, as expressions in Python's syntax.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Editor, legacy_form
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.walk import plain_domain
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.broadcast import NUMPY, Mismatch

Term: TypeAlias = ast.expr
Bound: TypeAlias = Mapping[str, Any]
"""The names of values by those in the term. A rule's checks add arrays, attributes and terms."""

NODES = "the nodes"
"""The key of the matched nodes in ``Bound``. No term can contain it."""

_COMMUTATIVE = frozenset(("Add", "Mul", "Max", "Min"))
_MIRRORED = {"Less": "Greater", "LessOrEqual": "GreaterOrEqual"}
_MIRRORED |= {greater: less for less, greater in _MIRRORED.items()}


def parse(text: str, parts: Mapping[str, str] = MappingProxyType({})) -> Term:
    """Read a term. A name among ``parts`` stands for the term there."""
    return cast(Term, _Parts(parts).visit(ast.parse(text, mode="eval").body))


class _Parts(ast.NodeTransformer):
    """Puts the terms in the place of their names. Each is read once."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        self._texts = parts
        self._terms: dict[str, ast.AST] = {}

    def visit_Name(self, name: ast.Name) -> ast.AST:
        """Return the term of a name among the parts, and any other name."""
        if name.id in self._texts and name.id not in self._terms:
            self._terms[name.id] = self.visit(ast.parse(self._texts[name.id], mode="eval").body)
        return self._terms.get(name.id, name)


def node_of(op_type: str, *operands: Term) -> Term:
    """Return the term of a node. An operand that several nodes share is built once."""
    return ast.Call(ast.Name(op_type), list(operands), [])


def number_of(term: Term) -> float | None:
    """Return the number that a term is, else None."""
    match term:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return None


def roots(term: Term) -> Iterator[str]:
    """Yield the operators of the nodes that can make a term's value."""
    match term:
        case ast.Call(func=ast.Name(id=op_type)):
            yield op_type
            if op_type in _MIRRORED:
                yield _MIRRORED[op_type]
        case ast.BinOp(left=left, right=right):
            yield from roots(left)
            yield from roots(right)
        case ast.NamedExpr(value=inner):
            yield from roots(inner)


# --- matching -------------------------------------------------------------------------------------


def matches(
    term: Term, name: str, view: Editor, bound: Bound, root: NodeProto | None = None
) -> Iterator[Bound]:
    """Yield each way in which a value is a term: the names in the term with those of the values.

    ``root`` is the node that makes the value, where ``view`` does not have it yet.
    """
    match term:
        case ast.Name(id=variable):
            if name and bound.get(variable, name) == name:
                yield bound if variable in bound else {**bound, variable: name}
        case ast.NamedExpr(target=ast.Name(id=variable), value=inner):
            if bound.get(variable, name) == name:
                yield from matches(inner, name, view, {**bound, variable: name}, root)
        case ast.BinOp(left=left, right=right):
            yield from matches(left, name, view, bound, root)
            yield from matches(right, name, view, bound, root)
        case ast.Call(func=ast.Name(id=op_type), args=operands):
            maker = root or view.maker(name)
            orders = [] if maker is None else _orders(op_type, operands, maker)
            if maker is not None and orders and [*maker.output] == [name] and not plain_domain(maker.domain):
                bound = {**bound, NODES: (*bound.get(NODES, ()), maker)}
                for order in orders:
                    yield from _matched(order, maker, view, bound)
        case _ if (number := number_of(term)) is not None and _is(view.number(name), number):
            yield bound


def _orders(op_type: str, operands: list[Term], node: NodeProto) -> list[list[Term]]:
    """Return the orders in which a node's inputs may be some operands; none if it is another operator."""
    is_mirrored = node.op_type != op_type
    if is_mirrored and _MIRRORED.get(node.op_type) != op_type:
        return []
    is_open = getattr(operands[-1], "value", None) is ...
    operands = operands[: len(operands) - is_open]
    if len(node.input) < len(operands) or (len(node.input) > len(operands) and not is_open):
        return []
    is_either = op_type in _COMMUTATIVE and len(operands) == 2
    return [operands[::-1]] if is_mirrored else [operands, operands[::-1]] if is_either else [operands]


def _matched(
    operands: list[Term], node: NodeProto, view: Editor, bound: Bound, index: int = 0
) -> Iterator[Bound]:
    if index == len(operands):
        yield bound
        return
    term, name = operands[index], node.input[index]
    if isinstance(term, ast.Constant | ast.UnaryOp) and not _keeps_shape(index, node, view):
        return
    for more in matches(term, name, view, bound):
        yield from _matched(operands, node, view, more, index + 1)


def _is(array: Array | None, number: float) -> bool:
    """Tell whether the element of a constant is a number as its type rounds it."""
    if array is None or array.dtype.kind in "OUSbc":
        return False
    with np.errstate(all="ignore"):
        held = number if array.dtype.kind in "iu" else np.array(number).astype(array.dtype)
    return bool(array.reshape(()) == held)


def _keeps_shape(index: int, node: NodeProto, view: Editor) -> bool:
    """Tell whether a number leaves the shape of the operands beside it."""
    rank = len(view.value(node.input[index]).shape or ())
    beside = (view.value(name).shape for place, name in enumerate(node.input) if place != index)
    return rank == 0 or any(shape is not None and len(shape) >= rank for shape in beside)


# --- building -------------------------------------------------------------------------------------

_COMPARISONS = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"))
_BROADCASTING = _COMPARISONS | {"Add", "Sub", "Mul", "Div"}
_ELEMENTWISE = _BROADCASTING | {"Neg", "Relu", "Sqrt", "Reciprocal", "Log", "Exp"}
_OLDEST_NUMPY = 7  # the first opset that broadcasts as NumPy does


def build(term: Term, bound: Bound, edit: Editor, node: NodeProto, kind: str) -> None:
    """Add the nodes of a term in the place of a node.

    Args:
        term: the part of it that is one object is built once.
        bound: the names of values; arrays become constants, and other terms are built, also in the place of a node
            that follows: ``(term, node)``.
        edit: collects the nodes.
        node: the node that is replaced. Its output is the term's value.
        kind: the element type of numbers that no value stands beside.
    """
    names: dict[int, str] = {}

    def name_of(each: Term, beside: str = kind) -> str:
        value = bound[each.id] if isinstance(each, ast.Name) else each
        if isinstance(value, str | ast.Name):
            return value if isinstance(value, str) else name_of(value)
        if id(value) not in names:
            names[id(value)] = built(each, value, beside)
        return names[id(value)]

    def built(each: Term, value: Any, beside: str) -> str:
        if isinstance(value, ast.Call):
            return added(value)
        if isinstance(value, tuple):
            edit.drop(value[1])
            return added(*value)
        if isinstance(each, ast.Name):
            return edit.constant(value, each.id)
        return edit.constant(np.array(number_of(each)).astype(dtype_named(beside)), "constant")

    def added(call: ast.Call, old: NodeProto | None = None) -> str:
        assert isinstance(call.func, ast.Name)
        op_type, operands = call.func.id, call.args
        values = [name_of(each) for each in operands if number_of(each) is None]
        beside = next(filter(None, (edit.value(name).type for name in values)), kind)
        inputs = [name_of(each, beside) for each in operands]
        output = None if old is None else old.output[0]
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
            *inputs, given = legacy_form(first, second, edit)
        return edit.add(op_type, inputs, _result(op_type, inputs, edit), output=output, like=old, **given)

    while isinstance(term, ast.Name) and isinstance(bound[term.id], ast.expr):
        term = bound[term.id]
    added(term if isinstance(term, ast.Call) else ast.Call(ast.Name("Identity"), [term], []), node)


def _result(op_type: str, inputs: Sequence[str], edit: Editor) -> Value | None:
    """Return the type and shape of a new node's output, None where they are not those of its operands."""
    if op_type not in _ELEMENTWISE:
        return None
    operands = [edit.value(name) for name in inputs]
    shape = operands[0].shape
    for operand in operands[1:] if edit.opset >= _OLDEST_NUMPY else ():
        with suppress(Mismatch):
            shape = NUMPY.infer(shape, operand.shape, {})
    kind = next((operand.type for operand in operands if operand.type is not None), None)
    return Value("", "bool" if op_type in _COMPARISONS else kind, shape)
