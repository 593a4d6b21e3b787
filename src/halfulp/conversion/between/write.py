"""A graph of no format to ONNX, and to OpenVINO's operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto

from halfulp.conversion.between import OPENVINO, Draft
from halfulp.conversion.editor import NoExactForm, claimed, exactly_as, holds, is_one
from halfulp.conversion.targets import departs, known_targets, lost, widens_base, wider
from halfulp.errors import UnsupportedError, printable, within
from halfulp.models.graph import Array, Graph, Model, Node, Value
from halfulp.models.onnx.checks import ports
from halfulp.models.onnx.tensors import enum_of
from halfulp.models.openvino.operators import OPENVINO_TYPES
from halfulp.types import TYPES, ElementType

OPSET = 18
"""The opset of the written model, where no type needs a later one."""

_BASES = ("float64", "float32", "float16", "bfloat16", "int32", "int64")
_SLOPED = (*_BASES, "uint32", "uint64")
_EXPONENTS = (*_SLOPED, "int8", "int16", "uint8", "uint16")


class OnnxWriter:
    """Writes a neutral graph as an ONNX model. Casts for types that an operator lacks are noted."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._graph = GraphProto(name=draft.name)
        self._names = set(self._draft.types)
        self._opset = OPSET

    def model(self) -> ModelProto:
        """Return the model.

        Raises:
            UnsupportedError: a type that ONNX lacks, or an operator has no exact form for, naming the node.
        """
        draft, graph = self._draft, self._graph
        graph.input.extend(map(self._info, draft.inputs))
        for node in draft.nodes:
            with within(draft.file, node.label):
                self._write(node)
        graph.output.extend(
            self._info(Value(value.name, *draft.types[value.name])) for value in draft.outputs
        )
        for name, array in (*draft.constants.items(), *draft.defaults.items()):
            self._initializer(array, name)
        imports = [onnx.helper.make_opsetid("", self._opset)]
        return onnx.helper.make_model(
            graph,
            producer_name="halfulp",
            opset_imports=imports,
            ir_version=onnx.helper.find_min_ir_version_for(imports),
        )

    def _write(self, node: Node) -> None:
        (output,) = node.outputs
        match node.type:
            case "Pow":
                self._pow(node, output)
            case "PRelu":
                self._prelu(node, output)
            case "Cast":
                to, saturate = node.attributes["to"], node.attributes.get("saturate", True)
                self._need("Cast", 0, to)
                self._need("Cast", 0, self._type(node.inputs[0]))
                self._cast(node.inputs[0], to, output, saturate)
            case "Unsqueeze" | "Reshape":
                self._need(node.type, 0, self._type(node.inputs[0]))
                (values,) = node.attributes.values()
                how = self._constant(np.array(values, np.int64), output)
                self._node(node.type, [node.inputs[0], how], output)
            case kind:
                place = 1 if kind == "Where" else 0
                self._need(kind, place, self._type(node.inputs[place]))
                self._node(kind, node.inputs, output)

    def _pow(self, node: Node, output: str) -> None:
        x, y = map(self._type, node.inputs)
        if y not in _EXPONENTS:
            raise NoExactForm(f"Pow of ONNX takes no {y} as exponent")
        if x in _BASES:
            self._node("Pow", node.inputs, output)
        elif TYPES[x].kind == "float":
            raise NoExactForm(f"Pow of ONNX takes no {x}, and a power in a wider type would be rounded twice")
        elif TYPES[y].kind == "float":
            raise NoExactForm(f"Pow of ONNX takes no {x} as base, and {x} to the power of a float saturates")
        else:
            self._narrow_integer(node, output, TYPES[x], TYPES[y])

    def _narrow_integer(self, node: Node, output: str, x: ElementType, y: ElementType) -> None:
        """A power in a wider integer type, whose low bits are the power's."""
        wide = "int32" if x.bits < 32 else "int64"
        self._draft.note(
            node.label, f"{x.name} goes through {wide}, whose low bits are the same: Pow takes no {x.name}"
        )
        base = self._cast(node.inputs[0], wide)
        powers = self._node("Pow", [base, node.inputs[1]])
        if _is_never_negative(y.name, self._draft.constants.get(node.inputs[1])):
            self._cast(powers, x.name, output)
            return
        # 0 to a negative power is the type's largest value, whose bits the wider result lacks.
        narrow = self._cast(powers, x.name)
        zero, none = (self._constant(np.zeros((), kind), output) for kind in (wide, y.dtype))
        is_zero = self._node("Equal", [base, zero])
        below = self._node("Less", [node.inputs[1], none])
        both = self._node("And", [is_zero, below])
        largest = (1 << (x.bits - (x.kind == "int"))) - 1
        most = self._constant(np.array(largest, x.dtype), output)
        self._node("Where", [both, most, narrow], output)

    def _prelu(self, node: Node, output: str) -> None:
        x = self._type(node.inputs[0])
        if x in _SLOPED:
            self._node("PRelu", node.inputs, output)
        elif TYPES[x].kind == "uint" or x == "float8_e8m0fnu":
            self._draft.note(node.label, f"{x} is never below 0: the data is the result")
            self._node("Identity", node.inputs[:1], output)
        else:
            wide, why, differs = "float32", "which holds every product", None
            if TYPES[x].kind == "int":
                wide, why = "int32", "whose low bits are the same"
            elif x == "float8_e5m2":
                differs = "a NaN in the data may lose its payload"
            self._draft.note(node.label, f"{x} goes through {wide}, {why}", differs)
            self._need("Cast", 0, x)
            result = self._node("PRelu", [self._cast(name, wide) for name in node.inputs])
            self._cast(result, x, output, saturate=False)

    def _type(self, name: str) -> str:
        return self._draft.types[name].type

    def _need(self, op_type: str, place: int, kind: str) -> None:
        """Raise the opset to the first in which an operator takes a type as an input."""
        self._opset = max(self._opset, _first(op_type, place, kind))

    def _node(self, op_type: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        name = output or claimed(f"{inputs[0]}_{op_type.lower()}", self._names)
        self._graph.node.append(onnx.helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def _cast(self, name: str, to: str, output: str | None = None, saturate: bool = True) -> str:
        extra = {} if saturate or "float8" not in to else {"saturate": 0}
        return self._node("Cast", [name], output, to=self._enum(to), **extra)

    def _constant(self, array: Array, base: str) -> str:
        name = claimed(f"{base}_constant", self._names)
        self._initializer(array, name)
        return name

    def _initializer(self, array: Array, name: str) -> None:
        self._enum(array.dtype.name)
        self._graph.initializer.append(onnx.numpy_helper.from_array(array, name))

    def _enum(self, kind: str) -> int:
        if kind in TYPES and TYPES[kind].onnx_enum is None:
            raise UnsupportedError(f"{self._draft.file}: ONNX has no type {kind}")
        return enum_of(kind)

    def _info(self, value: Value) -> onnx.ValueInfoProto:
        assert value.type is not None
        return onnx.helper.make_tensor_value_info(value.name, self._enum(value.type), value.shape)


@lru_cache
def _first(op_type: str, index: int, kind: str) -> int:
    """Return the first opset, of those that are written, in which an operator takes a type as an input."""
    spelled = f"tensor({TensorProto.DataType.Name(enum_of(kind)).lower()})"
    for opset in range(OPSET, onnx.defs.onnx_opset_version() + 1):
        found = ports(op_type, opset)
        if found is not None and spelled in found.types(found.inputs[index]):
            return opset
    raise NoExactForm(f"{op_type} of ONNX takes no {kind}")


# --- OpenVINO ---------------------------------------------------------------------------------------


_NAMES = {kind: name for name, kind in OPENVINO.items()}


class OpenVINOWriter:
    """Writes a neutral graph in OpenVINO's operators. Casts for types that an operator lacks are noted.

    New values go into the draft, which infers their types.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._nodes: list[Node] = []
        self._target = known_targets()["openvino"]

    def model(self) -> Model:
        """Return the model.

        Raises:
            UnsupportedError: a type that OpenVINO lacks, or an operator has no exact form for, naming the node.
        """
        draft = self._draft
        symbols = sorted({dim for v in draft.inputs for dim in v.shape or () if isinstance(dim, str)})
        if symbols:
            draft.note(draft.file, f"OpenVINO has no names for dims: {', '.join(symbols)} become ?")
        for name in draft.defaults:
            draft.note(draft.file, f"OpenVINO has no inputs with defaults: {printable(name)!r} loses its own")
        for node in tuple(draft.nodes):
            with within(draft.file, node.label):
                self._write(node)
        for name, kind in draft.types.items():
            if kind.type not in OPENVINO_TYPES:
                raise UnsupportedError(
                    f"{draft.file}: OpenVINO has no type {kind.type}, which {printable(name)!r} is of"
                )
        draft.nodes = self._nodes
        draft.drop_unread()
        inputs, outputs = (
            tuple(Value(value.name, *draft.types[value.name]) for value in ends)
            for ends in (draft.inputs, draft.outputs)
        )
        return Model(draft.file, Graph(draft.name, inputs, outputs, draft.constants, tuple(draft.nodes), {}))

    def _add(
        self, kind: str, inputs: tuple[str, ...], like: Node, output: str | None = None, **attributes: Any
    ) -> str:
        """Add an operator as OpenVINO spells it, and return its output's name: a new one where none is given.

        The kind and attributes are those of neutral graphs. ``like`` is the node that the operator replaces.
        """
        if kind not in _NAMES:
            way_out = "convert to .onnx first, and that to .xml, by OpenVINO's own reader"
            raise NoExactForm(f"{kind.lower()} is not a layer that halfulp writes for OpenVINO; {way_out}")
        name = output or self._draft.add(kind, inputs, like.label, **attributes)
        match kind:
            case "Reshape" | "Unsqueeze":
                (numbers,) = attributes.values()
                inputs = (*inputs, self._constant(np.array(numbers, np.int64), name))
                attributes = {"special_zero": True} if kind == "Reshape" else {}
            case "Cast":
                attributes = {"destination_type": attributes["to"]}
            case "PRelu":
                pass
            case _:
                attributes = {"auto_broadcast": "numpy"}
        node = Node(like.label, "openvino", "", _NAMES[kind], "1", 1, inputs, (name,), attributes)
        self._nodes.append(node)
        return name

    def _constant(self, array: Array, output: str) -> str:
        return self._draft.add_constant(array, f"{output}_constant")

    def _write(self, node: Node) -> None:
        kind, inputs, attributes = node.type, node.inputs, dict(node.attributes)
        match kind:
            case "Pow":
                self._pow(node)
                return
            case "PRelu":
                self._prelu(node)
                self._warn(node, self._target.unlike.get(self._draft.types[inputs[0]].type))
                return
            case "Cast" if node.attributes.get("saturate", True) and "float8" in node.attributes["to"]:
                raise NoExactForm(
                    f"OpenVINO's Convert does not saturate, as this cast to {node.attributes['to']} does"
                )
            case "Identity":
                # A Reshape of zeros copies every dim.
                shape = self._draft.types[inputs[0]].shape
                if shape is None:
                    raise NoExactForm("OpenVINO has no Identity, and the rank is not known")
                kind, attributes = "Reshape", {"shape": (0,) * len(shape)}
        self._add(kind, inputs, node, node.outputs[0], **attributes)

    def _warn(self, node: Node, unlike: str | None) -> None:
        if unlike is not None:
            self._draft.note(node.label, "keeps its types", unlike)

    def _pow(self, node: Node) -> None:
        draft, label, (output,) = self._draft, node.label, node.outputs
        base, exponent = node.inputs
        x, y = draft.types[base].type, draft.types[exponent].type
        array = draft.constants.get(exponent)
        if x == y:
            self._warn(node, departs(self._target, draft.types[base], y, array))
            self._add("Pow", (base, exponent), node, output)
            return
        wide: str | None = None
        same_kind = TYPES[x].kind == "float" or TYPES[y].kind != "float"
        held = exactly_as(array, x) if array is not None and same_kind else None
        if held is not None:
            draft.note(label, f"the exponent, a constant in {y}, is stored in {x}, exactly")
            exponent = self._constant(held, output)
        elif same_kind and holds(x, y):
            draft.note(label, f"the exponent is cast from {y} to {x}, exactly: Power has one type")
            exponent = self._add("Cast", (exponent,), node, to=x)
        elif TYPES[x].kind != "float" and _is_never_negative(y, array):
            wide = "uint64" if y == "uint64" else "int64"
            told = f"goes through {wide}, whose low bits are the same: Power has one type"
            draft.note(label, told, self._target.unlike[wide])
        elif widens_base(x, y, array):
            wide, differs = wider(x, self._target)
            told = f"the base is cast from {x} to {wide} and the power back: Power has one type"
            draft.note(label, told, differs)
            if not holds(wide, y):
                draft.note(label, f"the exponent is cast from {y} to {wide}", lost(wide))
        else:
            draft.note(label, f"the exponent is cast from {y} to {x}: Power has one type", lost(x))
            exponent = self._add("Cast", (exponent,), node, to=x)
        if wide is None:
            self._warn(node, self._target.unlike.get(x))
            self._add("Pow", (base, exponent), node, output)
        else:
            operands = tuple(self._add("Cast", (name,), node, to=wide) for name in node.inputs)
            self._add("Cast", (self._add("Pow", operands, node),), node, output, to=x)

    def _prelu(self, node: Node) -> None:
        draft, label, (output,) = self._draft, node.label, node.outputs
        name, slope = node.inputs
        x, shape = draft.types[name], draft.types[slope].shape
        if TYPES[x.type].kind != "float":
            # The function body of PRelu is exact for integers.
            draft.note(label, f"becomes its function body: PReLU takes no {x.type}")
            zero = self._constant(np.zeros((), TYPES[x.type].dtype), output)
            below = self._add("Less", (name, zero), node)
            product = self._add("Mul", (slope, name), node)
            self._add("Where", (below, product, name), node, output)
            return
        if shape is None or (len(shape) == 1 and x.shape is None):
            raise NoExactForm("whether OpenVINO takes the slope as per channel is not known until it runs")
        if x.shape == ():  # a slope of rank 1 does not fit a scalar
            draft.note(label, "X and the slope, scalars, get rank 1, and Y loses it")
            operands = tuple(self._add("Unsqueeze", (each,), node, axes=(0,)) for each in node.inputs)
            self._add("Reshape", (self._add("PRelu", operands, node),), node, output, shape=())
            return
        if shape == ():
            slope = self._add("Unsqueeze", (slope,), node, axes=(0,))
        elif len(shape) == 1 and len(x.shape or ()) > 2 and not is_one(Value("", None, shape)):
            slope = self._add("Unsqueeze", (slope,), node, axes=tuple(range(len(x.shape or ()) - 1)))
            draft.note(label, "the slope gets the rank of X: OpenVINO reads one of rank 1 per channel")
        self._add("PRelu", (name, slope), node, output)


def _is_never_negative(kind: str, array: Array | None) -> bool:
    """Return whether an exponent is an integer of at least 0, by its type or its values."""
    if TYPES[kind].kind == "float":
        return False
    return TYPES[kind].kind == "uint" or (array is not None and bool((array >= 0).all()))
