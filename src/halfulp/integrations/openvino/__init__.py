"""OpenVINO with exact Power and PReLU: halfulp's operators replace these nodes of a model, for the CPU plugin.

``replace`` keeps nodes that the plugin computes exactly, and those of f64, i64 and u64, computed in f32 and i32.

A plugin may hold a tensor in another type than the model declares. If that type holds every value of the declared one,
the operand is converted; otherwise the call is refused. The CPU plugin holds f16, and on some processors bf16, in f32,
which loses only the payload of a NaN. A mark prevents that for inputs of the model that only halfulp's operators read.
"""

import hashlib
import math
import os
import platform
import subprocess
import threading
import warnings
from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils import replace_node
from openvino.utils.node_factory import NodeFactory

from halfulp._interop import Array
from halfulp.errors import HalfulpError, UnsupportedError, within
from halfulp.installed import get_include, get_library
from halfulp.models.run.cast import cast
from halfulp.operators import op
from halfulp.types import TYPES, same_bits, type_name

__all__ = ["OPERATORS", "build", "replace"]
__dir__ = __all__.copy

ROWS = {row.openvino: row for row in TYPES.values() if row.openvino is not None}
"""Element types by OpenVINO's name."""

WIDE = {"f64": "f32", "i64": "i32", "u64": "i32"}  # what the CPU plugin narrows by default, and to which

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

    def _declared(self) -> tuple[list[str], dict[str, str]]:
        """Return the types of the operands that the model declares, and the attributes of the row."""
        attributes = dict(self.attributes)
        return attributes.pop("operands").split(","), attributes

    def validate_and_infer_types(self) -> None:
        # The declared types: when a plugin asks again, it may have narrowed the inputs'.
        kinds, attributes = self._declared()
        shapes = (dims(self.get_input_partial_shape(index)) for index in range(self.get_input_size()))
        operands = zip((ROWS[kind].name for kind in kinds), shapes, strict=True)
        kind, shape = self.row.infer(*operands, **attributes)
        partial = ov.PartialShape.dynamic()
        if shape is not None:
            partial = ov.PartialShape([dim if isinstance(dim, int) else -1 for dim in shape])
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
        operands, (kinds, attributes) = [], self._declared()
        with np.errstate(all="ignore"):  # a conversion that overflows gives an infinity
            for index, declared in enumerate(kinds):
                self._check_held(inputs[index].element_type.get_type_name(), declared)
                operands.append(cast(array_of(inputs[index]), ROWS[declared].dtype))
            values, held = self.row(*operands, **attributes), outputs[0].element_type.get_type_name()
            self._check_held(held, str(TYPES[values.dtype.name].openvino))
            outputs[0].shape = ov.Shape(values.shape)
            _store(cast(np.asarray(values), ROWS[held].dtype), outputs[0].data)
        return True

    def _check_held(self, held: str, declared: str) -> None:
        if held not in (declared, _HELD_AS.get(declared)):
            fault = f"OpenVINO passes {self.get_friendly_name()!r} a type that the model does not declare"
            hint = "compile it for CPU, with INFERENCE_PRECISION_HINT f32"
            raise UnsupportedError(f"{fault}; {hint}", expected=declared, got=held)


class HalfulpPower(_Operator):
    """Power-1, correctly rounded."""

    row = op("openvino.Power-1")


class HalfulpPReLU(_Operator):
    """PReLU-1, correctly rounded."""

    row = op("openvino.PReLU-1")


OPERATORS: tuple[type[Any], ...] = (HalfulpPower, HalfulpPReLU)
_OURS = dict(zip(("Power", "PRelu"), OPERATORS, strict=True))


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


def _store(values: Array, target: Array) -> None:
    """Write values to a tensor's memory: those of four bits two to a byte, the first in the low half."""
    stored = values.view(f"u{values.itemsize}")
    if TYPES[values.dtype.name].bits < 8:
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
    _store(np.asarray(values, row.dtype), tensor.data)
    return tensor


def is_ours(node: Any) -> bool:
    return node.get_type_name() in {kind.__name__ for kind in OPERATORS}


def bodies(node: Any) -> list[ov.Model]:
    """Return the models inside of a node."""
    kind = node.get_type_name()
    if kind == "If":
        return [node.get_function(index) for index in range(2)]
    return [node.get_function()] if kind in ("Loop", "TensorIterator") else []


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


