"""Powers with constant exponents, and PRelu, in operators that every runtime has; and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import frexp
from typing import Any, NamedTuple, get_args

import numpy as np
import onnx
from onnx import NodeProto

from halfulp.conversion.editor import (
    WRAPS,
    Change,
    Editor,
    NoExactForm,
    Recipe,
    follow,
    is_one,
    legacy_form,
    recipe,
    remade,
)
from halfulp.conversion.opset import finish, opset_of
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, did_you_mean
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.walk import attributes_of, plain_domain
from halfulp.models.run.inputs import dtype_named
from halfulp.options import How, HowPow
from halfulp.specs import in_force
from halfulp.specs.broadcast import UNIDIRECTIONAL

_MOST = 16  # larger exponents are not expanded into products
_MOST_APPROXIMATELY = 1024  # by --pow logarithms
_WORDS = {"Mul": "products", "Sqrt": "Sqrt", "Reciprocal": "Reciprocal"}
_FOLDED = {"Mul": 2, "Sqrt": 0.5, "Reciprocal": -1}
_NOT_NEGATIVE = ("Abs", "Exp", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softplus")
"""Operators whose results are never below 0, nor -0."""

_OLDEST_WHERE = 9
_SIGN_OF_NAN = "a product that is a NaN may have another sign bit"
_SUMS = "a zero may have another sign"
_UNKNOWN_RANK = 1 << 6
_DEEPEST = 6  # products and negations in a form of PRelu
_NOT_FINITE = "a slope that is infinite or NaN {} NaN where X is not negative"


def spelled(walk: Walk, how: How | HowPow, operator: str) -> list[Change]:
    """Expand a model's Pow or PRelu nodes into other operators, or fold these; return the changes.

    Args:
        walk: through the model.
        how: ``expand``: into operators that every runtime has. ``logarithms``: and each other Pow of floats into Exp
            and Log. ``fold``: back, from the forms that converters write.
        operator: ``Pow`` or ``PRelu``.

    Raises:
        UnsupportedError: a PRelu of a type that is not known.
    """
    allowed = get_args(HowPow if operator == "Pow" else How)
    if how not in allowed:
        raise HalfulpError(f"no way {how!s:.80} to write {operator}; {did_you_mean(str(how), allowed)}")
    opset_of(walk.model, walk.file)
    expand = expand_pow if operator == "Pow" else partial(expand_prelu, by_relu=how == "relu")
    kinds: tuple[str, ...] = (*_FORMS, "PRelu") if operator == "PRelu" else tuple(_FOLDED)
    rewrite = _fold_prelu if operator == "PRelu" else _fold_pow

    def expanded(node: NodeProto, edit: Editor) -> None:
        if expand(node, edit) or (how == "logarithms" and expand_by_logarithms(node, edit)):
            return
        kind = edit.value(node.input[0]).type
        why = "no products, roots and reciprocals give this power"
        if kind is None:
            why = "the type of its base is not known"
        elif how == "expand" and "float" in kind:
            why += "; --pow logarithms computes it approximately"
        edit.note("stays unchanged", why, is_notice=True)
        edit.keep(node)

    if how != "fold":
        kinds, rewrite = (operator,), expanded
    for owner, opset in walk.owners:
        if how != "fold" or opset >= 7:  # in older opsets, the operands' shapes must be equal
            walk.rewrite(owner, opset, lambda node: node.op_type in kinds, rewrite)
    return finish(walk)


# --- Pow ------------------------------------------------------------------------------------------


def expand_pow(node: NodeProto, edit: Editor, why: str = "", *, most: int = _MOST) -> bool:
    """Add nodes that compute a power with a constant exponent, at most ``most``; tell whether such a form exists."""
    value, exponent = edit.value(node.input[0]), exponent_of(node, edit)
    is_int = "int" in (value.type or "")
    least = 1 if value.type is None else 0 if is_int else -most
    parts = 4 if least < 0 else 1  # an integer has no root
    if exponent is None or not least <= exponent <= most or not (parts * exponent).is_integer():
        return False
    steps = recipe(exponent)
    kinds = [op_type for op_type, _ in steps]
    becomes, differs = " and ".join(dict.fromkeys(_WORDS[kind] for kind in kinds)) or "Identity", []
    ulps = 0.0  # that a result can be off: an error of X counts Y times
    if exponent == 0:
        becomes = "ones"
        _ones(node, value, edit)
    else:
        follow(steps, node, edit)
        _drop_alone(node.input[1], edit)
        if len(steps) > 1 and not is_int:
            what = "products" if set(kinds) == {"Mul"} else "operations"
            ulps = abs(exponent) + len(steps)
            differs.append(f"each of its {len(steps)} {what} is rounded")
        elif len(steps) and is_int and "float" in (edit.value(node.input[1]).type or ""):
            differs.append(f"a power that {value.type} does not hold {WRAPS}")
        differs += _at_special(exponent, steps)
    what = f"x^{exponent or 0:g} becomes {becomes}{why and f': {why}'}"
    edit.note(what, "; ".join(differs) or None, ulps=ulps)
    return True


def _at_special(exponent: float, steps: Recipe) -> list[str]:
    """Say where a recipe differs from the power at zeros and infinities."""
    x = np.array([-0.0, -np.inf, 0.0, np.inf])
    values = [x]
    compute = {"Mul": np.multiply, "Sqrt": np.sqrt, "Reciprocal": np.reciprocal}
    with np.errstate(all="ignore"):
        for op_type, operands in steps:
            values.append(compute[op_type](*(values[each] for each in operands)))
    right = np.where(np.isinf(x) == (exponent > 0), np.inf, 0.0)
    if exponent % 2 == 1:
        right = np.copysign(right, x)
    return [
        f"at {at:g} it gives {got:g}, the power {want:g}"
        for at, got, want in zip(x, values[-1], right, strict=True)
        if f"{got:g}" != f"{want:g}"
    ]


def expand_by_logarithms(node: NodeProto, edit: Editor) -> bool:
    """Add ``Exp(Y * Log(X))`` for a power of floats, or many products; tell whether it has such a form."""
    if expand_pow(node, edit, most=_MOST_APPROXIMATELY):  # of a negative base, too
        return True
    x, y = (edit.value(name) for name in node.input)
    base, exponent = map(edit.array, node.input)
    if x.type is None or y.type is None or "float" not in x.type or edit.opset < 7:
        return False
    second, kind = node.input[1], dtype_named(x.type)
    if base is None:
        logarithm = edit.add("Log", [node.input[0]], x)
    elif (base > 0).all():
        logarithm = edit.constant(np.log(base.astype(float)).astype(kind), "logarithm")
    else:
        return False
    if exponent is not None:
        second = edit.constant(exponent.astype(float).astype(kind), "exponent")
    elif y.type != x.type:
        second = edit.cast(second, x.type)
    product = edit.add("Mul", [second, logarithm], Value("", x.type, edit.value(node.output[0]).shape))
    edit.add("Exp", [product], output=node.output[0], like=node)
    differs = "off by some |Y * Log(X)| units in the last place"
    if base is None:
        differs += "; NaN where X is below 0" + ("; NaN for 0^0 and inf^0" if exponent is None else "")
    edit.note("becomes Exp(Y * Log(X))", differs)
    return True


def exponent_of(node: NodeProto, edit: Editor) -> float | None:
    """Return the exponent of a Pow if one constant is that of all elements, and leaves X's shape; None otherwise."""
    x, result = (edit.value(name).shape for name in (node.input[0], node.output[0]))
    array, maker = edit.array(node.input[1]), edit.maker(node.input[1])
    rank = 0 if array is None else array.ndim
    if array is None and maker is not None and maker.op_type == "Expand":
        array, rank = edit.array(maker.input[0]), _UNKNOWN_RANK
    elif array is None and maker is not None and maker.op_type == "ConstantOfShape":
        array = next((onnx.numpy_helper.to_array(each.t) for each in maker.attribute), np.zeros(1))
        rank = _UNKNOWN_RANK
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    keeps_shape = array.size == 1 and rank <= len(x or ())
    is_same = x is not None and None not in x and x == result
    return float(array.flat[0]) if keeps_shape or is_same else None


