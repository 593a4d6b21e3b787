"""Rewriting the nodes of an ONNX model: its graph, its subgraphs, its functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from halfulp.conversion.rewrite.editor import Change, Editor, Names, NoExactForm
from halfulp.conversion.rewrite.functions import FunctionTypes, root
from halfulp.conversion.rewrite.value_info import ValueInfo, default_opset, graphs, infer_types, inner_path
from halfulp.errors import UnsupportedError, within
from halfulp.models.graph import listed
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.functions import identity, reached
from halfulp.models.onnx.nodes import plain_domain
from halfulp.models.onnx.tensors import TensorReader

Wanted = Callable[[NodeProto], bool]
Rewrite = Callable[[NodeProto, Editor], None]
_Message = TypeVar("_Message", NodeProto, FunctionProto)


class Walk:
    """The rewriting of one model, in place.

    Args:
        model: one that the front end accepts.
        file: its name in messages.
        folder: where its external data lies.

    Attributes:
        changes: what was done so far.
        refused: the nodes that have no exact form, by their outputs: name, where they have none, and why. They
            are collected where a rewriting asks for that.
    """

    def __init__(self, model: ModelProto, file: str, folder: Path | None) -> None:
        self.model = model
        self.changes = drop_unreached(model, file)
        self._file = file
        self._reader = TensorReader(file, folder)
        self._names = Names(model)
        self._types = infer_types(model, file)
        self._labels: dict[str, dict[str, str]] = {}  # by path, then by output
        self._made: set[str] = set()  # outputs of nodes that were added
        functions = FunctionTypes(model, self._types, file)
        for types in [functions.of(function) for function in model.functions]:
            self._types |= types
        for function in model.functions:
            self._label(root(function), function)
        self._label("", model.graph)
        self._held = {tensor.name for tensor in model.graph.initializer}
        self._read = _read(model.graph)
        self.refused: dict[str, tuple[str, str, str]] = {}

    @property
    def owners(self) -> Iterator[GraphProto | FunctionProto]:
        """The model's functions that use ONNX's own operators, then its graph."""
        yield from (f for f in self.model.functions if default_opset(f.opset_import) is not None)
        yield self.model.graph

    def rewrite(
        self,
        owner: GraphProto | FunctionProto,
        opset: int,
        wanted: Wanted,
        rewrite: Rewrite,
        where: str,
        *,
        collect: bool = False,
    ) -> None:
        """Rewrite the nodes of ONNX's own domain that are wanted, in subgraphs too.

        Args:
            owner: one of :attr:`owners`.
            opset: the version that new nodes are of.
            wanted: tells which nodes to rewrite.
            rewrite: adds what takes a node's place; raises NoExactForm where nothing can.
            where: what has no form for it then, such as ``opset 6``.
            collect: whether a node without a form is noted in :attr:`refused` and left alone from then on.

        Raises:
            UnsupportedError: of NoExactForm, naming file and node.
            ModelError: of any other HalfulpError, naming file and node.
        """
        path = root(owner) if isinstance(owner, FunctionProto) else ""
        before = _read_in(owner) if isinstance(owner, FunctionProto) else set()
        value_info = ValueInfo(self._types[path], self._reader)
        self._walk(owner, value_info, path, (opset, wanted, rewrite, where, collect))
        if isinstance(owner, FunctionProto):
            _drop_constants(owner, before - _read_in(owner))

    def sweep(self) -> bool:
        """Drop constants that have lost their readers; tell whether there are new initializers."""
        made = {tensor.name for tensor in self.model.graph.initializer} - self._held
        useless = (self._read | made) - _read(self.model.graph)
        for _, each in graphs(self.model.graph, ""):
            _drop_constants(each, useless)
            inputs = {info.name for info in each.input}
            for index in reversed(range(len(each.initializer))):
                if each.initializer[index].name in useless - inputs:
                    del each.initializer[index]
        return bool({tensor.name for tensor in self.model.graph.initializer} - self._held)

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

    def _walk(
        self,
        owner: GraphProto | FunctionProto,
        value_info: ValueInfo,
        path: str,
        task: tuple[int, Wanted, Rewrite, str, bool],
    ) -> None:
        opset, wanted, rewrite, where, collect = task
        if isinstance(owner, GraphProto):
            value_info.add_constants(owner)
        else:
            value_info.add_nodes(owner.node)
        edit = Editor(owner, value_info, self._names, opset)
        labels = self._labels[path]
        changed = False
        for node in owner.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    inner = inner_path(path, node, attribute)
                    self._walk(attribute.g, value_info.inside(self._types.setdefault(inner, {})), inner, task)
            is_refused = any(output in self.refused for output in node.output)
            if plain_domain(node.domain) or is_refused or not wanted(node):
                edit.keep(node)
                continue
            changed = True
            name = next((labels[output] for output in node.output if output in labels), node.op_type)
            made = len(edit.nodes)
            edit.start(node, name, silent=any(output in self._made for output in node.output))
            with within(self._file, name):
                try:
                    rewrite(node, edit)
                except NoExactForm as error:
                    if not collect:
                        raise UnsupportedError(f"no exact form in {where}: {error.why}") from None
                    del edit.nodes[made:]
                    edit.keep(node)
                    self.refused.update(dict.fromkeys(filter(None, node.output), (name, where, error.why)))
            for new in edit.nodes[made:]:
                self._made.update(output for output in new.output if output not in labels)
                labels.update(dict.fromkeys(new.output, name))
        if changed:
            # Copies, because some of them are parts of the list that is emptied.
            nodes = [_copy(node) for node in edit.nodes]
            del owner.node[:]
            owner.node.extend(nodes)
        self.changes += edit.changes


def drop_unreached(model: ModelProto, file: str) -> list[Change]:
    """Leave out the functions that a model's graph does not reach; return what was done."""
    kept = reached(model)
    if len(kept) == len(model.functions):
        return []
    names = {identity(function): function.name for function in model.functions}
    for function in kept:
        del names[identity(function)]
    kept = [_copy(function) for function in kept]
    del model.functions[:]
    model.functions.extend(kept)
    return [Change(file, f"functions that nothing calls are left out: {listed(names.values(), most=4)}")]


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


def _copy(message: _Message) -> _Message:
    new = type(message)()
    new.CopyFrom(message)
    return new
