"""halfulp's operators as OpenVINO calls them, its tensors as arrays, and OpenVINO as an engine.

A plugin may hold a tensor in another type than the model declares. Where that type holds every value of the
declared one, the operand is converted; where it does not, the call is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.models.run.cast import cast
from halfulp.operators import op
from halfulp.specs.tensor import TensorType
from halfulp.types import TYPES, ElementType

Array = NDArray[Any]

ROWS = {row.openvino: row for row in TYPES.values() if row.openvino is not None}
"""Element types by OpenVINO's name."""

WIDE = frozenset({"f64", "i64", "u64"})
"""The types that the CPU plugin narrows, if it is not told otherwise."""

# The types in which the CPU plugin holds a type without a loss: u32 in i32 modulo 2^32.
_HELD_AS = {
    "f16": ("f32",),
    "bf16": ("f32",),
    "i16": ("i32",),
    "u16": ("i32",),
    "u32": ("i32",),
    "i4": ("i8",),
    "u4": ("u8",),
}


class _Operator(ov.Op):
    """An operator of halfulp. Reading a model back makes one without arguments, then visits its attributes.

    ``carried`` lists the inputs, by number, and "out" for the output, whose 64-bit integers come as pairs of i32 along
    one more dim, the last.
    """

    names: tuple[str, ...] = ("operands", "carried")

    def __init__(self, inputs: Any = None, **attributes: str) -> None:
        super().__init__(self)
        self.attributes = dict.fromkeys(self.names, "") | attributes
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()

    def result(self, *operands: TensorType) -> TensorType:
        raise NotImplementedError

    def compute(self, *operands: Array) -> Array:
        raise NotImplementedError

    # OpenVINO calls these methods.

    def validate_and_infer_types(self) -> None:
        kind, shape = self.result(*(self._operand(index) for index in range(self.get_input_size())))
        if self._is_carried("out"):
            kind, shape = "int32", None if shape is None else (*shape, 2)
        partial = (
            ov.PartialShape.dynamic() if shape is None else ov.PartialShape([_dim(dim) for dim in shape])
        )
        self.set_output_type(0, getattr(ov.Type, self._held_result(str(TYPES[kind].openvino))), partial)

    def clone_with_new_inputs(self, inputs: Any) -> Any:
        return type(self)(inputs, **self.attributes)

    def visit_attributes(self, visitor: Any) -> bool:
        visitor.on_attributes(self.attributes)
        return True

    def has_evaluate(self) -> bool:
        return True

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        # OpenVINO's sequences end by a C++ exception, which takes longer than all of this: no iteration here.
        declared = self.attributes["operands"].split(",")
        operands = [self._read(inputs[index], kind, index) for index, kind in enumerate(declared)]
        self._write(outputs[0], np.asarray(self.compute(*operands)))
        return True

    def _operand(self, index: int) -> TensorType:
        # The declared type: by the time that a plugin asks again it may have narrowed the input's.
        kind = ROWS[self.attributes["operands"].split(",")[index]].name
        shape = dims(self.get_input_partial_shape(index))
        return TensorType(kind, shape[:-1] if shape is not None and self._is_carried(str(index)) else shape)

    def _held_result(self, declared: str) -> str:
        # A plugin that holds the first operand in a wider type than the model declares does so with all tensors of that
        # type, and wants this one in it, too: other operators of several operands take no mixture.
        given = self.get_input_element_type(0).get_type_name()
        is_as_declared = given == self.attributes["operands"].partition(",")[0]
        return given if not is_as_declared and given in _HELD_AS.get(declared, ()) else declared

    def _is_carried(self, end: str) -> bool:
        return end in self.attributes["carried"].split(",")

    def carry(self, end: str) -> None:
        """Have an input, or the output, carried; types and shapes are to be inferred again, producers first."""
        self.attributes["carried"] = ",".join(filter(None, [self.attributes["carried"], end]))

    def _read(self, tensor: Any, declared: str, index: int) -> Array:
        held = tensor.element_type.get_type_name()
        if self._is_carried(str(index)):
            self._check_held(held, "i32")
            pairs = _values(tensor, ROWS[held])
            return pairs.view(ROWS[declared].dtype).reshape(pairs.shape[:-1])
        values = _values(tensor, ROWS[held])
        if held == declared:
            return values
        self._check_held(held, declared)
        return _cast(values, declared)

    def _write(self, tensor: Any, values: Array) -> None:
        if self._is_carried("out"):
            values = np.ascontiguousarray(values).reshape(*values.shape, 1).view(np.int32)
        row = ROWS[tensor.element_type.get_type_name()]
        if row.dtype != values.dtype:
            self._check_held(str(row.openvino), str(TYPES[values.dtype.name].openvino))
            values = _cast(values, str(row.openvino))
        target = tensor.data
        if target.shape != values.shape or _is_packed(row):
            tensor.shape = ov.Shape(values.shape)
            target = tensor.data
        stored = storage(values, row)
        target.view(stored.dtype)[...] = stored.reshape(target.shape)

    def _check_held(self, held: str, declared: str) -> None:
        if held != declared and held not in _HELD_AS.get(declared, ()):
            raise UnsupportedError(
                f"OpenVINO hands {self.get_friendly_name()!r} another type than the model declares; compile it for CPU,"
                " with INFERENCE_PRECISION_HINT f32",
                expected=declared,
                got=held,
            )


