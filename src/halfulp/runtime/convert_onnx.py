"""A whole ONNX model from one opset to another, a step at a time, node by node.

What no step touches stays byte for byte as it was: names, doc strings, metadata, functions, subgraphs,
opset imports of other domains, references to external data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.errors import HalfulpError, ModelError, SpecError, UnsupportedError
from halfulp.frontends.onnx_checks import label
from halfulp.frontends.onnx_nodes import plain_domain
from halfulp.frontends.onnx_tensors import TensorReader
from halfulp.runtime import convert_foreign
from halfulp.runtime.convert_editor import Change, Editor, Names, NoExactForm
from halfulp.runtime.convert_functions import FunctionTypes, identity
from halfulp.runtime.convert_known import Known, Types, default_opset, graphs, infer_types, inner_path
from halfulp.runtime.convert_steps import STEPS
from halfulp.specs.resolve import in_force
from halfulp.specs.tensor import TensorType

NEWEST = onnx.defs.onnx_opset_version()
_OLDEST_IR_OF_INITIALIZERS = 4  # before, an initializer had to be an input too


def to_opset(model: ModelProto, opset: int, file: str, folder: Path | None) -> list[Change]:
    """Convert a model in place, and return what was done.

    Args:
        model: one that the front end accepts.
        opset: the version of ONNX's own operators that it shall import.
        file: its name in messages.
        folder: where its external data lies.

    Raises:
        UnsupportedError: a node has no exact form there, or the onnx package no way to it.
        ModelError: a node breaks a clause of the version that it is of.
        HalfulpError: there is no such opset.
    """
    if not 1 <= opset <= NEWEST:
        raise HalfulpError("no such opset", expected=f"1 to {NEWEST}", got=opset)
    return _Converter(model, file, folder).to(opset)


class _Converter:
    """One conversion of one model."""

    def __init__(self, model: ModelProto, file: str, folder: Path | None) -> None:
        self._model = model
        self._file = file
        self._reader = TensorReader(file, folder)
        self._names = Names(model)
        self._types = infer_types(model, file)
        self._labels: dict[str, dict[str, str]] = {}  # by path, then by output
        self._made: set[str] = set()  # outputs of nodes that the conversion has added
        self._changes: list[Change] = []

    def to(self, target: int) -> list[Change]:
        model = self._model
        if model.training_info:
            raise UnsupportedError(f"{self._file}: has training information, which is not converted")
        opset = default_opset(model.opset_import)
        if opset is None and model.ir_version < 3:
            opset = 1
        if opset is None:
            raise UnsupportedError(f"{self._file}: imports no operators of ONNX's own")
        read, held = _read(model.graph), {tensor.name for tensor in model.graph.initializer}
        functions = FunctionTypes(model, self._types, self._file)
        inside = [functions.of(function) for function in model.functions]
        for function, types in zip(model.functions, inside, strict=True):
            self._function(function, types, target)
        self._label("", model.graph)
        for here, there in _steps(opset, target):
            self._graph(model.graph, Known(self._types[""], self._reader), "", here, there)
        _sweep(model.graph, read | ({tensor.name for tensor in model.graph.initializer} - held))
        _set_opset(model, target)
        self._raise_ir_version(target, held)
        return self._changes

    def _function(self, function: FunctionProto, types: dict[str, Types], target: int) -> None:
        opset = default_opset(function.opset_import)
        if opset is None:
            return
        root = "/".join(identity(function))
        self._types |= {root + path: found for path, found in types.items()}
        self._label(root, function)
        read = _read_in(function)
        for here, there in _steps(opset, target):
            known = Known(self._types[root], self._reader)
            known.add_nodes(function.node)
            self._nodes(function, known, root, here, there)
        _drop_constants(function, read - _read_in(function))
        _set_opset(function, target)

    def _label(self, path: str, owner: GraphProto | FunctionProto, where: str = "") -> None:
        """Note what messages call each node, before its place changes."""
        labels = self._labels.setdefault(path, {})
        if isinstance(owner, FunctionProto):
            where = owner.name
        for index, node in enumerate(owner.node):
            name = label(node, index, where)
            labels.update(dict.fromkeys(node.output, name))
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inner = inner_path(path, node, attribute)
                    self._label(inner, attribute.g, f"{name}.{attribute.name}")

    def _graph(self, graph: GraphProto, known: Known, path: str, here: int, there: int) -> None:
        known.add_constants(graph)
        self._nodes(graph, known, path, here, there)

    def _nodes(
        self, owner: GraphProto | FunctionProto, known: Known, path: str, here: int, there: int
    ) -> None:
        edit = Editor(owner, known, self._names, there)
        labels = self._labels[path]
        changed = False
        for node in owner.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inner = inner_path(path, node, attribute)
                    types = self._types.setdefault(inner, {})
                    self._graph(attribute.g, known.inside(types), inner, here, there)
            if plain_domain(node.domain) or not convert_foreign.changes(node.op_type, here, there):
                edit.keep(node)
                continue
            changed = True
            name = next((labels[output] for output in node.output if output in labels), node.op_type)
            made = len(edit.nodes)
            edit.start(node, name, silent=any(output in self._made for output in node.output))
            with self._blaming(name, there):
                self._node(node, here, edit)
            for new in edit.nodes[made:]:
                self._made.update(output for output in new.output if output not in labels)
                labels.update(dict.fromkeys(new.output, name))
        if changed:
            # Copies, because some of them are parts of the list that is emptied.
            nodes = [_copy(node) for node in edit.nodes]
            del owner.node[:]
            owner.node.extend(nodes)
        self._changes += edit.changes

    def _node(self, node: NodeProto, here: int, edit: Editor) -> None:
        if node.op_type in ("Pow", "PRelu"):
            self._check(node, here, edit.known)
        step = STEPS.get((node.op_type, here, edit.opset))
        if step is not None:
            step(node, edit)
        else:
            convert_foreign.step(node, here, edit)

    def _check(self, node: NodeProto, opset: int, known: Known) -> None:
        """Refuse a node that breaks a clause of its own version, whatever it is fed."""
        operands = [known.value(name) for name in node.input]
        types = [TensorType(value.type, value.shape) for value in operands if value.type is not None]
        if len(types) == len(operands):
            row = in_force("onnx", node.op_type, opset)
            attributes = {
                a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name
            }
            row.infer(*types, **attributes)

    def _raise_ir_version(self, opset: int, held: set[str]) -> None:
        """Raise the IR version where the opset or a new initializer needs a later one."""
        model = self._model
        least = onnx.helper.find_min_ir_version_for(
            [onnx.helper.make_opsetid("", opset)], ignore_unknown=True
        )
        if {tensor.name for tensor in model.graph.initializer} - held:
            least = max(least, _OLDEST_IR_OF_INITIALIZERS)
        least = max(least, 3)
        if model.ir_version < least:
            self._changes.append(Change(self._file, f"IR version {model.ir_version} becomes {least}"))
            model.ir_version = least

    @contextmanager
    def _blaming(self, node: str, opset: int) -> Iterator[None]:
        """Turn what goes wrong with a node into an error that names the file and the node."""
        try:
            yield
        except NoExactForm as error:
            raise UnsupportedError(
                f"{self._file}, node {node}: no exact form in opset {opset}: {error}"
            ) from None
        except ModelError:
            raise
        except HalfulpError as error:
            shown: Mapping[str, object] = error.shown
            clause = error.clause if isinstance(error, SpecError) else None
            raise ModelError(error.message, file=self._file, node=node, clause=clause, **shown) from error


def _steps(opset: int, target: int) -> Iterator[tuple[int, int]]:
    by = 1 if target > opset else -1
    for here in range(opset, target, by):
        yield here, here + by


def _set_opset(owner: ModelProto | FunctionProto, opset: int) -> None:
    own = [entry for entry in owner.opset_import if not plain_domain(entry.domain)]
    for entry in own or [owner.opset_import.add()]:
        entry.version = opset


def _sweep(graph: GraphProto, read: set[str]) -> None:
    """Drop the constants that had readers, or were made on the way, and have no readers now."""
    useless = read - _read(graph)
    for _, each in graphs(graph, ""):
        _drop_constants(each, useless)
        inputs = {info.name for info in each.input}
        for index in reversed(range(len(each.initializer))):
            if each.initializer[index].name in useless - inputs:
                del each.initializer[index]


def _drop_constants(owner: GraphProto | FunctionProto, useless: set[str]) -> None:
    for index in reversed(range(len(owner.node))):
        if owner.node[index].op_type == "Constant" and set(owner.node[index].output) <= useless:
            del owner.node[index]


def _read(graph: GraphProto) -> set[str]:
    """Return every name that a graph or one within it reads."""
    names: set[str] = set()
    for _, each in graphs(graph, ""):
        names.update(info.name for info in each.output)
        names.update(name for node in each.node for name in node.input)
    return names


def _read_in(function: FunctionProto) -> set[str]:
    return _read(GraphProto(node=function.node)) | set(function.output)


def _copy(node: NodeProto) -> NodeProto:
    new = NodeProto()
    new.CopyFrom(node)
    return new
