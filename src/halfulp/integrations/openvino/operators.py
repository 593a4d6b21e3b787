"""halfulp's operators for OpenVINO, OpenVINO's tensors as arrays, and f64, i64 and u64.

A plugin may hold a tensor in another type than the model declares. If that type holds every value of the declared one,
the operand is converted; otherwise the call is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils import replace_node

from halfulp._interop import Array
from halfulp.errors import UnsupportedError
from halfulp.models.run.cast import cast
from halfulp.operators import op
from halfulp.specs.tensor import TensorType
from halfulp.types import TYPES, ElementType

ROWS = {row.openvino: row for row in TYPES.values() if row.openvino is not None}
"""Element types by OpenVINO's name."""

WIDE = frozenset({"f64", "i64", "u64"})
"""The types that the CPU plugin narrows by default."""

# The types in which the CPU plugin holds a type without loss; u32 in i32 modulo 2^32.
_HELD_AS = {"f16": "f32", "bf16": "f32", "i16": "i32", "u16": "i32", "u32": "i32", "i4": "i8", "u4": "u8"}


class _Operator(ov.Op):
    """An operator of halfulp. Reading a model back creates one without arguments and then visits its attributes.

    ``carried`` lists the inputs (by number) and the output ("out") whose 64-bit integers are passed as pairs of i32
    along an additional last dim.
    """

    names: tuple[str, ...] = ()  # of the row's attributes
    row = ""

    def __init__(self, inputs: Any = None, **attributes: str) -> None:
        super().__init__(self)
        self.attributes = dict.fromkeys(("operands", "carried", *self.names), "") | attributes
        if inputs is not None:
            self.set_arguments(inputs)
            self.constructor_validate_and_infer_types()

    def result(self, *operands: TensorType) -> TensorType:
        return op(self.row).infer(*operands, **self._of_row())

    def compute(self, *operands: Array) -> Array:
        return op(self.row)(*operands, **self._of_row())

    def _of_row(self) -> dict[str, Any]:
        return {name: self.attributes[name] for name in self.names}

    # OpenVINO calls these methods.

    def validate_and_infer_types(self) -> None:
        kind, shape = self.result(*(self._operand(index) for index in range(self.get_input_size())))
        if self._is_carried("out"):
            kind, shape = "int32", None if shape is None else (*shape, 2)
        sizes = None if shape is None else [dim if isinstance(dim, int) else -1 for dim in shape]
        partial = ov.PartialShape.dynamic() if sizes is None else ov.PartialShape(sizes)
        self.set_output_type(0, getattr(ov.Type, self._held_result(str(TYPES[kind].openvino))), partial)

    def clone_with_new_inputs(self, inputs: Any) -> Any:
        return type(self)(inputs, **self.attributes)

    def visit_attributes(self, visitor: Any) -> bool:
        visitor.on_attributes(self.attributes)
        return True

    def has_evaluate(self) -> bool:
        return True

    def evaluate(self, outputs: Any, inputs: Any) -> bool:
        # Do not iterate over OpenVINO's sequences: they end by a C++ exception, which takes longer than all of this.
        declared = self.attributes["operands"].split(",")
        operands = [self._read(inputs[index], kind, index) for index, kind in enumerate(declared)]
        self._write(outputs[0], np.asarray(self.compute(*operands)))
        return True

    def _operand(self, index: int) -> TensorType:
        # The declared type: when a plugin asks again, it may have narrowed the input's.
        kind = ROWS[self.attributes["operands"].split(",")[index]].name
        shape = dims(self.get_input_partial_shape(index))
        return TensorType(kind, shape[:-1] if shape is not None and self._is_carried(str(index)) else shape)

    def _held_result(self, declared: str) -> str:
        # A plugin that holds the first operand in a wider type than declared does so with all tensors of that type,
        # and expects it here too: other operators accept no mixture of types.
        given = self.get_input_element_type(0).get_type_name()
        is_as_declared = given == self.attributes["operands"].partition(",")[0]
        return given if not is_as_declared and given == _HELD_AS.get(declared) else declared

    def _is_carried(self, end: str) -> bool:
        return end in self.attributes["carried"].split(",")

    def carry(self, end: str) -> None:
        """Pass an input or the output as i32. Types and shapes must be inferred again, producers first."""
        self.attributes["carried"] = ",".join(filter(None, [self.attributes["carried"], end]))

    def _read(self, tensor: Any, declared: str, index: int) -> Array:
        held = tensor.element_type.get_type_name()
        values = _values(tensor, ROWS[held])
        if self._is_carried(str(index)):
            self._check_held(held, "i32")
            return values.view(ROWS[declared].dtype).reshape(values.shape[:-1])
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
        stored = _storage(values, row)
        target.view(stored.dtype)[...] = stored.reshape(target.shape)

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

    names = ("auto_broadcast",)
    row = "openvino.Power-1"


