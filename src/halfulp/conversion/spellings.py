"""PRelu, Pow and norms in other operators, and back: each form that converters write is a row.

A Pow with a constant exponent becomes products, roots and reciprocals, any other one an approximation by logarithms. A
norm that is written out becomes one operator: LayerNormalization-17, RMSNormalization-23.
"""

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from halfulp.conversion.editor import WRAPS, Editor
from halfulp.conversion.rules import DIFFERS, ULPS, Answer, Check, Match, Rule, found, parse, rewrite, written
from halfulp.conversion.walk import Walk
from halfulp.models.graph import Array
from halfulp.models.onnx.walk import attributes_of
from halfulp.models.run.inputs import dtype_named
from halfulp.specs import in_force
from halfulp.specs.broadcast import UNIDIRECTIONAL

NAN = "a product that is a NaN may have another sign bit"
ZERO = "a zero may have another sign"
_INFINITE = "a slope that is infinite or NaN {} NaN where X is not negative"
_TWICE = f"{ZERO}; X = inf gave NaN, and a product near the limits of the type was rounded twice"


def fits(match: Match) -> Answer:
    """A PRelu of the opset takes these operands, for all sizes of their unknown dims."""
    x, slope = match.shape("x"), match.shape("slope")
    taken = in_force("onnx", "PRelu", match.view.opset).type_variables["T"]
    if match.type("x") not in taken or slope is None:
        return False
    if x is None:
        return slope == ()
    pairs = zip(reversed(x), reversed(slope), strict=False)
    return UNIDIRECTIONAL.fits(x, slope) and all(b == 1 or (b == a is not None) for a, b in pairs)


def _slopes(test: Callable[[Array], Any], unknown: Answer = False, name: str = "slope") -> Check:
    """Return a check of slopes that are constants, with the answer for others."""
    return lambda match: unknown if (slope := match.array(name)) is None else test(slope)


def _is_finite(slope: Array) -> bool:
    return bool(np.isfinite(slope.astype(np.float64)).all())


# Where slopes are not known, the change says what an infinite one gives, or gave.
_GIVES, _GAVE = ({DIFFERS: _INFINITE.format(word)} for word in ("gives", "gave"))
finite = _slopes(_is_finite, unknown=_GAVE)
may_be_infinite = _slopes(lambda slope: _is_finite(slope) or _GIVES, unknown=_GIVES)
# If X is a zero, its product with a slope without a sign is that zero.
not_below_0 = _slopes(lambda slope: _is_finite(slope) and not np.signbit(slope).any())
# With such slopes, PRelu is the maximum of X and the product.
_OF_0 = {DIFFERS: "at +inf a slope of 0 gave NaN"}
from_0_to_1 = _slopes(lambda slope: ((slope >= 0) & (slope <= 1)).all() and (slope.all() or _OF_0))
negated = _slopes(lambda slope: _is_finite(slope) and {"slope": -slope}, name="minus_slope")


def alpha(match: Match) -> Answer:
    """The slope is LeakyRelu's attribute."""
    kind = match.type("x")
    if "float" not in kind:
        return False
    given = np.float32(attributes_of(match.root).get("alpha", 0.01))
    slope = np.array(given.astype(dtype_named(kind)))
    return {"slope": slope, DIFFERS: None if float(slope) == float(given) else f"alpha is rounded to {kind}"}


def computed(match: Match) -> Answer:
    """Nodes compute the slope of constants, which some importers do not do."""
    slope = match.array("slope")
    is_node = match.maker("slope").op_type not in ("", "Constant", "DequantizeLinear")
    return is_node and slope is not None and {"stored": slope}


def of_type(*words: str) -> Check:
    """Return a check that the element type begins with one of these words."""
    return lambda match: (match.type("x") or match.type("slope")).startswith(words)


def row(match: Match) -> Answer:
    """A row of slopes gets the rank of X: OpenVINO makes a PReLU per channel of a sum with one of rank 1.

    Before opset 7, it is one for each channel.
    """
    rank, slope = len(match.shape("x") or ()), match.shape("slope") or ()
    is_row = rank > 1 and len(slope) == 1 and slope != (1,)
    one = 1 if is_row else None
    return {"lead": range(rank - 1) if is_row and rank > 2 else (), "axis": one, "broadcast": one}