def replace(model: ov.Model, *, every_node: bool = False) -> ov.Model:
    """Put halfulp's Power and PReLU into an ``openvino.Model``, in place; compile it for the CPU, in f32.

    Args:
        model: read from any format, or built. Each Power-1 and PReLU-1 that the CPU plugin does not compute exactly
            becomes halfulp's, also in the bodies of If, Loop and TensorIterator.
        every_node: also replace the nodes that the plugin computes exactly in f32.

    Returns:
        The same model. The inference raises an error if a tensor reaches halfulp's operators in a type that can't hold
        the declared values, as on other devices.

    Warns:
        UserWarning: nodes stay OpenVINO's own, each with the reason: the CPU plugin computes f64 in f32, and i64 and
            u64 in i32. Powers of sizes, which i32 holds, are not named.

    Raises:
        ModelError: a node breaks a clause of its operator's version.

    Example:
        >>> from openvino import opset13
        >>> x = opset13.parameter([2], np.float32)
        >>> model = replace(ov.Model([opset13.power(x, np.float32(2.5))], [x]))
        >>> ov.Core().compile_model(model, "CPU")([np.array([4, 0.3], np.float32)])[0]
        array([32.        ,  0.04929503], dtype=float32)
    """
    if not isinstance(model, ov.Model):
        message = "replace takes an openvino.Model; openvino.Core().read_model(FILE) returns that of a file"
        raise HalfulpError(message, got=repr(model)[:80])
    if sentences := put_into(model, every_node=every_node):
        warnings.warn("\n".join(sentences), stacklevel=2)
    return model


def put_into(model: ov.Model, *, every_node: bool = False) -> list[str]:
    """Replace nodes as :func:`replace` does, and return a sentence for each node that stays OpenVINO's own."""
    sentences = _replace(model, every_node)
    members = {node.get_name() for node in model.get_ordered_ops()}
    for parameter in model.get_parameters():
        is_half = type_of(parameter.output(0)) in ("f16", "bf16")
        if is_half and _mark() is not None and _stays_ours(parameter.output(0), members):
            parameter.set_rt_info(_mark(), _MARK)
    return sentences


def _replace(model: ov.Model, every_node: bool) -> list[str]:
    """Replace the nodes of a model and of its bodies, and return a sentence for each that stays OpenVINO's own."""
    sentences: list[str] = []
    varying = _varying(model)
    for node in model.get_ordered_ops():
        for body in bodies(node):
            sentences += _replace(body, every_node)
        if node.get_type_name() == "ReduceMean" and not node.get_attributes()["keep_dims"]:
            _keep_dims_in_norm(node)
        if node.get_type_name() in _OURS and node.get_type_info().version_id == "opset1":
            varies = node.get_name() in varying
            # The plugin folds all other nodes, with other code.
            if every_node or not varies or not _is_exact(node):
                sentences += _substitute(node, varies)
    return sentences


def _keep_dims_in_norm(mean: Any) -> None:
    """Write a ReduceMean that is of squares, or is subtracted, as one that keeps its dims, and a Squeeze."""
    # The plugin would take the norm around it for one whose means keep their dims.
    readers = {end.get_node().get_type_name() for end in mean.output(0).get_target_inputs()}
    if mean.input_value(0).get_node().get_type_name() in ("Power", "Multiply") or "Subtract" in readers:
        kept = ov.opset13.reduce_mean(mean.input_value(0), mean.input_value(1), True)
        squeezed = ov.opset13.squeeze(kept, mean.input_value(1))
        squeezed.set_friendly_name(mean.get_friendly_name())
        replace_node(mean, squeezed)


def _is_enlarged(power: Any) -> bool:
    """Return whether a product in the norm around a power has another shape, which the plugin's norm loses."""
    node = power
    for _ in range(6):  # a norm has no more nodes behind its power
        readers = [end.get_node() for end in node.output(0).get_target_inputs()]
        if len(readers) != 1 or readers[0].get_type_name() not in _IN_NORM:
            return False
        (node,) = readers
        is_product = node.get_type_name() == "Multiply"
        if is_product and node.get_output_partial_shape(0) != power.get_output_partial_shape(0):
            return True
    return False


_IN_NORM = ("ReduceMean", "Add", "Sqrt", "Power", "Divide", "Multiply")


