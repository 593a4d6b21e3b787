"""A whole ONNX model from one opset to another, a step at a time, node by node.

Everything that no step touches is kept byte for byte: names, doc strings, metadata, functions, subgraphs,
opset imports of other domains, references to external data.

If an operator's specification differs only in its types, its nodes are kept unchanged. A node without a step in
``steps.py`` is converted by the onnx package's version converter, alone, in a model of its own: converting a whole
model would lose functions, metadata and everything else that the converter's representation lacks. The last resort
is the operator's function body in the onnx package.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.conversion.editor import Change, Editor, NoExactForm, inherit, remade
from halfulp.conversion.passes import OLDEST_IR, refuse, run_passes
from halfulp.conversion.rules import rewrite
from halfulp.conversion.spellings import VARIANCES
from halfulp.conversion.steps import STEPS
from halfulp.conversion.walk import Owner, Walk, Wanted, drop_unreached
from halfulp.errors import HalfulpError, UnsupportedError, did_you_mean, printable
from halfulp.models.graph import Value
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import port_at, ports, schema_in_force, version_of
from halfulp.models.onnx.inline import inlined, rename
from halfulp.models.onnx.tensors import declaration, enum_of
from halfulp.models.onnx.walk import attributes_of, default_opset, every_node, identity, owners_of, subgraphs

NEWEST = onnx.defs.onnx_opset_version()


def to_opset(walk: Walk, opset: int) -> None:
    """Convert a model to a version of ONNX's own operators."""
    if not 1 <= opset <= NEWEST:
        raise HalfulpError("no such opset", expected=f"1 to {NEWEST}", got=opset)
    if walk.proto.training_info:
        raise UnsupportedError(f"{walk.file}: has training information, which is not converted")
    before = opset_of(walk)
    for owner, own in owners_of(walk.proto):
        for version, nodes in late_nodes(owner, own).items():
            if version > opset:
                _through(walk, owner, version, own, _among(walk, nodes))
        _through(walk, owner, own, opset)
        _set_opset(walk.proto if isinstance(owner, GraphProto) else owner, opset)
    reached = max((int(where.removeprefix("opset ")) for _, where, _ in walk.refused.values()), default=0) + 1
    hint = f"; every node reaches --opset {reached}" if opset < reached < before else ""
    refuse(walk, f"opset {opset}", hint)


def expand_operators(walk: Walk, named: str) -> None:
    """Write the nodes of operators, named with commas between them, as function bodies of the onnx package."""
    functions = {identity(function) for function in walk.proto.functions}
    for name in dict.fromkeys(map(str.strip, named.split(","))):
        if name not in bodies():
            reason = "can't be written in other operators"
            raise HalfulpError(f"{name[:80]!r} {reason}; {did_you_mean(name, sorted(bodies()))}")
        before = len(walk.changes)
        for owner, opset in owners_of(walk.proto):
            nodes = [node for node in every_node(owner) if identity(node)[:2] == ("", name)]
            _expand(walk, owner, opset, name, [node for node in nodes if identity(node) not in functions])
        if len(walk.changes) == before:
            walk.changes.append(Change(walk.file, f"has no node {name}", is_notice=True))


def _expand(walk: Walk, owner: Owner, opset: int, name: str, nodes: list[NodeProto]) -> None:
    """Write nodes of an operator as its function body in the newest version up to an opset, or else the oldest.

    The nodes go to the opset of that version, and those of the body back.
    """
    version = max((v for v in bodies()[name] if v <= opset), default=bodies()[name][0])
    for node in nodes:
        walk.made.difference_update(node.output)  # those of an operator that was expanded before are told of
    wanted = _among(walk, nodes)

    def expand(node: NodeProto, edit: Editor) -> None:
        if not by_body(node, version, edit, Editor.keep):
            raise NoExactForm(f"{name} has no function body for these operands")

    _through(walk, owner, opset, version, wanted)
    walk.rewrite(lambda node: node.op_type == name and wanted(node), expand, "", (owner, version))
    _through(walk, owner, version, opset, wanted)
    hint = "" if version == opset else f"; the function body of {name} is that of opset {version}"
    if any("float16" in why for _, _, why in walk.refused.values()):
        hint += f"{':' if hint else ';'} first halfulp convert IN OUT --float32 all"
    refuse(walk, f"opset {opset}", hint)


def late_nodes(owner: Owner, opset: int) -> dict[int, list[NodeProto]]:
    """Return the nodes of operators that came after an opset, by the versions in which they are valid."""
    late = defaultdict[int, list[NodeProto]](list)
    for node in every_node(owner):
        if version := version_of(node, opset):
            late[version].append(node)
    return late


