"""Pow with a constant exponent in products, roots and reciprocals, and back; other powers by logarithms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from halfulp.conversion.editor import WRAPS, Editor
from halfulp.conversion.rules import DIFFERS, ULPS, Answer, Check, Match, Rule, Term, node_of, parse
from halfulp.models.run.inputs import dtype_named

_MOST = 16  # larger exponents are not expanded into products
_MOST_APPROXIMATELY = 1024  # by --pow logarithms
MOST_OF_INTEGERS = 64  # where the opset has no Pow for them
_WORDS = {"Mul": "products", "Sqrt": "Sqrt", "Reciprocal": "Reciprocal"}
_UFUNCS = {"Mul": np.multiply, "Sqrt": np.sqrt, "Reciprocal": np.reciprocal}
_NOT_NEGATIVE = ("Abs", "Exp", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softplus")
"""Operators whose results are never below 0, nor -0."""

_UNKNOWN_RANK = 1 << 6
_DEEPEST = 6


_Operation = Callable[..., Any]


def in_products(exponent: float, x: Any, operation: _Operation) -> Any:
    """Return the power of x to a multiple of 1/4: products of squares and of square roots.

    ``operation`` makes a value of an operator and operands, as ``("Mul", x, x)``.
    """
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
    result = factors[0] if factors else base
    for factor in factors[1:]:
        result = operation("Mul", result, factor)
    return operation("Reciprocal", result) if -1 < exponent < 0 else result


def one_exponent(match: Match) -> float | None:
    """Return the exponent if one constant is that of all elements, and leaves X's shape; None otherwise."""
    x, result = match.shape("x"), match.view.value(match.root.output[0]).shape
    array, maker = match.array("e"), match.maker("e")
    rank = 0 if array is None else array.ndim
    if array is None and maker is not None and maker.op_type == "Expand":
        array, rank = match.view.array(maker.input[0]), _UNKNOWN_RANK
    elif array is None and maker is not None and maker.op_type == "ConstantOfShape":
        array = next((onnx.numpy_helper.to_array(each.t) for each in maker.attribute), np.zeros(1))
        rank = _UNKNOWN_RANK
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    keeps_shape = array.size == 1 and rank <= len(x or ())
    is_same = x is not None and None not in x and x == result
    return float(array.flat[0]) if keeps_shape or is_same else None


def expandable(match: Match, most: int = _MOST) -> Answer:
    """The exponent is a multiple of 1/4, of integers and unknown types a whole number; the largest is ``most``."""
    exponent, kind = one_exponent(match), match.type("x")
    is_int = "int" in kind
    least = 1 if not kind else 0 if is_int else -most
    if exponent is None or not least <= exponent <= most or exponent == 0:
        return None
    if not (exponent if least >= 0 else 4 * exponent).is_integer():  # an integer has no root
        return None
    power, operators, at_special = _expansion(exponent)
    words = " and ".join(dict.fromkeys(_WORDS[each] for each in operators)) or "Identity"
    differs: list[str] = []
    ulps = 0.0  # that a result can be off: an error of X counts Y times
    if len(operators) > 1 and not is_int:
        ulps = abs(exponent) + len(operators)
        differs.append(
            f"each of its {len(operators)} {'products' if words == 'products' else 'operations'} is rounded"
        )
    elif operators and is_int and "float" in match.type("e"):
        differs.append(f"a power that {kind} does not hold {WRAPS}")
    differs += at_special
    answer = {"power": power, "words": f"x^{exponent:g} becomes {words}", ULPS: ulps}
    return answer | ({DIFFERS: "; ".join(differs)} if differs else {})


@cache
def _expansion(exponent: float) -> tuple[Term, list[str], list[str]]:
    """Return a power in products, their operators, and how they differ from it: at zeros and infinities."""
    operators: list[str] = []

    def noted(op_type: str, *operands: Term) -> Term:
        operators.append(op_type)
        return node_of(op_type, *operands)

    power = in_products(exponent, parse("x"), noted)
    x = np.array([-0.0, -np.inf, 0.0, np.inf])
    with np.errstate(all="ignore"):
        results = in_products(exponent, x, lambda op_type, *operands: _UFUNCS[op_type](*operands))
    right = np.where(np.isinf(x) == (exponent > 0), np.inf, 0.0)
    if exponent % 2 == 1:
        right = np.copysign(right, x)
    told = (tuple(f"{each:g}" for each in row) for row in zip(x, results, right, strict=True))
    return power, operators, [f"at {at} it gives {a}, the power {b}" for at, a, b in told if a != b]