class HalfulpPReLU(_Operator):
    """PReLU-1, correctly rounded."""

    row = "openvino.PReLU-1"


class HalfulpConvert(_Operator):
    """A conversion to or from a type that the CPU plugin would narrow. Every value is rounded once."""

    names = ("destination_type",)

    def result(self, *operands: TensorType) -> TensorType:
        return TensorType(ROWS[self.attributes["destination_type"]].name, operands[0].shape)

    def compute(self, *operands: Array) -> Array:
        return _cast(operands[0], self.attributes["destination_type"])


OPERATORS: tuple[type[Any], ...] = (HalfulpPower, HalfulpPReLU, HalfulpConvert)


def dims(shape: Any) -> tuple[int | None, ...] | None:
    """Return a PartialShape as a shape of the rows."""
    if shape.rank.is_dynamic:
        return None
    return tuple(None if dim.is_dynamic else dim.get_length() for dim in shape)


def array_of(tensor: Any) -> Array:
    """Return the values of an ``openvino.Tensor`` or a Constant, without a copy unless their type is packed."""
    return _values(tensor, ROWS[tensor.get_element_type().get_type_name()])


def _values(tensor: Any, row: ElementType) -> Array:
    data = np.asarray(tensor.data)
    if not _is_packed(row):
        return data.view(row.dtype)
    shape = tuple(tensor.get_shape())
    return unpacked(data.view(np.uint8).reshape(-1), math.prod(shape), row.dtype).reshape(shape)


def _storage(values: Array, row: ElementType) -> Array:
    """Return values in OpenVINO's storage: as unsigned integers, those of four bits two to a byte."""
    return packed(values) if _is_packed(row) else values.view(f"u{row.dtype.itemsize}")


def packed(values: Array) -> Array:
    """Return elements of four bits as bytes: two to a byte, the first in the low half."""
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8) & 15
    nibbles = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    return np.asarray(nibbles[::2] | nibbles[1::2] << 4)


def unpacked(raw: Array, count: int, dtype: np.dtype[Any]) -> Array:
    """Return ``count`` elements of four bits that :func:`packed` has packed."""
    nibbles = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count]
    if dtype.name == "int4":  # ml_dtypes does not define the other half of its byte
        return ((nibbles ^ 8).astype(np.int8) - np.int8(8)).astype(dtype)
    return nibbles.view(dtype)


def _is_packed(row: ElementType) -> bool:
    return row.bits != 8 * row.dtype.itemsize


def tensor_of(values: Array) -> Any:
    """Return an ``openvino.Tensor`` with these values; raises UnsupportedError for a type that OpenVINO lacks."""
    row = TYPES.get(values.dtype.name)
    if row is None or row.openvino is None:
        raise UnsupportedError(f"OpenVINO has no type for {values.dtype.name}")
    stored = _storage(np.asarray(values, row.dtype), row)
    tensor = ov.Tensor(getattr(ov.Type, row.openvino), ov.Shape(values.shape))
    tensor.data.view(stored.dtype)[...] = stored.reshape(tensor.data.shape)
    return tensor