class HalfulpPower(_Operator):
    """Power-1, correctly rounded."""

    names = (*_Operator.names, "auto_broadcast")

    def result(self, *operands: TensorType) -> TensorType:
        return op("openvino.Power-1").infer(*operands, auto_broadcast=self.attributes["auto_broadcast"])

    def compute(self, *operands: Array) -> Array:
        return op("openvino.Power-1")(*operands, auto_broadcast=self.attributes["auto_broadcast"])


class HalfulpPReLU(_Operator):
    """PReLU-1, correctly rounded."""

    def result(self, *operands: TensorType) -> TensorType:
        return op("openvino.PReLU-1").infer(*operands)

    def compute(self, *operands: Array) -> Array:
        return op("openvino.PReLU-1")(*operands)


class HalfulpConvert(_Operator):
    """A conversion to or from a type that the CPU plugin would narrow on the way; every value is rounded once."""

    names = (*_Operator.names, "destination_type")

    def result(self, *operands: TensorType) -> TensorType:
        return TensorType(ROWS[self.attributes["destination_type"]].name, operands[0].shape)

    def compute(self, *operands: Array) -> Array:
        return _cast(operands[0], self.attributes["destination_type"])


OPERATORS: tuple[type[Any], ...] = (HalfulpPower, HalfulpPReLU, HalfulpConvert)


def dims(shape: Any) -> tuple[int | None, ...] | None:
    """Return a PartialShape as the rows take shapes."""
    if shape.rank.is_dynamic:
        return None
    return tuple(None if dim.is_dynamic else dim.get_length() for dim in shape)


def openvino_type(row: ElementType) -> Any:
    """Return the ``openvino.Type`` of an element type."""
    return getattr(ov.Type, str(row.openvino))


def array_of(tensor: Any) -> Array:
    """Return the values of an ``openvino.Tensor``, or of a Constant, where they lie if their type allows it."""
    return _values(tensor, ROWS[tensor.get_element_type().get_type_name()])


def _values(tensor: Any, row: ElementType) -> Array:
    if not _is_packed(row):
        return np.asarray(tensor.data).view(row.dtype)
    packed = np.asarray(tensor.data).view(np.uint8).reshape(-1)
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)
    shape = tuple(tensor.get_shape())
    return nibbles[: int(np.prod(shape, dtype=np.int64))].reshape(shape).view(row.dtype)


def storage(values: Array, row: ElementType) -> Array:
    """Return values as OpenVINO stores them: of a type that NumPy has, two to a byte for those of four bits."""
    if not _is_packed(row):
        return values.view(f"u{row.dtype.itemsize}")
    nibbles = np.ascontiguousarray(values).reshape(-1).view(np.uint8) & 15
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    packed: Array = nibbles[::2] | nibbles[1::2] << 4
    return packed


def _is_packed(row: ElementType) -> bool:
    return row.bits != 8 * row.dtype.itemsize


