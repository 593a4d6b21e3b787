"""The Pow and PRelu nodes of an ONNX model, including those of subgraphs and of called functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from halfulp.auditing.halves import Body, Net, Step
from halfulp.auditing.node import Operand, Site, Use, breaches
from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.models.onnx import build
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import FunctionTypes, ValueInfo, infer_types
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import (
    Owner,
    default_opset,
    identity,
    inner_path,
    is_ours,
    reached,
    read_names,
    root,
    subgraphs,
)
from halfulp.specs import in_force

_MOST_CONSTANT = 1 << 24  # elements; larger exponents and slopes are not read


def uses(proto: ModelProto, file: str, folder: Path | None) -> list[Use]:
    """Return the Pow and PRelu nodes of a model, in the file's order, those of functions last.

    A function's nodes are returned once, with the types and shapes that all its calls agree on. Pow and PRelu
    nodes may break clauses, and operators may be unknown; everything else must be valid.

    Args:
        proto: the model, which is not changed.
        file: its name in messages.
        folder: the folder of its external data.

    Raises:
        ModelError, UnsupportedError: as the front end's, unless a broken clause of Pow or PRelu is the
            reason.
    """
    try:
        build(proto, file, folder, keep_unknown=True)
    except (ModelError, UnsupportedError) as error:
        build(proto, file, folder, keep_unknown=True, check_ours=False)
        # The rest of the model is valid: errors of Pow and PRelu nodes are reported by their clauses.
        found = list(_Reader(proto, file, folder).all())
        if isinstance(error, ModelError) and not any(map(breaches, found)):
            raise
        return found
    return list(_Reader(proto, file, folder).all())


class _Reader:
    """Reads one model."""

    def __init__(self, proto: ModelProto, file: str, folder: Path | None) -> None:
        self._proto = proto
        self._tensors = TensorReader(file, folder)
        self._file = file
        self._types = infer_types(proto, file)
        self._functions = {identity(function) for function in proto.functions}

    def all(self) -> Iterator[Use]:
        proto = self._proto
        opset = default_opset(proto.opset_import)
        if opset is None and proto.ir_version < 3:
            opset = 1  # before IR version 3 there was one opset and models imported none
        yield from self._walk(proto.graph, ValueInfo(self._types[""], self._tensors), "", "", opset)
        inside = FunctionTypes(proto, self._types, self._file)
        for function in reached(proto):
            path = root(function)
            self._types |= inside.of(function)
            value_info = ValueInfo(self._types.setdefault(path, {}), self._tensors)
            opset = default_opset(function.opset_import)
            yield from self._walk(function, value_info, path, function.name, opset)

    def _walk(
        self,
        owner: Owner,
        value_info: ValueInfo,
        path: str,
        where: str,
        opset: int | None,
        body: Body | None = None,
    ) -> Iterator[Use]:
        value_info.add_constants(owner, self._proto.ir_version)
        net = _net(owner, value_info, where, body)
        known: dict[str, Operand] = {}
        for index, node in enumerate(owner.node):
            name = label(node, index, where)
            for attribute, graph in subgraphs(node):
                inner = inner_path(path, node, attribute)
                inside = value_info.inside(self._types.setdefault(inner, {}))
                place = _body(node, graph, net)
                yield from self._walk(graph, inside, inner, f"{name}.{attribute}", opset, place)
            own = self._functions and identity(node) in self._functions
            if is_ours(node) and opset is not None and not own:
                names = (*node.input, node.output[0] if node.output else "")
                for given in names:
                    if given not in known:
                        known[given] = self._operand(given, value_info)
                *inputs, output = [known[given] for given in names]
                operator = in_force("onnx", node.op_type, opset).id
                site = Site(owner, index, where, value_info)
                yield Use(
                    name, operator, str(opset), tuple(inputs), output, _attributes(node), net=net, site=site
                )

    def _operand(self, name: str, value_info: ValueInfo) -> Operand:
        value = value_info.value(name)
        array = None
        tensor = value_info.tensor(name)
        if tensor is not None and onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type) is not None:
            count = 1
            for dim in tensor.dims:
                count *= dim
            array = value_info.array(name) if count <= _MOST_CONSTANT else None
        return Operand(name, value.type if value.kind == "tensor" else None, value.shape, array)


def _net(owner: Owner, value_info: ValueInfo, where: str, body: Body | None) -> Net:
    def steps() -> Iterator[Step]:
        for index, node in enumerate(owner.node):
            captured = (name for _, graph in subgraphs(node) for name in read_names(graph))
            yield Step(label(node, index, where), node.op_type, [*node.input, *captured], node.output)

    def type_of(name: str) -> str | None:
        return value_info.value(name).type

    def is_constant(name: str) -> bool:
        return value_info.tensor(name) is not None

    if isinstance(owner, GraphProto):
        return Net(steps, type_of, (info.name for info in owner.output), is_constant, body=body)
    caller = f"the caller of '{printable(owner.name)}'"
    return Net(steps, type_of, owner.output, is_constant, caller, owner.input)


def _body(node: NodeProto, graph: GraphProto, net: Net) -> Body:
    """Return the place of a body: how the values of its node enter and leave it."""
    made = results = [info.name for info in graph.output]
    backs: list[str] = []
    if node.op_type == "Loop":
        backs, results = ["", *made], made[1:]
    elif node.op_type == "Scan":
        scans = sum(attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs")
        backs = made[: max(len(node.input) - scans, 0)]
    names = [info.name for info in graph.input]
    inputs = list(zip(names, node.input, chain(backs, repeat("")), strict=False))
    return Body(net, node.op_type, inputs, list(zip(results, node.output, strict=False)))


def _attributes(node: NodeProto) -> dict[str, object]:
    """Return the attributes. Those that depend on a call of the enclosing function are unknown."""
    given = [attribute for attribute in node.attribute if not attribute.ref_attr_name]
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in given}