def _cast(values: Array, kind: str) -> Array:
    with np.errstate(all="ignore"):  # an overflow gives an infinity
        return cast(values, ROWS[kind].dtype)


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
    name: str = end.get_element_type().get_type_name()
    return name


def label(node: Any) -> str:
    return f"{node.get_friendly_name()!r} ({node.get_type_name()})"


def _types(node: Any) -> list[str]:
    return [type_of(end) for end in (*node.inputs(), *node.outputs())]


def unknown_type(node: Any) -> str:
    """Return the first type of a node's inputs and outputs that halfulp lacks, or an empty text."""
    return next((kind for kind in _types(node) if kind not in ROWS), "")


# --- f64, i64 and u64, which the CPU plugin would compute in f32 and i32 -------------------------------
#
# The plugin respects an attribute that keeps a node's types, called a mark here. Python can't create one, but reading a
# model that has it gives one to copy. Tensors of these types are followed from each operator of halfulp as far as the
# mark is respected, and all nodes on the way are marked. 64-bit integers that one operator of halfulp passes to the
# next are disguised as i32. If a node on the way would narrow a tensor, all nodes that these tensors connect stay
# OpenVINO's.

# These move the elements of their first input, of any type, unchanged. The other inputs say where to.
_MOVERS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Transpose"})

_KEY = "DisablePrecisionConversion_0"

_CARRIER = """<net name="carrier" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="1" element_type="f32"/>
      <rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:dynamic"/></rt_info>
      <output><port id="0" precision="FP32"><dim>1</dim></port></output>
    </layer>
    <layer id="1" name="y" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim></port></input>
    </layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>"""


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


@cache
def _attribute() -> Any:
    """Return the plugin's attribute, or None if this version lacks it."""
    (x,) = core().read_model(_CARRIER.encode(), b"").get_parameters()
    info = x.get_rt_info()
    return info[_KEY] if _KEY in list(info.keys()) else None


def mark(node: Any) -> None:
    """Mark a node, so that it keeps its types, if this version can."""
    if _attribute() is not None:
        node.set_rt_info(_attribute(), _KEY)


def constant_node(values: Any, name: str) -> Any:
    """Return a marked Constant of these values."""
    constant = ov.opset13.constant(tensor_of(values))
    constant.set_friendly_name(name)
    mark(constant)
    return constant


@cache
def keeps_wide_types() -> bool:
    """Return whether some values of f64, i64 and u64 pass the installed version bit for bit."""
    numbers = (np.array([1e300, 1 / 3, -np.inf]), np.array([2**63 - 1, -5, 1 << 40]))
    for values in (*numbers, np.array([2**64 - 1, 5, 1 << 40], np.uint64)):
        ones, x = constant_node(np.ones_like(values), "one"), ov.opset13.parameter([3], values.dtype)
        kind = TYPES[values.dtype.name].openvino
        power = HalfulpPower([x.output(0), ones.output(0)], operands=f"{kind},{kind}", auto_broadcast="numpy")
        mark(x)
        mark(power)
        try:
            (got,) = core().compile_model(ov.Model([power], [x]), "CPU")([values]).values()
        except RuntimeError:  # from the operator: it received a narrower type
            return False
        if got.tobytes() != values.tobytes():
            return False
    return True