def _among(walk: Walk, nodes: list[NodeProto]) -> Wanted:
    """Return whether a node is one of these, or one that is made from now on."""
    names, before = {name for node in nodes for name in node.output if name}, set(walk.made)
    return lambda node: any(n in names or (n in walk.made and n not in before) for n in node.output)


def _through(walk: Walk, owner: Owner, before: int, after: int, wanted: Wanted | None = None) -> None:
    """Convert all nodes, or those that are wanted, from opset to opset."""
    by = 1 if after > before else -1
    for here in range(before, after, by):
        _step(walk, owner, here, here + by, wanted)


def inline(model: Onnx) -> list[Change]:
    """Inline a model's functions in place, converted to the model's opset, and return the changes."""
    proto = model.proto
    if not proto.functions:
        return []
    changes = drop_unreached(model)
    opsets = {version for f in proto.functions if (version := default_opset(f.opset_import)) is not None}
    if opsets and default_opset(proto.opset_import) is None:
        _set_opset(proto, max(opsets))
    if opsets - {default_opset(proto.opset_import)}:
        changes += run_passes(Walk(model), (to_opset, opset_of(model)))
    proto.CopyFrom(inlined(proto, model.file))
    return [*changes, Change(model.file, "its functions are inlined")]


def opset_of(model: Onnx) -> int:
    """Return the version that a model imports of ONNX's own operators; raise UnsupportedError if it imports none."""
    opset = default_opset(model.proto.opset_import)
    if opset is None and model.proto.ir_version >= OLDEST_IR:
        raise UnsupportedError(f"{model.file}: imports no operators of ONNX's own")
    return 1 if opset is None else opset


def _step(walk: Walk, owner: Owner, here: int, there: int, wanted: Wanted | None) -> None:
    """Convert the nodes whose operators differ between two opsets: all, or those that are wanted."""

    def rewrite(node: NodeProto, edit: Editor) -> None:
        made, short = len(edit.nodes), trimmed(node, here, edit)
        if wanted is not None and short is not node and schema_in_force("", node.op_type, there) is not None:
            edit.note(f"loses the attributes that it has only before opset {there}; they are defaults")
        node = _from_the_front(short, edit) if (here, there) == (11, 10) else short
        try:
            check_values(node, here, there)
            move(edit, node)
        except NoExactForm:
            held = edit.tensor(node.output[0]) if len(node.output) == 1 else None
            if held is None:
                raise
            del edit.nodes[made:]
            if node.op_type != "Constant":
                edit.note("is a constant, and is stored as one")
            edit.constant(held, "", name=node.output[0])
        for new in edit.nodes[made:]:
            known = _defaults(new.op_type, there)
            for lost in (attribute.name for attribute in new.attribute if attribute.name not in known):
                raise NoExactForm(f"{new.op_type} has no attribute {lost} in opset {there}")

    def move(edit: Editor, node: NodeProto) -> None:
        own = STEPS.get((node.op_type, here, there))
        if own is None and stays(node, here, edit):
            return None
        for name in (attribute.name for attribute in node.attribute if attribute.ref_attr_name):
            raise NoExactForm(
                f"its attribute {name} is that of a function, and may differ from call to call;"
                " onnx.inliner.inline_local_functions puts the functions into the graph"
            )
        made = len(edit.nodes)
        try:
            if own is None:
                return through_onnx(node, here, edit)
            if (new := own(node, edit)) is not None:
                edit.keep(new)
            for each in edit.nodes[made:] if there < here else ():
                if each.op_type == node.op_type:
                    check_types(each, edit)
        except NoExactForm:
            del edit.nodes[made:]
            if not by_body(node, here, edit, move):
                raise

    wants: Wanted = wanted or (lambda node: True)
    walk.rewrite(lambda n: changes(n.op_type, here, there) and wants(n), rewrite, "", (owner, there))


def _from_the_front(node: NodeProto, edit: Editor) -> NodeProto:
    """Return a node whose axes count from the first dim: before opset 11 few operators count from the last one."""
    shape, given = edit.value([*node.input, ""][0]).shape, attributes_of(node)
    axes = {name: given[name] for name in ("axis", "axes") if np.any(np.less(given.get(name, 0), 0))}
    if not (shape and axes):
        return node
    rank = len(shape) + (np.size(axes["axes"]) if node.op_type == "Unsqueeze" else 0)
    return remade(node, **{name: np.mod(value, rank).tolist() for name, value in axes.items()})


