"""Operators other than Pow and PRelu, from one opset to the next.

If the operator's specification differs only in its types, the node is kept unchanged. Any other node is
converted by the onnx package's version converter, alone, in a model of its own: converting a whole model
would lose functions, metadata and everything else that the converter's representation lacks. The last resort
is the operator's function body in the onnx package.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from halfulp.conversion import plainer
from halfulp.conversion.editor import Editor, NoExactForm, inherit, remade
from halfulp.errors import printable
from halfulp.models.graph import Value
from halfulp.models.onnx.checks import port_at, ports, schema_in_force
from halfulp.models.onnx.infer import ValueInfo, inferred
from halfulp.models.onnx.inline import inlined, rename
from halfulp.models.onnx.tensors import TensorReader, declaration, declared, enum_of
from halfulp.models.onnx.walk import Owner, attributes_of, every_node, plain_domain, read_names, subgraphs
from halfulp.types import FLOATS

_MOVERS = ("CastLike", "CenterCropPad", "GreaterOrEqual", "LessOrEqual", "SequenceMap")
"""Operators whose function bodies round nothing, or round as their kernels do."""

_LP_NORMS = {1: "a = Abs(x)  n = ReduceSum(a, axes)", 2: "q = Mul(x, x)  s = ReduceSum(q, axes)  n = Sqrt(s)"}
_LP_NORMALIZATION = """<opset_import: ["" : 18], domain: ""> LpNormalization <axis> (x) => (y) {
    axis = Constant<value_int: int = @axis>()  last = Constant<value_ints = [-1]>()  axes = Reshape(axis, last) %s
    zero = Constant<value_float = 0.0>()  none = CastLike(zero, x)  is_more = Less(none, n)  is_zero = Not(is_more)
    one = CastLike(is_zero, x)  length = Add(n, one)  y = Div(x, length) }"""
"""The onnx package has no body of this one. A vector of zeros is divided by 1."""

_SMALL = 4096  # the elements of a constant that the converter may want to look at
_IR_VERSION = 8
_CONVERTER: Any = onnx.version_converter.C  # type: ignore[attr-defined]

# Operators whose later specification only adds types, or attributes whose defaults mean the older behaviour,
# and describes the rest more fully, such as crossing bounds or an empty set.
_REWORDED = {
    (name, since)
    for since, names in {
        6: "PRelu",
        9: "PRelu",
        10: "AveragePool MaxPool",
        11: "Loop LpPool MaxUnpool",
        12: "ArgMax ArgMin GatherND Pow",
        13: (
            "Abs ArgMax ArgMin Cast Ceil Clip DepthToSpace Floor Gather GatherElements GatherND Gemm "
            "Loop LRN MeanVarianceNormalization Mod NegativeLogLikelihoodLoss ReduceL1 ReduceL2 "
            "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare "
            "Pad Pow Slice SoftmaxCrossEntropyLoss"
        ),
        15: "BatchNormalization Pow",
        16: "Loop PRelu",
        18: "LpPool",
        19: "DequantizeLinear QuantizeLinear",
        21: "DequantizeLinear QuantizeLinear",
    }.items()
    for name in names.split()
}

_FLOAT32_HOLDS = {None, "float32", "float16", "bfloat16", "int16", "int8", "uint16", "uint8"}
"""The types whose values, and those not known, a function body may cast to float32."""

_VERSION_NOTE = re.compile(r"\(Opset \d+ change\): Extend supported types[^.]*\.")


def stays(node: NodeProto, opset: int, edit: Editor) -> bool:
    """Add a node unchanged if its operator's specification is the same in ``edit.opset``; tell whether it is."""
    if not says_the_same(node.op_type, opset, edit.opset):
        return False
    if edit.opset < opset:
        check_types(node, edit)
    edit.keep(node)
    return True


@lru_cache(maxsize=4096)
def changes(op_type: str, opset: int, to: int) -> bool:
    """Tell whether an operator has another version in the next opset. A runtime's own operator has none."""
    old, new = schema_in_force("", op_type, opset), schema_in_force("", op_type, to)
    return old is not None and (new is None or old.since_version != new.since_version)


