"""halfulp's operators for OpenVINO, in Python and in C++, and OpenVINO's tensors as arrays.

A plugin may hold a tensor in another type than the model declares. If that type holds every value of the declared one,
the operand is converted; otherwise the call is refused.
"""

import hashlib
import math
import os
import platform
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils.node_factory import NodeFactory

from halfulp._interop import Array
from halfulp.errors import UnsupportedError
from halfulp.installed import get_include, get_library
from halfulp.models.run.cast import cast
from halfulp.operators import op
from halfulp.types import TYPES, ElementType, type_name

ROWS = {row.openvino: row for row in TYPES.values() if row.openvino is not None}
"""Element types by OpenVINO's name."""

WIDE = {"f64": "f32", "i64": "i32", "u64": "i32"}
"""The types that the CPU plugin narrows by default, and to which."""

# The types in which the CPU plugin holds a type without loss; u32 in i32 modulo 2^32.
_HELD_AS = {"f16": "f32", "bf16": "f32", "i16": "i32", "u16": "i32", "u32": "i32", "i4": "i8", "u4": "u8"}


class _Operator(ov.Op):
    """An operator of halfulp. Reading a model back creates one without arguments and then visits its attributes."""

    row: Any

    def __init__(self, inputs: Any = None, **attributes: str) -> None:
        super().__init__(self)
        names = ("operands", *(attribute.name for attribute in self.row.attributes))
        self.attributes = dict.fromkeys(names, "") | attributes
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()

    def _of_row(self) -> dict[str, Any]:
        return {name: value for name, value in self.attributes.items() if name != "operands"}

    def validate_and_infer_types(self) -> None:
        # The declared types: when a plugin asks again, it may have narrowed the inputs'.
        kinds = self.attributes["operands"].split(",")
        shapes = (dims(self.get_input_partial_shape(index)) for index in range(self.get_input_size()))
        operands = zip((ROWS[kind].name for kind in kinds), shapes, strict=True)
        kind, shape = self.row.infer(*operands, **self._of_row())
        sizes = None if shape is None else [dim if isinstance(dim, int) else -1 for dim in shape]
        partial = ov.PartialShape.dynamic() if sizes is None else ov.PartialShape(sizes)
        # A plugin that holds the first operand in a wider type than declared does so with all tensors of that type,
        # and expects it here too: other operators accept no mixture of types.
        held, declared = self.get_input_element_type(0).get_type_name(), str(TYPES[kind].openvino)
        is_held = held != kinds[0] and held == _HELD_AS.get(declared)
        self.set_output_type(0, getattr(ov.Type, held if is_held else declared), partial)

    def clone_with_new_inputs(self, inputs: Any) -> Any:
        return type(self)(inputs, **self.attributes)

    def visit_attributes(self, visitor: Any) -> bool:
        visitor.on_attributes(self.attributes)
        return True

    def has_evaluate(self) -> bool:
        return True

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        # Do not iterate over OpenVINO's sequences: they end by a C++ exception, which takes longer than all of this.
        operands = []
        with np.errstate(all="ignore"):  # a conversion that overflows gives an infinity
            for index, declared in enumerate(self.attributes["operands"].split(",")):
                self._check_held(inputs[index].element_type.get_type_name(), declared)
                operands.append(cast(array_of(inputs[index]), ROWS[declared].dtype))
            values, held = self.row(*operands, **self._of_row()), outputs[0].element_type.get_type_name()
            self._check_held(held, str(TYPES[values.dtype.name].openvino))
            outputs[0].shape = ov.Shape(values.shape)
            _store(cast(np.asarray(values), ROWS[held].dtype), ROWS[held], outputs[0].data)
        return True

    def _check_held(self, held: str, declared: str) -> None:
        if held not in (declared, _HELD_AS.get(declared)):
            raise UnsupportedError(
                f"OpenVINO passes {self.get_friendly_name()!r} a type that the model does not declare;"
                " compile it for CPU, with INFERENCE_PRECISION_HINT f32",
                expected=declared,
                got=held,
            )


class HalfulpPower(_Operator):
    """Power-1, correctly rounded."""

    row = op("openvino.Power-1")


class HalfulpPReLU(_Operator):
    """PReLU-1, correctly rounded."""

    row = op("openvino.PReLU-1")


OPERATORS: tuple[type[Any], ...] = (HalfulpPower, HalfulpPReLU)


def dims(shape: Any) -> tuple[int | None, ...] | None:
    """Return a PartialShape as a shape of the rows."""
    if shape.rank.is_dynamic:
        return None
    return tuple(None if dim.is_dynamic else dim.get_length() for dim in shape)


def array_of(tensor: Any) -> Array:
    """Return the values of an ``openvino.Tensor`` or a Constant, without a copy unless their type is packed."""
    row = ROWS[tensor.get_element_type().get_type_name()]
    data = np.asarray(tensor.data)
    if row.bits >= 8:
        return data.view(row.dtype)
    raw, shape = data.view(np.uint8).reshape(-1), tuple(tensor.get_shape())
    nibbles = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[: math.prod(shape)].reshape(shape)
    return nibbles.view(row.dtype)  # which reads the low half of each byte


