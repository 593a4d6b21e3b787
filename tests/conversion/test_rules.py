"""Each rule on the models that its own text describes: it applies, the result is valid, and differs as it says."""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.conversion.test_differential import special

import halfulp as hu
from halfulp.conversion import spellings
from halfulp.conversion.rules import parse

FLOATS = ("float16", "float32", "float64")
CONSTANTS: dict[str, Any] = {
    "slope": [[0.25], [0.5], [1]],
    "minus_slope": [[-0.25], [-0.5], [-2]],
    "scale": np.linspace(0.5, 2, 16),
    "bias": np.linspace(-1, 1, 16),
    "epsilon": 2**-14,
    "e": 0,
}


def alternatives(term: ast.expr) -> Iterator[ast.expr]:
    """Yield a term once for each choice among its alternatives."""
    match term:
        case ast.BinOp(left=left, right=right):
            yield from alternatives(left)
            yield from alternatives(right)
        case ast.NamedExpr(target=target, value=inner):
            yield from (ast.NamedExpr(target, each) for each in alternatives(inner))
        case ast.Call(func=operator, args=operands):
            for choice in itertools.product(*map(list, map(alternatives, operands))):
                yield ast.Call(operator, [*choice], [])
        case _:
            yield term


def model_of(term: ast.expr, kind: str, opset: int) -> onnx.ModelProto:
    """Return a model that computes a term of an input x [4, 3, 16] and of constants."""
    enum = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, onnx.TensorProto] = {}

    def name_of(each: ast.expr) -> str:
        match each:
            case ast.Name(id=name):
                if name != "x":
                    weights[name] = numpy_helper.from_array(np.asarray(CONSTANTS[name]).astype(kind), name)
                return name
            case ast.NamedExpr(value=inner):
                return name_of(inner)
            case ast.Call(func=ast.Name(id=op_type), args=operands):
                is_open = (
                    bool(operands) and isinstance(operands[-1], ast.Constant) and operands[-1].value is ...
                )
                inputs = [name_of(operand) for operand in operands[: len(operands) - is_open]]
                same = (
                    node
                    for node in nodes
                    if (node.op_type, [*node.input][: len(inputs)]) == (op_type, inputs)
                )
                if (node := next(same, None)) is None:
                    nodes.append(node := helper.make_node(op_type, inputs, [f"v{len(nodes)}"]))
                    if is_open and opset < 18:
                        node.attribute.append(helper.make_attribute("axes", [-1]))
                    elif is_open:
                        node.input.append("axes")
                        weights["axes"] = numpy_helper.from_array(np.array([-1]), "axes")
                return node.output[0]
        assert isinstance(each, ast.Constant)
        name = f"c{len(weights)}"
        weights[name] = numpy_helper.from_array(np.array(each.value).astype(kind), name)
        return name

    nodes.append(helper.make_node("Identity", [name_of(term)], ["y"]))
    x, y = (helper.make_tensor_value_info(name, enum, [4, 3, 16]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [*weights.values()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)


def evaluated(model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the value of y by the onnx package's evaluator, of a model with a Pow by halfulp."""
    with np.errstate(all="ignore"):
        if any(node.op_type == "Pow" for node in model.graph.node):
            return np.asarray(hu.run(model, {"x": x})["y"])
        return np.asarray(ReferenceEvaluator(model).run(None, {"x": x})[0])


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], differs: str | None) -> bool:
    """Tell whether two arrays have the same bits but for NaNs and, if ``differs`` names them, zeros."""
    alike = (a == b) if differs and spellings.ZERO in differs else (a == b) & (np.signbit(a) == np.signbit(b))
    if differs and ("inf" in differs or "twice" in differs):
        alike |= np.isinf(a) | np.isinf(b) | np.isnan(a)
    return a.dtype == b.dtype and bool((alike | (np.isnan(a) & np.isnan(b))).all())


FORMS = [
    pytest.param(
        option, rule, term, id=f"{'-'.join(option.values())}-{ast.unparse(ast.fix_missing_locations(term))}"
    )
    for option, rules in (
        ({"prelu": "fold"}, spellings.FOLD_PRELU),
        ({"pow": "fold"}, spellings.FOLD_POW),
        ({"fuse": "norms"}, spellings.FUSE),
    )
    for rule in rules
    for term in alternatives(rule.pattern)
    # The first is of an x that is never negative, the second of a slope that nodes compute: spellings.txt has these.
    if rule.form not in ("Sqrt(x)", "PRelu(x, slope)")
]


@pytest.mark.parametrize(("option", "rule", "term"), FORMS)
@pytest.mark.parametrize("kind", FLOATS)
def test_a_form(option, rule, term, kind):
    source = model_of(term, kind, max(rule.since, 16))
    found = hu.convert(source, **option)
    if option == {"fuse": "norms"} and kind == "float64":
        assert found.summary == "0 changes"
        return
    onnx.checker.check_model(found.model, full_check=True)
    operator = rule.becomes.partition("(")[0]
    assert [node.op_type for node in found.model.graph.node] == [operator, "Identity"]
    (change,) = found.changes
    x = special(kind)
    before, after = evaluated(source, x), evaluated(found.model, x)
    if change.ulps is None:
        np.testing.assert_allclose(after[:, 1:], before[:, 1:], rtol=4 * np.finfo(kind).eps, atol=1e-2)
    else:
        assert same(before, after, change.differs)


@pytest.mark.parametrize("slopes", [[[-0.5], [0], [-0.0]], [[np.inf], [np.nan], [2]]])
@pytest.mark.parametrize("rule", spellings.FOLD_PRELU, ids=lambda rule: rule.form)
def test_a_form_with_other_slopes(rule, slopes, monkeypatch):
    """A check refuses them, or the result differs as it says."""
    monkeypatch.setitem(CONSTANTS, "slope", slopes)
    monkeypatch.setitem(CONSTANTS, "minus_slope", -np.array(slopes))
    for term in alternatives(rule.pattern):
        source = model_of(term, "float32", 16)
        found = hu.convert(source, prelu="fold")
        for change in found.changes:
            # The onnx package's evaluator multiplies zeros, too, by the slope.
            after = np.asarray(hu.run(found.model, {"x": special("float32")})["y"])
            before = evaluated(source, special("float32"))
            assert same(before, after, change.differs), ast.unparse(ast.fix_missing_locations(term))


EXPONENTS = (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 16, -0.5, -0.75, -1, -1.5, -2, -3, -16)


@pytest.mark.parametrize(
    ("kind", "exponent"),
    [*itertools.product(FLOATS, EXPONENTS), *itertools.product(("int32", "int64"), (0, 1, 2, 3, 7, 16))],
)
def test_an_expanded_power(kind, exponent, monkeypatch):
    monkeypatch.setitem(CONSTANTS, "e", exponent)
    source = model_of(spellings.EXPAND_POW[0].pattern, kind, 13)
    found = hu.convert(source, pow="expand")
    onnx.checker.check_model(found.model, full_check=True)
    assert all(node.op_type != "Pow" for node in found.model.graph.node)
    (change,) = found.changes
    x = special(kind)
    before, after = evaluated(source, x), evaluated(found.model, x)
    if change.differs is None:
        assert same(before, after, None)
        return
    named = {float(at) for at in re.findall(r"at (\S+) it gives", change.differs)}
    ordinary = np.isfinite(before) & np.isfinite(after) & (np.abs(before) > np.finfo(kind).tiny)
    ends = np.isinf(x) | (x == 0)
    unlike = (before != after) | (np.signbit(before) != np.signbit(after))
    assert {*x[ends & unlike].tolist()} == named
    assert change.ulps is not None
    off = np.abs(before[ordinary].astype(np.longdouble) - after[ordinary])
    assert (off <= change.ulps * np.spacing(np.abs(before[ordinary]))).all()


@pytest.mark.parametrize("how", ["expand", "relu"])
@pytest.mark.parametrize(
    ("kind", "opset"),
    [*itertools.product(FLOATS, (7, 8, 9, 16)), *itertools.product(("int32", "int64", "uint32"), (9, 16))],
)
def test_an_expanded_prelu(how, kind, opset, monkeypatch):
    monkeypatch.setitem(CONSTANTS, "slope", [[1], [2], [3]])
    source = model_of(spellings.EXPAND_PRELU[0].pattern, kind, opset)
    found = hu.convert(source, prelu=how)
    onnx.checker.check_model(found.model, full_check=True)
    (change,) = found.changes
    right = hu.run(source, {"x": special(kind)})["y"]
    assert same(np.asarray(right), np.asarray(hu.run(found.model, {"x": special(kind)})["y"]), change.differs)


@pytest.mark.parametrize("slopes", [[[np.inf], [1], [1]], [[np.nan], [1], [1]]])
def test_infinite_slopes_stay(slopes, monkeypatch):
    """Relu(X) of a positive X plus an infinite slope times 0 is NaN."""
    monkeypatch.setitem(CONSTANTS, "slope", slopes)
    for rule in (rule for rule in spellings.FOLD_PRELU if spellings.finite in rule.checks):
        for term in alternatives(rule.pattern):
            assert hu.convert(model_of(term, "float32", 16), prelu="fold").summary == "0 changes"


def test_a_part_of_several_parts_is_read_once():
    """The forms of norms have parts of parts: read again at each place, they took 2.7 s."""
    term = parse("part0", {f"part{level}": f"Add(part{level + 1}, part{level + 1})" for level in range(9)})
    for _ in range(8):
        assert isinstance(term, ast.Call)
        term, second = term.args
        assert term is second