@lru_cache(maxsize=4096)
def says_the_same(op_type: str, opset: int, to: int) -> bool:
    old, new = (schema_in_force("", op_type, version) for version in (opset, to))
    if old is None or new is None or old.deprecated or new.deprecated:
        return False
    return (op_type, max(opset, to)) in _REWORDED or (
        _signature(op_type, opset) == _signature(op_type, to)
        and _words(old.doc) == _words(new.doc)
        # A description may allow a negative axis, say.
        and all(
            _words(a.description) == _words(new.attributes[name].description)
            for name, a in old.attributes.items()
        )
    )


def trimmed(node: NodeProto, opset: int, to: int) -> NodeProto:
    """Return a node without the attributes that its operator does not have in another opset, if they are defaults."""
    useless = []
    for attribute in node.attribute:
        defaults = _defaults(node.op_type, opset)
        is_gone = attribute.name in defaults and attribute.name not in _defaults(node.op_type, to)
        if is_gone and not attribute.ref_attr_name and _is_default(attribute, defaults[attribute.name]):
            useless.append(attribute.name)
    return remade(node, drop=useless) if useless else node


def _is_default(attribute: AttributeProto, default: object) -> bool:
    value = onnx.helper.get_attribute_value(attribute)
    if default is None and attribute.name == "dilations":  # the schemas say this in words
        return set(value) <= {1}
    return bool(default is not None and value == default)


def check_attributes(node: NodeProto, opset: int) -> None:
    """Raise NoExactForm where a node has an attribute that its operator does not have in an opset."""
    for attribute in node.attribute:
        if attribute.name not in _defaults(node.op_type, opset) and not plain_domain(node.domain):
            raise NoExactForm(f"{node.op_type} has no attribute {attribute.name} in opset {opset}")


@lru_cache(maxsize=4096)
def _defaults(op_type: str, opset: int) -> Mapping[str, object]:
    """Return the default of each attribute of an operator, None where the schema has none."""
    schema = schema_in_force("", op_type, opset)
    return {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        if attribute.default_value.name
        else None
        for name, attribute in (schema.attributes if schema is not None else {}).items()
    }


@lru_cache(maxsize=4096)
def _signature(op_type: str, opset: int) -> object:
    schema = schema_in_force("", op_type, opset)
    assert schema is not None
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    order: dict[str, int] = {}  # type variables by position, because their names change

    def port(formal: onnx.defs.OpSchema.FormalParameter) -> object:
        kind = formal.type_str
        place = str(order.setdefault(kind, len(order))) if kind in variables else kind
        return place, formal.option, formal.is_homogeneous, formal.min_arity

    attributes = {
        name: (attribute.type, attribute.required, attribute.default_value.SerializeToString())
        for name, attribute in schema.attributes.items()
    }
    return [*map(port, schema.inputs)], [*map(port, schema.outputs)], attributes


def _words(text: str | None) -> list[str]:
    return _VERSION_NOTE.sub("", text or "").split()


def check_types(node: NodeProto, edit: Editor) -> None:
    """Raise NoExactForm where a node has a type that its operator does not take in ``edit.opset``, below its own."""
    here, newer = ports(node.op_type, edit.opset), ports(node.op_type, edit.opset + 1)
    assert here is not None
    assert newer is not None
    equal: dict[str, set[str | None]] = defaultdict(set)
    for names, formals in ((node.input, here.inputs), (node.output, here.outputs)):
        for index, name in enumerate(names):
            formal = port_at(formals, index)
            if not name or formal.type_str not in here.allowed:
                continue
            allowed, value, spelled = here.allowed[formal.type_str], edit.value(name), None
            alike = [port for port in (*newer.inputs, *newer.outputs) if port.name == formal.name]
            fits = all(allowed >= newer.allowed.get(port.type_str, frozenset()) for port in alike)
            if value.kind not in ("tensor", "undeclared"):
                spelled, fits = f"{value.kind}(...)", any(kind.startswith(value.kind) for kind in allowed)
            elif value.kind == "tensor" and value.type is not None:
                spelled = f"tensor({TensorProto.DataType.Name(enum_of(value.type)).lower()})"
                fits = spelled in allowed
            if formal.is_homogeneous:
                equal[formal.type_str].add(spelled)
            if not fits and spelled is not None:
                raise NoExactForm(f"{node.op_type} takes no {spelled} in opset {edit.opset}")
            if not fits:
                raise NoExactForm(
                    f"{node.op_type} takes fewer types in opset {edit.opset}, and that of {name!r} is not known"
                )
    if _signature(node.op_type, edit.opset) == _signature(node.op_type, edit.opset + 1):
        return
    for kinds in equal.values():
        if len(kinds) > 1:
            told = ", ".join(sorted(kind or "a type that is not known" for kind in kinds))
            raise NoExactForm(f"{node.op_type} takes operands of one type in opset {edit.opset}, not {told}")