_PARTS = {
    "product": "Mul(slope, x)",
    "negative": "Less(x, 0) | Not(GreaterOrEqual(x, 0))",
    "not_negative": "GreaterOrEqual(x, 0) | Not(Less(x, 0))",
    "positive": "Greater(x, 0) | Not(LessOrEqual(x, 0))",
    "not_positive": "LessOrEqual(x, 0) | Not(Greater(x, 0))",
    "if_positive": "Where(positive, x, product) | Where(not_positive, product, x)",
    "above": "Relu(x) | Max(x, 0)",
    "below": "Min(x, 0) | Neg(opposite)",
    "opposite": "Relu(Neg(x)) | Max(Neg(x), 0)",  # -min(x, 0)
    "low": "Mul(slope, below) | Neg(Mul(slope, opposite)) | Mul(Neg(slope), opposite)",
    "minus_low": "Mul(slope, opposite) | Mul(Neg(slope), below)",
    "twice": "Sub(x, Abs(x))",  # 2 min(x, 0)
    "halved": "Mul(Mul(slope, twice), 0.5) | Mul(slope, Mul(twice, 0.5)) | Mul(Mul(slope, 0.5), twice)"
    " | Div(Mul(slope, twice), 2)",
}


_fold = partial(Rule, becomes="PRelu(x, slope)", ulps=2, parts=_PARTS)
_STORED = "the slope, computed of constants, is stored"
FOLD_PRELU = (
    _fold("Where(negative, product, x) | Where(not_negative, x, product)", checks=(fits,), differs=NAN),
    _fold("if_positive", checks=(not_below_0, fits), differs=NAN),
    _fold("if_positive", checks=(finite, fits), differs=ZERO),
    _fold("Add(above, halved)", checks=(finite, fits), differs=_TWICE),
    _fold("Add(above, low) | Sub(above, minus_low)", checks=(finite, fits), differs=ZERO),
    _fold("Add(above, Mul(minus_slope, opposite))", checks=(negated, fits), differs=ZERO),
    _fold("Max(x, product)", checks=(from_0_to_1, fits), differs=NAN),
    _fold("LeakyRelu(x)", checks=(alpha, fits), differs=NAN),
    Rule("PRelu(x, slope)", "PRelu(x, stored)", (computed,), says=_STORED),
)
"""The forms that become PRelu. A new one is a row."""

_SUM = "Add(Relu(x), Mul(Neg(Relu(Neg(x))), {}))"
_PADDED = _SUM.format("Unsqueeze(slope, axes=lead)")
_PER_CHANNEL = _SUM.format("slope, axis=axis, broadcast=broadcast")
_BY_SUM = f"PRelu(x, slope) becomes {_SUM.format('slope')}"
_IN_SUM = (row, may_be_infinite)
_expand = partial(Rule, "PRelu(x, slope)")

EXPAND_PRELU = (
    _expand("Where(Less(x, 0), Mul(slope, x), x)", (of_type("int", "float", "bfloat"),), NAN, since=9),
    _expand("x", (of_type("uint"),), since=1, says="X is never below 0, and is the result"),
    _expand(_PADDED, _IN_SUM, ZERO, until=8, says=_BY_SUM),
    _expand(_PER_CHANNEL, _IN_SUM, ZERO, since=1, until=6, says=_BY_SUM),
)
"""Rows for the types and opsets of PRelu, into operators that every runtime has."""

PRELU_BEFORE_9 = (
    EXPAND_PRELU[1],
    _expand(
        "Add(x, Mul(Sub(Mul(x, slope), x), Cast(Less(Cast(x, to=wide), 0), to=kind)))",  # float64 keeps the sign
        (lambda match: {"wide": "float64", "kind": match.type("x")},),
        since=1,
        says="PRelu takes no {kind} before opset 9: x + (x < 0) * (slope * x - x), which is the same",
    ),
)
"""PRelu of integers in opsets whose PRelu takes floats only."""

PRELU_BY_RELU = (
    replace(EXPAND_PRELU[2], checks=(of_type("float", "bfloat"), *_IN_SUM), until=math.inf),
    *EXPAND_PRELU,
)
"""The same without comparisons."""


_BUT_FOR_RANK = tuple(
    replace(rule, checks=rule.checks[:-1]) for rule in FOLD_PRELU if rule.checks[-1:] == (fits,)
)


def why_prelu_stays(node: NodeProto, edit: Editor) -> None:
    """Give a notice about a form that is not folded because the rank of X is not known."""
    for rule in _BUT_FOR_RANK:
        if (match := rule.match(node, edit)) is not None and match.shape("x") is None:
            why = "the rank of X is not known, and a PRelu takes no slope of more dims; declare it in value_info"
            return edit.note(f"stays {written(match)}: {why}", is_notice=True)
    return None


# --- Pow ------------------------------------------------------------------------------------------