def of_zero(match: Match) -> Answer:
    """The exponent is 0, and the type is known."""
    kind = match.type("x")
    if not kind or one_exponent(match) != 0:
        return None
    return {"one": onnx.numpy_helper.from_array(np.ones(1, dtype_named(kind)))}


def of_floats(match: Match) -> Answer:
    """X is a float; an exponent of another type is stored in X's type, or cast to it."""
    kind, exponent_kind, exponent = match.type("x"), match.type("e"), match.array("e")
    if "float" not in kind or not exponent_kind:
        return None
    if exponent is not None:
        return {"y": exponent.astype(float).astype(dtype_named(kind))}
    return {"y": match["e"] if exponent_kind == kind else parse("Cast(e, to=kind)"), "kind": kind}


def logarithm(match: Match) -> Answer:
    """That of a constant, of numbers above 0, is stored; of another X, the change says where it is NaN."""
    base = match.array("x")
    if base is None:
        nans = "; NaN for 0^0 and inf^0" if match.array("e") is None else ""
        return {"logarithm": parse("Log(x)"), DIFFERS: f"NaN where X is below 0{nans}"}
    held = np.log(base.astype(float)) if (base > 0).all() else None
    return None if held is None else {"logarithm": np.asarray(held, dtype_named(match.type("x")))}


def of_integers(match: Match) -> Answer:
    """X and the exponent are integers."""
    return {} if all("int" in match.type(name) for name in ("x", "e")) else None


def foldable(match: Match) -> Answer:
    """Pow of this opset takes the type."""
    kinds = ("float16", "float32", "float64", *(("int32", "int64") if match.view.opset >= 12 else ()))
    return {} if match.type("x") in kinds else None


def not_negative(match: Match) -> Answer:
    """X is never below 0, nor -0."""
    return {} if is_never_negative(match["x"], match.view) else None


def is_never_negative(name: str, view: Editor, depth: int = 0) -> bool:
    """Tell whether a value is the result of an operator that gives no number below 0 and no -0, or a mean of such."""
    node = view.maker(name)
    if node is None or depth > _DEEPEST:
        return False

    def is_so(each: str) -> bool:
        array = view.array(each)
        return is_never_negative(each, view, depth + 1) if array is None else bool((array > 0).all())

    match node.op_type:
        case "ReduceMean" | "ReduceSum" | "Identity":
            return is_never_negative(node.input[0], view, depth + 1)
        case "Pow":
            exponent = view.array(node.input[1])
            is_even = exponent is not None and exponent.dtype.kind in "iuf" and (exponent % 2 == 0).all()
            return bool(is_even) or is_never_negative(node.input[0], view, depth + 1)
        case "Add":
            return all(map(is_so, node.input))
        case "Max":
            return any(is_so(each) for each in node.input if view.array(each) is not None)
        case "Mul":
            return bool(node.input[0] == node.input[1])
    return node.op_type in _NOT_NEGATIVE


def _of_pow(becomes: str, *checks: Check, **more: Any) -> Rule:
    return Rule("Pow(x, e)", becomes, checks, **more)


EXPAND = (
    _of_pow("power", expandable, since=1, says="{words}"),
    _of_pow("ConstantOfShape(Shape(x), value=one)", of_zero, since=9, says="x^0 becomes ones"),
)
LOGARITHMS = (
    _of_pow("power", partial(expandable, most=_MOST_APPROXIMATELY), since=1, says="{words}"),
    *EXPAND[1:],
    _of_pow(
        "Exp(Mul(y, logarithm))",
        of_floats,
        logarithm,
        differs="off by some |Y * Log(X)| units in the last place",
        ulps=None,
        says="Pow(x, e) becomes Exp(Mul(e, Log(x)))",
    ),
)
_WRAPS = "{words}, and wraps around as it did"
PRODUCTS = (_of_pow("power", of_integers, partial(expandable, most=MOST_OF_INTEGERS), since=1, says=_WRAPS),)
"""For opsets whose Pow takes no integers."""

FOLD = (
    Rule("Mul(x, x)", "Pow(x, 2)", (foldable,)),
    Rule("Sqrt(x)", "Pow(x, 0.5)", (foldable, not_negative)),
    Rule("Reciprocal(x)", "Pow(x, -1)", (foldable,)),
)


def why_it_stays(node: NodeProto, edit: Editor, *, is_exact: bool = True) -> None:
    """Give a notice about a Pow to which no rule applies."""
    kind = edit.value(node.input[0]).type
    why = "no products, roots and reciprocals give this power"
    if kind is None:
        why = "the type of its base is not known"
    elif is_exact and "float" in kind:
        why += "; --pow logarithms computes it approximately"
    edit.note("stays unchanged", why, is_notice=True)
