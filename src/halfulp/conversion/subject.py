"""A model to be compared, and its engine: ONNX Runtime with halfulp's operators, or halfulp itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onnx import ModelProto, ValueInfoProto, helper

from halfulp.conversion.between import is_foreign
from halfulp.errors import HalfulpError
from halfulp.installed import has_module
from halfulp.models.directml.dxdispatch import Program
from halfulp.models.graph import Array, Graph, Model, Node, Value
from halfulp.models.onnx import build
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.openvino.operators import foreign
from halfulp.models.openvino.reader import Origin
from halfulp.models.run.api import run
from halfulp.models.run.control import CONTROL
from halfulp.models.run.helpers import HELPERS

Run = Callable[[Mapping[str, Array]], dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """One of the two compared models.

    Attributes:
        model: as it was read.
        proto: the ONNX model that it was read from, if it is one.
        folder: where that one's external data lies.
    """

    model: Model | Program
    proto: ModelProto | None = None
    folder: Path | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the graph, in the order of their evaluation; none of a DxDispatch program."""
        return self.model.graph.nodes if isinstance(self.model, Model) else ()

    def with_outputs(self, names: Sequence[str]) -> Subject:
        """Return the model with tensors of the graph as outputs, and no others."""
        assert isinstance(self.model, Model)
        graph = replace(self.model.graph, outputs=tuple(Value(name, kind="undeclared") for name in names))
        proto = None
        if self.proto is not None:
            proto = ModelProto()
            proto.CopyFrom(self.proto)
            del proto.graph.output[:]
            proto.graph.output.extend(ValueInfoProto(name=name) for name in names)
        return Subject(replace(self.model, graph=graph), proto, self.folder)

    def with_operands(self, values: Mapping[str, Array]) -> Subject:
        """Return an ONNX model whose nodes read these tensors of the graph, and give their own as :func:`given`."""
        assert self.proto is not None
        proto = ModelProto()
        proto.CopyFrom(self.proto)
        graph = proto.graph
        for node in graph.node:
            node.output[:] = [given(name) if name in values else name for name in node.output]
        known = [info for info in graph.value_info if info.name not in values]
        del graph.value_info[:], graph.output[:]
        graph.value_info.extend(known)
        for name, array in values.items():
            number = helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(helper.make_tensor_value_info(name, number, [None] * array.ndim))
            graph.output.append(ValueInfoProto(name=given(name)))
        return Subject(build(proto, self.model.file, self.folder, keep_unknown=True), proto, self.folder)


def given(name: str) -> str:
    """Return the name of a tensor that is computed from given operands."""
    return f"{name}//given"


def runs(*subjects: Subject) -> tuple[str, list[Run]]:
    """Return the name of an engine that takes all of these models, and a runner for each.

    ONNX Runtime evaluates a network in a fraction of the time, node by node as the model says. Models with
    only Pow, PRelu and plumbing run without it.
    """
    onnx_models = [subject for subject in subjects if subject.proto is not None]
    if len(onnx_models) == len(subjects) and find_spec("onnxruntime") and not all(map(is_all_ours, subjects)):
        from halfulp.integrations.onnxruntime import engine

        as_written = engine.Settings(optimized=False)
        try:
            return "onnxruntime", [
                engine.runner(subject.proto, subject.model, as_written, folder=subject.folder)
                for subject in onnx_models
                if subject.proto is not None and isinstance(subject.model, Model)
            ]
        except HalfulpError:  # refused, or can't be patched because types are not declared
            pass
    return "halfulp", [walk(subject.model) for subject in subjects]


def walk(model: Model | Program) -> Run:
    """Return a runner of halfulp's own, or in OpenVINO for an IR file with layers that only OpenVINO has."""
    if runs_in_openvino(model):
        from halfulp.integrations.openvino.engine import Runner

        assert isinstance(model, Model)
        return Runner(model)
    return partial(run, model)


def runs_in_openvino(model: Model | Program) -> bool:
    """Return whether a model is an IR file with layers that halfulp lacks, and OpenVINO is installed."""
    return (
        isinstance(model, Model)
        and isinstance(model.graph.source, Origin)
        and bool(foreign(model.graph.nodes))
        and Path(model.file).is_file()
        and has_module("openvino")
    )


def has_foreign(subject: Subject) -> bool:
    """Return whether a model has a node, in its functions too, that is neither Pow, PRelu nor plumbing."""
    return any(node.function is None and is_foreign(node) for node in all_nodes(subject.nodes))


def has_ours(subject: Subject) -> bool:
    """Return whether a model has a Pow or PRelu of ONNX, in its functions too."""
    return any(map(is_ours, all_nodes(subject.nodes)))


def is_ours(node: Node) -> bool:
    """Return whether a node is a Pow or PRelu of ONNX."""
    return not node.domain and node.type in SUPPORTED_OPS


def is_all_ours(subject: Subject) -> bool:
    """Return whether no node of a model runs in another library."""
    return not any(_is_foreign(node) for node in all_nodes(subject.nodes))


def _is_foreign(node: Node) -> bool:
    if node.standard != "onnx" or node.function is not None:
        return False
    ours = (
        node.type in SUPPORTED_OPS or node.type in HELPERS or node.type in CONTROL or node.type == "Constant"
    )
    return bool(node.domain) or not ours


def all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes, and those in their subgraphs and functions."""
    for node in nodes:
        yield node
        inner: list[Graph] = [*node.subgraphs, *([node.function] if node.function else [])]
        for graph in inner:
            yield from all_nodes(graph.nodes)
