"""ONNX tensors to arrays, believing nothing that the data does not bear out.

A tensor's dims are compared with the bytes that are really there before an array is made, so a
model can't ask for more memory than it brings. External data must lie under the model's folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, TypeProto

from halfulp.errors import HalfulpError, ModelError
from halfulp.models.files import inside, read_whole
from halfulp.models.graph import MOST_DIMS, Array, Value, describe, type_name
from halfulp.specs.tensor import Dim, Shape

LARGEST_FILE = (1 << 31) - 1
"""The bytes that a file in protobuf may have: a message ends there."""

# A sparse tensor is the one place where a few bytes may stand for many; it is made dense.
_DENSE_LIMIT = 1 << 30

# Elements smaller than a byte are stored packed. Older onnx packages lack some of these types.
_PACKED_BITS = {
    number: bits
    for name, bits in {
        "INT4": 4,
        "UINT4": 4,
        "FLOAT4E2M1": 4,
        "INT2": 2,
        "UINT2": 2,
        "FLOAT6E2M3": 6,
        "FLOAT6E3M2": 6,
    }.items()
    if (number := dict(TensorProto.DataType.items()).get(name)) is not None
}
_DATA_FIELDS = (
    "float_data",
    "int32_data",
    "int64_data",
    "double_data",
    "uint64_data",
    "string_data",
)


@lru_cache(maxsize=256)
def dtype_of(onnx_enum: int) -> np.dtype[Any]:
    """Return the NumPy dtype of an ONNX element type's number; raises KeyError for an unknown one."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx_enum))


@lru_cache(maxsize=256)
def type_of(onnx_enum: int) -> str:
    """Return the name of an ONNX element type's number; raises KeyError for an unknown one."""
    return type_name(dtype_of(onnx_enum))


@cache
def enum_of(name: str) -> int:
    """Return the number of an element type in TensorProto.DataType; ``name`` may be ``string``."""
    for number in TensorProto.DataType.values():
        if number != TensorProto.UNDEFINED and type_of(number) == name:
            return int(number)
    raise HalfulpError(f"no element type is called {name!r}")


def declaration(name: str, type: str | None, shape: Shape) -> onnx.ValueInfoProto:
    """Return what declares a tensor of this type and shape, and nothing about a value without a type."""
    if type is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    return onnx.helper.make_tensor_value_info(name, enum_of(type), shape)


def declared(info: onnx.ValueInfoProto, file: str) -> Value:
    """Return what a ValueInfoProto declares; a dim below 0 is an unknown one.

    Raises:
        ModelError: for an unknown element type, or a dim whose name can't be printed.
    """
    try:
        return Value(info.name, *_declared(info.type.SerializeToString(deterministic=True)))
    except HalfulpError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(f"{info.name!r} has {error.message}", file=file, **shown) from None


@lru_cache(maxsize=4096)  # the values of a large model are of few types
def _declared(serialized: bytes) -> tuple[str | None, Shape, str]:
    """Return the element type, the shape and the kind of value that a serialized TypeProto stands for."""
    type = TypeProto.FromString(serialized)
    kind = type.WhichOneof("value")
    if kind is None:
        return None, None, "undeclared"
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return None, None, kind.removesuffix("_type")
    tensor = getattr(type, kind)
    element_type = None
    if tensor.elem_type != TensorProto.UNDEFINED:
        try:
            element_type = type_of(tensor.elem_type)
        except KeyError:
            raise HalfulpError("an unknown element type", got=tensor.elem_type) from None
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return element_type, shape, kind.removesuffix("_type")


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        # Exporters write -1 where they know no dim, and runtimes take it so.
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    symbol: object = dim.dim_param
    # protobuf makes bytes of a text that is not UTF-8
    if not (isinstance(symbol, str) and symbol.isprintable()):
        raise HalfulpError("a dim whose name can't be printed")
    # "?" is what exporters write for any number of dims, which need not be the same.
    return None if symbol in ("", "?") else symbol


