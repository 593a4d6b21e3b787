"""Replacement of a model's Pow and PRelu nodes with halfulp's custom operators.

Each node becomes the operator of its X's type (``Pow_float16``), with its version as attributes: the broadcasting rule,
and the clause that each check enforces. So types must be known before the model runs. The onnx package infers them;
ONNX Runtime does if the onnx package fails, as at ONNX Runtime's own operators.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from onnx import AttributeProto, ModelProto, NodeProto, helper

from halfulp.errors import REPAIR, HalfulpError, ModelError, SpecError, printable, within
from halfulp.models.graph import Value
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import Ask, Scope
from halfulp.models.onnx.inline import RESOLVED, inlined
from halfulp.models.onnx.tensors import declaration
from halfulp.models.onnx.walk import every_node
from halfulp.specs import OpVersion, TensorType, find

DOMAIN = "halfulp"

# The checks whose clauses the kernels look up by their attributes: bindings/onnxruntime/rules.h.
_SHAPE_CHECKS = ("shape", "equal shapes", "1-dim expansion", "attribute axis")


class _Untyped(Exception):
    """The type of a node's operand can't be inferred."""


def patched(model: ModelProto, file: str) -> ModelProto:
    """Return a copy of a model in which all Pow and PRelu nodes are custom operators.

    Raises:
        ModelError: a node's types or shapes break a clause of its version, or its types can't be inferred.
        UnsupportedError: a function with such nodes needs another opset than the model's.
    """
    result = inlined(model, file, every=False)
    if all(node.domain != RESOLVED for node in every_node(result.graph)):
        return result
    ways: tuple[Ask, ...] = ("none", "all")
    for ask in ways:
        attempt = deepcopy(result)
        try:
            for scope in Onnx(attempt, file, ask=ask).scopes(attempt.graph):
                _patch(scope, file)
        except _Untyped as untyped:
            name, node = untyped.args
            continue
        if DOMAIN not in {entry.domain for entry in attempt.opset_import}:
            attempt.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return attempt
    hint = "declare it in the graph's value_info"
    raise ModelError(f"the type of {printable(name)!r} can't be inferred: {hint}", file=file, node=node)


def _patch(scope: Scope, file: str) -> None:
    """Patch the nodes of a graph, but not of the graphs within it."""
    graph: Any = scope.owner
    declared = {info.name for info in (*graph.value_info, *graph.output)}
    for index, node in enumerate(graph.node):
        if node.domain == RESOLVED:
            output = _patch_node(node, index, scope, file)
            scope.types.setdefault(output.name, output)
            # ONNX Runtime infers no shapes of custom operators, and reuses memory only for known shapes.
            if output.name not in declared:
                graph.value_info.append(declaration(output.name, output.type, output.shape))


def _patch_node(node: NodeProto, index: int, scope: Scope, file: str) -> Value:
    """Make a node a custom operator, and return its output's type and shape."""
    row = find(node.op_type)
    named = label(NodeProto(name=node.name, op_type=row.name), index, "")
    with within(file, named):
        if not (all(node.input) and any(node.output)):
            raise HalfulpError("an operand or the output is missing")
        attributes = {attribute.name: _value(attribute) for attribute in node.attribute}
        operands = []
        for value in map(scope.value, node.input):
            if value.kind not in ("undeclared", "tensor"):
                raise HalfulpError("an operand is not a tensor", got=str(value))
            if value.type is None:
                raise _Untyped(value.name, named)
            operands.append(TensorType(value.type, value.shape))
        try:
            output = row.infer(*operands, **attributes)
        except SpecError as error:
            raise SpecError(error.clause, error.message, **error.shown, run=REPAIR) from None
        describing = list(_told(row, attributes))
    node.domain, node.op_type = DOMAIN, f"{row.name}_{output.type}"
    del node.attribute[:]
    node.attribute.extend(describing)
    return Value(node.output[0], output.type, output.shape)


def _value(attribute: AttributeProto) -> Any:
    try:
        return helper.get_attribute_value(attribute)
    except ValueError:
        raise HalfulpError(f"its attribute {printable(attribute.name)!r} has no value") from None


def _told(row: OpVersion, attributes: Mapping[str, Any]) -> Iterator[AttributeProto]:
    """Yield the attributes of a custom operator: the parts of its version that the kernel needs."""
    yield helper.make_attribute("version", row.id)
    yield helper.make_attribute("broadcasting", row.broadcasting.name)
    enforced = {check for clause in row.clauses for check in clause.enforces}
    for check in _SHAPE_CHECKS:
        if check in enforced:
            name = "clause_" + check.replace(" ", "_").replace("-", "_")
            yield helper.make_attribute(name, f"{row.id}.{row.clause(check).id}")
    for name, value in row.check_attributes(attributes).items():
        if isinstance(value, int):
            yield helper.make_attribute(name, value)
