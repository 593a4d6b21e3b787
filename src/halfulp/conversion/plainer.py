"""Operators in plainer ones than the onnx package has: ONNX Runtime's own, Erf, Expand, LayerNormalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import FunctionProto, NodeProto, numpy_helper

from halfulp.conversion.editor import Editor, NoExactForm
from halfulp.models.graph import Value
from halfulp.models.onnx.walk import attributes_of, plain_domain
from halfulp.models.run.inputs import dtype_named
from halfulp.types import TYPES

ROUNDS = "a kernel that a runtime has for it may round otherwise"

OF_RUNTIME = {
    "BiasGelu": (20, "x bias"),
    "FastGelu": (20, "x bias"),
    "FusedMatMul": (13, "x scale"),
    "QuickGelu": (13, "x"),
    "SimplifiedLayerNormalization": (23, "x scale"),
    "SkipLayerNormalization": (17, "x skip scale shift bias"),
    "SkipSimplifiedLayerNormalization": (23, "x skip scale bias"),
}
"""ONNX Runtime's own operators that those of ONNX can express, with the opset that has these, and their inputs."""

_RUNTIMES_DOMAIN = "com.microsoft"

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

_MOST_ONES = 1 << 24  # elements
_BROADCASTING = {
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "PRelu"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"),
}


def is_of_runtime(node: NodeProto) -> bool:
    """Return whether a node is one of ONNX Runtime's own that :func:`by_onnx` writes, or its Gelu, which is ONNX's."""
    is_theirs = node.domain == _RUNTIMES_DOMAIN and node.op_type in {*OF_RUNTIME, "Gelu"}
    return is_theirs or (not plain_domain(node.domain) and node.op_type in OF_RUNTIME)


def by_onnx(node: NodeProto, edit: Editor) -> None:
    """Add the operators of ONNX that one of ONNX Runtime's own stands for; raise NoExactForm if they lack a result."""
    operands = dict(zip(OF_RUNTIME[node.op_type][1].split(), node.input, strict=False))
    given = {"alpha": 1.702 if node.op_type == "QuickGelu" else 1.0, **attributes_of(node)}
    is_gelu = node.op_type.endswith("Gelu")
    is_whole = operands.get("x") and node.output and node.output[0] and (operands.get("scale") or is_gelu)
    if not is_whole or not all(isinstance(given.get(name, 0.0), float) for name in ("alpha", "epsilon")):
        raise NoExactForm("it lacks an operand or its output, or an attribute is no float")
    made, total, output = len(edit.nodes), operands["x"], node.output[0]
    if node.op_type == "FusedMatMul":
        _product(node, given, edit)
        edit.note(f"becomes {', '.join(each.op_type for each in edit.nodes[made:])}", ROUNDS)
        return
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
        alpha = np.array(given["alpha"], dtype_named(edit.type_of(total)))
        scaled = edit.add("Mul", [total, edit.constant(alpha, "alpha")], value)
        edit.add("Mul", [total, edit.add("Sigmoid", [scaled], value)], output=output, like=node)
    elif is_gelu:
        form = "tanh" if node.op_type == "FastGelu" else "none"
        edit.add("Gelu", [total], output=output, like=node, approximate=form)
    else:
        scales = [operands[name] for name in ("scale", "shift") if operands.get(name)]
        kind = "RMSNormalization" if "Simplified" in node.op_type else "LayerNormalization"
        epsilon = given.get("epsilon", 1e-12 if terms else 1e-5)
        axis = given.get("axis", -1)
        edit.add(kind, [total, *scales], output=output, like=node, axis=axis, epsilon=epsilon)
    edit.note(f"becomes {', '.join(each.op_type for each in edit.nodes[made:])}", ROUNDS)


