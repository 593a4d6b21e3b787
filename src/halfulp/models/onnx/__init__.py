"""ONNX files to models: every opset, subgraphs, the model's own functions, external data.

Faults are found before anything runs (``checks.py``), and reported in one line that names the file and the node.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import FunctionProto, ModelProto, NodeProto, ValueInfoProto

from halfulp.errors import HalfulpError, HalfulpWarning, ModelError, UnsupportedError, printable, within
from halfulp.models.files import Source, format_of, inside, read_source
from halfulp.models.graph import Graph, Model
from halfulp.models.onnx import walk
from halfulp.models.onnx.checks import Builder, label
from halfulp.models.onnx.infer import OLDEST_IR_OF_DEFAULTS, Ask, Scope, Types, infer_functions
from halfulp.models.onnx.tensors import LARGEST_FILE, TensorReader, declared, external_data, light_copy, link

_SORTED = (
    "its nodes were not in order and have been sorted; a node without a name has its number in the new order"
)


class Onnx(Model):
    """An ONNX model: what it says of itself, its nodes and its values, loaded once.

    Nothing here changes the message. ``folder`` has its external data; it is None for a model that came without a file.
    ``ask`` is that of :func:`infer_types`.
    """

    def __init__(
        self, proto: ModelProto, file: str = "<ModelProto>", folder: Path | None = None, ask: Ask = "foreign"
    ) -> None:
        self.proto, self.file, self.folder = proto, file, folder
        self._ask, self._reader = ask, TensorReader(folder)
        self._scopes: dict[str, Scope] = {}  # by path

    @cached_property
    def graph(self) -> Graph:  # type: ignore[override]  # it can be set, too
        """The graph to evaluate; operators may be unknown. Errors are those of :meth:`check`."""
        return self._built()

    def check(self, *, keep_unknown: bool = True, check_ours: bool = True) -> Self:
        """Refuse a model that is broken, and return it otherwise.

        Args:
            keep_unknown: accept operators that the onnx package does not know, of any domain: some runtimes have them.
                Use this when the model will not be evaluated here.
            check_ours: check Pow and PRelu nodes; an audit reports their faults itself.

        Raises:
            ModelError: the file is broken or unsafe: truncated, cyclic, with names that are missing or defined twice,
                versions or operators that do not exist, tensors whose dims contradict their data, or external data
                outside the model's folder.
            UnsupportedError: an operator belongs to an unknown domain.
        """
        self.graph = self._built(keep_unknown, check_ours)
        return self

    @cached_property
    def fault_of_ours(self) -> HalfulpError | None:
        """The error of a Pow or PRelu node, None if there is none; that of any other part of the model is raised."""
        try:
            self._built()  # not kept: it copies weights
        except (ModelError, UnsupportedError) as error:
            self._built(check_ours=False)
            return error
        return None

    def _built(self, keep_unknown: bool = True, check_ours: bool = True) -> Graph:
        with within(self.file):
            return Builder(self.proto, self.file, self._reader, keep_unknown, check_ours).graph()

    def of(self, proto: ModelProto) -> Onnx:
        """Return another message as a model of this file and folder."""
        return Onnx(proto, self.file, self.folder)

    def copy(self) -> Onnx:
        """Return a copy, which may be changed."""
        return self.of(deepcopy(self.proto))

    def with_outputs(self, names: Sequence[str]) -> Onnx:
        """Return the model with tensors of the graph as outputs, and no others."""
        model = self.copy()
        del model.proto.graph.output[:]
        model.proto.graph.output.extend(ValueInfoProto(name=name) for name in names)
        model.graph = super().with_outputs(names).graph
        return model

    @contextmanager
    def mapped(self) -> Iterator[Onnx]:
        """Yield the model with its weights in a file that all sessions map, in a folder with its external data."""
        with TemporaryDirectory(prefix="halfulp-") as temporary:
            folder = Path(temporary)
            with within(self.file):
                for location in set(external_data(self.proto)) if self.folder is not None else ():
                    link(inside(self.folder, location, "external data"), folder / location)
                light = Onnx(light_copy(self.proto, folder), self.file, folder)
            del self
            yield light

    @cached_property
    def types(self) -> dict[str, Types]:
        """The types of the values of each graph by the graph's path, also in functions that are called."""
        return infer_functions(self.proto, self.file, self._ask)[0]

    def scopes(self, only: walk.Owner | None = None) -> Iterator[Scope]:
        """Yield functions that use ONNX's own operators, then the graph, or one of these; each before those within."""
        for owner, opset in walk.owners_of(self.proto):
            todo = [self.scope(owner, opset)] if only is None or only is owner else []
            while todo:
                scope = todo.pop()
                yield scope
                nodes = enumerate(scope.owner.node if scope.has_bodies else ())
                todo += chain.from_iterable(self.within(scope, *each) for each in nodes)

    def scope(self, owner: walk.Owner | None = None, opset: int | None = None) -> Scope:
        """Return a function's body, or the graph, with the values that its nodes can read."""
        owner = self.proto.graph if owner is None else owner
        opset = opset or walk.default_opset(self.proto.opset_import) or 1
        where = owner.name if isinstance(owner, FunctionProto) else ""
        return self._scope(owner, opset, walk.root(owner), where, None)

    def within(self, scope: Scope, index: int, node: NodeProto) -> Iterator[Scope]:
        """Yield the graphs within a node of a graph, which has this number."""
        for name, graph in walk.subgraphs(node):
            where = f"{label(node, index, scope.where)}.{name}"
            yield self._scope(graph, scope.opset, walk.inner_path(scope.path, node, name), where, scope)

    def _scope(self, owner: walk.Owner, opset: int, path: str, where: str, outer: Scope | None) -> Scope:
        if path not in self._scopes:
            types = self.types.setdefault(path, {})
            self._scopes[path] = Scope(owner, types, self._reader, path, where, outer)
            if self.proto.ir_version < OLDEST_IR_OF_DEFAULTS:
                self._scopes[path].defaults.clear()
        scope = self._scopes[path]
        scope.owner, scope.opset = owner, opset  # a rewriting copies nodes
        return scope


