"""Passes over an ONNX model, one after the other, and the rest that is the same for all of them.

A pass rewrites nodes. After each, nodes without an exact form are refused in one error, constants that lost their
readers go, and the IR version is raised as far as necessary. After the last one, the onnx package's checker has to
accept the model.
"""

import filecmp
import math
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.conversion.editor import Change
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable
from halfulp.models.files import inside, replacing
from halfulp.models.graph import Value, agree, describe, listed
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import is_foreign, label, schema_in_force
from halfulp.models.onnx.infer import OLDEST_IR_OF_DEFAULTS, REFUSALS, Types, infer_types, without_made_up
from halfulp.models.onnx.tensors import declared, enum_of, external_data, tensors, without_tensors
from halfulp.models.onnx.walk import every_node, graphs, opsets_of, owners_of, plain_domain

_NUMBERED = re.compile(r"(?:(?:node name|Name|name):? )?\bhalfulp#(\d+)\b")
OLDEST_IR = 3  # the first with opset imports
_LARGE = 1 << 16  # elements
_OWN = "halfulp.own"  # a domain that no model has
_UNTYPED = "Unrecognized type value case"  # of an input or output
_HARMLESS = (
    "Field 'shape' of 'type' is required",
    "Field 'name' of 'graph' is required",
    "No opset import for domain 'com.microsoft",
    "model with IR version < 3 cannot have opset_import",
    "Op registered for GroupNormalization is deprecated",
    _UNTYPED,
)
"""The beginnings of refusals by the checker alone. An input, though, has to have a type."""


Pass = Callable[[Walk, Any], str | None]
"""Rewrites the model of a walk as an option's value says, and returns a notice if nothing was to be done."""


def run_passes(walk: Walk, *passes: tuple[Pass, Any], may_leave: bool = False) -> list[Change]:
    """Run passes with the values of their options, one after the other; return the changes to the model.

    With ``may_leave``, nodes without an exact form stay as they are, in ``walk.refused``, as repair leaves them.

    Raises:
        UnsupportedError: nodes have no exact form: all those of the pass are named.
    """
    changes: list[Change] = []
    for index, (rewrite, value) in enumerate(passes):
        walk = Walk(walk) if index else walk
        if nothing := rewrite(walk, value):
            walk.changes.append(Change(walk.file, nothing, is_notice=True))
        if not may_leave:
            refuse(walk)
        elif not walk.changes:  # a valid model keeps its IR version
            continue
        # What is the same after each pass: constants without readers go, and the IR version is raised.
        imports = [entry for entry in walk.proto.opset_import if not plain_domain(entry.domain)]
        least = max(onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True), OLDEST_IR)
        if walk.sweep():
            least = max(least, OLDEST_IR_OF_DEFAULTS)
        changes += [*walk.changes, *raise_ir(walk, least)]
    return changes


def refuse(walk: Walk, where: str = "", hint: str = "") -> None:
    """Raise UnsupportedError if nodes have no exact form: one error unchanged, several grouped by reason."""
    refused = [*dict.fromkeys(walk.refused.values())]  # a node of several outputs counts once
    if not refused:
        return
    by_reason: dict[str, list[str]] = {}
    for name, _, reason in refused:
        by_reason.setdefault(reason, []).append(name)
    said = "; ".join(f"{listed(names, most=4)}: {reason}" for reason, names in by_reason.items())
    (name, place, reason), *others = refused
    what = f"node {name}: no exact form in {place}: {reason}"
    if others:
        what = f"{len(refused)} nodes have no exact form in {where or place}: {said}"
    raise UnsupportedError(f"{walk.file}: {what}{hint}")


class Refusal(NamedTuple):
    """Why the checker refuses a model, and the node that it names: how messages name it, and its operator."""

    reason: str
    node: str | None = None
    op_type: str = ""


def refusal(model: ModelProto, *, with_weights: bool = True) -> Refusal | None:
    """Return why the checker refuses a model, None if it accepts it; its large weights need not be looked at."""

    def is_left_out(tensor: TensorProto) -> bool:  # for external data the checker would look here
        is_external = tensor.data_location == TensorProto.EXTERNAL
        return is_external or (not with_weights and math.prod(tensor.dims) > _LARGE)

    is_whole = not any(map(is_left_out, model.graph.initializer))
    checkable = _without_own(model if is_whole else without_tensors(model, is_left_out))
    if _message(checkable) is None:
        return None
    numbered = deepcopy(checkable)
    for index, node in enumerate(numbered.graph.node):
        node.name = f"halfulp#{index}"  # messages name few nodes that have no name
    message = str(_message(numbered))
    reason = message.partition("==> Context")[0].rpartition("[ShapeInferenceError] ")[2]
    reason = printable(" ".join(reason.split()), 200)
    if (found := _NUMBERED.search(message)) is None:
        return Refusal(reason)
    index = int(found[1])
    node = model.graph.node[index]
    if reason == "Incompatible dimensions":
        known = infer_types(checkable, "", ask="none")[""]
        operands = (known.get(name, Value(name)) for name in node.input)
        reason += f" of {' and '.join(describe(each.type, each.shape) for each in operands)}"
    reason = _NUMBERED.sub(lambda match: f"name: {model.graph.node[int(match[1])].name}", reason)
    return Refusal(reason, label(node, index, ""), node.op_type)