def _drop_alone(name: str, edit: Editor) -> None:
    """Drop the nodes that make a value which only the replaced node reads."""
    todo = [name]
    while todo:
        name = todo.pop()
        maker = edit.maker(name)
        if maker is not None and len(maker.output) == 1 and edit.reads[name] == 1:
            edit.drop(maker)
            todo += maker.input


def _ones(node: NodeProto, value: Value, edit: Editor) -> None:
    """Add ones of X's shape."""
    if edit.opset < 9:
        raise NoExactForm("x^0 becomes ConstantOfShape, which came with opset 9")
    shape = edit.add("Shape", [node.input[0]])
    one = onnx.numpy_helper.from_array(np.ones(1, dtype_named(str(value.type))))
    edit.add("ConstantOfShape", [shape], output=node.output[0], like=node, value=one)


def _fold_pow(node: NodeProto, edit: Editor) -> None:
    """Add a Pow if it has the same bits as the node; add any other node unchanged."""
    kind = edit.value(node.input[0]).type
    is_power = (
        node.op_type == "Reciprocal"
        or (node.op_type == "Mul" and node.input[0] == node.input[1])
        or (node.op_type == "Sqrt" and is_never_negative(node.input[0], edit.maker, edit.array))
    )
    kinds = ["float16", "float32", "float64"]
    if edit.opset >= 12:
        kinds += ["int32", "int64"]
    if not is_power or kind not in kinds:
        return edit.keep(node)
    exponent = _FOLDED[node.op_type]
    made: Array = np.array(exponent).astype(dtype_named(kind))
    edit.note(f"becomes x^{exponent:g}")
    edit.add("Pow", [node.input[0], edit.constant(made, "exponent")], output=node.output[0], like=node)
    return None


