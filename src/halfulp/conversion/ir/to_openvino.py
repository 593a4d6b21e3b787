"""The IR between the formats to a graph of OpenVINO's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from halfulp.conversion.editor import NoExactForm
from halfulp.conversion.ir import IR, Op
from halfulp.conversion.operands import exactly_as, holds, is_one
from halfulp.conversion.targets import known_targets, lost, widens_base, wider
from halfulp.errors import UnsupportedError, printable, within
from halfulp.models.graph import Array, Graph, Model, Node, Value
from halfulp.models.openvino.layers import OPENVINO_TYPES
from halfulp.types import TYPES


def write(ir: IR) -> Model:
    """Return the OpenVINO model of an IR; notes what it does to types that an operator lacks.

    Raises:
        UnsupportedError: a type that OpenVINO lacks, or an operator has no exact form for, naming the node.
    """
    return _Writer(ir).model()


class _Writer:
    """Writes one graph. New values go into the IR, whose inference finds their types."""

    def __init__(self, ir: IR) -> None:
        self._ir = ir
        self._nodes: list[Node] = []

    def model(self) -> Model:
        ir = self._ir
        symbols = sorted({dim for value in ir.inputs for dim in value.shape or () if isinstance(dim, str)})
        if symbols:
            ir.note(ir.file, f"OpenVINO has no names for dims: {', '.join(symbols)} become ?")
        for name in ir.defaults:
            ir.note(ir.file, f"OpenVINO has no inputs with defaults: {printable(name)!r} loses its own")
        ops, ir.ops = ir.ops, []
        for op in ops:
            with within(ir.file, op.label):
                _WRITERS[op.kind](self, op)
        for name, kind in ir.types.items():
            if kind.type not in OPENVINO_TYPES:
                raise UnsupportedError(
                    f"{ir.file}: OpenVINO has no type {kind.type}, which {printable(name)!r} is of"
                )
        read = {name for node in self._nodes for name in node.inputs} | {v.name for v in ir.outputs}
        constants = {name: array for name, array in ir.constants.items() if name in read}
        inputs = tuple(Value(v.name, v.type, v.shape) for v in ir.inputs)
        outputs = tuple(Value(v.name, *ir.types[v.name]) for v in ir.outputs)
        graph = Graph(ir.name or "graph", inputs, outputs, constants, tuple(self._nodes), {})
        return Model(ir.file, graph)

    # --- operators --------------------------------------------------------------------------------

    def _elementwise(self, op: Op) -> None:
        self._node(op, _TYPES[op.kind], op.inputs, auto_broadcast="numpy")

    def _unsupported(self, op: Op) -> None:
        raise NoExactForm(f"{op.kind} is none of OpenVINO's layers that are written here")

    def _identity(self, op: Op) -> None:
        # A Reshape of zeros copies every dim.
        shape = self._ir.types[op.inputs[0]].shape
        if shape is None:
            raise NoExactForm("OpenVINO has no Identity, and the rank is not known")
        self._reshape(Op("reshape", op.inputs, op.output, op.label, {"shape": (0,) * len(shape)}))

    def _reshape(self, op: Op) -> None:
        pattern = self._constant(np.array(op.parameters["shape"], np.int64), op)
        self._node(op, "Reshape", (op.inputs[0], pattern), special_zero=True)

    def _unsqueeze(self, op: Op) -> None:
        axes = self._constant(np.array(op.parameters["axes"], np.int64), op)
        self._node(op, "Unsqueeze", (op.inputs[0], axes))

    def _cast(self, op: Op) -> None:
        to = op.parameters["to"]
        if op.parameters.get("saturate", True) and "float8" in to:
            raise NoExactForm(f"OpenVINO's Convert does not saturate, as this cast to {to} does")
        self._node(op, "Convert", op.inputs, destination_type=to)

    def _pow(self, op: Op) -> None:
        x, y = (self._ir.types[name].type for name in op.inputs)
        base, exponent = op.inputs
        if x == y:
            self._elementwise(op)
            return
        array = self._ir.constants.get(exponent)
        same_kind = TYPES[x].kind == "float" or TYPES[y].kind != "float"
        held = exactly_as(array, x) if array is not None and same_kind else None
        if held is not None:
            self._ir.note(op.label, f"the exponent, a constant in {y}, is stored in {x}, exactly")
            exponent = self._constant(held, op)
        elif same_kind and holds(x, y):
            self._ir.note(op.label, f"the exponent is cast from {y} to {x}, exactly: Power has one type")
            exponent = self._converted(exponent, x, op)
        elif TYPES[x].kind != "float" and _is_never_negative(y, array):
            wide = "uint64" if y == "uint64" else "int64"
            self._ir.note(op.label, f"goes through {wide}, whose low bits are the same: Power has one type")
            self._through(op, wide)
            return
        elif widens_base(x, y, array):
            wide, differs = wider(x, known_targets()["openvino"])
            told = f"the base is cast from {x} to {wide} and the power back: Power has one type"
            self._ir.note(op.label, told, differs)
            if not holds(wide, y):
                self._ir.note(op.label, f"the exponent is cast from {y} to {wide}", lost(wide))
            self._through(op, wide)
            return
        else:
            self._ir.note(op.label, f"the exponent is cast from {y} to {x}: Power has one type", lost(x))
            exponent = self._converted(exponent, x, op)
        self._node(op, "Power", (base, exponent), auto_broadcast="numpy")

    def _through(self, op: Op, wide: str) -> None:
        """A power in a wider type, converted back."""
        operands = tuple(self._converted(name, wide, op) for name in op.inputs)
        power = self._ir.add("pow", operands, op.label)
        self._node(Op("pow", operands, power, op.label), "Power", operands, auto_broadcast="numpy")
        self._node(op, "Convert", (power,), destination_type=self._ir.types[op.output].type)

    def _prelu(self, op: Op) -> None:
        ir = self._ir
        name, slope = op.inputs
        x, shape = ir.types[name], ir.types[slope].shape
        if TYPES[x.type].kind != "float":
            self._by_its_body(op)
            return
        if shape is None or (len(shape) == 1 and x.shape is None):
            raise NoExactForm("whether OpenVINO takes the slope as per channel is not known until it runs")
        if shape == ():
            slope = self._unsqueezed(slope, (0,), op)
        elif (
            len(shape) == 1
            and x.shape is not None
            and len(x.shape) > 2
            and not is_one(Value("", None, shape))
        ):
            slope = self._unsqueezed(slope, tuple(range(len(x.shape) - 1)), op)
            ir.note(
                op.label, "the slope gets the rank of X: one of rank 1 would be taken for one per channel"
            )
        self._node(op, "PReLU", (name, slope))

    def _by_its_body(self, op: Op) -> None:
        """What the function body of PRelu says; exact for integers, which PReLU does not take."""
        ir = self._ir
        name, slope = op.inputs
        kind = ir.types[name].type
        ir.note(op.label, f"becomes its function body: PReLU takes no {kind}")
        zero = self._constant(np.zeros((), TYPES[kind].dtype), op)
        below = self._made("less", (name, zero), op)
        product = self._made("mul", (slope, name), op)
        self._node(op, "Select", (below, product, name), auto_broadcast="numpy")

    # --- pieces -----------------------------------------------------------------------------------

    def _node(self, op: Op, kind: str, inputs: tuple[str, ...], **attributes: Any) -> None:
        self._nodes.append(
            Node(
                label=op.label,
                standard="openvino",
                domain="",
                type=kind,
                version="1",
                opset=1,
                inputs=inputs,
                outputs=(op.output,),
                attributes=attributes,
            )
        )

    def _made(self, kind: str, inputs: tuple[str, ...], op: Op) -> str:
        name = self._ir.add(kind, inputs, op.label)
        self._node(Op(kind, inputs, name, op.label), _TYPES[kind], inputs, auto_broadcast="numpy")
        return name

    def _converted(self, name: str, kind: str, op: Op) -> str:
        made = self._ir.add("cast", [name], op.label, to=kind)
        self._node(Op("cast", (name,), made, op.label), "Convert", (name,), destination_type=kind)
        return made

    def _unsqueezed(self, name: str, axes: tuple[int, ...], op: Op) -> str:
        made = self._ir.add("unsqueeze", [name], op.label, axes=axes)
        self._unsqueeze(Op("unsqueeze", (name,), made, op.label, {"axes": axes}))
        return made

    def _constant(self, array: Any, op: Op) -> str:
        return self._ir.add_constant(array, f"{op.output}_constant")


def _is_never_negative(kind: str, array: Array | None) -> bool:
    """Return whether an exponent is an integer of at least 0, by its type or its values."""
    if TYPES[kind].kind == "float":
        return False
    return TYPES[kind].kind == "uint" or (array is not None and bool((array >= 0).all()))


_TYPES = {"mul": "Multiply", "add": "Add", "less": "Less", "where": "Select", "pow": "Power"}
_WRITERS: Mapping[str, Callable[[_Writer, Op], None]] = {
    "mul": _Writer._elementwise,
    "add": _Writer._elementwise,
    "less": _Writer._elementwise,
    "where": _Writer._elementwise,
    "identity": _Writer._identity,
    "reshape": _Writer._reshape,
    "unsqueeze": _Writer._unsqueeze,
    "cast": _Writer._cast,
    "pow": _Writer._pow,
    "prelu": _Writer._prelu,
    "floor": _Writer._unsupported,
    "equal": _Writer._unsupported,
    "and": _Writer._unsupported,
}