def is_harmless(refused: Refusal, model: ModelProto) -> bool:
    """Tell whether runtimes load such a model."""
    reason, graph = refused.reason, model.graph
    if graph.sparse_initializer and "has unsupported type: sparse_tensor(" in reason:
        return True
    of_inputs = tuple([f"{_UNTYPED} (value_info name: {each.name})" for each in graph.input])
    return reason.startswith(_HARMLESS) and not reason.startswith(of_inputs)


def check_result(model: Onnx, source: Onnx, opset: int | None) -> list[Change]:
    """Check a converted model, and return a notice if the checker refuses its source, too.

    Wrong declarations of the source are corrected. ``opset`` is the one that was asked for.

    Raises:
        ModelError: the checker refuses the converted model alone.
    """
    if (refused := refusal(model.proto)) is None:
        return []
    if refusal(source.proto) is not None:
        said = f"does not pass the onnx package's checker, nor did it before: {refused.reason}"
        return [Change(refused.node or model.file, said, is_notice=True)]
    changes = correct_declarations(model, by_nodes(model, "none"), {}, unconverted=by_nodes(source, "none"))
    if (refused := refusal(model.proto)) is None:
        return changes
    operator, opsets = refused.op_type, range(1, onnx.defs.onnx_opset_version() + 1)
    since = {each: getattr(schema_in_force("", operator, each), "since_version", None) for each in opsets}
    before = since.get(opsets_of(source.proto.opset_import).get("", 1))
    same = [each for each, version in since.items() if version == before is not None]
    is_other = same and opset not in (None, *same)
    way = f"--opset {same[0]} to {same[-1]}, where {operator} stays unchanged" if is_other else None
    said = f"converted, it would not pass the onnx package's checker: {refused.reason}"
    raise ModelError(said, file=model.file, node=refused.node, expected=way)


def by_nodes(model: Onnx, ask: Literal["foreign", "none"] = "foreign") -> dict[str, Types]:
    """Return the types that the nodes of each graph give its values, whatever the model declares."""
    return infer_types(model.proto, model.file, ask=ask, declared_too=False)


def correct_declarations(
    model: Onnx,
    found: Mapping[str, Types],
    before: dict[tuple[str, str], Value],
    *,
    shapes: bool = True,
    unconverted: Mapping[str, Types] = MappingProxyType({}),
) -> list[Change]:
    """Declare values as their nodes give them, which is ``found``: their types, or their shapes, too.

    The first call fills ``before`` with the declarations, by graph and name, with which later calls compare. A value
    that was of another type or shape in ``unconverted``, the types before a conversion, stays.
    """
    changes, file = [], model.file
    for path, graph in graphs(model.proto.graph):
        for info in (*graph.value_info, *graph.output):
            right, tensor = found.get(path, {}).get(info.name), info.type.tensor_type
            if right is None:
                continue
            was = before.setdefault((path, info.name), declared(info, file))
            shape = without_made_up(right.shape)
            if not agree(unconverted.get(path, {}).get(info.name, right).shape, shape):
                continue
            kind = was.type and (right.type or was.type)
            if kind:
                tensor.elem_type = enum_of(kind)
            if not shapes or agree(was.shape, shape):
                shape = was.shape
            else:
                new = onnx.helper.make_tensor_type_proto(tensor.elem_type, shape)
                tensor.shape.CopyFrom(new.tensor_type.shape)
            if (kind, shape) != (was.type, was.shape):
                named = f"{printable(info.name)!r}, declared as {describe(was.type, was.shape)}"
                said = f"{named}, is {describe(kind, shape)} by its node, and is declared so"
                changes.append(Change(file, said))
    return changes


def _message(model: ModelProto) -> str | None:
    try:
        onnx.checker.check_model(model, full_check=True)
    except REFUSALS as error:
        return str(error)
    return None