def _store(values: Array, row: ElementType, target: Array) -> None:
    """Write values to a tensor's memory: those of four bits two to a byte, the first in the low half."""
    stored = values.view(f"u{row.dtype.itemsize}")
    if row.bits < 8:
        flat = np.ascontiguousarray(stored).reshape(-1) & 15
        nibbles = np.append(flat, np.zeros(flat.size % 2, np.uint8))
        stored = nibbles[::2] | nibbles[1::2] << 4
    target.view(stored.dtype)[...] = stored.reshape(target.shape)


def tensor_of(values: Array) -> Any:
    """Return an ``openvino.Tensor`` with these values; raises UnsupportedError for a type that OpenVINO lacks."""
    row = TYPES.get(values.dtype.name)
    if row is None or row.openvino is None:
        raise UnsupportedError(f"OpenVINO has no type for {type_name(values.dtype)}")
    tensor = ov.Tensor(getattr(ov.Type, row.openvino), ov.Shape(values.shape))
    _store(np.asarray(values, row.dtype), row, tensor.data)
    return tensor


def is_ours(node: Any) -> bool:
    return node.get_type_name() in {kind.__name__ for kind in OPERATORS}


def bodies(node: Any) -> Iterator[ov.Model]:
    """Yield the models inside of a node."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (node.get_function(index) for index in range(2))
    elif kind in ("Loop", "TensorIterator"):
        yield node.get_function()


def type_of(end: Any) -> str:
    return end.get_element_type().get_type_name()


def place_of(end: Any) -> tuple[str, int]:
    return end.get_node().get_name(), end.get_index()


@cache
def core() -> Any:
    """Return this process's core, which reads files with halfulp's operators.

    With each core the CPU plugin gives its thread another stack for signals, and frees it with the last model. Of two
    cores that end in another order than they began, a freed stack stays in use, and the next signal ends the process.
    """
    core = ov.Core()
    for operator in OPERATORS:
        core.add_extension(operator)
    return core


# --- Power and PReLU of f32, f16 and bf16 in C++: nodes that do not call into Python ---------------------
#
# They are compiled on the user's machine, because OpenVINO's C++ interface changes with each release.

_SOURCE = Path(__file__).with_name("extension.cpp")
_FOLDER = Path(ov.__file__).parent
_IN_CPP = frozenset({"f32", "f16", "bf16"})
_FLAGS = "-std=c++17 -O2 -shared -fPIC -fvisibility=hidden"


def build() -> str:
    """Compile halfulp's operators of f32, f16 and bf16 for the installed OpenVINO, and return the path of the library.

    From then on ``replace`` uses them, in this and later processes. The library is kept in the user's cache folder, and
    is compiled once for each version of OpenVINO and halfulp, by the compiler that the environment variable CXX names,
    or by c++.

    Raises:
        UnsupportedError: there is no compiler, OpenVINO's package has no headers, or the system is not Linux.
    """
    target = _library()
    if not target.is_file():
        libraries = [
            str(file) for name in ("openvino", "tbb") for file in _FOLDER.glob(f"libs/lib{name}.so.*")
        ]
        if platform.system() != "Linux" or len(libraries) != 2 or not (_FOLDER / "include").is_dir():
            raise UnsupportedError(
                "halfulp's operators for OpenVINO in C++ need its headers and libraries",
                expected="pip install openvino, on Linux",
                got=f"openvino {ov.__version__} in {_FOLDER}",
            )
        compiler = os.environ.get("CXX") or "c++"
        libraries.append(get_library())
        target.parent.mkdir(parents=True, exist_ok=True)
        written = target.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        options = [*_FLAGS.split(), f"-I{get_include()}", f"-I{_FOLDER / 'include'}", "-o", str(written)]
        options += [str(_SOURCE), *libraries, *(f"-Wl,-rpath,{Path(file).parent}" for file in libraries)]
        try:
            done = subprocess.run([compiler, *options], capture_output=True, text=True)
        except OSError as error:
            raise UnsupportedError(
                f"{compiler}: no compiler for C++: {error.strerror}",
                expected="c++, or another one by the environment variable CXX",
            ) from None
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise UnsupportedError(f"{compiler} does not compile {_SOURCE}: {(errors or [done.stderr])[0]}")
        written.replace(target)
    _factory.cache_clear()
    return str(target)


def _library() -> Path:
    """Return where the library of this halfulp for this OpenVINO is, or would be."""
    with _SOURCE.open("rb") as source:
        key = hashlib.file_digest(source, "sha256")
    for text in (ov.__version__, str(_FOLDER), get_library()):
        key.update(text.encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "halfulp" / f"openvino-{key.hexdigest()[:16]}.so"


def in_cpp(kind: str, inputs: Sequence[Any], attributes: Mapping[str, str]) -> Any:
    """Return an operator in C++; None if it is of another type, or the operators are not built."""
    factory = _factory() if _IN_CPP.issuperset(attributes["operands"].split(",")) else None
    return None if factory is None else factory.create(kind, list(inputs), dict(attributes))


@cache
def _factory() -> Any:
    if not _library().is_file():
        return None
    factory = NodeFactory()
    factory.add_extension(str(_library()))
    core().add_extension(str(_library()))  # keeps the library, and reads files with the operators
    return factory