def _set_opset(owner: ModelProto | FunctionProto, opset: int) -> None:
    own = [entry for entry in owner.opset_import if default_opset([entry]) is not None]
    for entry in own or [owner.opset_import.add()]:
        entry.version = opset


# --- unchanged -------------------------------------------------------------------------------------

_MOVERS = ("CastLike", "CenterCropPad", "GreaterOrEqual", "LessOrEqual", "SequenceMap")
"""Operators whose function bodies round nothing, or round as their kernels do."""

_ROUNDS = "a kernel that a runtime has for it may round otherwise"
_OVERFLOWS = f"infinite where Exp(X) is, for X above 88.7 (in float16 above 11), and {_ROUNDS}"
_SMALL = 4096  # the elements of a constant that the converter may want to look at
_CONVERTER: Any = onnx.version_converter.C  # type: ignore[attr-defined]

_REDUCED = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"
)
# Operators whose later specification only adds types, or attributes whose defaults mean the older behaviour,
# and describes the rest more fully, such as crossing bounds or an empty set.
_REWORDED = {
    (name, since)
    for since, names in {
        6: "PRelu",
        10: "AveragePool MaxPool",
        11: "Loop LpPool MaxUnpool",
        12: "ArgMax ArgMin GatherND Pow",
        13: f"Abs ArgMax ArgMin Cast Ceil Clip DepthToSpace Floor Gather GatherElements GatherND Gemm Loop LRN Mod Pad"
        f" MeanVarianceNormalization NegativeLogLikelihoodLoss Pow Slice SoftmaxCrossEntropyLoss {_REDUCED}",
        14: "BatchNormalization Reshape",
        15: "BatchNormalization Pow",
        16: "Loop PRelu",
        18: "LpPool",
        19: "DequantizeLinear QuantizeLinear",
        21: "DequantizeLinear QuantizeLinear",
    }.items()
    for name in names.split()
}

_OPTIONAL = {("ReduceSum", 13): 1, ("Squeeze", 13): 1, ("Pad", 18): 3}
_OPTIONAL |= {(name, 18): 1 for name in _REDUCED.split()}
"""The number of inputs before the one that a version added: a node without this one is written as before."""

_FLOAT32_HOLDS = {None, "float32", "float16", "bfloat16", "int16", "int8", "uint16", "uint8"}
"""The types whose values, and those not known, a function body may cast to float32."""

_VERSION_NOTE = re.compile(r"\(Opset \d+ change\): Extend supported types[^.]*\.")


def stays(node: NodeProto, opset: int, edit: Editor) -> bool:
    """Add a node unchanged if its operator's specification is the same in ``edit.opset``; tell whether it is."""
    op_type, to = node.op_type, edit.opset
    if (optional := _OPTIONAL.get((op_type, opset))) and not any(node.input[optional:]):
        node = remade(node, node.input[:optional])
    elif (op_type, max(opset, to)) not in _REWORDED and _specified(op_type, opset) != _specified(op_type, to):
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


def trimmed(node: NodeProto, opset: int, edit: Editor) -> NodeProto:
    """Return a node without the attributes that it does not have in ``edit.opset``, if they are defaults or in vain."""
    defaults, kept = {**_defaults(node.op_type, opset)}, _defaults(node.op_type, edit.opset)
    given = {name: value for name, value in attributes_of(node).items() if name not in kept}
    if "dilations" in given:  # of these, the schemas say the default in words
        defaults["dilations"] = [1] * len(given["dilations"])
    axes = edit.array([*node.input, ""][1]) if "noop_with_empty_axes" in given else None
    if axes is not None and axes.size:  # it speaks of none
        defaults["noop_with_empty_axes"] = given["noop_with_empty_axes"]
    useless = {name for name in given if given[name] == defaults.get(name)}
    return remade(node, drop=useless) if useless else node


def check_values(node: NodeProto, opset: int, to: int) -> None:
    """Raise NoExactForm where an attribute has a value that the document of an older opset does not name."""
    for attribute in node.attribute if to < opset else ():
        value, name = attribute.s.decode(errors="replace"), attribute.name
        schemas = (schema_in_force("", node.op_type, version) for version in (opset, to))
        named = [
            value in row.attributes[name].description for row in schemas if row and name in row.attributes
        ]
        if named == [True, False]:
            raise NoExactForm(f"{node.op_type} has no {name} {value} before opset {opset}")