def is_never_negative(
    name: str,
    maker_of: Callable[[str], NodeProto | None],
    array: Callable[[str], Array | None],
    depth: int = 0,
) -> bool:
    """Tell whether a value is the result of an operator that gives no number below 0 and no -0, or a mean of such.

    ``maker_of`` and ``array`` return the node that makes a value, and the array of a constant.
    """
    maker = maker_of(name)
    while maker is not None and maker.op_type in ("ReduceMean", "ReduceSum", "Identity"):
        maker = maker_of(maker.input[0])
    if maker is None or depth > _DEEPEST:
        return False
    if maker.op_type == "Pow":
        exponent = array(maker.input[1])
        if exponent is not None and exponent.dtype.kind in "iuf" and (exponent % 2 == 0).all():
            return True
        return is_never_negative(maker.input[0], maker_of, array, depth + 1)
    held = [(each, array(each)) for each in maker.input if maker.op_type in ("Add", "Max")]
    positive = [each for each, value in held if value is not None and bool((value > 0).all())]
    if maker.op_type == "Max" and positive:
        return True
    if maker.op_type == "Add":
        return all(
            each in positive or is_never_negative(each, maker_of, array, depth + 1) for each, _ in held
        )
    return maker.op_type in _NOT_NEGATIVE or (maker.op_type == "Mul" and maker.input[0] == maker.input[1])


# --- PRelu ----------------------------------------------------------------------------------------