def load(source: Source, *, file: str | None = None, keep_unknown: bool = False) -> Model:
    """Read an ONNX model as :func:`parse` does, and check it as :meth:`Onnx.check` does; these have the errors."""
    model = parse(source, file=file)
    return Model(model.file, model.check(keep_unknown=keep_unknown).graph)


def declared_inputs(source: Source) -> Model:
    """Return a model's inputs without its nodes and weights. These are not checked: a broken model has inputs, too."""
    model = parse(source, report=lambda line: None)
    graph = model.proto.graph
    inputs = tuple(declared(info, model.file) for info in graph.input)
    defaults = dict.fromkeys((tensor.name for tensor in graph.initializer), np.empty(0))
    return Model(model.file, Graph(inputs, (), defaults, (), {}))


def parse(source: Source, *, file: str | None = None, report: Callable[[str], None] | None = None) -> Onnx:
    """Return the unchecked model of a path, of the bytes of a file, or of a ``ModelProto``, which is not changed.

    ``file`` is its name in messages; by default the path, or the kind of the source. The nodes are in order: those of
    the source are sorted in a copy if they are not. ``report`` receives a line if they were sorted; without it, a
    ``HalfulpWarning`` says so.

    Raises:
        ModelError: the file can't be read, or is not an ONNX model.
        HalfulpError: the source is of another class.
    """
    if isinstance(source, ModelProto):
        model = Onnx(source, file or "<ModelProto>")
    else:
        data, name, path = read_source(source, LARGEST_FILE, file)
        if format_of(data) == "openvino":
            raise ModelError("not an ONNX model: it begins like a *.xml file", file=name)
        proto = ModelProto()
        try:
            proto.ParseFromString(data)
        except DecodeError as error:
            if "Depth" in str(error):
                raise ModelError("its graphs nest too deep", file=name) from None
            expected = "the whole file: download or export it again"
            raise ModelError("truncated, or not an ONNX model", file=name, expected=expected) from None
        # The file may be a link. Its external data is in the folder that the caller names.
        model = Onnx(proto, name, None if path is None else path.parent)
    ordered, was_sorted = walk.in_order(model.proto)
    if was_sorted and report is not None:
        report(_SORTED)
    elif was_sorted:
        line = f"{printable(model.file)}: {_SORTED}; halfulp repair writes it in order"
        warnings.warn(line, HalfulpWarning, stacklevel=2)
    return model.of(ordered)