@lru_cache(maxsize=4096)
def _defaults(op_type: str, opset: int) -> Mapping[str, object]:
    """Return the default of each attribute of an operator, None where the schema has none."""
    schema, value = schema_in_force("", op_type, opset), onnx.helper.get_attribute_value
    defaults = ((name, each.default_value) for name, each in (schema.attributes if schema else {}).items())
    return {name: value(default) if default.name else None for name, default in defaults}


@lru_cache(maxsize=4096)
def _specified(op_type: str, opset: int) -> object:
    """Return what an operator's specification says, None if it has none."""
    if (schema := schema_in_force("", op_type, opset)) is None:
        return None
    formal = (*schema.inputs, *schema.outputs)
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    # Type variables are told by the first place that has them, because their names change.
    places = {p.type_str: str(i) for i, p in reversed([*enumerate(formal)]) if p.type_str in variables}
    ports = [(places.get(p.type_str, p.type_str), p.option, p.is_homogeneous, p.min_arity) for p in formal]
    attributes = {  # a description may allow a negative axis, say
        name: (a.type, a.required, a.default_value.SerializeToString(), _words(a.description))
        for name, a in schema.attributes.items()
    }
    return len(schema.inputs), ports, attributes, _words(str(schema.doc)), schema.deprecated


def _words(text: str) -> list[str]:
    return _VERSION_NOTE.sub("", text).split()


def check_types(node: NodeProto, edit: Editor) -> None:
    """Raise NoExactForm where a node has a type that its operator does not take in ``edit.opset``, below its own."""
    operands = [(name, edit.value(name)) for name in (*node.input, *node.output)]
    types = tuple([(value.kind, value.type) if name else None for name, value in operands])
    if (why := _why_not_taken(node.op_type, edit.opset, len(node.input), types)) is not None:
        raise NoExactForm(why.format(*(repr(name) for name, _ in operands)))


@lru_cache(maxsize=4096)
def _why_not_taken(
    op_type: str, opset: int, inputs: int, types: tuple[tuple[str, str | None] | None, ...]
) -> str | None:
    """Return why an operator takes no inputs, so many, and outputs of such kinds and types; ``{0}`` is the first."""
    here, newer = ports(op_type, opset), ports(op_type, opset + 1)
    assert here is not None is not newer
    equal: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for place, given in enumerate(types):
        is_input = place < inputs
        formal = port_at(here.inputs, place) if is_input else port_at(here.outputs, place - inputs)
        if given is None or formal.type_str not in here.allowed:
            continue
        (kind, element_type), allowed, spelled = given, here.allowed[formal.type_str], None
        alike = [port for port in (*newer.inputs, *newer.outputs) if port.name == formal.name]
        fits = all(allowed >= newer.allowed.get(port.type_str, frozenset()) for port in alike)
        if kind not in ("tensor", "undeclared"):
            spelled, fits = f"{kind}(...)", any(each.startswith(kind) for each in allowed)
        elif kind == "tensor" and element_type is not None:
            spelled = f"tensor({TensorProto.DataType.Name(enum_of(element_type)).lower()})"
            fits = spelled in allowed
        if formal.is_homogeneous:
            variable = alike[0].type_str if alike else formal.type_str
            equal[formal.type_str].add((variable, spelled or "a type that is not known"))
        if not fits:
            unknown = f"{op_type} takes fewer types in opset {opset}, and that of {{{place}}} is not known"
            return f"{op_type} takes no {spelled} in opset {opset}" if spelled else unknown
    for group in equal.values():
        variables, kinds = map(set, zip(*group, strict=True))
        if len(kinds) > 1 and len(variables) > 1:  # the newer opset takes two types
            return f"{op_type} takes operands of one type in opset {opset}, not {', '.join(sorted(kinds))}"
    return None


# --- through the onnx package ---------------------------------------------------------------------


def through_onnx(node: NodeProto, opset: int, edit: Editor) -> None:
    """Add what the onnx package's converter makes of a node; raise NoExactForm if it has no way."""
    alone = _model_of(node, opset, edit)
    model = ModelProto.FromString(_converted(node.op_type, alone.SerializeToString(), edit.opset))
    _splice(model, node, edit, Editor.keep)
    first, by = model.graph.node[0], "by the onnx package's converter"
    if made := [new.op_type for new in model.graph.node if new.op_type not in (node.op_type, "Constant")]:
        edit.note(f"{by}, to opset {edit.opset}: {', '.join(made)} beside {node.op_type}")
    elif len(first.input) != len(node.input) or attributes_of(first).keys() != attributes_of(node).keys():
        edit.note(f"{by}, from opset {opset} to {edit.opset}")