def expand_prelu(node: NodeProto, edit: Editor, why: str = "", *, by_relu: bool = False) -> bool:
    """Add nodes that compute a PRelu: ``Where(Less(X, 0), Mul(slope, X), X)``, or, before opset 9, a sum.

    ``by_relu``: that sum in newer opsets, too.
    """
    x, slope = node.input[0], _stored(node.input[1], edit)
    value = edit.value(x)
    kind = value.type or edit.type_of(slope)  # the two have one type
    reason = why and f": {why}"
    if kind.startswith("uint"):
        edit.note(f"{kind} is never below 0: X is the result")
        edit.add("Identity", [x], output=node.output[0], like=node)
        return True
    if edit.opset < _OLDEST_WHERE or (by_relu and "float" in kind):
        kept, differs = edit.array(slope), _SUMS
        if kept is None or not np.isfinite(kept).all():
            differs += "; " + _NOT_FINITE.format("gives")
        edit.note(f"becomes Relu(X) + slope * -Relu(-X){reason}", differs, ulps=0)
        below = edit.add("Neg", [edit.add("Relu", [edit.add("Neg", [x], value)], value)], value)
        attributes: dict[str, Any] = {}
        rank, shape = len(value.shape or ()), edit.value(slope).shape
        if edit.opset >= 7 and rank > 2 and shape is not None and len(shape) == 1 and shape != (1,):
            slope = edit.unsqueeze(slope, range(rank - 1))  # OpenVINO makes a PReLU per channel of rank 1
        if edit.opset < 7:
            held = edit.value(slope)
            if len(value.shape or ()) > 1 and len(held.shape or ()) == 1 and not is_one(held):
                attributes = {"axis": 1, "broadcast": 1}  # one for each channel
            else:
                below, slope, attributes = legacy_form(below, slope, edit)
        product = edit.add("Mul", [below, slope], value, **attributes)
        edit.add("Add", [edit.add("Relu", [x], value), product], output=node.output[0], like=node)
        return True
    edit.note(f"becomes its function body{reason}", None if "int" in kind else _SIGN_OF_NAN, ulps=0)
    zero = edit.constant(np.zeros((), dtype_named(kind)), "zero")
    less = edit.add("Less", [x, zero], Value("", "bool", value.shape))
    product = edit.add("Mul", [slope, x], value)
    edit.add("Where", [less, product, x], output=node.output[0], like=node)
    return True


class _Found(NamedTuple):
    """A PRelu in another form: its operands, the nodes before the last one, and how the form can differ from it."""

    x: str
    slope: str
    nodes: list[NodeProto]
    form: str
    differs: str | None = _SIGN_OF_NAN


def _fold_prelu(node: NodeProto, edit: Editor) -> None:
    """Add a PRelu if the node ends one of the forms that converters write; add any other node unchanged."""
    if node.op_type == "PRelu":
        return edit.keep(remade(node, [node.input[0], _stored(node.input[1], edit)]))
    added = len(edit.nodes)
    found = _FORMS[node.op_type](node, edit)
    if found is None or not _fits(found.x, found.slope, edit):
        del edit.nodes[added:]
        if found is not None and edit.value(found.x).shape is None:
            why = "the rank of X is not known, and a PRelu takes no slope of more dims; declare it in value_info"
            edit.note(f"stays {found.form}: {why}", is_notice=True)
        return edit.keep(node)
    edit.drop(*found.nodes)
    is_int = "int" in (edit.value(found.x).type or "")
    edit.note(f"{found.form} becomes PRelu", None if is_int else found.differs, ulps=2)
    edit.add("PRelu", [found.x, found.slope], output=node.output[0], like=node)
    return None


def _stored(slope: str, edit: Editor) -> str:
    """Return a constant for a slope that nodes compute of constants, which some importers do not do."""
    maker, array = edit.maker(slope), edit.array(slope)
    if maker is None or maker.op_type in ("Constant", "DequantizeLinear") or array is None:
        return slope
    edit.note("the slope, computed of constants, is stored as one")
    _drop_alone(slope, edit)
    edit.reads[slope] -= 1  # so that the last of several readers drops the nodes
    return edit.constant(array, "slope")


def _maker(name: str, edit: Editor, *op_types: str) -> NodeProto | None:
    """Return the ONNX node that makes a value, if it has one reader and one of these operators."""
    node = edit.maker(name)
    is_wanted = node is not None and node.op_type in op_types and not plain_domain(node.domain)
    return node if is_wanted and edit.reads[name] <= 1 else None


def _is_zero(name: str, x: str, edit: Editor) -> bool:
    """Tell whether a value is a constant 0 that leaves X's shape unchanged when broadcast."""
    like = edit.maker(name)
    if like is not None and like.op_type == "CastLike":
        name = like.input[0]
    array, shape = edit.array(name), edit.value(x).shape
    return array is not None and array.size == 1 and array.ndim <= len(shape or ()) and not array.any()


def _beside_zero(node: NodeProto, edit: Editor) -> str | None:
    """Return the other operand of a node with two operands, one of which is 0."""
    a, b = node.input
    return a if _is_zero(b, a, edit) else b if _is_zero(a, b, edit) else None


