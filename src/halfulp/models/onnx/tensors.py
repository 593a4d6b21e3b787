"""ONNX tensors to arrays, with every claim checked; and a model's weights in a file that every session maps.

A tensor's dims are compared with the number of its bytes before an array is made, so that a model can't ask for more
memory than it contains. External data must be inside the model's folder.
"""

import ctypes
import gc
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto

from halfulp.errors import HalfulpError, ModelError, within
from halfulp.installed import version_of
from halfulp.models.files import inside, read_whole
from halfulp.models.graph import MOST_DIMS, Array, Value, describe, is_countable
from halfulp.models.onnx.walk import copy_fields, graphs
from halfulp.types import Dim, Shape, type_name

LARGEST_FILE = (1 << 31) - 1  # of a protobuf message in bytes
# A sparse tensor is made dense. Only there do a few bytes of a file become many bytes of memory.
_DENSE_LIMIT = 1 << 30

# Elements smaller than a byte are stored packed. Older onnx packages lack some of these types.
_PACKED_BITS = {
    number: int(match[2])
    for name, number in TensorProto.DataType.items()
    if (match := re.match(r"(U?INT|FLOAT)([246])(E|$)", name))
}
# The eighths of an element of the field for the type that an element takes there.
_EIGHTHS = {number: bits for number, bits in _PACKED_BITS.items() if bits in (2, 4)}
_EIGHTHS |= dict.fromkeys((TensorProto.COMPLEX64, TensorProto.COMPLEX128), 16)
_BYTES = ("external_data", "raw_data")
_DATA_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@lru_cache(maxsize=256)
def dtype_of(onnx_enum: int) -> np.dtype[Any]:
    """Return the NumPy dtype of an ONNX element type's number; raises KeyError for an unknown one."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx_enum))


@lru_cache(maxsize=256)
def type_of(onnx_enum: int) -> str | None:
    """Return the name of an ONNX element type's number; None for an unknown one."""
    with suppress(KeyError):
        return type_name(dtype_of(onnx_enum))
    return None


@cache
def enum_of(name: str) -> int:
    """Return the number of an element type in TensorProto.DataType; ``name`` may be ``string``."""
    for number in TensorProto.DataType.values():
        if type_of(number) == name:
            return int(number)
    raise HalfulpError(f"no element type is called {name!r}")


def declaration(name: str, type: str | None, shape: Shape) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor, or of a value without a type."""
    if type is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    return onnx.helper.make_tensor_value_info(name, enum_of(type), shape)


def declared(info: onnx.ValueInfoProto, file: str) -> Value:
    """Return the value that a ValueInfoProto declares. A negative dim is an unknown one."""
    try:
        return Value(info.name, *_declared(info.type.SerializeToString()))
    except HalfulpError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(f"{info.name!r} has {error.message}", file=file, **shown) from None


@lru_cache(maxsize=4096)  # the values of a large model are of few types
def _declared(serialized: bytes) -> tuple[str | None, Shape, str]:
    """Return the element type, the shape and the kind of value of a serialized TypeProto."""
    type = TypeProto.FromString(serialized)
    kind = type.WhichOneof("value")
    if kind is None:
        return None, None, "undeclared"
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return None, None, kind.removesuffix("_type")
    tensor = getattr(type, kind)
    element_type = type_of(tensor.elem_type)
    if element_type is None and tensor.elem_type != TensorProto.UNDEFINED:
        raise HalfulpError("an unknown element type", got=tensor.elem_type)
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return element_type, shape, kind.removesuffix("_type")


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        # Exporters write -1 for an unknown dim, and runtimes accept it.
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    symbol: object = dim.dim_param
    # protobuf returns a text that is not UTF-8 as bytes
    if not (isinstance(symbol, str) and symbol.isprintable()):
        raise HalfulpError("a dim whose name can't be printed")
    # Exporters write "?" for several dims, which need not be equal.
    return None if symbol in ("", "?") else symbol


def read_pb(path: Path) -> Array:
    """Return the array of a TensorProto file; raises HalfulpError if it can't be read."""
    tensor = TensorProto()
    try:
        tensor.ParseFromString(read_whole(path, LARGEST_FILE))
    except DecodeError:
        raise HalfulpError(f"{path}: truncated, or not a TensorProto") from None
    with within(str(path)):
        return TensorReader(path.parent).read(tensor, "the tensor")