def _without_own(model: ModelProto) -> ModelProto:
    """Return a model with operators that only a runtime knows in a domain that the checker does not know, either."""

    def own(each: ModelProto) -> list[NodeProto]:
        nodes = ((node, opset) for owner, opset in owners_of(each) for node in every_node(owner))
        return [node for node, opset in nodes if not plain_domain(node.domain) and is_foreign(node, opset)]

    if not own(model):
        return model
    copy = deepcopy(model)
    for node in own(copy):
        node.domain = _OWN
    for owner in (copy, *copy.functions):
        owner.opset_import.append(onnx.helper.make_opsetid(_OWN, 1))
    return copy


# --- the IR version --------------------------------------------------------------------------------


def raise_ir(model: Onnx, least: int, why: str = "") -> list[Change]:
    """Raise a model's IR version. If initializers need no inputs in the new one, they lose these and stay constants."""
    before, graph, file = model.proto.ir_version, model.proto.graph, model.file
    if before >= least:
        return []
    model.proto.ir_version = least
    changes = [Change(file, f"IR version {before} becomes {least}{why}")]
    constants = {tensor.name for tensor in graph.initializer if before < OLDEST_IR_OF_DEFAULTS <= least}
    kept = [info for info in graph.input if info.name not in constants]
    if dropped := len(graph.input) - len(kept):
        changes.append(Change(file, f"initializers stay constants and are no longer inputs: {dropped}"))
        del graph.input[:]
        graph.input.extend(kept)
    return changes


_TYPES_SINCE = {
    TensorProto.DataType.Value(name): since
    for since, names in {
        4: "BFLOAT16",
        9: "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
        10: "INT4 UINT4",
        11: "FLOAT4E2M1",
        12: "FLOAT8E8M0",
        13: "INT2 UINT2",
    }.items()
    for name in names.split()
    if name in TensorProto.DataType.keys()  # noqa: SIM118 (older onnx packages have no INT2)
}
"""The IR version that introduced an element type."""


def lower(walk: Walk, opset: int) -> None:
    """Lower a model's IR version as far as an opset and the content allow."""
    walk.sweep()
    model = walk.proto
    usual = min(int(row[1]) for row in onnx.helper.VERSION_TABLE if int(row[2]) >= opset)
    least, had = max(usual, _needed(model)), model.ir_version
    why = f"that of opset {opset}'s tools" if least == usual else "which its content needs"
    if had > usual:
        model.ir_version = min(least, had)
        said = f"becomes {least}" if least < had else "stays"
        walk.changes.append(Change(walk.file, f"IR version {had} {said}, {why}", is_notice=least >= had))


def has_weights(graph: GraphProto) -> bool:
    """Return whether a graph has initializers that are not inputs."""
    return bool({tensor.name for tensor in graph.initializer} - {info.name for info in graph.input})


def _needed(model: ModelProto) -> int:
    """Return the IR version that a model's content needs."""
    needed, kinds = [OLDEST_IR], {tensor.data_type for tensor in tensors(model)}
    needed += [10 if each.attribute_proto or each.overload else 8 for each in model.functions]
    for _, owner in chain.from_iterable(map(graphs, (model.graph, *model.functions))):
        kinds.update(each.i for node in owner.node for each in node.attribute if each.name == "to")
        if isinstance(owner, GraphProto):
            values = (*owner.input, *owner.output, *owner.value_info)
            kinds.update(info.type.tensor_type.elem_type for info in values)
            needed.append(OLDEST_IR_OF_DEFAULTS if has_weights(owner) else 0)
            needed.append(6 if owner.sparse_initializer or owner.quantization_annotation else 0)
            others = {info.type.WhichOneof("value") for info in values}
            needed.append(8 if others & {"optional_type", "sparse_tensor_type"} else 0)
    return max(*needed, *(_TYPES_SINCE.get(kind, 0) for kind in kinds))


# --- writing, whole or not at all -----------------------------------------------------------------


def save_onnx(model: Onnx, path: Path, data: bytes | None = None) -> None:
    """Write an ONNX model, and its external data to the same places relative to the new file.

    If ``data`` is given, the bytes of the file that the model was read from, the file is copied.

    Raises:
        HalfulpError: a file can't be written, or the data would replace another file.
    """
    written = model.proto.SerializeToString() if data is None else data
    with ExitStack() as files:
        for location in sorted(set(external_data(model.proto))) if b"location" in written else ():  # its key
            source = inside(model.folder, location, "external data")
            target = path.parent / location
            if target.exists() and target.samefile(source):
                continue
            if target.exists() and not filecmp.cmp(source, target, shallow=False):
                raise HalfulpError(f"{target}: exists already, and holds other data than {source}")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, files.enter_context(replacing(target)))
        files.enter_context(replacing(path)).write_bytes(written)