# --- through the onnx package ---------------------------------------------------------------------


def through_onnx(node: NodeProto, opset: int, edit: Editor) -> None:
    alone = _model_of(node, opset, edit)
    graph = ModelProto.FromString(_converted(node.op_type, alone.SerializeToString(), edit.opset)).graph
    _splice(graph, node, edit.opset, edit, Editor.keep)
    if made := [new.op_type for new in graph.node if new.op_type not in (node.op_type, "Constant")]:
        edit.note(
            f"by the onnx package's converter, to opset {edit.opset}: {', '.join(made)} beside {node.op_type}"
        )
    elif len(graph.node[0].input) != len(node.input) or _names(graph.node[0]) != _names(node):
        edit.note(f"by the onnx package's converter, from opset {opset} to {edit.opset}")


@lru_cache
def bodies() -> dict[str, list[int]]:
    """Return the opsets from which on the onnx package has function bodies of operators, by their names."""
    found = defaultdict[str, set[int]](set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not plain_domain(schema.domain):
            each: Any = schema  # the package's stubs lack attributes
            found[each.name].update(
                each.function_opset_versions, each.context_dependent_function_opset_versions
            )
    for name, version in (("LpNormalization", 18), ("Erf", 18), ("Expand", 8)):
        found[name].add(version)
    for name, (version, _) in plainer.OF_RUNTIME.items():
        found[name].add(version)
    return {name: sorted(versions) for name, versions in found.items() if versions}


def by_body(node: NodeProto, opset: int, edit: Editor, move: Callable[[Editor, NodeProto], None]) -> bool:
    """Add the onnx package's function body of a node's operator; tell whether there is one.

    ``move`` adds a node of ``opset`` in the form that it has in ``edit.opset``, or raises NoExactForm.
    """
    schema: Any = schema_in_force("", node.op_type, opset)  # the package's stubs lack attributes
    by_types = set(schema.context_dependent_function_opset_versions)
    version = max((v for v in bodies().get(node.op_type, ()) if v <= opset), default=None)
    if version is None:
        return False
    alone = _model_of(node, opset, edit)
    (call,) = alone.graph.node
    defaults = (each.default_value for name, each in schema.attributes.items() if name not in _names(call))
    call.attribute.extend([default for default in defaults if default.name])
    types = (_info(name, name, edit).type if name else TypeProto() for name in node.input)
    kinds = [kind.SerializeToString() for kind in types]
    data = b""
    try:
        if version in by_types:
            data = schema.get_context_dependent_function_with_opset_version(
                version, call.SerializeToString(), kinds
            )
        elif version in schema.function_opset_versions:
            data = schema.get_function_with_opset_version(version)
    except ValueError:  # of types that it does not look at
        return False
    function = FunctionProto.FromString(data)
    if node.op_type == "LpNormalization":
        p = attributes_of(call)["p"]
        if p not in _LP_NORMS:
            return False
        function = onnx.parser.parse_function(_LP_NORMALIZATION % _LP_NORMS[p])
    if node.op_type == "Erf" and edit.value(node.input[0]).type in FLOATS:
        function = onnx.parser.parse_function(plainer.ERF)
    axis = attributes_of(call).get("axis")
    if node.op_type == "LayerNormalization" and isinstance(axis, int):
        shape = edit.value(node.input[0]).shape
        plainer.along_own_dims(function, axis, None if shape is None else len(shape))
    if node.op_type == "RMSNormalization":  # its last Cast is to X's type, and Y has that of the scale
        last = function.node[-2]
        last.CopyFrom(onnx.helper.make_node("CastLike", [last.input[0], function.input[1]], last.output))
    if node.op_type in ("Range", "ReduceL2") and edit.value(node.input[0]).type not in _FLOAT32_HOLDS:
        for each in function.node:
            for attribute in each.attribute:
                if each.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                    attribute.i = TensorProto.DOUBLE
    list(deviations_first(function))
    inner = [each for outer in function.node for _, graph in subgraphs(outer) for each in every_node(graph)]
    if (
        not function.node
        or any(changes(n.op_type, v, v + 1) for n in every_node(function) for v in range(version, opset))
        or any(changes(each.op_type, opset, edit.opset) for each in inner)  # these are not converted
    ):
        return False
    call.domain = function.domain = "halfulp.body"
    function.opset_import[0].version = opset
    alone.opset_import.append(onnx.helper.make_opsetid(call.domain, 1))
    alone.functions.append(function)
    what = f"becomes the function body of {node.op_type}, which came with opset {opset}"
    differs = plainer.ROUNDS
    if node.op_type == "Erf":
        what, differs = "is approximated by Exp", "off by some 5e-7, or the roundings of a shorter type"
    edit.note(what, None if node.op_type in _MOVERS else differs)
    edit.start(node, None)  # changes to the body's own nodes are not reported
    body = inlined(alone, node.op_type).graph
    _fold(body, opset)
    _splice(body, node, opset, edit, move)
    return True


def deviations_first(owner: Owner, known: ValueInfo | None = None) -> Iterable[NodeProto]:
    """Write each variance ``E[x^2] - E[x]^2`` as ``E[(x - E[x])^2]``; yield its last node before that.

    Such a difference is as large as the rounding errors of the squares, and may be negative: the norm is then NaN.
    Without ``known``, the constants of the owner, equal ones have one name, and exponents are 2.
    """

    def value(name: str) -> object:
        array = None if known is None else known.array(name)
        return name if array is None else array.ravel().tolist()

    def rest(node: NodeProto) -> object:
        return [*map(value, node.input[1:])], [*node.attribute]

    nodes, none, is_changed = [*owner.node], NodeProto(), False
    makers, reads = {name: each for each in nodes for name in each.output}, Counter(read_names(owner))
    differences = [each for each in nodes if each.op_type == "Sub"]
    by_operands = {tuple(each.input): each for each in reversed(differences)}
    for node in differences:
        mean, second = (makers.get(name, none) for name in node.input)
        square = makers.get(mean.input[0], none) if mean.op_type == "ReduceMean" else none
        operands = [*square.input[:1], *second.input[:1]]
        of_x = makers.get(operands[-1], none) if len(operands) == 2 else none
        if [*of_x.input[:1]] != operands[:1] or of_x.op_type != "ReduceMean" or rest(of_x) != rest(mean):
            continue
        is_product = all(each.op_type == "Mul" and len({*each.input}) == 1 for each in (square, second))
        is_power = square.op_type == second.op_type == "Pow" and rest(square) == rest(second)
        if is_power and known is not None:
            is_power = value(square.input[1]) == [2]
        deviation = by_operands.get(tuple(operands))
        is_read = any(reads[each.output[0]] > 1 for each in (square, mean, second))
        if is_read or deviation is None or not (is_product or is_power):
            continue
        yield node
        places = {id(each): place for place, each in enumerate(nodes)}
        at = places[id(node)]
        moved = [deviation] if places[id(deviation)] > at else []
        square.input[:] = [deviation.output[0] if name == operands[0] else name for name in square.input]
        mean.output[0] = node.output[0]
        makers[node.output[0]], is_changed = mean, True
        left_out = {id(each) for each in (*moved, square, mean, second, node)}
        before, after = ([n for n in part if id(n) not in left_out] for part in (nodes[:at], nodes[at:]))
        nodes = [*before, *moved, square, mean, *after]
    if is_changed:
        copies = [NodeProto.FromString(each.SerializeToString()) for each in nodes]
        del owner.node[:]
        owner.node.extend(copies)


def _fold(graph: GraphProto, opset: int) -> None:
    """Store the results of constants and known shapes instead of their nodes, and leave out casts that do nothing.

    Small runtimes lack some of these.
    """
    if any(map(subgraphs, graph.node)):
        return
    types = {info.name: declared(info, "") for info in (*graph.input, *graph.output)}
    types |= _types_of(graph, opset)
    known = ValueInfo(types, TensorReader("", None))
    known.add_constants(graph)
    read = {info.name for info in graph.output}
    made = {name for node in graph.node for name in node.output}
    for node in [each for each in graph.node if each.op_type in ("Cast", "CastLike")]:
        node.CopyFrom(known.as_cast(node))
        kept, gone = node.input[0], node.output[0]
        is_same = known.value(kept).type is not None and known.value(kept).type == known.value(gone).type
        if is_same and (gone not in read or kept in made):
            kept, gone = (gone, kept) if gone in read else (kept, gone)
            graph.node.remove(node)
            for each in graph.node:
                each.input[:] = [kept if name == gone else name for name in each.input]
                each.output[:] = [kept if name == gone else name for name in each.output]
    for node in reversed([*graph.node]):
        held = known.tensor(node.output[0]) if node.op_type != "Constant" and len(node.output) == 1 else None
        if held is not None:
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=held))
        if read.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            read.update(node.input)