@lru_cache
def bodies() -> dict[str, list[int]]:
    """Return the opsets from which on the onnx package has function bodies of operators, by their names."""
    found = defaultdict[str, set[int]](set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            row: Any = schema  # the package's stubs lack attributes
            found[row.name].update(row.function_opset_versions, row.context_dependent_function_opset_versions)
    return {name: sorted(versions) for name, versions in found.items() if versions}


def by_body(node: NodeProto, opset: int, edit: Editor, move: Callable[[Editor, NodeProto], None]) -> bool:
    """Add the onnx package's function body of a node's operator by ``move``; tell whether there is one."""
    alone = _model_of(node, opset, edit)
    (call,) = alone.graph.node
    if (function := _body(node, call, opset, edit)) is None:
        return False
    call.domain = function.domain = "halfulp.body"
    function.opset_import[0].version = opset
    alone.opset_import.append(onnx.helper.make_opsetid(call.domain, 1))
    alone.functions.append(function)
    what = f"becomes the function body of {node.op_type}, which came with opset {opset}"
    kinds = {each.op_type for each in function.node}
    differs = _OVERFLOWS if {"Exp", "Log"} <= kinds and "ReduceMax" not in kinds else _ROUNDS
    edit.note(what, None if node.op_type in _MOVERS else differs)
    edit.start(node, "")  # changes to the body's own nodes are not reported
    model = inlined(alone, node.op_type)
    rewrite(Walk(Onnx(model, node.op_type)), VARIANCES)
    _fold(model)
    _splice(model, node, edit, move)
    return True


def _body(node: NodeProto, call: NodeProto, opset: int, edit: Editor) -> FunctionProto | None:
    """Return the function body of a node's operator; ``call``, the node alone, gets attributes that are defaults."""
    schema: Any = schema_in_force("", node.op_type, opset)  # the package's stubs lack attributes
    version = max((v for v in bodies().get(node.op_type, ()) if v <= opset), default=-1)
    given = attributes_of(call)
    defaults = (each.default_value for name, each in schema.attributes.items() if name not in given)
    call.attribute.extend([default for default in defaults if default.name])
    is_by_types, body = version in schema.context_dependent_function_opset_versions, b""
    with suppress(ValueError):  # of types that it does not look at
        if is_by_types:
            types = [_info(name, name, edit).type.SerializeToString() for name in node.input]
            read = schema.get_context_dependent_function_with_opset_version
            body = read(version, call.SerializeToString(), types)
        else:
            body = schema.get_function_with_opset_version(version)
    function = FunctionProto.FromString(body)
    if not function.node:
        return None
    has_stage = not is_by_types or "stash_type" in schema.attributes
    if has_stage and edit.value(node.input[0]).type not in _FLOAT32_HOLDS:
        for attribute in (a for each in function.node if each.op_type == "Cast" for a in each.attribute):
            attribute.i = TensorProto.DOUBLE if attribute.i == TensorProto.FLOAT else attribute.i
    _check_flattened(function, node, edit)
    is_other = any(changes(n.op_type, v, v + 1) for n in every_node(function) for v in range(version, opset))
    inner = every_node(*(graph for outer in function.node for _, graph in subgraphs(outer)))  # not converted
    return None if is_other or any(changes(n.op_type, opset, edit.opset) for n in inner) else function


def _check_flattened(function: FunctionProto, node: NodeProto, edit: Editor) -> None:
    """Raise NoExactForm if a function body flattens an input that has not the last dims of X."""
    x = edit.value(node.input[0]).shape or ()
    flattened = {each.input[0] for each in function.node if each.op_type == "Flatten"}
    for formal, name in zip(function.input[1:], node.input[1:], strict=False):
        shape = edit.value(name).shape or ()
        if formal in flattened and len(shape) > 1 and shape != x[-len(shape) :]:
            raise NoExactForm(f"its function body flattens {name!r}, which broadcasts")


def _fold(model: ModelProto) -> None:
    """Store results of constants and known shapes instead of nodes that small runtimes lack, and drop idle casts."""
    graph = model.graph
    if any(map(subgraphs, graph.node)):
        return
    known = Onnx(model, ask="none").scope()
    read, made = {info.name for info in graph.output}, {name for node in graph.node for name in node.output}
    for node in [each for each in graph.node if each.op_type in ("Cast", "CastLike")]:
        node.CopyFrom(known.as_cast(node))
        kept, gone = node.input[0], node.output[0]
        kind = known.value(kept).type
        is_same = kind is not None and kind == known.value(gone).type
        if is_same and (gone not in read or kept in made):
            graph.node.remove(node)
            rename(graph, {kept: gone} if gone in read else {gone: kept}, "")
    for node in reversed([*graph.node]):
        held = known.tensor(node.output[0]) if node.op_type != "Constant" else None
        if held is not None:
            node.CopyFrom(onnx.helper.make_node("Constant", [], node.output, value=held))
        if read.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            read.update(node.input)


def _splice(model: ModelProto, node: NodeProto, edit: Editor, add: Callable[..., None]) -> None:
    """Add the nodes of a model of the node alone, under names of the node's graph."""
    original = {"": ""} | {f"i{index}": name for index, name in enumerate(node.input) if name}
    original |= {f"o{index}": name for index, name in enumerate(node.output) if name}
    bodies = {a.name: a.g for a in node.attribute if a.type == AttributeProto.GRAPH}
    graph, types = model.graph, Onnx(model, ask="none").types[""]
    for tensor in graph.initializer:
        if tensor.name not in original:
            original[tensor.name] = edit.constant(tensor, "constant")
    kinds = [new.op_type for new in graph.node]
    heir = kinds.index(node.op_type) if node.op_type in kinds else len(kinds) - 1
    for place, new in enumerate(graph.node):
        for name in new.output:
            if name not in original:
                original[name] = edit.new_name(new.op_type.lower())
                edit.scope.types[original[name]] = types.get(name, Value(name))
        new.input[:] = [original[name] for name in new.input]
        new.output[:] = [original[name] for name in new.output]
        new.ClearField("name")
        if place == heir:
            inherit(new, node)
        for attribute in new.attribute:
            if attribute.name in bodies:
                attribute.g.CopyFrom(bodies[attribute.name])
            elif attribute.type == AttributeProto.GRAPH:
                rename(attribute.g, {**original}, edit.new_name("body") + "/")
        add(edit, new)


def _model_of(node: NodeProto, opset: int, edit: Editor) -> ModelProto:
    """Return a model of the node alone, under names that don't depend on its own."""
    alone = NodeProto(op_type=node.op_type, input=node.input, output=node.output, attribute=node.attribute)
    graph, short = GraphProto(name="alone"), {"": ""}
    for index, name in enumerate(node.input):
        alone.input[index] = short.setdefault(name, f"i{index}")
        if short[name] != f"i{index}":
            continue
        tensor = edit.tensor(name, or_default=True)
        is_small = tensor is not None and math.prod(tensor.dims) <= _SMALL
        if is_small and (array := edit.array(name, or_default=True)) is not None:
            stored = onnx.numpy_helper.from_array(array, short[name])
            if array.dtype == np.int64:  # older versions of the converter take raw data for no elements
                stored = onnx.helper.make_tensor(short[name], TensorProto.INT64, array.shape, array.ravel())
            graph.initializer.append(stored)
        else:
            graph.input.append(_info(short[name], name, edit))
    for index, name in enumerate(node.output):
        if name:
            alone.output[index] = f"o{index}"
            graph.output.append(_info(f"o{index}", name, edit))
    for _, body in subgraphs(alone):
        body.CopyFrom(GraphProto(name="body"))  # put back afterwards
    graph.node.append(alone)
    own = onnx.helper.make_opsetid("", opset)
    return onnx.helper.make_model(graph, ir_version=8, opset_imports=[own])


@lru_cache(maxsize=1024)
def _converted(op_type: str, model: bytes, to: int) -> bytes:
    """Return the model in another opset; cached, because setting up the converter takes longer than the conversion."""
    try:
        return bytes(_CONVERTER.convert_version(model, to))
    except (RuntimeError, ValueError, _CONVERTER.ConvertError, onnx.shape_inference.InferenceError) as error:
        text = " ".join(str(error).split())
        has_none = "No Adapter" in text or "No Previous Version" in text
        reason = "" if has_none else f": {printable(text.rpartition('failed: ')[2])}"
        raise NoExactForm(
            f"the onnx package does not convert {op_type} to opset {to}{reason}; the exporter may write it, such as"
            f" torch.onnx.export(..., opset_version={to})"
        ) from None


def _info(short: str, name: str, edit: Editor) -> onnx.ValueInfoProto:
    value = edit.value(name)
    return declaration(short, value.type if value.kind == "tensor" else None, value.shape)
