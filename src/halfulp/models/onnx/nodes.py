"""What an ONNX node may be: the schema in force, the attributes, the onnx package's own check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from halfulp.errors import ModelError, SpecError, printable
from halfulp.models.onnx.tensors import TensorReader
from halfulp.specs import in_force

SUPPORTED_OPS = ("Pow", "PRelu")

_SCALARS = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i"}
_LISTS = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints"}


def plain_domain(domain: str) -> str:
    """Return a domain's one name: ``ai.onnx`` is the empty one."""
    return "" if domain == "ai.onnx" else domain


@lru_cache(maxsize=4096)
def schema_in_force(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema of the operator version that an opset import puts in force, if any."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def attribute_value(attribute: AttributeProto, tensors: TensorReader, file: str, label: str) -> Any:
    """Return an attribute as a Python value: number, text, list, or array for a tensor.

    Raises:
        ModelError: for a tensor that can't be read, text that isn't UTF-8, a list of subgraphs
            (no operator of ONNX has one), or an attribute without a type.
    """
    kind = attribute.type
    what = f"attribute {attribute.name!r}"
    if kind in _SCALARS:
        return getattr(attribute, _SCALARS[kind])
    if kind in _LISTS:
        return list(getattr(attribute, _LISTS[kind]))
    try:
        if kind == AttributeProto.STRING:
            return attribute.s.decode()
        if kind == AttributeProto.STRINGS:
            return [text.decode() for text in attribute.strings]
    except UnicodeDecodeError:
        raise ModelError(f"{what} is not UTF-8", file=file, node=label) from None
    try:
        if kind == AttributeProto.TENSOR:
            return tensors.read(attribute.t, what)
        if kind == AttributeProto.TENSORS:
            return [tensors.read(tensor, what) for tensor in attribute.tensors]
        if kind == AttributeProto.SPARSE_TENSOR:
            return tensors.read_sparse(attribute.sparse_tensor, what)
    except ModelError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(error.message, file=file, node=label, **shown) from None
    # Copies, because a part of a message keeps the whole of it alive.
    if kind == AttributeProto.TYPE_PROTO:
        return deepcopy(attribute.tp)
    if kind == AttributeProto.TYPE_PROTOS:
        return [deepcopy(proto) for proto in attribute.type_protos]
    raise ModelError(f"{what} is of a type that nothing here takes", file=file, node=label)


def check_clauses(
    op_type: str, version: int, inputs: int, attributes: Mapping[str, Any], file: str, label: str
) -> None:
    """Compare a Pow's or PRelu's number of inputs and its attributes with its version's clauses.

    The onnx package's checker refuses the same, without saying which clause does.

    Raises:
        ModelError: a clause is broken.
    """
    row = in_force("onnx", op_type, version)
    try:
        row.check_attributes(attributes)
        row.infer(*[("float32", None)] * inputs)  # which every version allows, of any shape
    except SpecError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(error.message, file=file, node=label, clause=error.clause, **shown) from None


def check_node(
    proto: NodeProto,
    domain: str,
    attributes: Iterable[AttributeProto],
    opsets: Mapping[str, int],
    ir_version: int,
    file: str,
    label: str,
) -> None:
    """Let the onnx package's checker compare a node with its operator's schema.

    It gets the node without the data of its tensors and subgraphs, which are checked elsewhere:
    the checker would look for external data in the working directory, and for a subgraph's outer
    names nowhere.

    Raises:
        ModelError: number of inputs or outputs, attributes that are missing, unknown or of the
            wrong type, or a deprecated operator.
    """
    bare = NodeProto(
        name=proto.name,
        domain=domain,
        op_type=proto.op_type,
        input=proto.input,
        output=proto.output,
    )
    for attribute in attributes:
        if attribute.type == AttributeProto.TENSOR:
            shell = TensorProto(data_type=attribute.t.data_type, dims=[0])
            bare.attribute.append(AttributeProto(name=attribute.name, type=attribute.type, t=shell))
        elif attribute.type == AttributeProto.GRAPH:
            empty = GraphProto(name="body")
            bare.attribute.append(AttributeProto(name=attribute.name, type=attribute.type, g=empty))
        elif attribute.type == AttributeProto.SPARSE_TENSOR:
            bare.attribute.append(_shell_of_sparse(attribute))
        else:
            bare.attribute.append(attribute)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(opsets)
    try:
        onnx.checker.check_node(bare, context)
    except onnx.checker.ValidationError as error:
        message = printable(str(error).strip().splitlines()[0].rstrip("."))
        raise ModelError(message, file=file, node=label) from None


def _shell_of_sparse(attribute: AttributeProto) -> AttributeProto:
    sparse = attribute.sparse_tensor
    shell = onnx.SparseTensorProto(
        dims=[1],
        values=TensorProto(name="v", data_type=sparse.values.data_type, dims=[0]),
        indices=TensorProto(name="i", data_type=TensorProto.INT64, dims=[0]),
    )
    return AttributeProto(name=attribute.name, type=attribute.type, sparse_tensor=shell)