def _splice(
    graph: GraphProto, node: NodeProto, opset: int, edit: Editor, add: Callable[[Editor, NodeProto], None]
) -> None:
    """Add the nodes of the graph of a model of the node alone, under names of the node's graph."""
    original = {f"i{index}": name for index, name in enumerate(node.input) if name}
    original |= {f"o{index}": name for index, name in enumerate(node.output) if name}
    bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    types = _types_of(graph, opset)
    for tensor in graph.initializer:
        if tensor.name not in original:
            original[tensor.name] = edit.constant_tensor(tensor, "constant")
    kinds = [new.op_type for new in graph.node]
    heir = kinds.index(node.op_type) if node.op_type in kinds else len(kinds) - 1
    for place, new in enumerate(graph.node):
        for name in filter(None, new.output):
            if name not in original:
                original[name] = edit.new_name(new.op_type.lower())
                edit.value_info.types[original[name]] = types.get(name, Value(name))
        new.input[:] = [name and original[name] for name in new.input]
        new.output[:] = [name and original[name] for name in new.output]
        new.ClearField("name")
        if place == heir:
            inherit(new, node)
        for attribute in new.attribute:
            if attribute.name in bodies:
                attribute.g.CopyFrom(bodies[attribute.name])
            elif attribute.type == AttributeProto.GRAPH:
                rename(attribute.g, {**original, "": ""}, edit.new_name("body") + "/")
        add(edit, new)