def _factor(product: NodeProto, x: str) -> str | None:
    """Return the factor of X in a product."""
    a, b = product.input
    return a if b == x else b if a == x else None


def _of_where(node: NodeProto, edit: Editor) -> _Found | None:
    """``Where(X < 0, slope * X, X)``, and with the other three comparisons."""
    negation = _maker(node.input[0], edit, "Not")
    compared = _maker(node.input[0] if negation is None else negation.input[0], edit, *_COMPARISONS)
    x = None if compared is None else _beside_zero(compared, edit)
    if compared is None or x is None:
        return None
    sign = _COMPARISONS[compared.op_type]
    if x == compared.input[1]:
        sign = sign.translate(_TURNED)
    if negation is not None:
        sign = sign[0].translate(_TURNED) + ("" if "=" in sign else "=")
    below, other = node.input[1:] if sign[0] == "<" else node.input[:0:-1]
    product = _maker(below, edit, "Mul")
    slope = None if product is None or other != x else _factor(product, x)
    if product is None or slope is None:
        return None
    zero = _maker(compared.input[x == compared.input[0]], edit, "CastLike")
    nodes = [each for each in (negation, compared, product, zero) if each is not None]
    form = f"Where(X {sign} 0, ...)"
    if sign in ("<", ">="):
        return _Found(x, slope, nodes, f"{form}, PRelu's function body," if sign == "<" else form)
    held = edit.array(slope)
    if held is not None and np.isfinite(held).all() and not np.signbit(held).any():
        return _Found(x, slope, nodes, form)  # if X is a zero, the product is that zero
    return _unless_infinite(_Found(x, slope, nodes, form, _SUMS), edit)


def _of_sum(node: NodeProto, edit: Editor) -> _Found | None:
    """``Relu(X)`` and a product of X's negative part: ``+ slope * min(X, 0)``, ``- slope * Relu(-X)`` ..."""
    for above, name in (node.input, node.input[::-1])[: 1 if node.op_type == "Sub" else 2]:
        relu, below = _part(above, edit), _part(name, edit)
        if relu is None or below is None or (relu.is_negative, relu.factors) != (False, []):
            continue
        below.scale *= -1 if node.op_type == "Sub" else 1
        slope = below.slope(edit) if below.is_negative and below.x == relu.x else None
        if slope is not None:
            signs = "-" if node.op_type == "Sub" else "+"
            form = f"Relu(X) {signs} {below.form}"
            found = _Found(relu.x, slope, relu.nodes + below.nodes, form, _SUMS)
            return _unless_infinite(found, edit, below.differs)
    return None


def _unless_infinite(found: _Found, edit: Editor, more: str = "") -> _Found | None:
    """Return a form; None if a slope is infinite. For an unknown slope, a note tells of NaN."""
    held = edit.array(found.slope)
    if held is None:
        more = f"; {_NOT_FINITE.format('gave')}{more}"
    elif not np.isfinite(held).all():
        return None
    return found._replace(differs=f"{found.differs}{more}")


@dataclass
class _Part:
    """A multiple of max(X, 0) or of min(X, 0): ``scale`` and ``factors`` times it."""

    x: str
    is_negative: bool
    scale: float
    form: str
    nodes: list[NodeProto]
    factors: list[str] = field(default_factory=list)
    differs: str = ""

    def slope(self, edit: Editor) -> str | None:
        """Return scale and factors as one value, if that needs no rounding."""
        scale, rest = self.scale, list[str]()
        for name in self.factors:
            array = edit.array(name)
            if array is not None and array.size == 1 and abs(frexp(array.item())[0]) == 0.5:
                scale *= array.item()
                self.nodes += filter(None, [_maker(name, edit, "Neg")])
            else:
                rest.append(name)
        kind = edit.value(self.x).type
        if len(rest) > 1 or kind is None:
            return None
        held = edit.array(rest[0]) if rest else np.ones((), dtype_named(kind))
        if rest and scale == 1:
            return rest[0]
        if held is None:
            return edit.add("Neg", rest, edit.value(rest[0])) if scale == -1 else None
        self.nodes += filter(None, [_maker(rest[0], edit, "Neg") if rest else None])
        with np.errstate(all="ignore"):
            made = (held * held.dtype.type(scale)).astype(held.dtype)
            is_exact = bool((made / held.dtype.type(scale) == held).all())
        return edit.constant(made, "slope") if is_exact else None


