"""Writing a converted model, whole or not at all: the model and the files that it refers to."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from halfulp.errors import HalfulpError
from halfulp.models.files import inside, replacing
from halfulp.models.onnx.walk import Owner, graphs


def save_onnx(model: ModelProto, folder: Path | None, path: Path, data: bytes | None = None) -> None:
    """Write an ONNX model, and its external data beside it.

    Args:
        model: refers to external data by places relative to ``folder``.
        folder: where that data lies.
        path: where to write; the data goes to the same places relative to its folder.
        data: the bytes of the file that the model was read from, where it is to be written as it was.

    Raises:
        HalfulpError: a file can't be written, or the data would replace another file.
    """
    with ExitStack() as files:
        for location in sorted(set(external_data(model))):
            source = inside(folder, location, "external data")
            target = path.parent / location
            if target.exists() and target.samefile(source):
                continue
            if target.exists() and not filecmp.cmp(source, target, shallow=False):
                raise HalfulpError(f"{target}: exists already, and holds other data than {source}")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, files.enter_context(replacing(target)))
        files.enter_context(replacing(path)).write_bytes(model.SerializeToString() if data is None else data)


def external_data(model: ModelProto) -> Iterator[str]:
    """Yield the places of a model's external data, as it spells them."""
    for owner in (model.graph, *model.functions):
        for _, each in graphs(owner):
            for tensor in _tensors(each):
                if tensor.data_location == TensorProto.EXTERNAL:
                    yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _tensors(owner: Owner) -> Iterator[TensorProto]:
    if isinstance(owner, GraphProto):
        yield from owner.initializer
        for sparse in owner.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in owner.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
