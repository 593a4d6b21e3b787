"""Operators that the onnx package has no function body of, in plainer ones: ONNX Runtime's own, Erf, Expand."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Editor, NoExactForm
from halfulp.models.graph import Value
from halfulp.models.onnx.walk import attributes_of
from halfulp.models.run.inputs import dtype_named
from halfulp.types import TYPES

ROUNDS = "a kernel that a runtime has for it may round otherwise"

OF_RUNTIME = {
    "BiasGelu": (20, "x bias"),
    "FastGelu": (20, "x bias"),
    "QuickGelu": (13, "x"),
    "SimplifiedLayerNormalization": (23, "x scale"),
    "SkipLayerNormalization": (17, "x skip scale shift bias"),
    "SkipSimplifiedLayerNormalization": (23, "x skip scale bias"),
}
"""ONNX Runtime's own operators that those of ONNX can express, with the opset that has these, and their inputs."""

_NUMBERS = {"one": 1.0, "most": 6.0, "least": -6.0, "tiny": 1e-7, "p": 0.3275911}
_FACTORS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_CONSTANTS = "  ".join(
    f"{name}f = Constant<value_float = {value}>()  {name} = CastLike({name}f, x)"
    for name, value in [*_NUMBERS.items(), *((f"a{i}", value) for i, value in enumerate(_FACTORS, 1))]
)
ERF = f"""<opset_import: ["" : 18], domain: ""> Erf (x) => (y) {{ {_CONSTANTS}
    c = Clip(x, least, most)  a = Abs(c)  d = Mul(a, p)  e = Add(d, one)  t = Reciprocal(e)
    r5 = Mul(t, a5)  s4 = Add(r5, a4)  r4 = Mul(t, s4)  s3 = Add(r4, a3)  r3 = Mul(t, s3)  s2 = Add(r3, a2)
    r2 = Mul(t, s2)  s1 = Add(r2, a1)  r1 = Mul(t, s1)  q = Mul(c, c)  m = Neg(q)  g = Exp(m)  u = Mul(r1, g)
    v = Sub(one, u)  b = Max(a, tiny)  s = Div(c, b)  y = Mul(s, v) }}"""
"""Abramowitz and Stegun, 7.1.26: at most 1.5e-7 away, without the roundings. c / max(|c|, tiny) is the sign."""

_BROADCASTING = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"),
}


def by_onnx(node: NodeProto, edit: Editor) -> None:
    """Add the operators of ONNX that one of ONNX Runtime's own stands for; raise NoExactForm if they lack a result."""
    operands = dict(zip(OF_RUNTIME[node.op_type][1].split(), node.input, strict=False))
    given, made, total, output = attributes_of(node), len(edit.nodes), operands["x"], node.output[0]
    if any(node.output[1:3]):
        raise NoExactForm("its outputs 1 and 2, a mean and a deviation, have no form of ONNX's own")
    kinds = (edit.value(name).type for name in node.input)  # shape inference does not know its result
    value = Value("", next(filter(None, kinds), None), edit.value(total).shape)
    edit.value_info.types.setdefault(output, Value(output, value.type, value.shape))
    terms = [operands[name] for name in ("skip", "bias") if operands.get(name)]
    for place, term in enumerate(terms, 1):
        total = edit.add(
            "Add", [total, term], value, output="".join(node.output[3:]) if place == len(terms) else ""
        )
    if node.op_type == "QuickGelu":
        alpha = np.array(given.get("alpha", 1.702), dtype_named(edit.type_of(total)))
        scaled = edit.add("Mul", [total, edit.constant(alpha, "alpha")], value)
        edit.add("Mul", [total, edit.add("Sigmoid", [scaled], value)], output=output, like=node)
    elif node.op_type.endswith("Gelu"):
        form = "tanh" if node.op_type == "FastGelu" else "none"
        edit.add("Gelu", [total], output=output, like=node, approximate=form)
    else:
        scales = [operands[name] for name in ("scale", "shift") if operands.get(name)]
        kind = "RMSNormalization" if "Simplified" in node.op_type else "LayerNormalization"
        epsilon = given.get("epsilon", 1e-12 if terms else 1e-5)
        axis = given.get("axis", -1)
        edit.add(kind, [total, *scales], output=output, like=node, axis=axis, epsilon=epsilon)
    edit.note(f"becomes {', '.join(each.op_type for each in edit.nodes[made:])}", ROUNDS)


def without_expand(node: NodeProto, edit: Editor) -> None:
    """Leave out an Expand whose readers broadcast by themselves; write another one as a product with ones."""
    (name, shape), result = node.input, node.output[0]
    known, maker = edit.value(result).shape, edit.maker(shape)
    measured = maker.input[0] if maker is not None and maker.op_type == "Shape" else None

    def broadcasts(reader: NodeProto) -> bool:
        others = [each for each in reader.input[: 1 if reader.op_type == "PRelu" else None] if each != result]
        is_known = known is not None and None not in known
        return reader.op_type in _BROADCASTING and any(
            each == measured or (is_known and edit.value(each).shape == known) for each in others
        )

    readers = [each for each in edit.owner.node if result in each.input]
    reads = sum(each == result for reader in readers for each in reader.input)
    if reads == edit.reads[result] and all(map(broadcasts, readers)):
        for reader in readers:
            reader.input[:] = [name if each == result else each for each in reader.input]
        edit.note("is left out: the nodes that read it broadcast by themselves")
        todo = [shape]
        while todo:
            unread = todo.pop()
            edit.reads[unread] -= 1
            maker = edit.maker(unread)
            if maker is not None and not any(edit.reads[each] for each in maker.output):
                edit.drop(maker)
                todo += maker.input
        return
    value, sizes = edit.value(name), edit.array(shape)
    if sizes is None or value.shape is None or value.type not in TYPES:
        raise NoExactForm("its shape is not a constant, and not each node that reads it broadcasts")
    own = ((1,) * sizes.size + value.shape)[-sizes.size :] if sizes.size else ()
    ones = np.ones([1 if dim == size else size for dim, size in zip(own, sizes, strict=True)])
    factor = edit.constant(ones.astype(dtype_named(value.type)), "ones")
    edit.note("becomes a product with ones")
    edit.add("Mul", [name, factor], output=result, like=node)