class TensorReader:
    """Reads the tensors of a model, whose external data is in ``folder``, if it came with one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        # One mapping for each file: one for each tensor would exceed the limit of open files.
        self._mapped: dict[Path, np.memmap[Any, Any]] = {}

    def read(self, tensor: TensorProto, what: str) -> Array:
        """Return the tensor's array, read-only, and memory-mapped if it is external; ``what`` names it in messages.

        Raises:
            HalfulpError: its type is unknown, its dims are negative or contradict the data, it has data of two kinds,
                or its external data is outside the folder, missing or too short.
        """
        if type_of(tensor.data_type) is None:
            raise HalfulpError(f"{what} has an unknown element type", got=tensor.data_type)
        dtype, shape = dtype_of(tensor.data_type), self._shape(tensor.dims, what)
        described, count = describe(dtype.name, shape), math.prod(shape)
        field, raw = self._field(tensor, what), None
        sizes, usual, unit = _EIGHTHS, 8, "elements"
        if field in _BYTES:
            sizes, usual, unit = _PACKED_BITS, 8 * dtype.itemsize, "bytes"
        needed = -(-count * sizes.get(tensor.data_type, usual) // 8)
        if field == "external_data":
            raw = self._external(tensor, needed, what, described)
        elif field == "raw_data":
            raw = np.frombuffer(tensor.raw_data, np.uint8)
        stored = len(getattr(tensor, field)) if raw is None else raw.size
        if stored != needed:
            message = f"{what} has dims that its data contradicts: {described}"
            raise HalfulpError(message, expected=f"{needed} {unit}", got=f"{stored} {unit}")
        if raw is not None:
            if tensor.data_type not in _PACKED_BITS:
                return np.asarray(raw.view(dtype.newbyteorder("<")).reshape(shape))
            tensor = TensorProto(data_type=tensor.data_type, dims=shape, raw_data=raw.tobytes())
        try:
            array = onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, OverflowError) as error:
            raise HalfulpError(f"{what} can't be read: {error}") from None
        array.setflags(write=False)  # the model may run again
        return array

    def _field(self, tensor: TensorProto, what: str) -> str:
        """Return the field with the tensor's data, one of _BYTES or the field for the elements of its type."""
        if tensor.HasField("segment"):
            raise HalfulpError(f"{what} is stored in segments, which no runtime reads")
        is_external = tensor.data_location == TensorProto.EXTERNAL
        filled = [name for name in _DATA_FIELDS if len(getattr(tensor, name))]
        filled += ["raw_data"] * (tensor.HasField("raw_data") and not is_external)
        if len(filled) + is_external > 1:
            raise HalfulpError(f"{what} carries its data twice", got=", ".join(filled))
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        actual = next(iter(["external_data"] * is_external + filled), field)
        if actual in _BYTES and tensor.data_type == TensorProto.STRING:
            raise HalfulpError(f"{what} stores strings as {actual.removesuffix('_data')} data")
        if actual not in {*_BYTES, field}:
            raise HalfulpError(f"{what} has its data in the wrong field", expected=field, got=actual)
        return actual

    def read_sparse(self, sparse: onnx.SparseTensorProto, what: str) -> Array:
        """Return a sparse tensor as a dense array of at most 1 GiB."""
        values = self.read(sparse.values, f"values of {what}")
        indices = self.read(sparse.indices, f"indices of {what}")
        shape = self._shape(sparse.dims, what)
        if not shape:
            raise HalfulpError(f"{what} has no dims; a sparse tensor needs one")
        if math.prod(shape) * values.itemsize > _DENSE_LIMIT:
            raise HalfulpError(f"{what} is too large to be made dense", expected="at most 1 GiB", got=shape)
        if indices.dtype != np.int64 or values.ndim != 1:
            raise HalfulpError(f"{what} has indices that are not int64, or values that are not a list")
        dense = target = np.zeros(shape, values.dtype)
        if indices.shape == (values.size,):
            target, indices = dense.reshape(-1), indices[:, None]
        elif indices.shape != (values.size, len(shape)):
            raise HalfulpError(f"{what} has indices that don't fit its values", got=list(indices.shape))
        if ((indices < 0) | (indices >= target.shape)).any():
            raise HalfulpError(f"{what} has an index outside its dims", got=list(shape))
        target[tuple(indices.T)] = values
        dense.setflags(write=False)
        return dense

    def _shape(self, dims: Iterable[int], what: str) -> tuple[int, ...]:
        shape = tuple(dims)
        if min(shape, default=0) < 0:
            raise HalfulpError(f"{what} has a negative dim", got=list(shape))
        if len(shape) > MOST_DIMS:
            raise HalfulpError(f"{what} has too many dims", expected=f"at most {MOST_DIMS}", got=len(shape))
        # A tensor without elements takes no bytes, but NumPy limits its other dims too.
        if 0 in shape and not is_countable(shape):
            raise HalfulpError(f"{what} has dims that are too large", got=list(shape))
        return shape

    def _external(self, tensor: TensorProto, needed: int, what: str, described: str) -> Array:
        """Return the bytes of external data, which are mapped."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if any(isinstance(text, bytes) for text in chain(entries, entries.values())):
            raise HalfulpError(f"{what} has external data, and its location is not UTF-8")
        path = inside(self._folder, entries.get("location", ""), f"external data of {what}")
        size = path.stat().st_size
        for key in filter(entries.__contains__, ("offset", "length")):
            # int() would accept " 1_0" and digits of other scripts, and fail on 5000 digits.
            if not re.fullmatch("[0-9]{1,18}", entries[key]):
                raise HalfulpError(f"{what} has a bad external data {key}", got=repr(entries[key][:40]))
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", needed))
        if length != needed:
            message = f"{what} has external data of the wrong length for {described}"
            raise HalfulpError(message, expected=f"{needed} bytes", got=f"{length} bytes")
        if offset + needed > size:
            message = f"{what} reaches past the end of its external data {path.name!r}"
            raise HalfulpError(message, expected=f"{offset + needed} bytes", got=f"{size} bytes")
        if needed == 0:
            return np.empty(0, np.uint8)
        if path not in self._mapped:
            self._mapped[path] = np.memmap(path, np.uint8, "r")
        return self._mapped[path][offset : offset + needed]


# --- the tensors of a model, and a file for its weights ------------------------------------------------

_LEAST = 1024  # minimum size in bytes of a tensor that is written to that file
_ALIGNED = 64


def light_copy(proto: ModelProto, folder: Path) -> ModelProto:
    """Return a copy of a model without its large weights, which go to a new file in a folder."""
    light = ModelProto()
    if not _is_mapped():
        light.CopyFrom(proto)
        return light
    copy_fields(proto, light, without={"graph"})
    copy_fields(proto.graph, light.graph, without={"initializer"})
    with NamedTemporaryFile(suffix=".halfulp", dir=folder, delete=False) as file:
        location = Path(file.name).name
        for tensor in proto.graph.initializer:
            new = light.graph.initializer.add()
            data = tensor.raw_data  # a copy
            if len(data) < _LEAST:
                new.CopyFrom(tensor)
                continue
            copy_fields(tensor, new, without={"raw_data"})
            file.write(bytes(-file.tell() % _ALIGNED))
            for key, value in (("location", location), ("offset", file.tell()), ("length", len(data))):
                new.external_data.add(key=key, value=str(value))
            file.write(data)
            new.data_location = TensorProto.EXTERNAL
    return light


def without_tensors(model: ModelProto, is_left_out: Callable[[TensorProto], bool]) -> ModelProto:
    """Return a copy of a model in which some initializers of its graph are inputs."""
    light = ModelProto()
    copy_fields(model, light, without={"graph"})
    copy_fields(model.graph, light.graph, without={"initializer"})
    inputs = {info.name for info in model.graph.input}
    for tensor in model.graph.initializer:
        if not is_left_out(tensor):
            light.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(info)
    return light


def release() -> None:
    """Return unused memory to the system before the next session allocates its own."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # on other systems
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps freed memory


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
            for node in graph.node:
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
