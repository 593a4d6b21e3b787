"""Checking all of a model but some nodes: those of domains that nobody here knows, and those under audit.

The front end refuses a model with operators of com.microsoft, because it could not be run, and one whose Pow has an
attribute too many. An audit needs the rest of the file to be sound: such operators become functions of the model
that do nothing.
"""

from __future__ import annotations

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from halfulp.errors import ModelError
from halfulp.models.onnx.walk import Identity, every_node, identity, is_ours

_DOMAIN = "halfulp.audit"
_OPSET = 13  # that of the functions made here, which hold constants


def with_stand_ins(proto: ModelProto, file: str) -> ModelProto:
    """Return a copy of a model in which the operators of unknown domains, and Pow and PRelu, are functions.

    Raises:
        ModelError: a name is not UTF-8.
    """
    domains = {schema.domain for schema in onnx.defs.get_all_schemas()} | {"ai.onnx"}
    copy = ModelProto()
    copy.CopyFrom(proto)
    own = {identity(function) for function in proto.functions}
    made: dict[Identity, FunctionProto] = {}
    for node in every_node(copy.graph, *copy.functions):
        texts = (node.name, node.domain, node.op_type, node.overload, *node.input, *node.output)
        if any(isinstance(text, bytes) for text in (*texts, *(a.name for a in node.attribute))):
            raise ModelError("a name is not UTF-8", file=file)
        ours = is_ours(node)
        if identity(node) in own or (node.domain in domains and not ours):
            continue
        if ours:
            node.domain = _DOMAIN
        key = identity(node)
        if key not in made:
            imports = [onnx.helper.make_opsetid("", _OPSET)]
            made[key] = FunctionProto(
                domain=node.domain, name=node.op_type, overload=node.overload, opset_import=imports
            )
        _widen(made[key], node)
    copy.functions.extend(made.values())
    return copy


def _widen(function: FunctionProto, node: NodeProto) -> None:
    """Let a function take what a node gives it, and give what the node takes."""
    for index in range(len(function.input), len(node.input)):
        function.input.append(f"i{index}")
    for index in range(len(function.output), len(node.output)):
        function.output.append(f"o{index}")
        function.node.append(onnx.helper.make_node("Constant", [], [f"o{index}"], value_int=0))
    known = set(function.attribute)
    function.attribute.extend(a.name for a in node.attribute if a.name not in known)