def read_pb(path: Path) -> Array:
    """Return the array of a TensorProto file.

    Raises:
        HalfulpError: it can't be read, or is none.
    """
    tensor = TensorProto()
    try:
        tensor.ParseFromString(read_whole(path, LARGEST_FILE))
    except DecodeError:
        raise HalfulpError(f"{path}: truncated, or not a TensorProto") from None
    return TensorReader(str(path), path.parent).read(tensor, "the tensor")


class TensorReader:
    """Reads the tensors of one model.

    Args:
        file: the model's name in messages.
        folder: where its external data lies; None for a model that came without a file.
    """

    def __init__(self, file: str, folder: Path | None) -> None:
        self._file = file
        self._folder = folder
        # One mapping a file: one a tensor would use up the files that may be open.
        self._mapped: dict[Path, np.memmap[Any, Any]] = {}

    def read(self, tensor: TensorProto, what: str) -> Array:
        """Return the tensor's array, read-only, and memory-mapped where it is external.

        Args:
            tensor: from the file, so anything may be wrong with it.
            what: how messages name it, such as ``initializer 'W'``.

        Raises:
            ModelError: unknown type, dims that are negative or contradict the data, two kinds of
                data at once, external data outside the folder, missing or too short.
        """
        try:
            dtype = dtype_of(tensor.data_type)
        except KeyError:
            self._fail(f"{what} has an unknown element type", got=tensor.data_type)
        shape = self._shape(tensor.dims, what)
        if tensor.HasField("segment"):
            self._fail(f"{what} is stored in segments, which no runtime reads")
        count = math.prod(shape)
        external = tensor.data_location == TensorProto.EXTERNAL
        filled = [name for name in _DATA_FIELDS if len(getattr(tensor, name))]
        filled += ["raw_data"] * (tensor.HasField("raw_data") and not external)
        if len(filled) > 1 or (external and filled):
            self._fail(f"{what} carries its data twice", got=", ".join(filled))
        if external:
            return self._external(tensor, dtype, shape, count, what)
        if filled == ["raw_data"]:
            if tensor.data_type == TensorProto.STRING:
                self._fail(f"{what} stores strings as raw data")
            self._check_bytes(tensor.data_type, dtype, count, len(tensor.raw_data), what, shape)
            if tensor.data_type not in _PACKED_BITS:
                return np.frombuffer(tensor.raw_data, dtype.newbyteorder("<")).reshape(shape)
        else:
            self._check_field(tensor, filled, count, what, shape)
        try:
            return _frozen(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, OverflowError, UnicodeDecodeError) as error:
            self._fail(f"{what} can't be read: {error}")

    def read_sparse(self, sparse: onnx.SparseTensorProto, what: str) -> Array:
        """Return a sparse tensor made dense; raises ModelError also where that takes over 1 GiB."""
        values = self.read(sparse.values, f"values of {what}")
        indices = self.read(sparse.indices, f"indices of {what}")
        shape = self._shape(sparse.dims, what)
        if not shape:
            self._fail(f"{what} has no dims, of which a sparse tensor needs one")
        if math.prod(shape) * values.itemsize > _DENSE_LIMIT:
            self._fail(f"{what} is too large to be made dense", expected="at most 1 GiB", got=shape)
        if indices.dtype != np.int64 or values.ndim != 1:
            self._fail(f"{what} has indices that are not int64, or values that are not a list")
        if indices.shape == (values.size, len(shape)):
            coordinates = tuple(indices.T)
        elif indices.shape == (values.size,):
            if indices.size and not 0 <= indices.min() <= indices.max() < math.prod(shape):
                self._fail(f"{what} has an index outside its dims", got=list(shape))
            coordinates = np.unravel_index(indices, shape)
        else:
            self._fail(f"{what} has indices that don't fit its values", got=list(indices.shape))
        for axis, dim in zip(coordinates, shape, strict=True):
            if axis.size and not 0 <= axis.min() <= axis.max() < dim:
                self._fail(f"{what} has an index outside its dims", got=list(shape))
        dense = np.zeros(shape, values.dtype)
        dense[coordinates] = values
        return _frozen(dense)

    def _shape(self, dims: Iterable[int], what: str) -> tuple[int, ...]:
        shape = tuple(dims)
        if any(dim < 0 for dim in shape):
            self._fail(f"{what} has a negative dim", got=list(shape))
        if len(shape) > MOST_DIMS:
            self._fail(
                f"{what} has more dims than NumPy does", expected=f"at most {MOST_DIMS}", got=len(shape)
            )
        # Zero elements of an absurd shape take no bytes, but NumPy counts them all the same.
        if 0 in shape and math.prod(max(dim, 1) for dim in shape) >= 1 << 60:
            self._fail(f"{what} has dims beyond what NumPy counts", got=list(shape))
        return shape

    def _external(
        self,
        tensor: TensorProto,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        count: int,
        what: str,
    ) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if any(isinstance(text, bytes) for pair in entries.items() for text in pair):
            self._fail(f"{what} has external data whose place is not UTF-8")
        if tensor.data_type == TensorProto.STRING:
            self._fail(f"{what} stores strings as external data")
        try:
            path = inside(self._folder, entries.get("location", ""), f"external data of {what}")
        except HalfulpError as error:
            self._fail(error.message, **error.shown)
        size = path.stat().st_size
        offset = self._number(entries, "offset", what) or 0
        length = self._number(entries, "length", what)
        needed = _stored_bytes(tensor.data_type, dtype, count)
        if length is not None and length != needed:
            self._fail(
                f"{what} has external data of the wrong length for {describe(dtype.name, shape)}",
                expected=f"{needed} bytes",
                got=f"{length} bytes",
            )
        if offset + needed > size:
            self._fail(
                f"{what} reaches past the end of its external data {path.name!r}",
                expected=f"{offset + needed} bytes",
                got=f"{size} bytes",
            )
        if needed == 0:
            return np.empty(shape, dtype)
        if tensor.data_type in _PACKED_BITS:
            with path.open("rb") as stream:
                stream.seek(offset)
                packed = TensorProto(
                    data_type=tensor.data_type, dims=tensor.dims, raw_data=stream.read(needed)
                )
            return _frozen(onnx.numpy_helper.to_array(packed))
        if path not in self._mapped:
            self._mapped[path] = np.memmap(path, np.uint8, "r")
        raw = self._mapped[path][offset : offset + needed]
        return np.asarray(raw.view(dtype.newbyteorder("<")).reshape(shape))

    def _number(self, entries: dict[str, str], key: str, what: str) -> int | None:
        text = entries.get(key)
        if text is None:
            return None
        # int() would take " 1_0" and digits of other scripts, and choke on 5000 digits.
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            self._fail(f"{what} has a bad external data {key}", got=repr(text[:40]))
        return int(text)

    def _check_bytes(
        self,
        onnx_enum: int,
        dtype: np.dtype[Any],
        count: int,
        stored: int,
        what: str,
        shape: Iterable[int],
    ) -> None:
        needed = _stored_bytes(onnx_enum, dtype, count)
        if stored != needed:
            self._fail(
                f"{what} has dims that its data contradicts: {describe(dtype.name, tuple(shape))}",
                expected=f"{needed} bytes",
                got=f"{stored} bytes",
            )

    def _check_field(
        self, tensor: TensorProto, filled: list[str], count: int, what: str, shape: Iterable[int]
    ) -> None:
        wanted = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        if filled and filled != [wanted]:
            self._fail(f"{what} has its data in the wrong field", expected=wanted, got=filled[0])
        needed = count
        if tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
            needed = 2 * count
        elif _PACKED_BITS.get(tensor.data_type) in (2, 4):
            needed = -(-count * _PACKED_BITS[tensor.data_type] // 8)
        stored = len(getattr(tensor, wanted))
        if stored != needed:
            self._fail(
                f"{what} has dims that its data contradicts: {list(shape)}",
                expected=f"{needed} elements",
                got=stored,
            )

    def _fail(self, message: str, **shown: Any) -> NoReturn:
        raise ModelError(message, file=self._file, **shown)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False  # it belongs to the model, which may run again
    return array


def _stored_bytes(onnx_enum: int, dtype: np.dtype[Any], count: int) -> int:
    bits = _PACKED_BITS.get(onnx_enum)
    return count * dtype.itemsize if bits is None else -(-count * bits // 8)