def _stays_ours(output: Any, members: Set[str]) -> bool:
    """Return whether only halfulp's operators and outputs of the model read a tensor and the results."""
    # Other readers would combine the tensor with tensors in f32.
    tensors = [output]
    while tensors:
        for end in tensors.pop().get_target_inputs():
            node = end.get_node()
            if is_ours(node) and end.get_index() == 0:  # the result's type is the first operand's
                tensors.append(node.output(0))
            elif not is_ours(node) and node.get_type_name() != "Result" and node.get_name() in members:
                return False
    return True


def _substitute(node: Any, varies: bool) -> list[str]:
    """Replace a node, or return the sentence why it stays OpenVINO's own. Powers of sizes have none."""
    types = [type_of(end) for end in (*node.inputs(), *node.outputs())]
    label = f"{node.get_friendly_name()!r} ({node.get_type_name()})"
    own = f"{label} stays OpenVINO's own"
    if unknown := [kind for kind in types if kind not in ROWS]:
        return [f"{own}: halfulp has no type {unknown[0]}"]
    if wide := [kind for kind in types if kind in WIDE]:
        is_size = WIDE[wide[0]] == "i32" and not varies
        return [] if is_size else [f"{own}: the CPU plugin computes {wide[0]} in {WIDE[wide[0]]}"]
    operands, attributes = node.input_values(), {"operands": ",".join(types[:2])}
    if (rule := node.get_attributes().get("auto_broadcast")) is not None:
        attributes["auto_broadcast"] = str(rule)
    with within(None, label):
        ours = _OURS[node.get_type_name()](operands, **attributes)
    if {"f32", "f16", "bf16"}.issuperset(types) and (factory := _factory()) is not None:
        ours = factory.create(type(ours).__name__, operands, attributes)
    ours.set_friendly_name(node.get_friendly_name())
    replace_node(node, ours)
    return []


# Inputs that keep their type. The plugin respects an attribute that keeps a node's types, called a mark here. Python
# can't create one, but reading a model that has it gives one to copy.

_MARK = "DisablePrecisionConversion_0"

_CARRIER = """<net name="carrier" version="11"><layers>
  <layer id="0" name="x" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>
    <rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:dynamic"/></rt_info>
    <output><port id="0" precision="FP32"><dim>1</dim></port></output></layer>
  <layer id="1" name="y" type="Result" version="opset1">
    <input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>"""


@cache
def _mark() -> Any:
    """Return the attribute, or None if this version lacks it."""
    (x,) = core().read_model(_CARRIER.encode(), b"").get_parameters()
    info = x.get_rt_info()
    return info[_MARK] if _MARK in list(info.keys()) else None


# Nodes that the plugin computes exactly, and without a call into Python, stay the plugin's own.
#
# A PReLU with constant slopes, and a Power with the exponent -1, 0, 1 or 2, is at most one operation of IEEE 754. In
# f32 the plugin computes just that, within the loops of neighbouring nodes and in a layout of its own. A trial tests
# whether that is so in the installed version, on this processor.

_EXPONENTS = (-1.0, 0.0, 1.0, 2.0)


def _varying(model: ov.Model) -> set[str]:
    """Return the names of the nodes that depend on an input's values. The plugin may fold the others."""
    names: set[str] = set()
    for node in model.get_ordered_ops():
        sources = node.input_values()
        is_known = node.get_type_name() in ("Constant", "ShapeOf")
        if not is_known and (not sources or any(source.get_node().get_name() in names for source in sources)):
            names.add(node.get_name())
    return names


def _is_exact(node: Any) -> bool:
    """Return whether the CPU plugin has halfulp's bits, in f32, for a node that varies; False if that is unknown."""
    constant = node.input_value(1).get_node()
    x = dims(node.get_input_partial_shape(0))
    is_f32 = {type_of(end) for end in node.inputs()} == {"f32"}
    if not is_f32 or constant.get_type_name() != "Constant" or x is None:
        return False
    values = array_of(constant)
    if node.get_type_name() == "Power":
        # The exponent broadcasts to the base, not the other way round.
        same_shape = values.size == 1 and values.ndim <= len(x)
        is_known = same_shape and values.item() in _EXPONENTS
        return is_known and not _is_enlarged(node) and _passes_trial("Power")
    tiny = np.finfo(np.float32).tiny  # the plugin treats smaller slopes as zero
    are_plain = (np.isfinite(values) & ((np.abs(values) >= tiny) | (values == 0))).all()
    # One slope for all elements, or one for each channel by every reading of the shape: a slope of rank 1 is applied to
    # the channels if their number is its length, and else to the last dim.
    channels, behind = x[1:2], [1] * (len(x) - 2)
    by_channel = channels, (*channels, *behind), (1, *channels, *behind)
    is_clear = values.ndim <= len(x) if values.size == 1 else len(x) > 1 and values.shape in by_channel
    least = 0 if (values >= 0).all() else -2
    return bool(are_plain) and is_clear and _passes_trial("PRelu", least)