class WideTensors:
    """Finds the nodes that must keep the wide types, from node to node along such tensors. It changes no node.

    ``wanted`` has the nodes that should become halfulp's, by name. Those that can't are removed.
    """

    def __init__(self, model: ov.Model, wanted: dict[str, Any]) -> None:
        self.kept: dict[str, None] = {}  # in order
        self._wanted = wanted
        self._members = {node.get_name(): node for node in model.get_ordered_ops()}
        self._seen: set[str] = set()
        self._folded: set[str] = set()
        for name, node in self._members.items():
            sources = [value.get_node() for value in node.input_values()]
            if self._carries(node) and sources and all(map(self._is_constant, sources)):
                self._folded.add(name)

    def enter(self, node: Any, *, is_body: bool) -> list[str]:
        """Follow the wide tensors of a wanted node and of Converts that feed it.

        Returns a sentence for each node that must stay OpenVINO's own.
        """
        left = []
        feeding = [value.get_node() for value in node.input_values()]
        for start in (node, *(source for source in feeding if source.get_type_name() == "Convert")):
            kind = next((kind for kind in _types(start) if kind in WIDE), None)
            if kind is None or start.get_name() in self._seen or unknown_type(start):
                continue
            found, why = {start.get_name(): None}, ""
            if is_body:
                why = f"a tensor of {kind} in a body is narrowed"
            elif not keeps_wide_types():
                why = f"OpenVINO {ov.__version__} keeps no tensor of {kind}; 2026.3 and later do"
            else:
                found, why = self._connected(start)
            self._seen.update(found)
            if not why:
                self.kept |= found
                continue
            asked = [name for name in found if self._wanted.pop(name, None) is not None] or [start.get_name()]
            left += [f"{label(self._members[name])} stays OpenVINO's own: {why}" for name in asked]
        return left

    def substituted(self) -> Iterator[tuple[str, Any]]:
        """Yield the nodes that become halfulp's, with their names."""
        yield from self._wanted.items()
        for name in self.kept:
            if self._members[name].get_type_name() == "Convert":
                yield name, self._members[name]

    def _connected(self, start: Any) -> tuple[dict[str, None], str]:
        """Return the names of the nodes that wide tensors connect with a node, and a reason if they can't keep them."""
        found, queue = {start.get_name(): None}, [start]
        reasons: list[str] = []
        for node in queue:  # which grows
            for each in (*self._constant_obstacles(node), *self._upstream(node), *self._downstream(node)):
                if isinstance(each, str):
                    reasons.append(each)
                elif each.get_name() not in found:
                    found[each.get_name()] = None
                    queue.append(each)
        return found, min(reasons, default="")

    # These yield a neighbour that keeps the tensors between the two, or the reason why the neighbour does not.

    def _upstream(self, node: Any) -> Iterator[Any]:
        for end in _moved_inputs(node):
            source = end.get_source_output().get_node()
            kind = source.get_type_name()
            if type_of(end) not in WIDE or kind == "Constant":
                continue
            is_kept = kind == "Parameter" or self._carries(source)
            way = f"a tensor of {type_of(end)} comes from {label(source)}"
            yield source if is_kept else f"{way}, which the CPU plugin narrows"

    def _downstream(self, node: Any) -> Iterator[Any]:
        for end in [end for output in node.outputs() for end in output.get_target_inputs()]:
            target, kind = end.get_node(), type_of(end)
            # A replaced node is still listed as a consumer while Python refers to it.
            if kind not in WIDE or target.get_name() not in self._members:
                continue
            becomes_ours, is_result = self._becomes_ours(target), target.get_type_name() == "Result"
            if self._becomes_ours(node) and kind != "f64" and not becomes_ours and not is_result:
                # The plugin inserts a conversion to i32 there, even with a mark.
                way = f"a tensor of {kind} goes from {label(node)} to {label(target)}"
                yield f"{way}; it is kept only to a model's output, a Convert or a Power"
            elif becomes_ours or (self._carries(target) and end.get_index() == 0):
                yield target
            elif not is_result and target.get_type_name() != "ShapeOf":
                yield f"a tensor of {kind} goes to {label(target)}, which the CPU plugin narrows"

    def _constant_obstacles(self, node: Any) -> Iterator[str]:
        """Yield the reason, if any, why a node of constants can't be folded here. The plugin would narrow it."""
        kind = next((type_of(end) for end in node.outputs() if type_of(end) in WIDE), "")
        if not kind or node.get_type_name() == "Parameter":
            return
        if node.get_name() in self._folded:
            readers = [end.get_node() for end in node.output(0).get_target_inputs()]
            if any(reader.get_type_name() == "Result" for reader in readers):
                yield f"a tensor of {kind} is a constant output of the model, from {label(node)}"
        elif not self._becomes_ours(node) and self._is_constant(node.input_value(0).get_node()):
            yield f"a tensor of {kind} is a constant that {label(node)} moves by other inputs"

    def _is_constant(self, node: Any) -> bool:
        return node.get_type_name() == "Constant" or node.get_name() in self._folded

    def _carries(self, node: Any) -> bool:
        return self._becomes_ours(node) or node.get_type_name() in _MOVERS

    def _becomes_ours(self, node: Any) -> bool:
        if node.get_type_name() == "Convert":
            return not unknown_type(node)
        return node.get_name() in self._wanted or is_ours(node)