def _part(name: str, edit: Editor, depth: int = 0) -> _Part | None:
    """Return a value as a multiple of X's positive or negative part; None if it is not such a multiple."""
    node = _maker(name, edit, "Relu", "Max", "Min", "Sub", "Neg", "Mul")
    if node is None or depth > _DEEPEST:
        return None
    if node.op_type in ("Neg", "Mul"):
        for inner, factors in [(node.input[0], node.input[1:]), (node.input[-1], node.input[:-1])]:
            part = _part(inner, edit, depth + 1)
            if part is not None:
                part.scale *= -1 if node.op_type == "Neg" else 1
                part.factors += factors
                part.nodes.append(node)
                if node.op_type == "Mul" and "slope" not in part.form:
                    part.form = f"slope * {part.form}"
                return part
        return None
    x, kind = node.input[0], node.op_type
    if kind in ("Max", "Min"):
        beside = _beside_zero(node, edit) if len(node.input) == 2 else None
        if beside is None:
            return None
        x = beside
    if kind == "Min":
        return _Part(x, True, 1, "min(X, 0)", [node])
    if kind == "Sub":
        absolute = _maker(node.input[1], edit, "Abs")
        if absolute is None or absolute.input[0] != x:
            return None
        differs = "; X = inf gave NaN, and a product near the limits of the type was rounded twice"
        return _Part(x, True, 2, "(X - |X|) / 2", [absolute, node], differs=differs)
    negated = _maker(x, edit, "Neg")
    if negated is not None:
        return _Part(negated.input[0], True, -1, "Relu(-X)", [negated, node])
    return _Part(x, False, 1, "Relu(X)", [node])


def _of_max(node: NodeProto, edit: Editor) -> _Found | None:
    """``Max(X, slope * X)`` with slopes from 0 to 1."""
    for x, name in (node.input, node.input[::-1]) if len(node.input) == 2 else ():
        product = _maker(name, edit, "Mul")
        slope = None if product is None else _factor(product, x)
        held = None if slope is None else edit.array(slope)
        if product is None or slope is None or held is None or not ((held >= 0) & (held <= 1)).all():
            continue
        differs = "; at +inf a slope of 0 gave NaN" if not held.all() else ""
        return _Found(x, slope, [product], "Max(X, slope * X)", _SIGN_OF_NAN + differs)
    return None


def _of_leaky_relu(node: NodeProto, edit: Editor) -> _Found | None:
    kind = edit.value(node.input[0]).type
    if kind is None:
        return None
    alpha = np.float32(attributes_of(node).get("alpha", 0.01))
    slope = np.array(alpha.astype(dtype_named(kind)))
    differs = _SIGN_OF_NAN + (f"; alpha is rounded to {kind}" if float(slope) != float(alpha) else "")
    return _Found(node.input[0], edit.constant(slope, "slope"), [], "LeakyRelu", differs)


_COMPARISONS = {"Less": "<", "LessOrEqual": "<=", "Greater": ">", "GreaterOrEqual": ">="}
_TURNED = str.maketrans("<>", "><")
_FORMS: dict[str, Callable[[NodeProto, Editor], _Found | None]] = {
    "Where": _of_where,
    "Add": _of_sum,
    "Sub": _of_sum,
    "Max": _of_max,
    "LeakyRelu": _of_leaky_relu,
}
"""The functions that recognise a form of PRelu, by the form's last operator."""


def _fits(x: str, slope: str, edit: Editor) -> bool:
    """Tell whether a PRelu of this opset takes these two operands for all sizes of their unknown dims."""
    a, b = edit.value(x), edit.value(slope)
    if a.type not in in_force("onnx", "PRelu", edit.opset).type_variables["T"] or b.shape is None:
        return False
    if a.shape is None:
        return b.shape == ()
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return UNIDIRECTIONAL.fits(a.shape, b.shape) and all(
        dim == 1 or dim == own is not None for own, dim in pairs
    )