def _product(node: NodeProto, given: dict[str, Any], edit: Editor) -> None:
    """Add a FusedMatMul's transpositions, its factor, by which the first matrix is multiplied, and its product."""
    if given.get("transBatchA") or given.get("transBatchB"):
        raise NoExactForm("it moves the batch's dims behind those of the matrices")
    matrices = list(node.input)
    for index, name in enumerate(node.input):
        value = edit.value(name)
        if not given.get(f"trans{'AB'[index]}") or len(value.shape or (0, 0)) == 1:
            continue
        if value.shape is None:
            raise NoExactForm(f"the rank of its input {name!r}, which it transposes, is not known")
        *batch, rows, columns = range(len(value.shape))
        turned = Value("", value.type, (*value.shape[:-2], value.shape[-1], value.shape[-2]))
        matrices[index] = edit.add("Transpose", [name], turned, perm=[*batch, columns, rows])
    if given["alpha"] != 1:
        factor = edit.constant(np.array(given["alpha"], dtype_named(edit.type_of(matrices[0]))), "alpha")
        matrices[0] = edit.add("Mul", [matrices[0], factor], edit.value(matrices[0]))
    name, kind = node.output[0], edit.value(matrices[0]).type
    edit.value_info.types.setdefault(name, Value(name, kind, None))
    edit.add("MatMul", matrices, output=name, like=node)


def along_own_dims(body: FunctionProto, axis: int, rank: int | None) -> None:
    """Write the onnx package's body of LayerNormalization without its matrices: no shape is computed.

    The body's Flatten of a scale is wrong for one that broadcasts.
    """
    axes = [*range(axis if axis < 0 else axis - (rank or 0), 0)]
    if not axes or (axis >= 0 and rank is None):
        return
    renamed = {each.output[0]: each.input[0] for each in body.node if each.op_type == "Flatten"}
    for each in reversed(body.node):
        if each.op_type in ("Reshape", "Identity"):  # the last ones, of its results
            renamed[each.input[0]] = renamed.get(each.output[0], each.output[0])
    nodes = [each for each in body.node if each.op_type not in ("Flatten", "Reshape", "Identity")]
    along = next(
        (each.input[1] for each in nodes if each.op_type == "ReduceMean" and len(each.input) > 1), None
    )
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.name == "axes":
                attribute.ints[:] = axes
            elif along and along in node.output:
                attribute.t.CopyFrom(numpy_helper.from_array(np.array(axes, np.int64)))
    nodes = [NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del body.node[:]
    body.node.extend(nodes)


def without_expand(node: NodeProto, edit: Editor) -> None:
    """Leave out an Expand whose readers broadcast by themselves; write another one as a product with ones."""
    (name, shape), result = node.input, node.output[0]
    maker = edit.maker(shape)
    is_shape = maker is not None and maker.op_type == "Shape" and not maker.attribute
    measured = maker.input[0] if maker is not None and is_shape else ""
    known = [edit.value(each).shape for each in (result, measured)]
    known = [dims for dims in known if dims is not None and None not in dims]

    def broadcasts(reader: NodeProto) -> bool:
        others = [each for each in reader.input[: 1 if reader.op_type == "PRelu" else None] if each != result]
        fits = (each == measured or edit.value(each).shape in known for each in others)
        return reader.op_type in _BROADCASTING and any(fits)

    readers = [each for each in edit.owner.node if result in each.input]
    reads = sum(each == result for reader in readers for each in reader.input)
    if reads == edit.reads[result] and all(map(broadcasts, readers)):
        for reader in readers:
            reader.input[:] = [name if each == result else each for each in reader.input]
        edit.note("is left out: the nodes that read it broadcast by themselves")
    else:
        value, sizes = edit.value(name), edit.array(shape)
        is_known = sizes is not None and value.shape is not None and value.type in TYPES
        wanted = sizes.tolist() if sizes is not None and is_known else []
        own = ((1,) * len(wanted) + (value.shape or ()))[-len(wanted) :] if wanted else ()
        dims = [1 if dim == size else size for dim, size in zip(own, wanted, strict=True)]
        if not is_known or not 0 <= min(dims, default=1) <= math.prod(dims) <= _MOST_ONES:
            raise NoExactForm(
                "not each node that reads it broadcasts, and its shape is not a constant, or its type no number"
            )
        factor = edit.constant(np.ones(dims, dtype_named(value.type or "")), "ones")
        edit.note("becomes a product with ones")
        edit.add("Mul", [name, factor], output=result, like=node)
    todo = [shape]
    while todo:
        unread = todo.pop()
        edit.reads[unread] -= 1
        maker = edit.maker(unread)
        if maker is not None and not any(edit.reads[each] for each in maker.output):
            edit.drop(maker)
            todo += maker.input