def tensor_of(values: Array) -> Any:
    """Return an ``openvino.Tensor`` with values of any type that OpenVINO has.

    Raises:
        UnsupportedError: it lacks that type.
    """
    row = TYPES.get(values.dtype.name)
    if row is None or row.openvino is None:
        raise UnsupportedError(f"OpenVINO has no type for {values.dtype.name}")
    stored = storage(np.asarray(values, row.dtype), row)
    tensor = ov.Tensor(openvino_type(row), ov.Shape(values.shape))
    tensor.data.view(stored.dtype)[...] = stored.reshape(tensor.data.shape)
    return tensor


def _cast(values: Array, kind: str) -> Array:
    with np.errstate(all="ignore"):  # an overflow gives an infinity
        return cast(values, ROWS[kind].dtype)


def _dim(dim: object) -> Any:
    return ov.Dimension(dim) if isinstance(dim, int) else ov.Dimension()


def is_ours(node: Any) -> bool:
    return any(node.get_type_name() == kind.__name__ for kind in OPERATORS)


def type_of(end: Any) -> str:
    name: str = end.get_element_type().get_type_name()
    return name


def label(node: Any) -> str:
    return f"{node.get_friendly_name()!r} ({node.get_type_name()})"


def unknown_type(node: Any) -> str:
    """Return the first type of a node's inputs and outputs that halfulp has not, or nothing."""
    return next((type_of(end) for end in (*node.inputs(), *node.outputs()) if type_of(end) not in ROWS), "")


# OpenVINO as an engine.


@cache
def core() -> Any:
    """Return this process's core.

    With each core the CPU plugin gives its thread another stack for signals, and frees it with the last model. Of two
    cores that end in another order than they began, a freed stack stays in use, and the next signal ends the process.
    """
    return ov.Core()


class Compiled:
    """A model that is compiled, with one request of it.

    Args:
        model: an ``openvino.Model``.
        file: its name in messages.
        threads: how many it uses; 0 is as many as OpenVINO chooses.
        profile: whether :meth:`layers` is wanted.

    Raises:
        ModelError: OpenVINO does not compile it.
    """

    def __init__(self, model: Any, file: str, *, threads: int = 0, profile: bool = False) -> None:
        self._file = file
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERF_COUNT": profile}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        with _blaming(file):
            self._compiled = core().compile_model(model, "CPU", settings)
            self._request = self._compiled.create_infer_request()

    def bind(self, inputs: Mapping[str, Any]) -> None:
        """Set the inputs, which have any of their tensors' names.

        Raises:
            ModelError: the model does not take one.
        """
        with _blaming(self._file):
            for end in self._compiled.inputs:
                array = np.asarray(next(inputs[name] for name in end.get_names() if name in inputs))
                tensor = ov.Tensor(array) if array.dtype.kind == "b" else tensor_of(array)
                self._request.set_tensor(end, tensor)

    def infer(self) -> None:
        """Run the model on what was bound.

        Raises:
            ModelError: it fails.
        """
        with _blaming(self._file):
            self._request.infer()

    def outputs(self) -> list[Array]:
        """Return copies of the outputs, in the model's order."""
        return [self._array(end) for end in self._compiled.outputs]

    def named_outputs(self) -> dict[str, Array]:
        """Return them by all of their names."""
        pairs = zip(self._compiled.outputs, self.outputs(), strict=True)
        return {name: array for end, array in pairs for name in end.get_names()}

    def layers(self) -> list[tuple[str, float]]:
        """Return the layers that the plugin executed last, as name and seconds."""
        found = self._request.get_profiling_info()
        return [
            (row.node_name, row.real_time.total_seconds())
            for row in found
            if row.status == ov.ProfilingInfo.Status.EXECUTED
        ]

    def _array(self, end: Any) -> Array:
        tensor = self._request.get_tensor(end)
        if end.get_element_type().get_type_name() == "boolean":
            return np.array(tensor.data, bool)
        return array_of(tensor).copy()


def sentence(error: Exception) -> str:
    """Return OpenVINO's message, without the places in its own source."""
    lines = (line.strip() for line in str(error).splitlines())
    told = [
        line
        for line in lines
        if line and not re.match(r"(Exception from|Check '.*' failed at) \S+:\d*:?$", line)
    ]
    return printable(" ".join(told), most=1000)


@contextmanager
def _blaming(file: str) -> Iterator[None]:
    """Turn an error of OpenVINO into one that names the file."""
    try:
        yield
    except RuntimeError as error:  # of no class of its own
        raise ModelError(f"fails in openvino: {sentence(error)}", file=file) from None
