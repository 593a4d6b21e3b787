"""A model whose weights are in a file: every session maps that file, and no one holds a copy."""

from __future__ import annotations

import ctypes
import gc
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from halfulp.installed import version_of
from halfulp.models.files import inside
from halfulp.models.onnx.walk import every_node, graphs

_WEIGHTS = "weights.halfulp"
_LEAST = 1024  # minimum size in bytes of a tensor that is written to that file
_ALIGNED = 64


@contextmanager
def mapped(proto: ModelProto, file: str, folder: Path | None) -> Iterator[tuple[ModelProto, str, Path]]:
    """Yield a copy of a model without its weights, its name in messages, and the folder that has them.

    Args:
        proto: the model; left as it is.
        file: its name in messages.
        folder: where its external data lies.
    """
    with TemporaryDirectory(prefix="halfulp-") as made:
        place = Path(made)
        for location in set(external_data(proto)) if folder is not None else ():
            link(inside(folder, location, "external data").resolve(), place / location)
        light = ModelProto()
        if _is_mapped():
            _copy(proto, light, without="graph")
            _copy(proto.graph, light.graph, without="initializer")
            _write_weights(proto, light, place / _WEIGHTS)
        else:
            light.CopyFrom(proto)
        del proto
        yield light, file, place


def release() -> None:
    """Return unused memory to the system before the next session allocates its own."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps freed memory
        if trim is not None:
            trim(0)


def external_data(model: ModelProto) -> Iterator[str]:
    """Yield the places of a model's external data, as it spells them."""
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model: initializers and attributes, those of subgraphs and functions included."""
    for owner in (model.graph, *model.functions):
        for _, graph in graphs(owner):
            if isinstance(graph, GraphProto):
                yield from graph.initializer
                for sparse in graph.sparse_initializer:
                    yield from (sparse.values, sparse.indices)
    for node in every_node(model.graph, *model.functions):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors


def link(source: Path, target: Path) -> None:
    """Make a file appear elsewhere: a hard link, as OpenVINO requires, or a copy on another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _is_mapped() -> bool:
    """Return whether every runtime finds weights beside a model. ONNX Runtime finds them since 1.21."""
    version = version_of("onnxruntime")
    return version is None or tuple(map(int, version.split(".")[:2])) >= (1, 21)


def _copy(source: Message, target: Message, *, without: str) -> None:
    """Copy all fields of a message but one."""
    for field, value in source.ListFields():
        if field.name == without:
            continue
        to: Any = getattr(target, field.name)
        if hasattr(to, "MergeFrom"):  # a message, or several values
            to.MergeFrom(value)
        else:
            setattr(target, field.name, value)


def _write_weights(source: ModelProto, target: ModelProto, path: Path) -> None:
    """Write the data of large initializers to a file, and copy the small ones."""
    with path.open("wb") as file:
        for tensor in source.graph.initializer:
            new = target.graph.initializer.add()
            data = tensor.raw_data  # a copy
            if len(data) < _LEAST:
                new.CopyFrom(tensor)
                continue
            _copy(tensor, new, without="raw_data")
            file.write(bytes(-file.tell() % _ALIGNED))
            for key, value in (("location", path.name), ("offset", file.tell()), ("length", len(data))):
                new.external_data.add(key=key, value=str(value))
            file.write(data)
            new.data_location = TensorProto.EXTERNAL