_MOST = 16  # larger exponents are not expanded into products
MOST_OF_INTEGERS = 64  # where the opset has no Pow for them
_UFUNCS = {"Mul": np.multiply, "Sqrt": np.sqrt, "Reciprocal": np.reciprocal}
_NOT_NEGATIVE = ("Abs", "Exp", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softplus")
"""Operators whose results are never below 0, nor -0."""


def in_products(exponent: float, x: Any, operation: Callable[..., Any]) -> Any:
    """Return x to a multiple of 1/4 in products of squares and square roots, which ``operation("Mul", x, x)`` makes."""
    whole, quarters = divmod(round(4 * abs(exponent)), 4)
    # The reciprocal comes first if it overflows only where the power does: a product may overflow where that is small.
    base = power = root = operation("Reciprocal", x) if exponent <= -1 else x
    for bit in f"{whole:b}"[1:]:
        power = operation("Mul", power, power)
        if bit == "1":
            power = operation("Mul", power, base)
    factors = [power] if whole else []
    for quarter in (2, 1)[: (0, 2, 1, 2)[quarters]]:
        root = operation("Sqrt", root)
        if quarters & quarter:
            factors.append(root)
    result = reduce(partial(operation, "Mul"), factors or [base])
    return operation("Reciprocal", result) if -1 < exponent < 0 else result


def one_exponent(match: Match) -> float | None:
    """Return the exponent if one constant is that of all elements, and leaves X's shape; None otherwise."""
    x, result = match.shape("x"), match.view.value(match.root.output[0]).shape
    array, maker = match.array("e"), match.maker("e")
    keeps_shape = array is not None and array.size == 1 and array.ndim <= len(x or ())
    if maker.op_type == "Expand" and array is None:
        array = match.view.array(maker.input[0])
    elif maker.op_type == "ConstantOfShape" and array is None:
        array = next((onnx.numpy_helper.to_array(each.t) for each in maker.attribute), np.zeros(1))
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    is_same = x is not None and None not in x and x == result
    return float(array.flat[0]) if keeps_shape or is_same else None


def expandable(match: Match, most: int = _MOST) -> Answer:
    """The exponent is a multiple of 1/4, of integers and unknown types a whole number; the largest is ``most``."""
    exponent, kind = one_exponent(match), match.type("x")
    is_int = "int" in kind
    least = 1 if not kind else 0 if is_int else -most
    if exponent is None or not least <= exponent <= most or exponent == 0:
        return False
    if not (exponent if least >= 0 else 4 * exponent).is_integer():  # an integer has no root
        return False
    power, operators, at_special = _expansion(exponent)
    named = dict.fromkeys("products" if each == "Mul" else each for each in operators)
    words, differs = " and ".join(named) or "Identity", [*at_special]
    ulps = 0.0  # that a result can be off: an error of X counts Y times
    if len(operators) > 1 and not is_int:
        ulps = abs(exponent) + len(operators)
        noun = "products" if words == "products" else "operations"
        differs = [f"each of its {len(operators)} {noun} is rounded", *at_special]
    elif operators and is_int and "float" in match.type("e"):
        differs = [f"a power that {kind} does not hold {WRAPS}", *at_special]
    words = f"x^{exponent:g} becomes {words}"
    return {"power": power, "words": words, ULPS: ulps, DIFFERS: "; ".join(differs) or None}


@cache
def _expansion(exponent: float) -> tuple[ast.expr, list[str], list[str]]:
    """Return a power in products, their operators, and how they differ from it: at zeros and infinities."""
    operators, x = list[str](), np.array([-0.0, -np.inf, 0.0, np.inf])

    def made(op_type: str, *operands: tuple[ast.expr, Array]) -> tuple[ast.expr, Array]:
        operators.append(op_type)
        terms, arrays = zip(*operands, strict=True)
        return ast.Call(ast.Name(op_type), [*terms], []), _UFUNCS[op_type](*arrays)

    with np.errstate(all="ignore"):
        power, results = in_products(exponent, (parse("x"), x), made)
    right = np.where(np.isinf(x) == (exponent > 0), np.inf, 0.0)
    if exponent % 2 == 1:
        right = np.copysign(right, x)
    told = (tuple(f"{each:g}" for each in row) for row in zip(x, results, right, strict=True))
    return power, operators, [f"at {at} it gives {a}, the power {b}" for at, a, b in told if a != b]


def of_zero(match: Match) -> Answer:
    """The exponent is 0, and the type is known."""
    kind = match.type("x")
    is_so = bool(kind) and one_exponent(match) == 0
    return is_so and {"one": onnx.numpy_helper.from_array(np.ones(1, dtype_named(kind)))}


def of_floats(match: Match) -> Answer:
    """X is a float; an exponent of another type is stored in X's type, or cast to it."""
    kind, exponent_kind, exponent = match.type("x"), match.type("e"), match.array("e")
    if "float" not in kind or not exponent_kind:
        return False
    if exponent is not None:
        return {"y": exponent.astype(float).astype(dtype_named(kind))}
    return {"y": match["e"] if exponent_kind == kind else parse("Cast(e, to=kind)"), "kind": kind}


def logarithm(match: Match) -> Answer:
    """That of a constant, of numbers above 0, is stored; of another X, the change says where it is NaN."""
    base = match.array("x")
    if base is None:
        nans = "; NaN for 0^0 and inf^0" if match.array("e") is None else ""
        return {"logarithm": parse("Log(x)"), DIFFERS: f"NaN where X is below 0{nans}"}
    is_above = bool((base > 0).all())
    return is_above and {"logarithm": np.asarray(np.log(base.astype(float)), dtype_named(match.type("x")))}


def foldable(match: Match) -> Answer:
    """Pow of this opset takes the type."""
    kinds = ("float16", "float32", "float64", *(("int32", "int64") if match.view.opset >= 12 else ()))
    return match.type("x") in kinds


def is_never_negative(name: str, view: Editor, depth: int = 0) -> bool:
    """Tell whether a value is the result of an operator that gives no number below 0 and no -0, or a mean of such."""
    node = view.maker(name)
    if node is None or depth > 6:
        return False

    def is_so(each: str) -> bool:
        array = view.array(each)
        return is_never_negative(each, view, depth + 1) if array is None else bool((array > 0).all())

    first, second = [*node.input, "", ""][:2]  # the node may be broken
    match node.op_type:
        case "ReduceMean" | "ReduceSum" | "Identity":
            return is_never_negative(first, view, depth + 1)
        case "Pow":
            exponent = view.array(second)
            is_even = exponent is not None and exponent.dtype.kind in "iuf" and (exponent % 2 == 0).all()
            return bool(is_even) or is_never_negative(first, view, depth + 1)
        case "Add":
            return all(map(is_so, node.input))
        case "Max":
            return any(is_so(each) for each in node.input if view.array(each) is not None)
        case "Mul":
            return bool(first == second)
    return node.op_type in _NOT_NEGATIVE


_of_pow = partial(Rule, "Pow(x, e)")

EXPAND_POW = (
    _of_pow("power", (expandable,), since=1, says="{words}"),
    _of_pow("ConstantOfShape(Shape(x), value=one)", (of_zero,), since=9, says="x^0 becomes ones"),
)
_OFF = "off by some |Y * Log(X)| units in the last place"
_BY_LOGARITHMS = "Pow(x, e) becomes Exp(Mul(e, Log(x)))"
POW_BY_LOGARITHMS = (
    _of_pow("power", (partial(expandable, most=1024),), since=1, says="{words}"),
    *EXPAND_POW[1:],
    _of_pow("Exp(Mul(y, logarithm))", (of_floats, logarithm), _OFF, None, says=_BY_LOGARITHMS),
)
_OF_INTEGERS = (
    lambda match: all("int" in match.type(name) for name in ("x", "e")),
    partial(expandable, most=MOST_OF_INTEGERS),
)
POW_OF_INTEGERS = (_of_pow("power", _OF_INTEGERS, since=1, says="{words}, and wraps around as it did"),)
"""For opsets whose Pow takes no integers."""

FOLD_POW = (
    Rule("Mul(x, x)", "Pow(x, 2)", (foldable,)),
    Rule("Sqrt(x)", "Pow(x, 0.5)", (foldable, lambda match: is_never_negative(match["x"], match.view))),
    Rule("Reciprocal(x)", "Pow(x, -1)", (foldable,)),
)


def why_pow_stays(node: NodeProto, edit: Editor, *, is_exact: bool = True) -> None:
    """Give a notice about a Pow to which no rule applies."""
    kind = edit.value(node.input[0]).type
    why = "no products, roots and reciprocals give this power"
    if kind is None:
        why = "the type of its base is not known"
    elif is_exact and "float" in kind:
        why += "; --pow logarithms computes it approximately"
    edit.note("stays unchanged", why, is_notice=True)


# --- norms ----------------------------------------------------------------------------------------

_LAYER = "LayerNormalization", 17, "(deviation := Sub(x, (m := ReduceMean(x, ...))))"
_RMS = "RMSNormalization", 23, "x"
"""The operators that norms become, with the first opsets that have them, and the base of their squares."""


def normalizes(match: Match) -> Answer:
    """The means are over the same last dims, which they keep; epsilon is a number, and the type not float64."""
    axes, *others = [_axes(name, match) for name in ("v", "m") if name in match.bound]
    epsilon = match.array("epsilon")
    # The operators compute in float32, which holds their epsilon, too.
    if match.type("x") == "float64" or epsilon is None or epsilon.size != 1:
        return False
    if not axes or axes != [*range(-len(axes), 0)] or others not in ([], [axes]):
        return False
    dims = match.shape("x")
    return {"axis": axes[0], "number": float(epsilon.item()), "dims": dims and dims[axes[0] :]}


def scaled(match: Match) -> Answer:
    """Scale and bias are constants of the dims that are normalized. Without them, the sizes of these are known."""
    dims, names = match.bound["dims"], [name for name in ("scale", "bias") if name in match.bound]
    if names:
        return all(match.array(name) is not None and match.shape(name) == dims for name in names)
    is_known = dims is not None and all(isinstance(dim, int) for dim in dims)
    return is_known and {"scale": np.ones(dims, dtype_named(match.type("x")))}


def _axes(name: str, match: Match) -> list[int] | None:
    """Return the axes of a ReduceMean, counted from the last; None if it loses its dims, or they are not known."""
    mean, rank = match.maker(name), len(match.shape("x") or ())
    attributes = attributes_of(mean)
    axes = np.asarray(attributes.get("axes") if len(mean.input) < 2 else match.view.array(mean.input[1]))
    if axes.ndim != 1 or not attributes.get("keepdims", 1):
        return None
    return sorted(int(axis) - rank if axis >= 0 else int(axis) for axis in axes)


_NORM_PARTS = {
    "square": "Pow(base, 2) | Mul(base, base)",
    "inverse": "Reciprocal(root) | Div(1, root) | Pow(shifted, -0.5)",
    "root": "Sqrt(shifted)",
    "shifted": "Add((v := ReduceMean(square, ...)), epsilon)",
    "norm": "Div(base, root) | Mul(base, inverse)",
}
FUSE = tuple(
    Rule(
        form,
        f"{operator}(x, scale{bias}, axis=axis, epsilon=number)",
        (normalizes, scaled),
        "it computes in float32 and rounds otherwise",
        None,
        since,
        parts={**_NORM_PARTS, "base": base},
        says=f"a norm becomes {operator}",
    )
    for (operator, since, base), form, bias in (
        (_LAYER, "Add(Mul(norm, scale), bias)", ", bias"),
        *((row, form, "") for row in (_LAYER, _RMS) for form in ("Mul(norm, scale)", "norm")),
    )
)


def deviates(match: Match) -> Answer:
    """Both means are over the same dims, which they keep, and X minus its mean is computed elsewhere, too."""

    def dims(node: NodeProto) -> object:
        axes = [match.view.array(name) for name in node.input[1:]]
        return [np.asarray(each).tolist() for each in axes], [*node.attribute]

    of_squares, of_x, x, m = match.maker("v"), match.maker("m"), match["x"], match["m"]
    if [of_x.op_type, *of_x.input[:1]] != ["ReduceMean", x]:
        return False
    readers = (each for each in match.view.readers[m] if (each.op_type, *each.input) == ("Sub", x, m))
    deviation = next(readers, None)
    attributes = attributes_of(of_squares)
    if deviation is None or dims(of_x) != dims(of_squares) or not attributes.get("keepdims", 1):
        return False
    return {"d": (parse("Sub(x, m)"), deviation), "attributes": attributes}


VARIANCES = tuple(
    Rule(
        f"Sub((v := ReduceMean(Pow(x, 2) | Mul(x, x){axes})), Pow(m, 2) | Mul(m, m))",
        f"ReduceMean(Mul(d, d){axes}, **attributes)",
        (deviates,),
        "other roundings, and never a negative number",
        None,
        since=1,
        says="its variance, E[x^2] - E[x]^2, is computed of the deviations, E[(x - E[x])^2]",
    )
    for axes in ("", ", axes")
)
"""A difference of two squares is as large as their rounding errors, and may be negative: the norm is then NaN."""


def fuse_norms(walk: Walk, _: str) -> str | None:
    """Replace norms by equivalent single operators, and variances by those of deviations."""
    if rewrite(walk, VARIANCES) + rewrite(walk, FUSE):
        return None
    said = "no norm in it is exactly one operator of its opset"
    newer = [replace(rule, since=1) for rule in FUSE]
    names = {match.rule.becomes.partition("(")[0] for match in found(walk.scopes(), newer)}
    since = {name: opset for name, opset, _ in (_LAYER, _RMS) if name in names}
    return f"{said}; --opset {max(since.values())} has {', '.join(since)}" if since else said