@cache
def _passes_trial(operator: str, least_slope: float = 0) -> bool:
    """Return whether the plugin has halfulp's bits: for the node alone, fused with a convolution, and before a sum."""
    numbers, channels = np.random.default_rng(1), 16
    shape = (2, channels, 5, 7)  # the last two are no multiples of a vector's length
    signs = numbers.choice(np.array([-1, 1], np.float32), shape)
    data = np.exp2(numbers.uniform(-149, 128, shape)).astype(np.float32) * signs
    special = data.copy()
    special.flat[::9] = np.resize([0, -0.0, np.inf, -np.inf, np.nan], special.flat[::9].size)
    identity = np.eye(channels, dtype=np.float32).reshape(channels, channels, 1, 1)
    # The second is for a convolution, whose sums do not keep the sign of a zero.
    x, finite = (ov.opset13.parameter(list(shape), np.float32) for _ in range(2))
    if operator == "Power":
        exact, node = op("openvino.Power-1"), ov.opset13.power
        seconds = [np.full(1, exponent, np.float32) for exponent in _EXPONENTS]
    else:
        exact, node = op("openvino.PReLU-1"), ov.opset13.prelu
        by_channel = (1,), (channels,), (channels, 1, 1)
        # On processors without AVX-512, zeros lose their sign with a negative slope.
        seconds = [numbers.uniform(least_slope, 2, size).astype(np.float32) for size in by_channel]
    addend = np.float32(0.1)
    outputs, expected = [], []
    for second in seconds:
        convolved = ov.opset13.convolution(finite, identity, [1, 1], [0, 0], [0, 0], [1, 1])
        outputs += [node(x, second), node(convolved, second), ov.opset13.add(node(x, second), addend)]
        right = exact(special, second)
        expected += [right, exact(data + np.float32(0), second), right + addend]
    try:
        hint = {"INFERENCE_PRECISION_HINT": "f32"}
        answers = core().compile_model(ov.Model(outputs, [x, finite]), "CPU", hint)([special, data])
    except RuntimeError:
        return False
    return all(same_bits(answers[i], right).all() for i, right in enumerate(expected))


# --- Power and PReLU of f32, f16 and bf16 in C++: nodes that do not call into Python ---------------------
#
# They are compiled on the user's machine, because OpenVINO's C++ interface changes with each release.

_SOURCE = Path(__file__).with_name("extension.cpp")
_FOLDER = Path(ov.__file__).parent


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
        libraries = [*_FOLDER.glob("libs/libopenvino.so.*"), *_FOLDER.glob("libs/libtbb.so.*")]
        if platform.system() != "Linux" or len(libraries) != 2 or not (_FOLDER / "include").is_dir():
            need = "halfulp's operators for OpenVINO in C++ need its headers and libraries"
            found = f"openvino {ov.__version__} in {_FOLDER}"
            raise UnsupportedError(need, expected="pip install openvino, on Linux", got=found)
        compiler = os.environ.get("CXX") or "c++"
        libraries.append(Path(get_library()))
        target.parent.mkdir(parents=True, exist_ok=True)
        written = target.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        options = ["-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
        options += [f"-I{get_include()}", f"-I{_FOLDER / 'include'}", "-o", str(written)]
        options += map(str, [_SOURCE, *libraries, *(f"-Wl,-rpath,{file.parent}" for file in libraries)])
        try:
            done = subprocess.run([compiler, *options], capture_output=True, text=True)
        except OSError as error:
            hint, lack = "c++, or another one by the environment variable CXX", "no compiler for C++"
            raise UnsupportedError(f"{compiler}: {lack}: {error.strerror}", expected=hint) from None
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


@cache
def _factory() -> Any:
    """Return what makes the operators in C++; None if they are not built."""
    if not _library().is_file():
        return None
    factory = NodeFactory()
    factory.add_extension(str(_library()))
    core().add_extension(str(_library()))  # keeps the library, and reads files with the operators
    return factory