def _names(node: NodeProto) -> set[str]:
    return {attribute.name for attribute in node.attribute}


def _model_of(node: NodeProto, opset: int, edit: Editor) -> ModelProto:
    """Return a model of the node alone, under names that don't depend on its own."""
    alone = deepcopy(node)
    alone.ClearField("name"), alone.ClearField("doc_string"), alone.ClearField("domain")
    del alone.metadata_props[:]
    graph = GraphProto(name="alone")
    short: dict[str, str] = {}
    for index, name in enumerate(node.input):
        if not name:
            continue
        alone.input[index] = short.setdefault(name, f"i{index}")
        if short[name] != f"i{index}":
            continue
        tensor = edit.tensor(name, or_default=True)
        is_small = tensor is not None and math.prod(tensor.dims) <= _SMALL
        if is_small and (array := edit.array(name, or_default=True)) is not None:
            graph.initializer.append(onnx.numpy_helper.from_array(array, short[name]))
        else:
            graph.input.append(_info(short[name], name, edit))
    for index, name in enumerate(node.output):
        if name:
            alone.output[index] = f"o{index}"
            graph.output.append(_info(f"o{index}", name, edit))
    for attribute in alone.attribute:
        if attribute.type == AttributeProto.GRAPH:
            attribute.g.CopyFrom(GraphProto(name="body"))  # put back afterwards
    graph.node.append(alone)
    return onnx.helper.make_model(
        graph, ir_version=_IR_VERSION, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )


@lru_cache(maxsize=1024)
def _converted(op_type: str, model: bytes, to: int) -> bytes:
    """Return the model in another opset; cached, because setting up the converter takes longer than the conversion."""
    try:
        return bytes(_CONVERTER.convert_version(model, to))
    except (RuntimeError, ValueError, _CONVERTER.ConvertError, onnx.shape_inference.InferenceError) as error:
        text = " ".join(str(error).split())
        if "No Adapter" in text or "No Previous Version" in text:
            raise NoExactForm(f"the onnx package does not convert {op_type} to opset {to}") from None
        reason = text.rpartition("failed: ")[2] or text
        raise NoExactForm(
            f"the onnx package does not convert {op_type} to opset {to}: {printable(reason)}"
        ) from None


def _types_of(graph: GraphProto, opset: int) -> dict[str, Value]:
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return {info.name: declared(info, "") for info in inferred(model).graph.value_info}


def _info(short: str, name: str, edit: Editor) -> onnx.ValueInfoProto:
    value = edit.value(name)
    return declaration(short, value.type if value.kind == "tensor" else None, value.shape)