def keep(model: ov.Model, names: Set[str]) -> None:
    """Make all nodes with tensors of the wide types, given by name, keep them, among halfulp's operators."""
    if not names:
        return
    for node in model.get_ordered_ops():
        if node.get_name() in names:
            mark(node)
            for end in _moved_inputs(node):
                source = end.get_source_output().get_node()
                if type_of(end) in WIDE and source.get_type_name() == "Constant":
                    # A copy: the constant itself may feed nodes that need it narrowed.
                    copy = constant_node(array_of(source), source.get_friendly_name())
                    end.replace_source_output(copy.output(0))
    for node in model.get_ordered_ops():
        if node.get_name() in names and (is_ours(node) or node.get_type_name() in _MOVERS):
            _fold(node)
    # An end's get_node returns an object without the methods of _Operator; these objects have them.
    members = {node.get_name(): node for node in model.get_ordered_ops()}
    for name, node in members.items():
        if name in names and is_ours(node) and type_of(node.output(0)) in ("i64", "u64"):
            _carry(node, members)
    model.validate_nodes_and_infer_types()


def _moved_inputs(node: Any) -> list[Any]:
    """Return the inputs whose elements a node uses: of a mover, the first one."""
    inputs: list[Any] = node.inputs()
    return inputs[:1] if node.get_type_name() in _MOVERS else inputs


def _fold(node: Any) -> None:
    """Compute a node of constants here. If the plugin did, the result would lose its mark."""
    sources = [value.get_node() for value in node.input_values()]
    if all(source.get_type_name() == "Constant" for source in sources):
        if is_ours(node):
            values = node.compute(*map(array_of, sources))
        else:
            outputs = [ov.Tensor(node.get_output_element_type(0), ov.Shape())]
            if not node.evaluate(outputs, [source.get_tensor_view() for source in sources]):
                raise UnsupportedError(f"OpenVINO does not compute {label(node)} of constants")
            values = array_of(outputs[0])
        replace_node(node, constant_node(np.asarray(values), node.get_friendly_name()))


def _carry(node: Any, members: Mapping[str, Any]) -> None:
    """Let one operator of halfulp pass 64-bit integers to the next as i32, which the plugin does not change."""
    output = node.output(0)
    ends = [(end, members.get(end.get_node().get_name())) for end in output.get_target_inputs()]
    results = [end for end, target in ends if target is not None and not is_ours(target)]
    ours = [(end, target) for end, target in ends if target is not None and is_ours(target)]
    if not ours:
        return
    kind, names = type_of(output), output.get_names()
    node.carry("out")
    node.constructor_validate_and_infer_types()
    for end, target in ours:
        target.carry(str(end.get_index()))
    if results:
        last = HalfulpConvert([output], operands=kind, carried="0", destination_type=kind)
        last.set_friendly_name(node.get_friendly_name())
        output.get_tensor().set_names(set())
        last.output(0).get_tensor().set_names(names)
        mark(last)
        for end in results:
            end.replace_source_output(last.output(0))
